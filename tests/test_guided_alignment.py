"""Guided alignment: one head of attention is trained with links between words (Garg et al.
2019)."""

import gzip
from collections.abc import Callable
from itertools import islice, permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from corpora import (
    compose_one,
    last_of_each_key,
    lines_of,
    pairs,
    run_command,
    small,
    write_corpus,
    write_lines,
)

import nmt
from nmt.data import training_links
from nmt.data.batches import collate
from nmt.data.training_links import TrainingLinks
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.training.loss import alignment_loss

WEIGHT = "train.guided_alignment=0.5"


class Spelled:
    """A tokenizer of which the ids are places in a list of pieces."""

    def __init__(self, pieces: list[str]) -> None:
        self.known = pieces

    def pieces(self, ids: list[int]) -> list[str]:
        return [self.known[number] for number in ids]

    def prefix_length(self, ids: list[int]) -> int:
        return sum(self.known[number].startswith("__") for number in ids)

    sentence_start = prefix_length


def links_file(
    path: Path, lines: list[str], source: str, target: str, shift: int = 0
) -> TrainingLinks:
    """Links between the pieces of a pair; the ids of both sides are their numbers."""
    write_lines(path, lines)
    tokenizers = SimpleNamespace(source=Spelled(source.split()), target=Spelled(target.split()))
    return TrainingLinks(path, tokenizers, False, shift)  # type: ignore[arg-type]


THIRD = 1 / 3
EIN_GARTEN = "▁ein ▁Gar ten ."
THE_GARDEN = "▁the ▁ga r den ."


@pytest.mark.parametrize(
    "line, source, target, expected",
    [
        (  # possible links do not count
            "0-0 1-1 0-1 2p2",
            EIN_GARTEN,
            THE_GARDEN,
            [[1, 0, 0, 0], *[[THIRD, THIRD, THIRD, 0]] * 3, [0, 0, 0, 0]],
        ),
        ("0-0", "__de__ ▁ein", "__en__ ▁the", [[0, 0], [0, 1]]),
        ("", "▁ein", "▁the", [[0]]),
    ],
    ids=["all pieces of both words", "prefixes are no words", "no link"],
)
def test_a_link_joins_all_pieces_of_both_words(tmp_path, line, source, target, expected):
    links = links_file(tmp_path / "links", ["", line], source, target)
    found = links.piece_links(range(len(source.split())), range(len(target.split())), 2)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("shift", [0, 1])
def test_rows_are_those_of_the_decoder_step(tmp_path, shift):
    links = links_file(tmp_path / "links", ["0-0", "1-1"], EIN_GARTEN, THE_GARDEN, shift)
    sources = [np.arange(1), np.arange(4)]
    targets = [np.arange(2), np.arange(5)]
    batch = links.batch(sources, targets, [1, 2])
    assert batch.shape == collate(sources, targets).target.shape + (5,)
    expected = torch.zeros(2, 6, 5)
    expected[0, shift, 0] = 1
    expected[1, 1 + shift : 4 + shift, 1:3] = 0.5
    torch.testing.assert_close(batch, expected)


def test_loss_by_hand():
    """−(log 0.5 + ½ log 0.25 + ½ log 0.75); a row without link and a weight of 0 that has no link
    add nothing."""
    weights = torch.tensor(
        [[[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [0.1, 0.2, 0.7]]], requires_grad=True
    )
    links = torch.tensor([[[1.0, 0, 0], [0.5, 0, 0.5], [0, 0, 0]]])
    loss = alignment_loss(weights, links)
    assert loss.item() == pytest.approx(0.693147 + 0.5 * 1.386294 + 0.5 * 0.287682, abs=1e-5)
    loss.backward()
    torch.testing.assert_close(weights.grad, -links / weights.detach().clamp_min(1e-30))


@pytest.mark.parametrize("name", ["transformer", "transformer_linear", "luong_local_p", "bahdanau"])
def test_training_returns_the_guided_head(small_model: Callable[..., EncoderDecoder], name):
    model = small_model(name, dropout=0.0)
    source = torch.randint(4, 50, (2, 7))
    target = torch.randint(4, 50, (2, 5))
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    every = model(source, mask, target, weights=True)
    model.guided = True
    assert model(source, mask, target).weights is None  # in evaluation
    guided = model.train()(source, mask, target)
    torch.testing.assert_close(
        guided.weights, every.weights[:, model.guided_layer : model.guided_layer + 1, :1]
    )
    torch.testing.assert_close(guided.hidden, every.hidden)


def unknown_words(letters: str) -> str:
    """99 words that have no pieces of their own."""
    return " ".join(map("".join, islice(permutations(letters), 99)))


def guided_corpus(folder: Path) -> list[str]:
    """A corpus that links every English word to the first German one, of which no translation has
    any use. Its first pair is too long to be trained on, and has no link."""
    words = write_corpus(folder)
    for name in ("train", "valid", "test"):
        lengths = [len(line.split()) + 1 for line in lines_of(folder / f"{name}.en")]
        lines = [" ".join(f"0-{word}" for word in range(length)) + "\n" for length in lengths]
        (folder / f"{name}.align").write_text("".join(lines), encoding="utf-8")
    first = {"de": unknown_words("abcdefgh"), "en": unknown_words("klmnopqr"), "align": ""}
    for name, line in first.items():
        path = folder / f"train.{name}"
        path.write_text(f"{line}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return words


def test_a_guided_head_learns_the_links_and_is_what_links_are_read_off(tmp_path, capfd, succeeds):
    words = [
        WEIGHT,
        "name=guided",
        "train.max_steps=40",
        "train.validate_every=40",
        "train.subword_sampling=0.1",
    ]
    train = small(tmp_path, guided_corpus(tmp_path / "corpus"), *words)
    succeeds("train", *train)
    run = nmt.load(tmp_path / "runs" / "guided")
    source, target = pairs(1, seed=3)[0]
    alignment = run.align(source, target)
    assert alignment.extractor == (0, 0, "input", "mean")
    assert alignment.links == [(0, word) for word in range(len(alignment.words[1]))]
    assert alignment.matrix[:, 0].min() > 0.5
    assert run.align(source, target, layer=0).extractor == (0, None, "output", "mean")
    ends = {"source": "de", "target": "en", "gold": "align"}
    files = [f"--{name}={tmp_path / 'corpus' / 'test'}.{end}" for name, end in ends.items()]
    table = run_command(capfd, "align", str(run.folder), *files).out.splitlines()
    assert table[1].split("\t")[:4] == ["0", "0", "input", "0.0000"]
    files[1] = files[1].replace("--target", "--reference")
    answer = run_command(capfd, "evaluate", str(run.folder), *files)
    assert "AER 0.000 (layer 0, head 0, input)" in answer.out


def test_links_of_rejected_pairs_are_left_out(tmp_path, succeeds):
    """Line 2 has a blank side; the links lie beside two PREFIXes, one of them compressed."""
    words = write_corpus(tmp_path / "corpus", train=4)
    folder = tmp_path / "corpus"
    (folder / "more.de").write_text("Der Hund schläft.\n\nDie Katze schläft.\n", encoding="utf-8")
    (folder / "more.en").write_text("The dog sleeps.\nNobody.\nThe cat sleeps.\n", encoding="utf-8")
    (folder / "more.align").write_text("0-0 1-1\n0-0\n2-2\n", encoding="utf-8")
    with gzip.open(folder / "train.align.gz", "wt") as file:
        file.write("0-0\n1-1\n\n3-3\n")
    words.append(f"data.train=[{folder / 'train'},{folder / 'more'}]")
    wanted = ["0-0", "1-1", "", "3-3", "0-0 1-1", "2-2"]
    for copies in (1, 2):  # of the pairs behind the second PREFIX
        words.append(f"data.weights=[1,{copies}]")
        data = tmp_path / f"data{copies}"
        command = ["download", *last_of_each_key(*words), f"data_folder={data}"]
        succeeds(*command)
        (built,) = data.glob("corpus-*/train.align")
        lines = [*wanted[:4], *(line for line in wanted[4:] for _ in range(copies))]
        assert built.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in lines)


def test_what_cannot_be_guided_is_refused(tmp_path, refused):
    words = small(tmp_path, write_corpus(tmp_path / "corpus"), WEIGHT, "train.max_steps=2")
    links = tmp_path / "corpus" / "train.align"
    assert "PREFIX.align" in refused("train", *words)
    assert not list((tmp_path / "data").glob("corpus-*")), "before the work"
    links.write_text("0-0\n" * 239)
    assert "different numbers of lines" in refused("train", *words)
    links.write_text("0-0\n" * 239 + "0:0\n")
    assert f"{links}:240: '0:0'" in refused("train", *words)
    links.write_text("0-0\n" * 238 + "0-99\n0-0\n")
    assert f"{links}:239: link 0-99" in refused("download", *words)
    for model in ("seq2seq", "bahdanau_hard"):
        with pytest.raises(UserError, match="needs a model with soft attention"):
            compose_one(f"model={model}", WEIGHT)


@pytest.mark.parametrize("block", [1, 5, 1 << 24])
def test_the_links_of_a_pair_are_its_line_of_the_file(block, tmp_path, monkeypatch):
    """However large the parts are in which line ends are searched."""
    monkeypatch.setattr(training_links, "BLOCK", block)
    lines = ["0-0 1-1\n", "\n", "2-1\n", "0-1 1-0 2-2\n"]
    (tmp_path / "links").write_text("".join(lines), encoding="utf-8")
    links = TrainingLinks(tmp_path / "links", None, True, 0)  # type: ignore[arg-type]
    assert [links.line(number) for number in range(1, 5)] == lines
