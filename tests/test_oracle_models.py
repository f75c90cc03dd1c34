"""The recurrent models against their papers in NumPy, from ids to logits, and their gradients."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import oracle
import oracle_models
import pytest
import torch
from conftest import VOCABULARY, small_config
from test_attention import TOLERANCE, paper_parameters
from torch import Tensor, nn

from nmt.attention.scores import SCORES
from nmt.attention.windows import WINDOWS
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import PAD
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.models.recurrent import Bahdanau

RADIUS = 2
EXACT = 1e-9  # of logits in float64
ORDERS = {
    "before": ("bahdanau", {}),
    "after": ("luong_global", {"input_feeding": False}),
    "after, fed": ("luong_global", {}),
}
TARGETS = (60, 3, 17, 1, 31, 5, 11, 2, 24)  # pieces of the longest target of a case
each_window = pytest.mark.parametrize("window", WINDOWS)
each_score = pytest.mark.parametrize("score", SCORES)


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def gates(weight: np.ndarray, names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, np.split(weight, len(names)), strict=True))


def cell(p: dict[str, np.ndarray], ending: str) -> dict[str, dict[str, np.ndarray]]:
    """PyTorch's stacked gates of one direction, by gate: LSTM i f g o, GRU r z n."""
    W, U, b, bu = (
        p[f"{name}_{ending}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    names = "ifgo" if len(U) == 4 * U.shape[1] else "rzn"
    if names == "ifgo":
        b = b + bu
    return {
        "W": gates(W, names),
        "U": gates(U, names),
        "b": gates(b, names),
        "bu": gates(bu, names),
    }


def directions(layer: nn.Module) -> list:
    p = arrays(layer)
    endings = ["l0", "l0_reverse"] if "weight_ih_l0_reverse" in p else ["l0"]
    return [cell(p, ending) for ending in endings]


def oracle_attention(
    model: EncoderDecoder,
    score: str,
    window: str,
    hard: bool = False,
    all_p_t: np.ndarray | None = None,
):
    """A function from one query to its context, by oracle.py; all_p_t [T] replaces the oracle's
    own.

    A window ends at p_t ± D: rounding p_t can move a position in or out. So the model's p_t is
    used, and must be close.
    """
    p = paper_parameters(model.attention)

    def attend(query, memory, t):
        p_t = None if all_p_t is None else all_p_t[t : t + 1]
        if p_t is not None:
            wanted = oracle.P_T[window](query, t, len(memory), RADIUS, p)
            assert abs(p_t[0] - wanted) <= TOLERANCE[torch.bfloat16] * len(memory)
        return oracle.attention(score, window, RADIUS, query[None], memory, [t], p, hard, p_t)[0][0]

    return attend


def logits_in_numpy(
    model: EncoderDecoder, source: np.ndarray, target: np.ndarray, attend, keep: float = 1.0
) -> np.ndarray:
    """One pair without padding: [T V]."""
    p = arrays(model)
    x = p["encoder.embedding.weight"][source]
    y = p["target_embedding.weight"][target]
    layers = [directions(layer) for layer in model.encoder.layers]
    step = oracle_models.lstm if len(layers[0][0]["W"]) == 4 else oracle_models.gru
    memory, finals = oracle_models.encode(step, x, layers, model.encoder.reverse, keep)
    if isinstance(model, Bahdanau):
        embedding = y.shape[1]
        size = len(p["initial.weight"])
        U_o, V_o, C_o = np.split(p["readout.weight"], [size, size + embedding], axis=1)
        U = np.vstack((p["cell.weight_hh"], p["cell.candidate_weight_hh"]))
        names = {
            "U_o": U_o,
            "V_o": V_o,
            "C_o": C_o,
            "b_o": p["readout.bias"],
            "W_s": p["initial.weight"],
        }
        names |= {
            "b_s": p["initial.bias"],
            "W": gates(p["cell.embedding.weight"], "zrh"),
            "U": gates(U, "zrh"),
        }
        names |= {
            "C": gates(p["cell.context.weight"], "zrh"),
            "b": gates(p["cell.embedding.bias"], "zrh"),
        }
        hidden = oracle_models.bahdanau(y, memory, model.encoder.backward_size, names, attend, keep)
    else:
        stack = [directions(layer)[0] for layer in model.stack.layers]
        W_c = p.get("combine.weight")
        hidden = oracle_models.luong(
            step, y, memory, finals, stack, attend, W_c, model.input_feeding, keep
        )
    return hidden @ p["output.weight"].T + p.get("output.bias", 0)


def random_model(name: str, **changes: object) -> EncoderDecoder:
    """A tiny model, every parameter random, biases too; the numbers are exact in bf16, so all
    dtypes have the same."""
    torch.manual_seed(1)
    config = replace(
        small_config(name, ()),
        **{"embedding_size": 8, "hidden_size": 8, "window_radius": RADIUS, **changes},
    )
    model = build(config, VOCABULARY, VOCABULARY, True).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(nn.init.normal_(parameter, std=0.5).bfloat16())
    return model.double()


def batch_of(sources: list[int], targets: list[int], seed: int) -> Batch:
    """Sentences of so many pieces, </s> counted."""
    random = np.random.default_rng(seed)
    return collate(
        *([random.integers(4, VOCABULARY, n - 1) for n in side] for side in (sources, targets))
    )


def rows(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each pair without its padding."""
    for source, target, output in zip(batch.source, batch.target, batch.output, strict=True):
        yield source[source != PAD].numpy(), target[output != PAD].numpy()


@pytest.mark.parametrize("order", ORDERS)
@each_window
@each_score
def test_every_score_equals_the_oracle(score, window, order):
    """From ids to logits in three number formats; sources of 1 to 60 pieces, each length in four of
    the 81 batches.

    The tolerances are for vectors of unit scale. h̃ and the maxout are such vectors, and logits W
    h̃ are off by max_v Σ_e |W_ve| times as much at most. bf16 is as in training: autocast over
    weights in float32.
    """
    name, changes = ORDERS[order]
    number = 9 * (3 * list(ORDERS).index(order) + list(WINDOWS).index(window)) + list(SCORES).index(
        score
    )
    model = random_model(name, score=score, window=window, **changes)
    longest = TARGETS[(number + number // 9) % 9]
    sources = [1 + 17 * (3 * number + row) % 60 for row in range(3)]
    batch = batch_of(sources, [longest, 1 + longest // 2, 1], number)
    attend = oracle_attention(model, score, window)
    wanted = [logits_in_numpy(model, *pair, attend) for pair in rows(batch)]
    slack = model.output.weight.abs().sum(1).max().item()
    for dtype, tolerance in TOLERANCE.items():
        logits, all_p_t = run(model, batch, dtype)
        if window == "local_p" and dtype != torch.float64:
            functions = [oracle_attention(model, score, window, all_p_t=p_t) for p_t in all_p_t]
            pairs = zip(rows(batch), functions, strict=True)
            wanted = [logits_in_numpy(model, *pair, attend) for pair, attend in pairs]
        assert_rows(logits, wanted, EXACT if dtype == torch.float64 else slack * tolerance)


def run(
    model: EncoderDecoder, batch: Batch, dtype: torch.dtype
) -> tuple[np.ndarray, np.ndarray | None]:
    """Logits [B T V] and p_t [B T] | None; the model is float32 afterwards, but for
    dtype=float64."""
    model.to(torch.promote_types(dtype, torch.float32))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16), torch.no_grad():
        decoded = model(batch.source, batch.mask, batch.target, weights=model.has_attention)
        logits = model.logits(decoded.hidden)
    return logits.double().numpy(), None if decoded.p_t is None else decoded.p_t.double().numpy()


def assert_rows(logits: np.ndarray, wanted: list[np.ndarray], within: float) -> None:
    for row, sentence in enumerate(wanted):
        np.testing.assert_allclose(logits[row, : len(sentence)], sentence, rtol=0, atol=within)


@each_window
@each_score
def test_gradients_are_finite_differences_of_the_oracle(score, window):
    """Of Σ R ∘ logits with random R, along directions through all parameters at once: (L(θ + εd) −
    L(θ − εd)) / 2ε of the oracle. ε = 10⁻⁵ leaves a rounding of 10⁻¹⁵ |L| / ε, far below the
    tolerance of 10⁻⁶.
    """
    number = list(SCORES).index(score)
    name, changes = list(ORDERS.values())[(number + list(WINDOWS).index(window)) % 3]
    model = random_model(name, score=score, window=window, **changes).requires_grad_(True)
    batch = batch_of([6, 1, 4], [2, 5, 3], number)
    logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
    R = torch.randn_like(logits) * (batch.output != PAD)[..., None]
    gradients = torch.autograd.grad((R * logits).sum(), list(model.parameters()))
    for _ in range(2):
        direction = [torch.randn_like(gradient) for gradient in gradients]
        length = sum(part.square().sum() for part in direction).sqrt().item()
        products = (
            (gradient * part).sum() for gradient, part in zip(gradients, direction, strict=True)
        )
        derivative = sum(products).item() / length
        ends = [stepped(model, direction, step / length) for step in (1e-5, -1e-5)]
        high, low = (
            summed(end, batch, R.numpy(), oracle_attention(end, score, window)) for end in ends
        )
        assert (high - low) / 2e-5 == pytest.approx(derivative, rel=0, abs=1e-6)


def stepped(model: EncoderDecoder, direction: list[Tensor], step: float) -> EncoderDecoder:
    other = copy.deepcopy(model)
    for parameter, part in zip(other.parameters(), direction, strict=True):
        parameter.data += step * part
    return other


def summed(model: EncoderDecoder, batch: Batch, R: np.ndarray, attend) -> float:
    """Σ R ∘ logits by the oracle."""
    logits = [logits_in_numpy(model, *pair, attend) for pair in rows(batch)]
    return sum((R[row, : len(sentence)] * sentence).sum() for row, sentence in enumerate(logits))


OWN_SIZES = {"hidden_size": 10, "encoder_hidden_size": 6, "maxout_size": 5, "tie_embeddings": False}
SHAPES = {
    "as in the paper": (
        "luong_global",
        {"bidirectional": False, "reverse_source": True, "num_layers": 3, "tie_embeddings": False},
    ),
    "a stack without input feeding": ("luong_global", {"input_feeding": False, "num_layers": 2}),
    "GRUs": ("luong_global", {"cell": "gru", "num_layers": 2}),
    "seq2seq": ("seq2seq", {}),
    "hard, before": ("bahdanau_hard", {"score": "general"}),
    "every part of its own size": (
        "bahdanau",
        OWN_SIZES | {"score": "general", "window": "local_p"},
    ),
    "and additive scores": ("bahdanau", OWN_SIZES | {"score": "additive"}),
    "hard, after": ("luong_local_p", {"attention_type": "hard"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_architecture_equals_the_oracle(shape):
    """Layers, directions, cells, and one position instead of a mean over all."""
    name, changes = SHAPES[shape]
    model = random_model(name, **changes)
    batch = batch_of([60, 1, 7, 30], [9, 5, 31, 1], 3)
    attend = None
    window = changes.get("window", small_config(name, ()).window)
    if model.has_attention:
        attend = oracle_attention(
            model, changes.get("score", "general"), window, model.attention.hard
        )
    wanted = [logits_in_numpy(model, *pair, attend) for pair in rows(batch)]
    assert_rows(run(model, batch, torch.float64)[0], wanted, EXACT)
