"""Validation: the loss of the whole set, and the scores of translations as a user gets them."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import composed, small_config
from corpora import write_pairs
from torch.nn import functional

from nmt.config.schema import TokenizerConfig
from nmt.config.validation import validate
from nmt.data.batches import collate
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.data.write_ids import write_datasets
from nmt.decode.beam_search import Hypothesis, NBest
from nmt.decode.translator import Query, Translator
from nmt.models.build import build
from nmt.training.distributed import StopSignal, World
from nmt.training.validation import Validation

# The numbers change places, and one sentence is far longer than another
PAIRS = [("Ja", "yes"), ("Nein, nein", "no")]
for count in range(2, 12):
    german = f"Am {count}.5.2024 kamen {13 * count} Leute" + " und Kinder" * (count % 4)
    english = f"{13 * count} people" + " and children" * (count % 4) + f" came on {count}.5.2024"
    PAIRS.append((german, english))


@pytest.fixture
def pairs(tmp_path: Path) -> ParallelDataset:
    files = write_pairs(tmp_path, "valid", PAIRS)
    config = TokenizerConfig("unigram", 64, False, False, 1.0, False, 256, protect=True)
    train_tokenizers(config, *files, tmp_path)
    write_datasets(Tokenizers.load(tmp_path), tmp_path, "de", "en", ["valid"], 256, tmp_path)
    return ParallelDataset(tmp_path / "valid.arrow")


def make_validation(folder: Path, pairs: ParallelDataset, tokens: int) -> Validation:
    config = validate(composed("transformer"))
    tokenizers = Tokenizers.load(folder)
    torch.manual_seed(1)
    sizes = (tokenizers.source.size, tokenizers.target.size)
    model = build(small_config("transformer", ()), *sizes, False)
    decode = replace(config.decode, batch_tokens=tokens)
    translator = Translator(model, tokenizers, decode, 256, torch.device("cpu"), nullcontext())
    world = World()
    stop = StopSignal(world)
    return Validation(pairs, translator, config, tokens, torch.float32, stop, world)


@pytest.mark.parametrize("tokens", [1, 30, 10**6])
def test_the_loss_is_that_of_a_piece_however_the_set_is_divided(tmp_path, pairs, tokens):
    validation = make_validation(tmp_path, pairs, tokens)
    model = validation.model.eval()
    nll = 0.0
    pieces = 0
    for row in range(len(pairs)):
        target = pairs.sentences("target", np.array([row]))
        batch = collate(pairs.sentences("source", np.array([row])), target)
        logits = model.logits(model(batch.source, None, batch.target).hidden)[0]
        nll += functional.cross_entropy(logits, batch.output[0], reduction="sum").item()
        pieces += len(target.ids) + 1
    assert validation.loss() == pytest.approx(nll / pieces, rel=1e-5)


@pytest.mark.parametrize("tokens", [1, 30, 10**6])
def test_the_references_themselves_have_the_highest_scores(tmp_path, pairs, tokens, monkeypatch):
    """Their placeholders are filled from their own sources, in whatever order they are found."""
    validation = make_validation(tmp_path, pairs, tokens)
    tokenizers = validation.translator.tokenizers
    assert tokenizers.protects
    targets = pairs.sentences("target", np.arange(len(pairs))).rows()
    by_source = {}
    for source, target in zip(validation.sources, targets, strict=True):
        by_source[tuple(source)] = target.tolist()

    limited = []

    def find_reference(self: Translator, queries: list[Query]) -> NBest:
        nbest = []
        for query in queries:
            ids = by_source[tuple(query.source)]
            assert query.limit in (None, len(ids) + 1), "with </s>"
            limited.append(query.limit is not None)
            nbest.append([Hypothesis(ids, -1.0)])
        return nbest

    monkeypatch.setattr(Translator, "search_batch", find_reference)
    validation.run(reference_lengths=True)
    assert all(limited)
    result = validation.run()
    assert not any(limited[-len(PAIRS) :])
    assert result.scores["bleu"] == pytest.approx(100) == result.scores["chrf"]
    texts = list(map(tokenizers.target.decode, result.hypotheses))
    assert texts == [target for _, target in PAIRS]
