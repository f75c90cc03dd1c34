"""What leaves the house writes what it wrote at home: every kind of Transformer, searched by both engines."""

import importlib.util
import itertools
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import MODELS, small_config
from corpora import Trained, door, environment, pairs, write_pairs
from torch import nn
from torch.nn import functional

from nmt.compose import compose_all
from nmt.config import Config, DecodeConfig, TokenizerConfig
from nmt.data.batches import collate
from nmt.data.tokenizer import BOS, PAD, Tokenizer, Tokenizers, train
from nmt.decode.search import Hypothesis
from nmt.decode.translator import Translator
from nmt.deploy import convert
from nmt.deploy.convert import POSSIBLE, check
from nmt.deploy.engine import Ctranslate2
from nmt.deploy.folder import Export
from nmt.errors import UserError
from nmt.models.build import build as build_model
from nmt.models.ensemble import Ensemble
from nmt.models.transformer import Transformer

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed; the environment of `make test` brings it",
)
CPU = torch.device("cpu")
SENTENCE, OTHER = "Ein Junge malt das rote Fahrrad im Garten.", "Mein Bruder sucht zwei Bücher."


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Tokenizers]:
    """One vocabulary for both languages, and two of different sizes."""
    folder = tmp_path_factory.mktemp("vocabularies")
    write_pairs(folder, "train", pairs(200))
    files = folder / "train.de", folder / "train.en"
    sizes = ((310, files), (315, files[:1]), (305, files[1:]))
    joint, source, target = (
        Tokenizer(train(TokenizerConfig("unigram", size, True, True, 1.0, False, 256), list(some)), False)
        for size, some in sizes
    )
    return {True: Tokenizers(joint, joint), False: Tokenizers(source, target)}


def translator(vocabularies: dict[bool, Tokenizers], joint: bool = True, **changes) -> tuple[Translator, Config]:
    """A narrow Transformer that has learnt some pairs by heart, so that it is sure of words and of ends."""
    torch.manual_seed(3)
    whole = compose_all(["data=phrasebook", "model=transformer"], multirun=False)[0]
    whole.model, whole.decode = small_config("transformer", tuple(changes.items())), DecodeConfig(5, 1.0, 1.0, 20, 400)
    tokenizers = vocabularies[joint]
    model = build_model(whole.model, tokenizers.source.size, tokenizers.target.size, joint)
    assert isinstance(model, Transformer)
    with torch.no_grad():
        silence(model)
        for parameter in model.parameters():  # biases and norms that do something
            parameter += 0.05 * torch.randn_like(parameter)
    learn(model, *(some(one.size, side) for side, one in enumerate(tokenizers)))
    plain = Translator(model, tokenizers, whole.decode, 64, CPU, torch.autocast("cpu", enabled=False))
    return plain, whole


def silence(model: Transformer) -> None:
    """No probability for <pad> and <s>: one dimension of the last norm is constant, and only they have weights there."""
    last = model.decoder_norm if isinstance(model.decoder_norm, nn.LayerNorm) else None
    norm = last or model.decoder[-1].feed_residual.norm
    norm.weight[0], norm.bias[0] = 0, 10
    model.output.weight[:, 0] = 0
    model.output.weight[[PAD, BOS], 0] = -3


def learn(model: Transformer, sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
    """Forty updates on these pairs."""
    batch = collate(sources, targets)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
        functional.cross_entropy(logits.flatten(0, 1), batch.output.flatten(), ignore_index=PAD).backward()
        optimiser.step()
        optimiser.zero_grad()
    model.eval().requires_grad_(False)


def some(size: int, seed: int, count: int = 24) -> list[np.ndarray]:
    """Sentences of one to twelve pieces, drawn from a vocabulary of this size."""
    random = np.random.default_rng(seed)
    return [random.integers(4, size, random.integers(1, 13)) for _ in range(count)]


def export(plain: Translator, config: Config, folder: Path, quantization: str = "float32") -> Ctranslate2:
    Export(plain, config, quantization).write(folder, {})
    return Ctranslate2(plain, folder)


def same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert [best[0].ids for best in found] == [best[0].ids for best in wanted]
    for ours, theirs in zip(wanted, found, strict=True):
        scores = [one.score for one in theirs]
        assert scores == sorted(scores, reverse=True) and len(scores) == len(ours)
        assert scores[0] == pytest.approx(ours[0].score, abs=1e-4)


def count_ours(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences our own search is asked for."""
    asked: list[int] = []
    plain = Translator.search_batch
    monkeypatch.setattr(
        Translator, "search_batch", lambda self, some, *rest: asked.append(len(some)) or plain(self, some, *rest)
    )
    return asked


KINDS = [
    *({"norm": norm, "activation": activation, "tie": tie} for norm, activation, tie in itertools.product(("pre", "post"), ("relu", "gelu"), (True, False))),
    {"positions": "learned"},
    {"positions": "rotary"},
    {"encoder_layers": 1, "decoder_layers": 2, "heads": 2},
]  # fmt: skip


@needs_ctranslate2
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "separate"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_both_engines_write_the_same(kind, joint, vocabularies, tmp_path, monkeypatch):
    plain, config = translator(vocabularies, joint, **kind)
    faster = export(plain, config, tmp_path / "export")
    sentences = some(plain.tokenizers.source.size, 0)
    for beam, alpha in ((1, 1.0), (5, 1.0), (5, 0.0), (3, 0.6)):
        plain.decode.beam, plain.decode.length_penalty = beam, alpha
        wanted = plain.search(sentences)
        asked = count_ours(monkeypatch)
        same(faster.search(sentences), wanted)
        monkeypatch.undo()
        assert sum(asked) < len(sentences) / 2, "our own search has done most of it"
        assert len({tuple(best[0].ids) for best in wanted}) > len(sentences) / 2
        assert len({len(best[0].ids) for best in wanted}) > 3
