"""Bahdanau's model with sizes of its own for encoder and readout, and the settings of the papers."""

import numpy as np
import oracle
import oracle_models
import pytest
import torch
from torch import Tensor, nn

from nmt.config.compose import compose_all
from nmt.models.base import EncoderDecoder

# Five different numbers, so that none can be confused with another: the memory is 2 · 6 wide.
SIZES = {"hidden_size": 10, "encoder_hidden_size": 6, "embedding_size": 8, "maxout_size": 5, "tie_embeddings": False}


def gates(weight: Tensor, names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, np.split(weight.numpy(), len(names)), strict=True))


def logits_in_numpy(model: EncoderDecoder, source: list[int], target: list[int], score: str) -> np.ndarray:
    """Bahdanau 2015 with n = 10 in the decoder, 6 in each direction of the encoder, m = 8, l = 5."""
    p, directions = model.state_dict(), []
    for ending in ("l0", "l0_reverse"):
        parts = (p[f"encoder.layers.0.{name}_{ending}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        directions.append(dict(zip(("W", "U", "b", "bu"), (gates(part, "rzn") for part in parts), strict=True)))
    x, y = (p[f"{name}.weight"].numpy() for name in ("encoder.embedding", "target_embedding"))
    memory, _ = oracle_models.encode(oracle_models.gru, x[source], [directions])
    names = {"W_q": "score.query", "W_k": "score.memory", "v": "score.energy", "W": "score.memory"}
    names |= {"W_p": "window.hidden", "v_p": "window.position_logit"}
    parameters = {short: p[f"attention.{long}.weight"].numpy() for short, long in names.items() if long in text(model)}
    parameters = {key: value[0] if key[0] == "v" else value for key, value in parameters.items()}
    window = "local_p" if "v_p" in parameters else "global"
    parameters["v_p"] = parameters.get("v_p", 0) * 10**-0.75  # of the decoder's size, whatever the memory's is
    U = torch.cat((p["cell.weight_hh"], p["cell.candidate_weight_hh"]))
    readout = dict(zip(("U_o", "V_o", "C_o"), np.split(p["readout.weight"].numpy(), [10, 10 + 8], 1), strict=True))
    decoder = readout | {"b_o": p["readout.bias"].numpy(), "W_s": p["initial.weight"].numpy()}
    decoder |= {"b_s": p["initial.bias"].numpy(), "W": gates(p["cell.embedding.weight"], "zrh"), "U": gates(U, "zrh")}
    decoder |= {"C": gates(p["cell.context.weight"], "zrh"), "b": gates(p["cell.embedding.bias"], "zrh")}

    def attend(query: np.ndarray, memory: np.ndarray, t: int) -> np.ndarray:
        return oracle.attention(score, window, 2, query[None], memory, [t], parameters)[0][0]

    hidden = oracle_models.bahdanau(y[target], memory, 6, decoder, attend)
    return hidden @ p["output.weight"].numpy().T + p["output.bias"].numpy()


def text(model: EncoderDecoder) -> str:
    return " ".join(model.attention.state_dict())


@pytest.mark.parametrize(("score", "window"), [("additive", "global"), ("general", "local_p")])
def test_every_part_has_its_own_size(small_model, score, window):
    """From ids to logits, against the paper in NumPy: s_0 from the 6 of the backward state, c_t of 12, t_i of 10."""
    model = small_model("bahdanau", score=score, window=window, **SIZES)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    random = np.random.default_rng(5)
    for sources, targets in ((1, 1), (7, 4), (12, 15)):
        source, target = random.integers(4, 50, sources).tolist(), random.integers(4, 50, targets).tolist()
        logits = model.logits(model(torch.tensor([source]), None, torch.tensor([target])).hidden)[0]
        wanted = logits_in_numpy(model, source, target, score)
        np.testing.assert_allclose(logits.detach().numpy(), wanted, rtol=0, atol=1e-9)


def test_decoding_in_pieces_equals_decoding_at_once_with_these_sizes(small_model):
    model, source, target = small_model("bahdanau", **SIZES), torch.randint(4, 50, (3, 5)), torch.randint(4, 50, (3, 6))
    memory = model.encode(source, None)
    at_once, state, pieces = model(source, None, target).hidden, model.start(memory), []
    for piece in target.split((1, 3, 2), 1):
        decoded = model.decode(piece, state, memory)
        state = decoded.state
        pieces.append(decoded.hidden)
    torch.testing.assert_close(torch.cat(pieces, 1), at_once, atol=1e-10, rtol=0)
    assert at_once.shape == (3, 6, 5) and memory.values.shape == (3, 5, 12)


@pytest.mark.parametrize(("name", "exponent"), [("bahdanau", 0.0), ("luong_global", -0.5)])
def test_v_p_is_the_size_to_the_exponent_times_what_is_learnt(small_model, name, exponent):
    """p_t = S · sigmoid(d^e v_pᵀ tanh(W_p h)): with e = 0 the paper's formula, with the parameters as they are."""
    window = small_model(name, window="local_p", position_scale_exponent=exponent).attention.window
    for parameter in window.parameters():
        nn.init.normal_(parameter, std=0.3)
    query, length = torch.randn(1, 4, 32, dtype=torch.float64), 9
    p = {"W_p": window.hidden.weight.detach().numpy()}
    p["v_p"] = window.position_logit.weight[0].detach().numpy() * 32**exponent
    wanted = [oracle.predicted(one, 0, length, 2, p) for one in query[0].numpy()]
    np.testing.assert_allclose(
        window.predict_position(query, torch.tensor([length]))[0].detach().numpy(), wanted, atol=1e-12
    )


def test_bahdanaus_own_sizes():
    """A.2.3: n = 1,000 in the decoder and in each direction of the encoder, m = 620, l = 500, n' = 1,000."""
    model = compose_all(["+experiment=bahdanau2015"], multirun=False)[0].model
    assert (model.hidden_size, model.encoder_units, model.embedding_size, model.maxout_size) == (1000, 1000, 620, 500)
    assert (model.dropout, model.tie_embeddings, model.score, model.window, model.attention_type) == (
        0,
        False,
        "additive",
        "global",
        "soft",
    )
