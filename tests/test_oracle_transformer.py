"""Every Transformer of conf/model against its papers in NumPy, from ids to logits."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from conftest import MODELS, VOCABULARY, small_config
from oracle_transformer import transformer
from test_oracle_models import arrays, assert_rows, batch_of, rows
from torch import nn

from nmt.config.transformer import TransformerConfig
from nmt.models.build import build

PAIRS = [60, 1, 7, 33], [31, 5, 1, 60]  # pieces of sources and targets
TRANSFORMERS = {name: (name, True, {}) for name in MODELS if name.startswith("transformer")}
SHAPES = {  # not in conf/model: model, joint vocabulary, changes
    "two vocabularies": ("transformer", False, {}),
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
    named = {f"W_{letter}": part for letter, part in zip("QKV", W, strict=True)}
    named |= {f"b_{letter}": part for letter, part in zip("QKV", b, strict=True)}
    return named | {"W_O": p[f"{name}.output.weight"], "b_O": p[f"{name}.output.bias"]}


def norm_of(p: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {"g": p[f"{name}.weight"], "b": p[f"{name}.bias"]}


def layer_of(p: dict[str, np.ndarray], name: str, prefix: str, distance: int) -> dict[str, object]:
    """`prefix`: of the name of self-attention; `distance`: the first of the table of biases."""
    heads = heads_of(p, f"{name}.{prefix}attention")
    if f"{name}.attention_function.bias.table" in p:
        heads["table"] = [
            dict(enumerate(row, distance)) for row in p[f"{name}.attention_function.bias.table"]
        ]
    if f"{name}.attention_function.energy" in p:
        heads["table"] = p[f"{name}.attention_function.energy"]
    if f"{name}.attention_function.rate.weight" in p:
        heads["W_beta"] = p[f"{name}.attention_function.rate.weight"]
    feed = {f"W_{n}": p[f"{name}.feed_forward.{2 * n - 2}.weight"] for n in (1, 2)}
    feed |= {f"b_{n}": p[f"{name}.feed_forward.{2 * n - 2}.bias"] for n in (1, 2)}
    norms = {"norm_self": norm_of(p, f"{name}.{prefix or 'attention_'}residual.norm")}
    return norms | {
        "norm_feed": norm_of(p, f"{name}.feed_forward_residual.norm"),
        "self": heads,
        "feed": feed,
    }


def paper_parameters(model: nn.Module, config: TransformerConfig, joint: bool) -> dict[str, object]:
    """Tied: one matrix is the output and the target's embedding, with a joint vocabulary the
    source's too."""
    p = arrays(model)
    E = p["target_embedding.weight"]
    named = {
        "E_target": E,
        "E_source": E if config.tie_embeddings and joint else p["source_embedding.weight"],
    }
    named |= {"output": E if config.tie_embeddings else p["output.weight"]}
    for side in ("source", "target"):
        named[f"{side}_positions"] = p.get(f"{side}_positions.table")
    names = (
        [f"encoder.{n}" for n in range(config.encoder_layers)],
        [f"decoder.{n}" for n in range(config.decoder_layers)],
    )
    named["encoder"] = [layer_of(p, name, "", -config.max_distance) for name in names[0]]
    named["decoder"] = [layer_of(p, name, "self_", 0) for name in names[1]]
    for name, layer in zip(names[1], named["decoder"], strict=True):
        layer |= {"cross": heads_of(p, f"{name}.cross_attention")}
        layer |= {"norm_cross": norm_of(p, f"{name}.cross_residual.norm")}
    if config.norm == "pre":
        named |= {f"{side}_norm": norm_of(p, f"{side}_norm") for side in ("encoder", "decoder")}
    return named


@pytest.mark.parametrize("case", CASES)
def test_the_model_equals_the_oracle(case):
    """In float64, a padded batch, by both kernels; every parameter is random, biases and norms
    too."""
    name, joint, changes = CASES[case]
    torch.manual_seed(1)
    config = replace(small_config(name, ()), **changes)
    model = build(config, VOCABULARY, VOCABULARY, joint).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    batch = batch_of(*PAIRS, seed=3)
    p = paper_parameters(model, config, joint)
    wanted = [transformer(*pair, p, asdict(config)) for pair in rows(batch)]
    for weights in (False, True):
        logits = model.logits(model(*batch[:3], weights).hidden)
        assert_rows(logits.numpy(), wanted, 1e-9)
