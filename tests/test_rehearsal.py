"""Pseudo-rehearsal: what an imported run is trained with so that it keeps what it knew."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import small_config
from corpora import folder_options, pairs, write_pairs
from test_pretrained import MODELS, folders, train_spm
from test_train_step import WITHOUT_DROPOUT, gradients, make_step
from torch import Tensor
from torch.nn import functional

import nmt
from nmt.data.batches import Cursor
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training import checkpoint
from nmt.training.rehearsal import LENGTHS, MOST_POSITIONS, Rehearsal, piece_probabilities
from nmt.training.restore import restore
from nmt.training.train_step import TrainStep

assert folders  # a fixture
WORDS = ["common"] * 64 + ["medium"] * 16 + ["rare"] * 4
LINES = [f"{first} {second}." for first in WORDS for second in WORDS[::7]]
SPECIAL = 3  # ids of pieces that are no text: unknown, beginning, end


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_are_as_probable_as_in_text(kind):
    """exp(score) of a unigram model, 1 / rank of a BPE model; special and later pieces never."""
    tokenizer = Tokenizer(train_spm(LINES, 40, kind), False)
    known = tokenizer.size - 4
    wanted = np.zeros(tokenizer.size)
    for piece in range(SPECIAL, known):
        score = tokenizer.processor.get_score(piece)  # of BPE: 0, −1, −2, …
        wanted[piece] = np.exp(score) if kind == "unigram" else 1 / (1 - score)
        if score == 0:
            wanted[piece] = 0  # a merge of the first rank cannot be told from an added word
    found = piece_probabilities(tokenizer, known)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    "known, prefixes, starts",
    [
        (0, [{"<2de>": [5], "<2fr>": [6]}, {"<2de>": [7], "<2fr>": [8]}], {(5, 7), (6, 8)}),
        (
            25,
            [
                {"<de2fr>": [5], "<de2ja>": [5], "<ja2de>": [25], ">>id<<": [9]},
                {"<de2fr>": [6], "<de2ja>": [25], "<ja2de>": [5]},
            ],
            {(5, 6)},
        ),
    ],
    ids=["every language", "no new language"],
)
def test_random_sentences_have_one_length_and_one_known_direction(known, prefixes, starts):
    """The prefixes of one tag, then pieces as probable as above, which neither side shares."""
    model = train_spm(LINES, 40, "unigram")
    tokenizers = Tokenizers(*(Tokenizer(model, False, each) for each in prefixes))
    rehearsal = Rehearsal(torch.nn.Identity(), tokenizers, known)
    found = set()
    lengths = set()
    differences = set()
    drawn = []
    for seed in range(200):
        batch, again = (rehearsal.batch(np.random.default_rng(seed), 60) for _ in range(2))
        assert torch.equal(batch.source, again.source) and torch.equal(batch.output, again.output)
        assert batch.mask is None and batch.real is None
        sides = [side[:, :-1] for side in (batch.source, batch.output)]
        [start] = {tuple(row) for row in torch.stack([side[:, 0] for side in sides], 1).tolist()}
        found.add(start)
        source, target = (side.size(1) - 1 for side in sides)
        lengths.add(source)
        differences.add(target - source)
        assert len(batch.source) == max(1, 60 // (max(source, target) + 1))
        drawn += sides[0][:, 1:].flatten().tolist()
        common = min(source, target)
        assert common < 4 or not torch.equal(*(side[:, 1 : common + 1] for side in sides))
    assert found == starts
    assert lengths == set(range(LENGTHS[0], LENGTHS[1] + 1)) and differences == set(range(-2, 3))
    frequencies = np.bincount(drawn, minlength=tokenizers.source.size) / len(drawn)
    wanted = piece_probabilities(tokenizers.source, known or tokenizers.source.size)
    np.testing.assert_allclose(frequencies, wanted, atol=0.03)
    assert not frequencies[wanted == 0].any()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("positions, random", [(300, 100), (10**6, MOST_POSITIONS)])
def test_the_loss_is_the_mean_divergence_from_the_parent(vocabularies, positions, random, bias):
    """KL(parent ‖ model) of PyTorch and its gradients, over the same random batch; the parent stays
    as it is."""
    tokenizers = vocabularies[True]
    size = tokenizers.source.size
    config = small_config("transformer", (("dropout", 0.5), ("output_bias", bias)))
    parent, model = (build(config, size, size, True) for _ in range(2))
    rehearsal = Rehearsal(parent.train(), tokenizers)
    twin = copy.deepcopy(model.eval())
    loss = rehearsal.loss(model, np.random.default_rng(7), positions)
    batch = rehearsal.batch(np.random.default_rng(7), random)
    old, new = (
        each.output(each(batch.source, None, batch.target).hidden).log_softmax(-1).flatten(0, 1)
        for each in (parent, twin)
    )
    wanted = functional.kl_div(new, old, reduction="batchmean", log_target=True)
    torch.testing.assert_close(loss, wanted)
    (2 * loss).backward()
    assert all(each.grad is None for each in parent.parameters())
    (2 * wanted).backward()
    for (key, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6, msg=key)


class Noted:
    """A rehearsal that notes what it is given; its loss has the gradient 1 for each output
    weight."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.positions: list[int] = []

    def loss(self, model: EncoderDecoder, generator: np.random.Generator, positions: int) -> Tensor:
        self.numbers.append(int(generator.integers(2**62)))
        self.positions.append(positions)
        return model.output.weight.sum()


def rehearsing_step(seed: int = 1, weight: float = 0.5) -> TrainStep:
    step = make_step(*WITHOUT_DROPOUT)
    step.config = replace(
        step.config, seed=seed, train=replace(step.config.train, rehearsal=weight)
    )
    step.rehearsal = Noted()  # type: ignore[assignment]
    return step


def test_each_micro_batch_rehearses_other_sentences_and_the_same_ones_again():
    noted = []
    for seed in (1, 1, 2):
        step = rehearsing_step(seed)
        for _ in range(3):
            step.update()
        noted.append(step.rehearsal.numbers)
    assert noted[0] == noted[1]
    assert len({*noted[0], *noted[2]}) == 2 * 3 * step.config.train.accumulate


@pytest.mark.parametrize("parts", [1, 2])
def test_rehearsal_has_its_weight_for_each_target_token(parts):
    """Once for a micro-batch, also where that is computed in parts."""
    found = []
    for weight in (0.0, 0.5):
        step = rehearsing_step(weight=weight)
        step.parts = parts
        batches = [step.batches.batch(Cursor(0, 0, number)) for number in range(2)]
        gradients(step, batches)
        found.append(step.model.output.weight.grad)
    difference = found[1] - found[0]
    torch.testing.assert_close(difference, torch.full_like(difference, 0.5))
    assert step.rehearsal.positions == [batch.output.numel() // parts for batch in batches]


def test_an_imported_run_keeps_what_it_computed(folders, tmp_path, succeeds, monkeypatch):
    """By default; with the rate that its configuration has, unless another one is given."""
    where = ["--name", "parent", "--runs", str(tmp_path / "runs")]
    command = ["import", str(folders / "m2m100"), *MODELS["m2m100"], *where]
    succeeds(*command)
    known = []

    def make(parent: EncoderDecoder, tokenizers: Tokenizers, known_pieces: int) -> Rehearsal:
        known.append(known_pieces)
        return Rehearsal(parent, tokenizers, known_pieces)

    monkeypatch.setattr("nmt.training.build.Rehearsal", make)
    write_pairs(tmp_path, "text", pairs(80))
    words = [
        "train",
        "from=parent",
        *folder_options(tmp_path),
        "data.split_size=5",
        f"data.train={tmp_path / 'text'}",
        "train.validate_every=30",
        "train.log_sentences=0",
        "decode.max_length_ratio=0",
        "optim.warmup_steps=2",
        "data.test=null",
    ]
    children = {
        "kept": ["train.max_steps=30", "train.rehearsal_pieces=0"],
        "plain": ["train.max_steps=30", "train.rehearsal=0"],
        "slow": ["train.max_steps=1", "train.rehearsal_pieces=90", "optim.lr=1e-4"],
    }
    runs = {}
    for name, more in children.items():
        succeeds(*words, f"name={name}", *more)
        runs[name] = nmt.load(name, run_folder=tmp_path / "runs").config
    assert known == [0, 90]
    assert (runs["kept"].optim.lr, runs["slow"].optim.lr) == (0.512 / 16, 1e-4)
    assert not runs["kept"].optim.weight_decay
    assert runs["kept"].train.lora == 16

    def restored(name: str) -> tuple:
        path = tmp_path / "runs" / name / "best.safetensors"
        return restore(path, checkpoint.load(path))

    _, tokenizers, old = restored("parent")
    rehearsal = Rehearsal(old, tokenizers)
    kept, plain = (
        rehearsal.loss(restored(name)[2], np.random.default_rng(0), 600).item()
        for name in ("kept", "plain")
    )
    assert 0 < kept < 0.7 * plain
