"""The built-in phrasebook as a corpus: its sets, its links in both directions, and what it does not
have."""

import bz2
import re
from itertools import islice
from pathlib import Path

import pytest
from corpora import run_command, small

from nmt.config.compose import compose_all
from nmt.corpus import corpus, phrasebook
from nmt.corpus.links import parse_links
from nmt.corpus.parallel_text import read_lines
from nmt.errors import UserError

SHIPPED = phrasebook.phrasebook_folder()


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The phrasebook with fewer pairs; how many each set has."""
    sizes = {name: 60 for name in phrasebook.SETS} | {"train": 500}
    (tmp_path / "part").mkdir()
    for name, size in sizes.items():
        for ending in ("de", "en", "align"):
            lines = islice(read_lines(SHIPPED / f"{name}.{ending}.bz2"), size)
            (tmp_path / "part" / f"{name}.{ending}.bz2").write_bytes(
                bz2.compress("\n".join([*lines, ""]).encode())
            )
    monkeypatch.setattr(phrasebook, "phrasebook_folder", lambda: tmp_path / "part")
    return sizes


def test_links_join_words_that_exist_in_every_set() -> None:
    """Punctuation counts as words of its own, so the last links join the last marks."""
    for name in phrasebook.SETS[1:]:
        columns = [read_lines(SHIPPED / f"{name}.{ending}.bz2") for ending in ("de", "en", "align")]
        rows = list(zip(*columns, strict=True))
        assert len(rows) == 1000
        for german, english, links in rows:
            counts = [
                len(re.sub(r"([.,!?;:])(?!\S)", r" \1", side).split()) for side in (german, english)
            ]
            sure, possible = parse_links(links)
            assert (counts[0] - 1, counts[1] - 1) in sure and all(
                i < counts[0] and j < counts[1] for i, j in possible
            )


def test_either_direction_has_the_same_pairs_and_swapped_links(
    tmp_path: Path, part: dict[str, int]
) -> None:
    for source, target in (("de", "en"), ("en", "de")):
        words = ["data=phrasebook", f"data.source={source}", f"data.target={target}"]
        (config,) = compose_all(words)
        corpus.corpus_inputs(config.data, tmp_path / "digests.json")
        (tmp_path / source).mkdir()
        corpus.build_corpus(config.data, tmp_path / source, tmp_path / "downloads")
    for name, size in part.items():
        for ending in ("de", "en"):
            text = (tmp_path / "de" / f"{name}.{ending}").read_text(encoding="utf-8")
            assert text == (tmp_path / "en" / f"{name}.{ending}").read_text(encoding="utf-8")
            assert (
                text
                == bz2.open(
                    tmp_path / "part" / f"{name}.{ending}.bz2", "rt", encoding="utf-8"
                ).read()
            )
        straight, swapped = (
            (tmp_path / side / f"{name}.align").read_text().splitlines() for side in ("de", "en")
        )
        assert len(straight) == len(swapped) == size
        for line, other in zip(straight, swapped, strict=True):
            for links, back in zip(parse_links(line), parse_links(other), strict=True):
                assert links == {(i, j) for j, i in back}


def test_links_are_left_out_where_a_pair_is(tmp_path: Path, part: dict[str, int]) -> None:
    (config,) = compose_all(["data=phrasebook", "data.max_characters=40"])
    corpus.build_corpus(config.data, tmp_path, tmp_path / "downloads")
    assert not (tmp_path / "train.align").exists() and (tmp_path / "valid.align").exists()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("data.target=fr", "no de-fr"),
        ("data.test=test_2016_flickr", "'test_2016_flickr' for test"),
        ("data.valid=train", "'train' for valid"),
        ("+data.pairs=9", "data.pairs"),
    ],
)
def test_an_impossible_configuration_is_refused(tmp_path: Path, word: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        (config,) = compose_all(["data=phrasebook", word])
        corpus.corpus_inputs(config.data, tmp_path / "digests.json")


@pytest.mark.slow
@pytest.mark.usefixtures("part")
def test_it_is_trained_and_scored_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Trained on, scored on all test sets and against the gold alignment."""
    source, target = "en", "de"
    words = [
        f"data.source={source}",
        f"data.target={target}",
        "tokenizer.vocabulary_size=400",
        "name=tiny",
    ]
    answer = run_command(
        capfd, "train", *small(tmp_path, words, "train.max_steps=4", "train.max_minutes=null")
    )
    assert answer.code == 0, answer.err
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == [
        "test",
        "test_seen",
        "test_unseen",
    ]
    rows = [line.split("\t") for line in answer.out.splitlines()]
    gaps = [[cell for cell in row if cell.startswith("gap ")] for row in rows]
    assert [len(found) for found in gaps] == [0, 0, 1]
    _, seen, unseen = rows
    gap = float(gaps[2][0].split()[1])
    assert gap == pytest.approx(float(seen[1]) - float(unseen[1]), abs=0.011)
    valid = next((tmp_path / "data").glob("corpus-*")) / "valid"
    files = [f"--source={valid}.{source}", f"--target={valid}.{target}", f"--gold={valid}.align"]
    gold = run_command(capfd, "align", "tiny", "--runs", str(tmp_path / "runs"), *files)
    assert gold.code == 0, gold.err
    assert all(0 < float(line.split("\t")[3]) < 1 for line in gold.out.splitlines()[1:])
