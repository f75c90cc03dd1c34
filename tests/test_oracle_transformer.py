"""Every Transformer of conf/model against its papers in NumPy, from ids to logits and weights."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from conftest import MODELS, VOCABULARY, small_config
from oracle_transformer import transformer
from tensors import batch_of
from test_oracle_models import arrays, assert_rows, rows
from torch import nn

from nmt.config.transformer import TransformerConfig
from nmt.models.build import build

PAIRS = [60, 1, 7, 33], [31, 5, 1, 60]  # pieces of sources and targets
TRANSFORMERS = {name: (name, True, {}) for name in MODELS if name.startswith("transformer")}
SHAPES = {  # not in conf/model: model, joint vocabulary, changes
    "two vocabularies": ("transformer", False, {}),
    "fairseq's positions": ("transformer", True, {"positions": "sinusoidal_fairseq"}),
    "SiLU": ("transformer", True, {"activation": "silu"}),
    "untied": ("transformer_big", True, {"tie_embeddings": False}),
    "GELU, post-norm": ("transformer_alibi", True, {"activation": "gelu", "norm": "post"}),
    "rotary, relative, sliding": (
        "transformer_relative",
        True,
        {"positions": "rotary", "sliding_window": 3},
    ),
    "linear, learned, post-norm": (
        "transformer_linear",
        False,
        {"positions": "learned", "norm": "post"},
    ),
    "delta, post-norm": ("transformer_delta", False, {"positions": "learned", "norm": "post"}),
    "a deeper decoder": ("transformer", True, {"encoder_layers": 1, "decoder_layers": 3}),
}
CASES = TRANSFORMERS | SHAPES


def heads_of(p: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The three input projections are one matrix of the model."""
    W, b = (np.split(p[f"{name}.{part}"], 3) for part in ("weight", "bias"))
    named = {"W_O": p[f"{name}.output.weight"], "b_O": p[f"{name}.output.bias"]}
    for number, letter in enumerate("QKV"):
        named |= {f"W_{letter}": W[number], f"b_{letter}": b[number]}
    return named


def norm_of(p: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {"g": p[f"{name}.weight"], "b": p[f"{name}.bias"]}


def layer_of(p: dict[str, np.ndarray], name: str, prefix: str, distance: int) -> dict[str, object]:
    """`prefix`: of the name of self-attention; `distance`: the first of the table of biases."""
    heads = heads_of(p, f"{name}.{prefix}attention")
    function = f"{name}.attention_function"
    if f"{function}.bias.table" in p:
        heads["table"] = [dict(enumerate(row, distance)) for row in p[f"{function}.bias.table"]]
    if f"{function}.energy" in p:
        heads["table"] = p[f"{function}.energy"]
    if f"{function}.rate.weight" in p:
        heads["W_beta"] = p[f"{function}.rate.weight"]
    feed = {}
    for number, layer in ((1, 0), (2, 2)):
        feed[f"W_{number}"] = p[f"{name}.feed_forward.{layer}.weight"]
        feed[f"b_{number}"] = p[f"{name}.feed_forward.{layer}.bias"]
    return {
        "norm_self": norm_of(p, f"{name}.{prefix or 'attention_'}residual.norm"),
        "norm_feed": norm_of(p, f"{name}.feed_forward_residual.norm"),
        "self": heads,
        "feed": feed,
    }


def paper_parameters(model: nn.Module, config: TransformerConfig, joint: bool) -> dict[str, object]:
    """Tied: one matrix is the output and the target's embedding, with a joint vocabulary the
    source's too."""
    p = arrays(model)
    tied = config.tie_embeddings
    E = p["target_embedding.weight"]
    named = {
        "E_target": E,
        "E_source": E if tied and joint else p["source_embedding.weight"],
        "output": E if tied else p["output.weight"],
        "source_positions": p.get("source_positions.table"),
        "target_positions": p.get("target_positions.table"),
        "encoder": [],
        "decoder": [],
    }
    for number in range(config.encoder_layers):
        named["encoder"].append(layer_of(p, f"encoder.{number}", "", -config.max_distance))
    for number in range(config.decoder_layers):
        layer = layer_of(p, f"decoder.{number}", "self_", 0)
        layer["cross"] = heads_of(p, f"decoder.{number}.cross_attention")
        layer["norm_cross"] = norm_of(p, f"decoder.{number}.cross_residual.norm")
        named["decoder"].append(layer)
    if config.norm == "pre":
        named["encoder_norm"] = norm_of(p, "encoder_norm")
        named["decoder_norm"] = norm_of(p, "decoder_norm")
    return named


@pytest.mark.parametrize("case", CASES)
def test_the_model_equals_the_oracle(case):
    """In float64, a padded batch, by both kernels; every parameter is random, biases and norms
    too."""
    name, joint, changes = CASES[case]
    config = replace(small_config(name, ()), **changes)
    model = build(config, VOCABULARY, VOCABULARY, joint).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    batch = batch_of(*PAIRS, seed=3)
    p = paper_parameters(model, config, joint)
    pairs = list(rows(batch))
    wanted = [transformer(*pair, p, asdict(config)) for pair in pairs]
    wanted_logits = [logits for logits, _ in wanted]

    without = model(*batch[:3])
    assert_rows(model.logits(without.hidden).numpy(), wanted_logits, 1e-9)
    assert without.weights is without.self_weights is model.encode(*batch[:2]).weights is None

    memory = model.encode(*batch[:2], True)
    decoded = model.decode(batch.target, model.start(memory), memory, True)
    assert_rows(model.logits(decoded.hidden).numpy(), wanted_logits, 1e-9)
    outputs = {"encoder": memory.weights, "decoder": decoded.self_weights, "cross": decoded.weights}
    for kind, weights in outputs.items():
        if kind != "cross" and not model.has_rollout:
            assert weights is None
            continue
        for row, (source, target) in enumerate(pairs):
            height = len(source if kind == "encoder" else target)
            width = len(target if kind == "decoder" else source)
            expected = np.stack(wanted[row][1][kind])
            real = weights[row, :, :, :height, :width]
            # A feature of linear attention is at least 10⁻⁶, the paper's may be smaller
            np.testing.assert_allclose(real, expected, rtol=0, atol=1e-7)
            assert not weights[row, :, :, :height, width:].any()  # padding
