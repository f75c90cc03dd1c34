"""Pseudo-rehearsal: what an imported run is trained with so that it keeps what it knew."""

import numpy as np
import pytest
import torch
from corpora import pairs, run_command, write_pairs
from test_pretrained import MODELS, folders, train_spm

import nmt
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.training import checkpoint
from nmt.training.rehearsal import LENGTHS, Rehearsal, piece_probabilities

assert folders  # a fixture
WORDS = ["common"] * 64 + ["medium"] * 16 + ["rare"] * 4


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_are_drawn_as_often_as_they_occur(kind):
    """Special pieces never; those of a sentence come behind the prefixes of one tag."""
    lines = [f"{first} {second}." for first in WORDS for second in WORDS[::7]]
    prefixes = [{"<2de>": [5], "<2fr>": [6]}, {"<2de>": [7], "<2fr>": [8]}]
    tokenizers = Tokenizers(
        *(Tokenizer(train_spm(lines, 40, kind), False, each) for each in prefixes)
    )
    probabilities = piece_probabilities(tokenizers.source, tokenizers.source.size)
    scores = [tokenizers.source.processor.get_score(number) for number in range(len(probabilities))]
    assert abs(probabilities.sum() - 1) < 1e-9 and not probabilities[:3].any()
    drawn = [number for number, probability in enumerate(probabilities) if probability]
    assert all(
        (probabilities[a] >= probabilities[b]) == (scores[a] >= scores[b])
        for a in drawn
        for b in drawn
    )
    rehearsal = Rehearsal(torch.nn.Identity(), tokenizers)
    tags = set()
    for seed in range(40):
        batch, again = (rehearsal.batch(np.random.default_rng(seed), 60) for _ in range(2))
        assert torch.equal(batch.source, again.source) and torch.equal(batch.output, again.output)
        first = [set(side[:, 0].tolist()) for side in (batch.source, batch.output)]
        assert first in ([{5}, {7}], [{6}, {8}])
        tags |= first[0]
        assert (
            LENGTHS[0] <= batch.source.size(1) - 2 <= LENGTHS[1]
            and batch.mask is batch.real is None
        )
    assert tags == {5, 6}


def test_a_new_language_is_not_rehearsed():
    """Neither its pieces nor its directions, which are behind those of the old vocabulary."""
    prefixes = [
        {"<de2fr>": [5], "<de2ja>": [5], "<ja2de>": [30]},
        {"<de2fr>": [6], "<de2ja>": [30], "<ja2de>": [5]},
    ]
    model = train_spm(
        [f"{first} {second}." for first in WORDS for second in WORDS[::7]], 40, "unigram"
    )
    rehearsal = Rehearsal(
        torch.nn.Identity(), Tokenizers(*(Tokenizer(model, False, each) for each in prefixes)), 25
    )
    for seed in range(40):
        batch = rehearsal.batch(np.random.default_rng(seed), 60)
        assert set(batch.source[:, 0].tolist()) == {5} and set(batch.output[:, 0].tolist()) == {6}
        assert max(batch.source.max(), batch.output.max()) < 25


@pytest.fixture
def parent(folders, tmp_path, capfd):
    """An imported run; its checkpoint is `best.safetensors`."""
    where = ["--name", "parent", "--runs", str(tmp_path)]
    assert (
        run_command(capfd, "import", str(folders / "m2m100"), *MODELS["m2m100"], *where).code == 0
    )
    return tmp_path / "parent"


def restored(folder):
    path = folder / "best.safetensors"
    return checkpoint.restore(path, checkpoint.load(path), torch.device("cpu"))


def test_the_loss_is_the_divergence_from_the_parent(parent):
    """0 for the parent itself; its gradient leads back there."""
    (_, tokenizers, model), (_, _, old) = restored(parent), restored(parent)
    rehearsal = Rehearsal(old, tokenizers)

    def loss(seed: int = 1) -> torch.Tensor:
        return rehearsal.loss(model, np.random.default_rng(seed), 300)

    assert abs(loss().item()) < 1e-6
    with torch.no_grad():
        for weights in model.parameters():
            weights += 0.05 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1))
    before = loss().item()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for seed in range(2, 60):
        loss(seed).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss().item() < 0.5 * before and all(each.grad is None for each in old.parameters())


def test_an_imported_run_keeps_what_it_computed(parent, tmp_path, capfd):
    """By default; with the rate that its configuration has, unless another one is given."""
    write_pairs(tmp_path, "text", pairs(80))
    words = [
        "train",
        "from=parent",
        f"run_folder={tmp_path}",
        f"data_folder={tmp_path / 'data'}",
        "data.split_size=5",
        f"data.train={tmp_path / 'text'}",
        "train.max_steps=30",
        "train.validate_every=30",
        "train.log_sentences=0",
        "decode.max_length_ratio=0",
        "optim.warmup_steps=2",
        "data.test=null",
    ]
    for name, *more in (
        ("kept",),
        ("plain", "train.rehearsal=0"),
        ("slow", "optim.lr=1e-4", "train.max_steps=1"),
    ):
        answer = run_command(capfd, *words, f"name={name}", *more)
        assert answer.code == 0, answer.err
    _, tokenizers, old = restored(parent)
    rehearsal = Rehearsal(old, tokenizers)
    kept, plain = (
        rehearsal.loss(restored(tmp_path / name)[2], np.random.default_rng(0), 600).item()
        for name in ("kept", "plain")
    )
    assert 0 < kept < 0.7 * plain
    optim = [nmt.load(name, run_folder=tmp_path).config.optim for name in ("kept", "slow")]
    assert [each.lr for each in optim] == [0.256 / 16, 1e-4] and not optim[0].weight_decay


def test_without_a_run_there_is_nothing_to_keep(capfd, tmp_path):
    answer = run_command(
        capfd, "train", "train.rehearsal=1", f"data_folder={tmp_path}", f"run_folder={tmp_path}"
    )
    assert answer.code == 2 and "needs from=RUN" in answer.err
