"""Attention against the formulas in NumPy, finite differences, and the laws of attention."""

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from nmt.attention.kernels import attend, scaled_dot_product
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.scores import SCORES, make_score
from nmt.attention.single_head import SingleHeadAttention
from nmt.attention.windows import WINDOWS, make_window

QUERY, MEMORY, RADIUS = 8, 8, 10
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}
EXACT = {"atol": 1e-10, "rtol": 0}
seeds = st.integers(0, 2**32 - 1)


def each(test):
    """Every score in every window."""
    return pytest.mark.parametrize("score", SCORES)(
        pytest.mark.parametrize("window", WINDOWS)(test)
    )


def unit(*shape: int) -> Tensor:
    """Between −1 and 1."""
    return 2 * torch.rand(shape, dtype=torch.float64) - 1


def make(
    score: str,
    window: str,
    query: int = QUERY,
    memory: int = MEMORY,
    radius: int = RADIUS,
    attention_type: str = "soft",
    gradient: str = "reinforce",
) -> SingleHeadAttention:
    """Parameters of unit scale: products keep the scale of their inputs."""
    scores = make_score(score, query, memory, 60)
    windows = make_window(window, query, radius, 0, -0.75)
    attention = SingleHeadAttention(scores, windows, attention_type, gradient).double()
    for parameter in attention.parameters():
        # the strength of a cosine
        scale = (3 / parameter.size(-1)) ** 0.5 if parameter.dim() else 0.3
        parameter.data = unit(*parameter.shape) * scale
    return attention


def attend_to(
    attention: SingleHeadAttention, query: Tensor, memory: Tensor, step: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    mask = torch.arange(memory.size(1)) < length[:, None]
    return attention(
        query, attention.keys(memory), memory, step, length, None if mask.all() else mask
    )[:2]


def paper_parameters(attention: SingleHeadAttention) -> dict[str, np.ndarray]:
    """The parameters under the names of the papers."""
    parameters = {
        key: value.detach().double().numpy() for key, value in attention.named_parameters()
    }
    papers = {
        "W": "score.memory.weight",
        "W_q": "score.query.weight",
        "W_k": "score.memory.weight",
        "v": "score.energy.weight",
        "W_a": "score.position_scores.weight",
        "b": "score.log_strength",
        "W_p": "window.hidden.weight",
        "v_p": "window.position_logit.weight",
    }
    named = {short: parameters[long] for short, long in papers.items() if long in parameters}
    if "v_p" in named:
        # a learned multiple of the paper's
        named["v_p"] = named["v_p"] * named["v_p"].size ** -0.75
    if "b" in named:
        named["beta"] = 10 * np.exp(named.pop("b"))  # as is β
    return {key: value[0] if key[0] == "v" else value for key, value in named.items()}


def test_attend_by_hand():
    """Scores ln 1, ln 3, ln 4 and a masked one: weights ⅛, ⅜, ½."""
    scores = torch.tensor([[[1.0, 3.0, 4.0, 9.0]]]).log()
    values = torch.tensor([[[8.0], [16.0], [2.0], [1e3]]])
    mask = torch.tensor([[[True, True, True, False]]])
    context, weights = attend(scores, values, mask)
    assert_close(weights, torch.tensor([[[0.125, 0.375, 0.5, 0.0]]]))
    assert_close(context, torch.tensor([[[1.0 + 6.0 + 1.0]]]))
    context, weights = attend(scores, values, mask, torch.tensor([[[1.0, 0.0, 0.5, 1.0]]]))
    assert_close(weights, torch.tensor([[[0.125, 0.0, 0.25, 0.0]]]))
    assert_close(context, torch.tensor([[[1.5]]]))


def test_location_scores_positions_up_to_its_maximum():
    """The rest gets no weight; in a window of nothing else the weights are equal."""
    score = make_score("location", QUERY, MEMORY, positions=4).double()
    query = unit(1, 2, QUERY)
    memory = unit(1, 7, MEMORY)
    scores = score(query, score.keys(memory))
    assert_close(scores[:, :, :4], (query @ score.position_scores.weight.T), **EXACT)
    _, weights = attend(scores, memory)
    assert_close(weights[..., :4].sum(-1), torch.ones(1, 2).double())
    assert not weights[..., 4:].any()
    mask = torch.arange(7) >= 5
    assert_close(attend(scores, memory, mask)[1][..., 5:], torch.full((1, 2, 2), 0.5).double())


def test_autocast_does_not_move_the_predicted_window():
    """Positions up to 60 are computed in float32 at least, also under autocast."""
    torch.manual_seed(1)
    attention = make("dot", "local_p").float()
    query = unit(4, 30, QUERY).float()
    memory = torch.zeros(4, 60, MEMORY)
    length = torch.full((4,), 60)
    _, wanted = attend_to(attention, query, memory, torch.zeros(4, 30), length)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(
            attend_to(attention, query, memory, torch.zeros(4, 30), length)[1],
            wanted,
            atol=1e-5,
            rtol=0,
        )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("masked", "rows", "cached"), [(False, 4, 0), (True, 4, 3), (True, 1, 3)])
def test_the_fused_kernel_equals_the_explicit_one(causal, masked, cached, rows):
    torch.manual_seed(1)
    query = unit(2, 3, rows, 5)
    key = unit(2, 3, rows + cached, 5)
    value = unit(2, 3, rows + cached, 5)
    mask = None
    if masked:
        mask = torch.rand(2, 1, 1, rows + cached) < 0.5
        mask[..., 0] = True
    fused, nothing = scaled_dot_product(query, key, value, mask, causal)
    explicit, weights = scaled_dot_product(query, key, value, mask, causal, weights=True)
    assert nothing is None
    assert_close(fused, explicit, **EXACT)
    scores = np.einsum("bhtk,bhsk->bhts", query, key) / np.sqrt(5)
    allowed = (
        np.ones_like(scores, dtype=bool)
        if mask is None
        else np.broadcast_to(mask.numpy(), scores.shape).copy()
    )
    for t in range(rows) if causal else ():
        allowed[:, :, t, cached + t + 1 :] = False  # query t is at position cached + t
    exponentials = np.where(allowed, np.exp(scores), 0)
    np.testing.assert_allclose(
        weights, exponentials / exponentials.sum(-1, keepdims=True), rtol=0, atol=1e-10
    )
    assert_close(explicit, weights @ value, **EXACT)


@pytest.mark.parametrize("masked", [False, True])
def test_many_heads_equal_pytorch(masked):
    torch.manual_seed(1)
    module = MultiHeadAttention(12, 3).double()
    reference = nn.MultiheadAttention(12, 3, batch_first=True).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    reference.load_state_dict(
        {f"in_proj_{part}": getattr(module, part) for part in ("weight", "bias")}, strict=False
    )
    reference.out_proj.load_state_dict(module.output.state_dict())
    query = unit(2, 4, 12)
    memory = unit(2, 5, 12)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if masked else None
    wanted = reference(query, memory, memory, key_padding_mask=hidden, average_attn_weights=False)
    mask = None if hidden is None else ~hidden[:, None, None]
    cross = heads_of(module, query, memory)
    assert_close(module(*cross, mask, weights=True), wanted, **EXACT)
    assert_close(module(*cross, mask)[0], wanted[0], **EXACT)
    self_attention = reference(
        query,
        query,
        query,
        is_causal=True,
        attn_mask=torch.ones(4, 4).triu(1).bool(),
        need_weights=False,
    )
    context, _ = scaled_dot_product(*module.project_all(query), causal=True)
    assert_close(module.merge_heads(context), self_attention[0], **EXACT)


def heads_of(heads: MultiHeadAttention, query: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    return (heads.project_query(query), *heads.project_memory(memory))
