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
from tensors import TOLERANCE, batch_of
from torch import Tensor, nn

from nmt.attention.scores import SCORES
from nmt.attention.single_head import SingleHeadAttention
from nmt.attention.windows import WINDOWS
from nmt.data.batches import Batch
from nmt.data.tokenizer import PAD
from nmt.models.base import DecoderOutput, EncoderDecoder
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
PAPER_NAMES = {
    "W": "score.memory.weight",
    "W_q": "score.query.weight",
    "W_k": "score.memory.weight",
    "v": "score.energy.weight",
    "W_a": "score.position_scores.weight",
    "W_p": "window.hidden.weight",
    "v_p": "window.position_logit.weight",
}
each_window = pytest.mark.parametrize("window", WINDOWS)
each_score = pytest.mark.parametrize("score", SCORES)


def paper_parameters(attention: SingleHeadAttention) -> dict[str, np.ndarray]:
    """The parameters under the names of the papers."""
    parameters = arrays(attention)
    named = {short: parameters[long] for short, long in PAPER_NAMES.items() if long in parameters}
    if "v" in named:
        named["v"] = named["v"][0]
    if "v_p" in named:  # a learned multiple of the paper's
        named["v_p"] = named["v_p"][0] * named["v_p"].size ** -0.75
    if "score.log_strength" in parameters:
        named["beta"] = 10 * np.exp(parameters["score.log_strength"])
    return named


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def gates(weight: np.ndarray, names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, np.split(weight, len(names)), strict=True))


def directions(layer: nn.Module) -> list:
    """PyTorch's stacked gates of each direction, by gate: LSTM i f g o, GRU r z n."""
    p = arrays(layer)
    cells = []
    for ending in ("l0", "l0_reverse"):
        if f"weight_ih_{ending}" not in p:
            continue
        W = p[f"weight_ih_{ending}"]
        U = p[f"weight_hh_{ending}"]
        b = p[f"bias_ih_{ending}"]
        bu = p[f"bias_hh_{ending}"]
        names = "rzn"
        if len(U) == 4 * U.shape[1]:
            names = "ifgo"
            b = b + bu
        parts = {"W": W, "U": U, "b": b, "bu": bu}
        cells.append({name: gates(part, names) for name, part in parts.items()})
    return cells


class OracleAttention:
    """From one query after the other to its context, by oracle.py; keeps the weights and p_t.

    A window ends at p_t ± D: rounding p_t can move a position in or out. So the model's p_t [T] are
    used where they are given, and must be close.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        score: str,
        window: str,
        hard: bool = False,
        used_p_t: np.ndarray | None = None,
    ) -> None:
        self.parameters = paper_parameters(model.attention)
        self.function = score, window, RADIUS
        self.hard = hard
        self.used_p_t = used_p_t
        self.weights = []
        self.p_t = []

    def __call__(self, query: np.ndarray, memory: np.ndarray, t: int) -> np.ndarray:
        used = None if self.used_p_t is None else self.used_p_t[t : t + 1]
        contexts, weights, p_t = oracle.attention(
            *self.function, query[None], memory, [t], self.parameters, self.hard, used
        )
        if used is not None:
            assert abs(used[0] - p_t[0]) <= TOLERANCE[torch.bfloat16] * len(memory)
        self.weights.append(weights[0])
        self.p_t.append(p_t[0])
        return contexts[0]


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
        size = len(p["initial.weight"])
        readout = np.split(p["readout.weight"], [size, size + y.shape[1]], axis=1)
        U = np.vstack((p["cell.weight_hh"], p["cell.candidate_weight_hh"]))
        named = dict(zip(("U_o", "V_o", "C_o"), readout, strict=True)) | {
            "b_o": p["readout.bias"],
            "W_s": p["initial.weight"],
            "b_s": p["initial.bias"],
            "W": gates(p["cell.embedding.weight"], "zrh"),
            "U": gates(U, "zrh"),
            "C": gates(p["cell.context.weight"], "zrh"),
            "b": gates(p["cell.embedding.bias"], "zrh"),
        }
        hidden = oracle_models.bahdanau(y, memory, model.encoder.backward_size, named, attend, keep)
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
    sizes = {"embedding_size": 8, "hidden_size": 8, "window_radius": RADIUS}
    config = replace(small_config(name, ()), **(sizes | changes))
    model = build(config, VOCABULARY, VOCABULARY, True).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(nn.init.normal_(parameter, std=0.5).bfloat16())
    return model.double()


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
    place = 3 * list(ORDERS).index(order) + list(WINDOWS).index(window)
    number = 9 * place + list(SCORES).index(score)
    model = random_model(name, score=score, window=window, **changes)
    longest = TARGETS[(number + number // 9) % 9]
    sources = [1 + 17 * (3 * number + row) % 60 for row in range(3)]
    batch = batch_of(sources, [longest, 1 + longest // 2, 1], number)
    attend = OracleAttention(model, score, window)
    wanted = [logits_in_numpy(model, *pair, attend) for pair in rows(batch)]
    slack = model.output.weight.abs().sum(1).max().item()
    for dtype, tolerance in TOLERANCE.items():
        logits, decoded = run(model, batch, dtype)
        if window == "local_p" and dtype != torch.float64:
            wanted = []
            for pair, p_t in zip(rows(batch), decoded.p_t.double().numpy(), strict=True):
                attend = OracleAttention(model, score, window, used_p_t=p_t)
                wanted.append(logits_in_numpy(model, *pair, attend))
        assert_rows(logits, wanted, EXACT if dtype == torch.float64 else slack * tolerance)


def run(
    model: EncoderDecoder, batch: Batch, dtype: torch.dtype = torch.float64
) -> tuple[np.ndarray, DecoderOutput]:
    """Logits [B T V], and what is decoded; the model is float32 afterwards, but for float64."""
    model.to(torch.promote_types(dtype, torch.float32))
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16), torch.no_grad():
        decoded = model(batch.source, batch.mask, batch.target, weights=model.has_attention)
        logits = model.logits(decoded.hidden)
    return logits.double().numpy(), decoded


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
        derivative = 0.0
        for gradient, part in zip(gradients, direction, strict=True):
            derivative += (gradient * part).sum().item() / length
        sums = []
        for step in (1e-5, -1e-5):
            moved = stepped(model, direction, step / length)
            attend = OracleAttention(moved, score, window)
            total = 0.0
            for number, pair in enumerate(rows(batch)):
                wanted = logits_in_numpy(moved, *pair, attend)
                total += (R[number, : len(wanted)].numpy() * wanted).sum()
            sums.append(total)
        assert (sums[0] - sums[1]) / 2e-5 == pytest.approx(derivative, rel=0, abs=1e-6)


def stepped(model: EncoderDecoder, direction: list[Tensor], step: float) -> EncoderDecoder:
    other = copy.deepcopy(model)
    for parameter, part in zip(other.parameters(), direction, strict=True):
        parameter.data += step * part
    return other


OWN_SIZES = {"hidden_size": 10, "encoder_hidden_size": 6, "maxout_size": 5, "tie_embeddings": False}
SHAPES = {
    "as in the paper": (
        "luong_local_p",
        {"bidirectional": False, "reverse_source": True, "num_layers": 3, "tie_embeddings": False},
    ),
    "a stack without input feeding": ("luong_local_m", {"input_feeding": False, "num_layers": 2}),
    "GRUs": ("luong_global", {"cell": "gru", "num_layers": 2}),
    "seq2seq": ("seq2seq", {}),
    "hard, before": ("bahdanau_hard", {"score": "general"}),
    "every part of its own size": (
        "bahdanau",
        OWN_SIZES | {"score": "general", "window": "local_p"},
    ),
    "and additive scores": ("bahdanau", OWN_SIZES | {"score": "additive"}),
    "a readout of the size of the embeddings": ("bahdanau", {"hidden_size": 10}),
    "h̃ of the size of the embeddings": ("luong_global", {"hidden_size": 10}),
    "hard, after": ("luong_local_p", {"attention_type": "hard"}),
    "hard, after, local_m": ("luong_local_m", {"attention_type": "hard"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_architecture_equals_the_oracle(shape):
    """Layers, directions, cells, one position instead of a mean over all; weights and p_t, too."""
    name, changes = SHAPES[shape]
    config = replace(small_config(name, ()), **changes)
    model = random_model(name, **changes)
    batch = batch_of([60, 1, 7, 30], [9, 5, 31, 1], 3)
    logits, decoded = run(model, batch)
    for row, pair in enumerate(rows(batch)):
        attend = None
        if model.has_attention:
            attend = OracleAttention(model, config.score, config.window, model.attention.hard)
        wanted = logits_in_numpy(model, *pair, attend)
        assert_rows(logits[row : row + 1], [wanted], EXACT)
        if attend is None:
            assert decoded.weights is None
            continue
        weights = decoded.weights[row, 0, 0, : len(wanted)].numpy()
        length = len(pair[0])
        np.testing.assert_allclose(weights[:, :length], attend.weights, rtol=0, atol=EXACT)
        assert not weights[:, length:].any()
        if config.window == "global":
            assert decoded.p_t is None
        else:
            p_t = decoded.p_t[row, : len(wanted)]
            np.testing.assert_allclose(p_t, attend.p_t, rtol=0, atol=EXACT)
