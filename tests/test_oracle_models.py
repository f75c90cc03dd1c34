"""The recurrent models against their papers in NumPy, from ids to logits."""

import numpy as np
import oracle
import oracle_models
import pytest
import torch

from nmt.models.base import EncoderDecoder
from nmt.models.recurrent import Bahdanau

LENGTHS = [(1, 1), (2, 5), (7, 3), (12, 9), (30, 31), (60, 60)]


def arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


def gates(weight: np.ndarray, names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, np.split(weight, len(names)), strict=True))


def cell(p: dict[str, np.ndarray], ending: str) -> dict[str, dict[str, np.ndarray]]:
    """PyTorch's stacked gates of one direction, by gate: LSTM i f g o, GRU r z n."""
    W, U, b, bu = (p[f"{name}_{ending}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    names = "ifgo" if len(U) == 4 * U.shape[1] else "rzn"
    if names == "ifgo":
        b = b + bu
    return {"W": gates(W, names), "U": gates(U, names), "b": gates(b, names), "bu": gates(bu, names)}


def directions(layer: torch.nn.Module) -> list:
    p = arrays(layer)
    endings = ["l0", "l0_reverse"] if "weight_ih_l0_reverse" in p else ["l0"]
    return [cell(p, ending) for ending in endings]


def looker(model: EncoderDecoder, score: str, window: str, radius: int):
    """A context for one query, by the oracle of single attentions."""
    p = arrays(model.attention)
    papers = {"W": "score.memory.weight", "W_q": "score.query.weight", "W_k": "score.memory.weight"}
    found = {short: p[long] for short, long in papers.items() if long in p}
    if "score.energy.weight" in p:
        found["v"] = p["score.energy.weight"][0]
    if "window.hidden.weight" in p:
        found |= {"W_p": p["window.hidden.weight"], "v_p": p["window.slope.weight"][0] * model.attention.window.scale}

    def look(query, memory, t):
        return oracle.attention(score, window, radius, query[None], memory, [t], found)[0][0]

    return look


def logits_in_numpy(model: EncoderDecoder, source: list[int], target: list[int], **kind) -> np.ndarray:
    p = arrays(model)
    x, y = p["encoder.embedding.weight"][source], p["target_embedding.weight"][target]
    layers = [directions(layer) for layer in model.encoder.layers]
    step = oracle_models.lstm if len(layers[0][0]["W"]) == 4 else oracle_models.gru
    memory, finals = oracle_models.encode(step, x, layers, model.encoder.reverse)
    look = looker(model, kind["score"], kind["window"], 2) if model.attends else None
    if isinstance(model, Bahdanau):
        embedding, hidden = y.shape[1], memory.shape[1]
        U_o, V_o, C_o = np.split(p["readout.weight"], [hidden, hidden + embedding], axis=1)
        U = np.vstack((p["cell.weight_hh"], p["cell.candidate_weight_hh"]))
        names = {"U_o": U_o, "V_o": V_o, "C_o": C_o, "b_o": p["readout.bias"], "W_s": p["initial.weight"]}
        names |= {"b_s": p["initial.bias"], "W": gates(p["cell.embedding.weight"], "zrh"), "U": gates(U, "zrh")}
        names |= {"C": gates(p["cell.context.weight"], "zrh"), "b": gates(p["cell.embedding.bias"], "zrh")}
        hidden = oracle_models.bahdanau(y, memory, model.encoder.backward_size, names, look)
    else:
        stack = [directions(layer)[0] for layer in model.stack.layers]
        W_c = p.get("combine.weight")
        hidden = oracle_models.luong(step, y, memory, finals, stack, look, W_c, model.feeds)
    return hidden @ p["output.weight"].T + p.get("output.bias", 0)


CASES = {
    "bahdanau": ("bahdanau", {}),
    "bahdanau, general, local_p": ("bahdanau", {"score": "general", "window": "local_p"}),
    "luong_global": ("luong_global", {}),
    "luong as in the paper": (
        "luong_global",
        {"bidirectional": False, "reverse_source": True, "layers": 3, "tie": False},
    ),
    "luong without input feeding": ("luong_global", {"input_feeding": False, "score": "additive", "layers": 2}),
    "luong of GRUs": ("luong_global", {"cell": "gru", "layers": 2, "score": "dot"}),
    "luong_local_m": ("luong_local_m", {}),
    "luong_local_p": ("luong_local_p", {}),
    "seq2seq": ("seq2seq", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_its_paper(small_model, case):
    """From ids to logits, in float64, at lengths 1 to 60; every parameter drawn, biases too."""
    name, changes = CASES[case]
    model = small_model(name, **changes)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    kind = {"score": "general", "window": name.removeprefix("luong_")} | (
        {"score": "additive"} if "bah" in name else {}
    )
    kind = kind | ({"window": "global"} if name in ("bahdanau", "seq2seq") else {})
    kind |= {key: changes[key] for key in ("score", "window") if key in changes}
    random = np.random.default_rng(3)
    for sources, targets in LENGTHS:
        source, target = random.integers(4, 50, sources).tolist(), random.integers(4, 50, targets).tolist()
        decoded = model(torch.tensor([source]), None, torch.tensor([target]))
        found = model.logits(decoded.hidden)[0].detach().numpy()
        np.testing.assert_allclose(found, logits_in_numpy(model, source, target, **kind), rtol=0, atol=1e-9)
