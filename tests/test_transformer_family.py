"""The attention functions of self-attention alone, positions, and rollout: against NumPy, and laws.

Whole models with them are compared with NumPy in test_oracle_transformer.py.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import oracle_heads as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensors import EXACT, TOLERANCE, batch_of, seeds, unit, visible
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from nmt.attention import fast_weights, flex
from nmt.attention import linear as linear_module
from nmt.attention.flex import compiled_flex_attention, explicit_attention, make_score_mod
from nmt.attention.positions import POSITIONS, make_positions
from nmt.attention.rollout import rollout
from nmt.attention.self_attention import AdditiveSelfAttention, SelfAttention, make_self_attention
from nmt.errors import UserError

HEADS = 3
SIZE = 4
VARIANTS = {  # attention, sliding window, bias
    "softmax": ("softmax", 0, "none"),
    "linear": ("linear", 0, "none"),
    "additive": ("additive", 0, "none"),
    "sliding": ("flex", 2, "none"),
    "alibi": ("flex", 0, "alibi"),
    "relative": ("flex", 0, "relative"),
    "relative, sliding": ("flex", 5, "relative"),
    "outer products": ("fast_weights", 0, "none"),
    "delta rule": ("delta", 0, "none"),
}
FLEX_VARIANTS = [name for name, (function, _, _) in VARIANTS.items() if function == "flex"]
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_flex_variant = pytest.mark.parametrize("variant", FLEX_VARIANTS)
each_side = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])


def attention_function(
    name: str, heads: int, size: int, causal: bool, window: int = 0, bias: str = "none"
) -> SelfAttention:
    """Outside of a model, with dropout ¼; distances above 3 count as 3."""
    config = SimpleNamespace(
        self_attention=name,
        hidden_size=heads * size,
        num_heads=heads,
        attention_dropout=0.25,
        sliding_window=window,
        distance_bias=bias,
        max_distance=3,
    )
    return make_self_attention(config, causal)


def make(variant: str, causal: bool) -> SelfAttention:
    """An attention function in float64, with random parameters in ±1 if it has any."""
    name, window, bias = VARIANTS[variant]
    function = attention_function(name, HEADS, SIZE, causal, window, bias).double()
    for parameter in function.parameters():
        parameter.data = unit(*parameter.shape)
    return function.eval()


def three(batch: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key, value."""
    query, key, value = (unit(batch, HEADS, rows, SIZE) for _ in range(3))
    return query, key, value


def padding(lengths: list[int]) -> Tensor:
    """[B 1 1 S]: True where no padding is."""
    return visible(lengths)[:, None, None]


def set_rates(function: SelfAttention, variant: str, batch: int, rows: int) -> Tensor | None:
    """Give the delta rule β [B H T] between 0 and 1, whatever the inputs."""
    if variant != "delta rule":
        return None
    rates = torch.rand(batch, HEADS, rows, dtype=torch.float64)
    function.rates = lambda _: rates
    return rates


def table_of(function: SelfAttention, causal: bool) -> object:
    """The biases of `Relative`, by head and distance; the v of additive scores, by head."""
    if isinstance(function, AdditiveSelfAttention):
        return function.energy.detach().double().numpy()
    first = 0 if causal else -3
    tables = [parameter for name, parameter in function.named_parameters() if "bias" in name]
    return [dict(enumerate(row, first)) for table in tables for row in table.double().tolist()]


@each_variant
@each_side
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_every_variant_equals_the_oracle(variant, causal, dtype, monkeypatch):
    """Sentences of 1 to 60 pieces, and of several chunks, in one batch, with and without
    weights."""
    monkeypatch.setattr(linear_module, "CHUNK_COLUMNS", 8)
    function = make(variant, causal).to(dtype)
    lengths = list(range(1, 61))
    if not function.has_weights:
        lengths += [fast_weights.CHUNK_COLUMNS, fast_weights.CHUNK_COLUMNS + 1, 150]
    inputs = [side.to(dtype) for side in three(len(lengths), max(lengths))]
    rates = set_rates(function, variant, len(lengths), max(lengths))
    mask = None if causal else padding(lengths)
    contexts, weights, _ = function(None, inputs, None, mask, True)
    without, no_weights, _ = function(None, inputs, None, mask, False)
    assert no_weights is None and contexts.dtype == without.dtype == dtype
    assert (weights is not None) == function.has_weights
    name, window, bias = VARIANTS[variant]
    table = table_of(function, causal)
    for row, length in enumerate(lengths):
        sides = [side[row, :, :length].double().numpy() for side in inputs]
        if rates is not None:
            table = rates[row, :, :length].numpy()
        wanted, wanted_weights = oracle.attention(name, causal, window, bias, table, *sides)
        outputs = [(contexts[row, :, :length], wanted), (without[row, :, :length], wanted)]
        if weights is not None:
            outputs.append((weights[row, :, :length, :length], wanted_weights))
            assert not weights[row, :, :length, length:].any()
        for output, answer in outputs:
            output = output.detach().double().numpy()
            np.testing.assert_allclose(output, answer, rtol=0, atol=TOLERANCE[dtype])


@each_variant
@each_side
@pytest.mark.parametrize("weights", [False, True])
def test_no_score_is_too_large(variant, causal, weights):
    """Rows of weights sum to 1 and contexts are means, for scores of 0 to 71² · K / √K = 10⁴ and
    beyond; what is read of fast weights is at most the sum of the values' sizes."""
    dtype = torch.bfloat16
    lengths = [130, 1, 70]
    mask = None if causal else padding(lengths)
    function = make(variant, causal).to(dtype)
    set_rates(function, variant, 3, 130)
    for scale in (0.0, 71.0, 1e4):
        query, key, value = three(3, 130)
        query, key = ((side.sign() * scale).to(dtype).requires_grad_() for side in (query, key))
        value = value.to(dtype)
        contexts, rows, _ = function(None, (query, key, value), None, mask, weights)
        limit = 1.01 if function.has_weights else value.abs().sum(2, keepdim=True) * 1.01
        assert contexts.isfinite().all() and (contexts.abs() <= limit).all()
        assert rows is None or ((rows >= 0).all() and (rows.sum(-1) - 1).abs().max() < 1e-5)
        contexts.sum().backward()
        assert query.grad.isfinite().all() and key.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "causal", "sums"),
    [
        ("linear", False, None),
        ("linear", True, {"kv_sum": 1000.0, "key_sum": 1000.0}),
        ("fast_weights", True, {"fast_weights": 250.0}),
    ],
)
def test_autocast_does_not_round_the_sums(name, causal, sums):
    """A sum of a thousand features in bf16 would stop growing at 256."""
    zeros = torch.zeros(1, 1, 1000, 4)
    ones = torch.ones(1, 1, 1000, 4)
    function = attention_function(name, 1, 4, causal)
    with torch.autocast("cpu", torch.bfloat16):
        context, _, state = function(None, (zeros, zeros, ones), None, None, False)
    assert_close(context[0, 0, -1], torch.full((4,), 250.0 if name == "fast_weights" else 1.0))
    if sums is None:
        assert state is None
        return
    for part, total in sums.items():
        value = getattr(state, part)
        assert value.dtype == torch.float32
        assert_close(value, torch.full_like(value, total))


@pytest.mark.slow
@each_flex_variant
@each_side
def test_flexattention_has_the_same_scores(variant, causal):
    """FlexAttention, which is compiled on CUDA, here uncompiled."""
    from torch.nn.attention.flex_attention import flex_attention  # seconds

    function = make(variant, causal)
    inputs = three(3, 9)
    real = None if causal else visible([9, 1, 4])
    rule = (function.bias, function.window, causal, real)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not compiled
        contexts = flex_attention(*inputs, score_mod=make_score_mod(*rule))
        wanted, _ = explicit_attention(*inputs, *rule)
    assert_close(contexts, wanted, **EXACT)


@pytest.mark.gpu
@each_flex_variant
@each_side
def test_compiled_flexattention_equals_explicit_attention(variant, causal):
    """Values and gradients, in float32, of a batch with padding."""
    function = make(variant, causal).float().cuda()
    mask = None if causal else padding([70, 1, 33]).cuda()
    sides = [torch.randn(3, HEADS, 70, 32, device="cuda", requires_grad=True) for _ in range(3)]
    inputs = [*sides, *function.parameters()]
    upstream = torch.randn(3, HEADS, 70, 32, device="cuda")
    results = []
    for weights in (False, True):
        context = function(None, sides, None, mask, weights)[0]
        results.append((context, *torch.autograd.grad((context * upstream).sum(), inputs)))
    assert compiled_flex_attention.cache_info().currsize == 1 and not flex.given_up
    assert_close(results[0], results[1], atol=5e-3, rtol=5e-3)  # Triton multiplies float32 in TF32


def test_learned_positions_end(small_model):
    """The last position works, the next one is refused with the key's name, at once and in
    pieces."""
    model = small_model("transformer_learned", max_positions=533)
    source = torch.full((1, 534), 9)
    memory = model.encode(source[:, :533], None)
    with pytest.raises(UserError, match="534 pieces.*model.max_positions=533"):
        model.encode(source, None)
    state = model.decode(source[:, :533], model.start(memory), memory).state
    with pytest.raises(UserError, match="534 pieces.*model.max_positions=533"):
        model.decode(source[:, :1], state, memory)
    assert model.max_length == 533


@pytest.mark.parametrize("weights", [False, True])
def test_dropout_zeroes_weights_in_training_alone(weights):
    """With unit vectors as values the contexts are the weights: each is 0 or 1 / (1 − p) times
    itself, p of them 0."""
    function = attention_function("softmax", 1, 64, False)
    query = torch.zeros(20, 1, 64, 64)
    value = torch.eye(64).expand(20, 1, 64, 64)
    even = torch.full((20, 1, 64, 64), 1 / 64)
    qkv = (query, query, value)
    assert_close(function.eval()(None, qkv, None, None, weights)[0], even)
    context, before_dropout, _ = function.train()(None, qkv, None, None, weights)
    kept = context * 64 * 0.75
    assert ((kept == 0) | torch.isclose(kept, torch.tensor(1.0))).all()
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.005
    assert before_dropout is None or torch.equal(before_dropout, even)


def test_attention_dropout_reaches_every_softmax(small_model, monkeypatch):
    """Two encoder layers, and two decoder layers that attend twice; nothing in evaluation."""
    model = small_model("transformer", dropout=0.0, attention_dropout=0.5)
    pairs = batch_of([7, 3, 5], [4, 8, 6])
    probabilities = []
    kernel = functional.scaled_dot_product_attention

    def record(query, key, value, mask, dropout, causal):
        probabilities.append(dropout)
        return kernel(query, key, value, mask, dropout, causal)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", record)
    model(*pairs[:3])
    assert probabilities == [0.0] * 6
    probabilities.clear()
    model.train()(*pairs[:3])
    assert probabilities == [0.5] * 6


@settings(max_examples=15)
@given(
    seed=seeds,
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    rows=st.integers(1, 6),
    layers=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_rollout_equals_the_oracle(seed, lengths, rows, layers):
    """Rows sum to 1, are at least 0, exactly 0 at padding, and what a row lacks before comes from
    the target."""
    torch.manual_seed(seed)
    columns = max(lengths)
    future = torch.ones(rows, rows).triu(1).bool()

    def weights_of(count: int, height: int, hidden: Tensor) -> Tensor:
        """Two heads each."""
        scores = 3 * unit(len(lengths), count, 2, height, hidden.size(-1))
        return scores.masked_fill(hidden, -torch.inf).softmax(-1)

    all_weights = (
        weights_of(layers[0], columns, ~padding(lengths)[:, None]),
        weights_of(layers[1], rows, future),
        weights_of(layers[1], rows, ~padding(lengths)[:, None]),
    )
    rolled_out = rollout(*all_weights)
    assert (rolled_out >= 0).all() and not rolled_out.masked_select(~padding(lengths)[:, 0]).any()
    assert_close(rolled_out.sum(-1), torch.ones(len(lengths), rows).double(), **EXACT)
    for row in range(len(lengths)):
        wanted, from_target = oracle.rollout(*(weights[row].numpy() for weights in all_weights))
        np.testing.assert_allclose(rolled_out[row], wanted, rtol=0, atol=1e-12)
        assert (np.triu(from_target, 1) == 0).all()


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_go_on_from_a_number_of_the_device(name):
    """What is added and what is rotated by; that they go on from an int is a law of
    test_models.py."""
    positions = make_positions(name, 6, 3, 9).double()
    embedded = unit(2, 9, 6)
    whole = positions(embedded, 0)
    rotation = positions.rotation(0, 9, embedded)
    for start in (0, 4):
        first = torch.tensor(start)
        assert_close(positions(embedded[:, start:], first), whole[:, start:], **EXACT)
        rest = positions.rotation(first, 9 - start, embedded)
        assert (rest is None) == (rotation is None)
        for part, of_whole in zip(rest or (), rotation or (), strict=True):
            assert_close(part, of_whole[start:], **EXACT)


@pytest.mark.parametrize("name", ["sinusoidal", "sinusoidal_fairseq"])
def test_positions_are_as_exact_as_what_they_are_added_to(name):
    """Also where a table of other numbers was made before."""
    positions = make_positions(name, 6, 2, 0)
    embedded = torch.zeros(1, 5, 6)
    found = [positions(embedded.to(dtype), 0) for dtype in (torch.float32, torch.float64)]
    assert_close(found[1], make_positions(name, 6, 2, 0)(embedded.double(), 0), **EXACT)
    assert_close(found[1].float(), found[0])
