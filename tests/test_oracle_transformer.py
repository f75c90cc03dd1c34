"""Every Transformer of conf/model against its papers in NumPy, from ids to logits."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from conftest import MODELS, VOCABULARY, small_config
from oracle_transformer import transformer
from test_oracle_models import arrays, assert_rows, batch_of, rows
from torch import nn

from nmt.models.build import build
from nmt.models.transformer_config import TransformerConfig

PAIRS = [60, 1, 7, 33], [31, 5, 1, 60]  # pieces of sources and targets
TRANSFORMERS = {name: (name, True, {}) for name in MODELS if name.startswith("transformer")}
SHAPES = {  # what no file says: model, joint vocabulary, changes
    "two vocabularies": ("transformer", False, {}),
    "untied": ("transformer_big", True, {"tie": False}),
    "GELU, post-norm": ("transformer_alibi", True, {"activation": "gelu", "norm": "post"}),
    "rotary, relative, sliding": ("transformer_relative", True, {"positions": "rotary", "sliding_window": 3}),
    "linear, learned, post-norm": ("transformer_linear", False, {"positions": "learned", "norm": "post"}),
    "one deep side": ("transformer", True, {"encoder_layers": 1, "decoder_layers": 3}),
}
CASES = TRANSFORMERS | SHAPES


def heads_of(p: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The three input projections lie in one matrix."""
    W, b = (np.split(p[f"{name}.{part}"], 3) for part in ("weight", "bias"))
    found = {f"W_{letter}": part for letter, part in zip("QKV", W, strict=True)}
    found |= {f"b_{letter}": part for letter, part in zip("QKV", b, strict=True)}
    return found | {"W_O": p[f"{name}.output.weight"], "b_O": p[f"{name}.output.bias"]}


def norm_of(p: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {"g": p[f"{name}.weight"], "b": p[f"{name}.bias"]}


def layer_of(p: dict[str, np.ndarray], name: str, looking: str, distance: int) -> dict[str, object]:
    """`looking`: what self-attention is called there; `distance`: the first one of a table of distances."""
    heads = heads_of(p, f"{name}.{looking}attention")
    if f"{name}.kind.bias.table" in p:
        heads["table"] = [dict(enumerate(row, distance)) for row in p[f"{name}.kind.bias.table"]]
    feed = {f"W_{n}": p[f"{name}.feed.{2 * n - 2}.weight"] for n in (1, 2)}
    feed |= {f"b_{n}": p[f"{name}.feed.{2 * n - 2}.bias"] for n in (1, 2)}
    norms = {"norm_self": norm_of(p, f"{name}.{looking or 'attention_'}residual.norm")}
    return norms | {"norm_feed": norm_of(p, f"{name}.feed_residual.norm"), "self": heads, "feed": feed}


def as_in_the_paper(model: nn.Module, config: TransformerConfig, joint: bool) -> dict[str, object]:
    """Tied: one matrix is the output and the target's embedding, with a joint vocabulary the source's too."""
    p = arrays(model)
    E = p["target_embedding.weight"]
    found = {"E_target": E, "E_source": E if config.tie and joint else p["source_embedding.weight"]}
    found |= {"output": E if config.tie else p["output.weight"]}
    for side in ("source", "target"):
        found[f"{side}_places"] = p.get(f"{side}_positions.table")
    names = (
        [f"encoder.{n}" for n in range(config.encoder_layers)],
        [f"decoder.{n}" for n in range(config.decoder_layers)],
    )
    found["encoder"] = [layer_of(p, name, "", -config.max_distance) for name in names[0]]
    found["decoder"] = [layer_of(p, name, "self_", 0) for name in names[1]]
    for name, layer in zip(names[1], found["decoder"], strict=True):
        layer |= {"cross": heads_of(p, f"{name}.cross_attention")}
        layer |= {"norm_cross": norm_of(p, f"{name}.cross_residual.norm")}
    if config.norm == "pre":
        found |= {f"{side}_norm": norm_of(p, f"{side}_norm") for side in ("encoder", "decoder")}
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_its_papers(case):
    """In float64, a padded batch, on both roads; every parameter drawn, biases and norms too."""
    name, joint, changes = CASES[case]
    torch.manual_seed(1)
    config = replace(small_config(name, ()), **changes)
    model = build(config, VOCABULARY, VOCABULARY, joint).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    batch, p = batch_of(*PAIRS, seed=3), as_in_the_paper(model, config, joint)
    wanted = [transformer(*pair, p, asdict(config)) for pair in rows(batch)]
    for weights in (False, True):
        logits = model.logits(model(*batch[:3], weights).hidden)
        assert_rows(logits.numpy(), wanted, 1e-9)
