"""Narrow Transformers that have learnt some pairs by heart, to be exported."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import composed, small_config
from torch import nn
from torch.nn import functional

from nmt.config.schema import Config, DecodeConfig
from nmt.config.validation import validate
from nmt.data.batches import collate
from nmt.data.tokenizer import PAD, Tokenizers
from nmt.decode.translator import Translator
from nmt.models.build import build as build_model
from nmt.models.transformer import Transformer

CPU = torch.device("cpu")


def translator(
    vocabularies: dict[bool, Tokenizers], joint: bool = True, **changes
) -> tuple[Translator, Config]:
    """A narrow Transformer that has learnt some pairs by heart, so that it is sure of words and of
    ends."""
    torch.manual_seed(3)
    config = validate(composed("transformer"))
    config.model = small_config("transformer", tuple(changes.items()))
    config.decode = DecodeConfig(5, 1.0, 1.0, 20, 400)
    tokenizers = vocabularies[joint]
    model = build_model(config.model, tokenizers.source.size, tokenizers.target.size, joint)
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms that do something
            parameter += 0.05 * torch.randn_like(parameter)
        handle(model)
    learn(model, *(some(tokenizer.size, side) for side, tokenizer in enumerate(tokenizers)))
    plain = Translator(
        model, tokenizers, config.decode, 64, CPU, torch.autocast("cpu", enabled=False)
    )
    return plain, config


def handle(model: Transformer) -> None:
    """One dimension of the last norm is constant: a weight there makes a piece as probable as a
    test needs it."""
    last = model.decoder_norm if isinstance(model.decoder_norm, nn.LayerNorm) else None
    norm = last or model.decoder[-1].feed_forward_residual.norm
    norm.weight[0], norm.bias[0] = 0, 1
    model.output.weight[:, 0] = 0


def learn(model: Transformer, sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
    """Forty updates on these pairs."""
    batch = collate(sources, targets)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    for _ in range(40):
        logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
        functional.cross_entropy(
            logits.flatten(0, 1), batch.output.flatten(), ignore_index=PAD
        ).backward()
        optimiser.step()
        optimiser.zero_grad()
    model.eval().requires_grad_(False)


def some(size: int, seed: int, count: int = 24) -> list[np.ndarray]:
    """Sentences of one to twelve pieces, drawn from a vocabulary of this size."""
    random = np.random.default_rng(seed)
    return [random.integers(4, size, random.integers(1, 13)) for _ in range(count)]


def program(folder: Path, line: str) -> Callable[[str], str]:
    """The function `translate` of the Python in the README of an exported folder.

    The program is run as it stands, with one line of input; it needs nothing of ours.
    """
    readme = (folder / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    texts = [code, *(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))]
    for text in texts:
        assert not re.search(r"^\s*(from|import) (nmt|torch)\b", text, re.MULTILINE)
    names = {"input": lambda: line}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        exec(code, names)
    return names["translate"]
