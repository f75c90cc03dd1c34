"""Sentence alignment of two documents: laws, planted beads, and the command."""

import random
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from corpora import Trained, pairs, run_command
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands import pair as command
from nmt.corpus.sentence_alignment import (
    BEADS,
    EMPTY,
    ITERATIONS,
    Bead,
    Lengths,
    Scores,
    Side,
    align_sentences,
    band_around,
    best_path,
    learn_words,
    with_probabilities,
)

texts = st.lists(st.text(alphabet="ab 12.é犬", max_size=12), max_size=6)


def damaged(seed: int, count: int) -> tuple[list[str], list[str], set]:
    """Two sides with missing and joined sentences, and their true beads of both sides."""
    generator = random.Random(seed)
    source: list[str] = []
    target: list[str] = []
    beads = set()
    for first, second in zip(*[iter(pairs(count, seed))] * 2, strict=True):
        start = len(source), len(target)
        match generator.choice(["both", "both", "both", "both", "source", "joined", "alone"]):
            case "both":
                source += [first[0], second[0]]
                target += [first[1], second[1]]
                beads |= {((start[0] + n,) * 2, (start[1] + n,) * 2) for n in (0, 1)}
            case "source":
                source += [first[0], second[0]]
                target += [f"{first[1][:-1]}; {second[1]}"]
                beads.add(((start[0], start[0] + 1), (start[1],) * 2))
            case "joined":
                source += [f"{first[0][:-1]}; {second[0]}"]
                target += [first[1], second[1]]
                beads.add(((start[0],) * 2, (start[1], start[1] + 1)))
            case "alone":
                source += [first[0], second[0]]
                target += [second[1]]
                beads.add(((start[0] + 1,) * 2, (start[1],) * 2))
    return source, target, beads


@given(texts, texts)
def test_every_sentence_is_in_one_bead_in_order(source, target):
    beads = align_sentences(source, target)
    for side, count in ((0, len(source)), (1, len(target))):
        covered = [number for bead in beads for number in range(*bead[side])]
        assert covered == list(range(count))
    for bead in beads:
        assert bead.kind in BEADS
        assert 0 <= bead.probability <= 1


@pytest.mark.parametrize("size", [(1, 9000), (9000, 1), (3, 13_000)])
def test_sides_may_be_as_unlike_as_they_like(size):
    source, target = (["a"] * count for count in size)
    beads = align_sentences(source, target)
    assert sum(bead.target[1] - bead.target[0] for bead in beads) == len(target)


def test_the_best_path_is_the_best_of_all_paths():
    """All alignments of a few sentences, each summed up by itself."""
    source, target, _ = damaged(3, 6)
    source, target = source[:4], target[:4]
    sides = Side(source), Side(target)
    whole = align_sentences(source, target)
    scores = Scores(*sides, Lengths(*sides, whole), learn_words(*sides, whole))
    values = {}
    for row in range(1, len(source) + 1):
        for kind, of_columns in scores.of_row(row, 0, len(target) + 1):
            for column in range(kind[1], len(target) + 1):
                values[kind, row, column] = of_columns[column]

    def best(row: int, column: int) -> float:
        if row == column == 0:
            return 0.0
        found = [-np.inf]
        if column:
            found.append(best(row, column - 1) + np.log(BEADS[0, 1]))
        for kind in BEADS:
            if (kind, row, column) in values and kind[0] <= row and kind[1] <= column:
                found.append(best(row - kind[0], column - kind[1]) + values[kind, row, column])
        return max(found)

    path = best_path(scores, band_around(whole, 10))
    total = 0.0
    for bead in path:
        key = bead.kind, bead.source[1], bead.target[1]
        total += values.get(key, np.log(BEADS[0, 1]))
    assert total == pytest.approx(best(len(source), len(target)))


def test_a_band_around_the_alignment_is_enough():
    """It is on both sides of the alignment, and probabilities are those of all alignments."""
    source, target, _ = damaged(1, 60)
    sides = Side(source), Side(target)
    path = align_sentences(source, target)
    scores = Scores(*sides, Lengths(*sides, path), learn_words(*sides, path))
    narrow = band_around(path, 30)
    last = len(target) + 1 - narrow.width
    for bead in path:
        row, column = bead.source[1], bead.target[1]
        if 0 < narrow.firsts[row] < last and bead.source[0] < row:
            assert column - narrow.firsts[row] == pytest.approx(15, abs=1)
    found = [
        [bead.probability for bead in with_probabilities(path, scores, band)]
        for band in (narrow, band_around(path, len(target) + 1))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert min(found[1]) < 0.9


@pytest.mark.parametrize("place", [0, 60, 120])
@pytest.mark.parametrize("count", [200, 260, 400])
@pytest.mark.parametrize("side", [0, 1])
def test_many_sentences_of_one_side_change_no_other_bead(place, count, side):
    """As those of a preface or an index."""
    sides = [
        [f"Im Jahr {1000 + n} kam das {n}. Schiff." for n in range(120)],
        [f"In {1000 + n} ship number {n} came." for n in range(120)],
    ]
    sides[side][place:place] = ["Foreign words alone, " + "again " * (n % 5) for n in range(count)]
    shift = np.zeros(2, dtype=int)
    shift[side] = count
    wanted = set()
    for row in range(120):
        wanted.add(tuple(row + shift * (row >= place)))
    found = {(bead.source[0], bead.target[0]) for bead in align_sentences(*sides) if bead.is_pair}
    assert len(wanted & found) >= 118


def test_forms_of_a_word_are_one_word():
    """By their first four letters; case and punctuation do not count, and numbers are whole."""
    side = Side(["Katze, Katzen!", "KATER 12345 12346 der 犬猫"])
    assert [side.words_of((row, row + 1)).tolist() for row in (0, 1)] == [
        [0, 0],
        [1, 2, 2, 3, 4, 5],
    ]


def test_words_are_learnt_as_defined():
    """p(w | v) = max(c(v, w) − 1, 0) / n(v), by expectation maximisation word by word."""
    generator = random.Random(2)
    sentences = []
    for _ in range(40):
        numbers = [generator.randrange(12) for _ in range(generator.randint(1, 5))]
        other = [
            number if generator.random() < 0.8 else generator.randrange(12) for number in numbers
        ]
        sentences.append((numbers, other))
    source = Side([" ".join(f"{'abcdefghijkl'[n]}x" for n in first) for first, _ in sentences])
    target = Side([" ".join(f"{'abcdefghijkl'[n]}y" for n in second) for _, second in sentences])
    beads = [Bead((row, row + 1), (row, row + 1)) for row in range(40)]
    table = learn_words(source, target, beads)

    counts = Counter(number for first, _ in sentences for number in set(first))
    every = [number for _, second in sentences for number in second]
    frequency = {number: every.count(number) / len(every) for number in set(every)}
    together = Counter()
    for first, second in sentences:
        together.update(product(set(first), set(second)))
    known = {pair: times for pair, times in together.items() if times > 1}
    probability = {(v, w): times / counts[v] for (v, w), times in known.items()}
    for _ in range(ITERATIONS):
        expected = Counter()
        for first, second in sentences:
            for w in set(second):
                links = [(v, w) for v in set(first) if (v, w) in known]
                empty = EMPTY / (1 - EMPTY) * len(set(first)) * frequency[w]
                total = empty + sum(probability[link] for link in links)
                for link in links:
                    expected[link] += probability[link] / total
        probability = {(v, w): max(expected[v, w] - 1, 0) / counts[v] for v, w in known}
    for v in set(counts):
        whole = max(1, sum(p for (word, _), p in probability.items() if word == v))
        wanted = {}
        for (word, w), p in probability.items():
            if word == v and p / whole > frequency[w]:
                wanted[w] = p / whole
        place = source.vocabulary[f"{'abcdefghijkl'[v]}x"]
        rows = range(table.starts[place], table.starts[place + 1])
        letters = {number: word for word, number in target.vocabulary.items()}
        found = {
            "abcdefghijkl".index(letters[table.words[row]][0]): table.ratios[row] for row in rows
        }
        assert found == pytest.approx({w: p / frequency[w] for w, p in wanted.items()})
        assert table.rest[place] == pytest.approx(1 - sum(wanted.values()))
    assert len(table.words) > 8


def test_a_word_of_both_sides_counts_half_before_anything_is_learnt():
    """(0 + 1/2) / (n + 1) of its probability, without a bead."""
    source, target = Side(["Anna 1984 da"]), Side(["here is Anna in 1984"])
    table = learn_words(source, target, [])
    names = {number: word for word, number in target.vocabulary.items()}
    found = {}
    for word, place in source.vocabulary.items():
        for row in range(table.starts[place], table.starts[place + 1]):
            found[word, names[table.words[row]]] = table.ratios[row] / 5
    assert found == pytest.approx({("anna", "anna"): 0.5, ("1984", "1984"): 0.5})


def test_missing_and_joined_sentences_are_found():
    right = found = true = 0
    for seed in range(2):
        source, target, beads = damaged(seed, 200)
        made = align_sentences(source, target)
        certain = [bead for bead in made if bead.is_pair and bead.probability >= 0.7]
        shown = {((a[0], a[1] - 1), (b[0], b[1] - 1)) for a, b, _ in certain}
        right += len(shown & beads)
        found += len(shown)
        true += len(beads)
    assert right / found > 0.9
    assert right / true > 0.9


def test_translations_align_what_lengths_and_names_do_not():
    """Sentences of one length, whose words come once: only a translation tells them apart."""
    generator = random.Random(1)
    letters = "abcdefghijklm"
    target = [
        " ".join("".join(generator.choices(letters, k=4)) for _ in range(6)) for _ in range(40)
    ]
    source = [sentence.translate(str.maketrans(letters, "nopqrstuvwxyz")) for sentence in target]
    shown = source[:10] + source[15:]  # five are missing
    translations = target[:10] + target[15:]
    true = {(row, row + 5 * (row >= 10)) for row in range(len(shown))}

    def right(beads: list) -> int:
        found = {(bead.source[0], bead.target[0]) for bead in beads if bead.kind == (1, 1)}
        return len(found & true)

    assert right(align_sentences(shown, target, translations)) == len(true)
    assert right(align_sentences(shown, target)) < len(true)

    # They are added to the source sentences
    source, target, _ = damaged(3, 20)
    nothing = [""] * len(source)
    assert align_sentences(source, target, nothing) == align_sentences(source, target)


def test_where_beads_are_written(tmp_path):
    sides = [["a", "b", "c", "d"], ["A", "B", "C"]]
    beads = [
        Bead((0, 1), (0, 1), 0.7),
        Bead((1, 3), (1, 2), 0.69),
        Bead((3, 4), (2, 2)),
        Bead((4, 4), (2, 3)),
    ]
    paths = tmp_path / "pairs.tsv", tmp_path / "doubtful.tsv"
    command.write(*paths, ["de", "en"], sides, beads)
    assert paths[0].read_text() == "de\ten\tprobability\na\tA\t0.7000\n"
    assert paths[1].read_text().splitlines() == [
        "de\ten\tprobability\tsentence de\tsentence en",
        "b c\tB\t0.6900\t2\t2",
        "d\t\t\t4\t",
        "\tC\t\t\t3",
    ]


def test_sentences_of_a_document_are_its_plain_text(tmp_path):
    """Without markup, on one line each, and with what a model would get a placeholder for."""
    path = tmp_path / "a.md"
    path.write_text("# Der *Hund*\n\nEr sieht `x_1`\nund {name}. Er  geht.\n", encoding="utf-8")
    found = list(command.sentences_of(command.open_side(path), "de"))
    assert found == ["Der Hund", "Er sieht x_1 und {name}.", "Er geht."]


def documents(folder: Path) -> list[str]:
    source, target, _ = damaged(1, 60)
    (folder / "a.txt").write_text("\n\n".join(source), encoding="utf-8")
    page = "".join(f"<p>{sentence}</p>" for sentence in target)
    (folder / "b.html").write_text(f"<html><body>{page}</body></html>", encoding="utf-8")
    return [str(folder / "a.txt"), str(folder / "b.html")]


@pytest.mark.parametrize("with_run", [False, True])
def test_the_command_writes_pairs_that_training_reads(with_run, trained: Trained, tmp_path, capfd):
    output = tmp_path / "pairs.tsv"
    words = ["pair", *documents(tmp_path), "--output", str(output)]
    words += ["--source", "de", "--target", "en"]
    if with_run:
        words += ["--run", trained.name, "--runs", trained.runs]
    answer = run_command(capfd, *words)
    assert answer.code == 0, answer.err
    assert answer.out == ""
    header, *rows = output.read_text(encoding="utf-8").splitlines()
    assert header.split("\t")[:2] == ["de", "en"]
    assert len(rows) > 40
    rest = (tmp_path / "pairs.doubtful.tsv").read_text(encoding="utf-8").splitlines()
    said = [line.split("\t") for line in rest[1:]]
    assert any(not (source and target) for source, target, *_ in said)
    audit = run_command(capfd, "audit", str(output), f"data_folder={tmp_path / 'data'}")
    assert audit.code == 0, audit.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["a.txt", "b.pdf"], "b.pdf"),
        (["a.txt", "missing.txt"], "missing.txt"),
        (["a.txt", "empty.txt"], "empty.txt"),
        (["a.txt", "memory.xlf"], "memory.xlf"),
        (["a.txt", "a.txt", "--target", "de"], "both"),
        (["a.txt", "b.html", "--source", "klingonese"], "klingonese"),
        (["a.txt", "b.html", "--output", "pairs.csv"], "pairs.csv"),
        (["a.txt", "b.html", "--run", "nothing"], "nothing"),
    ],
)
def test_refusals(words, named, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    documents(tmp_path)
    for name in ("b.pdf", "empty.txt", "memory.xlf"):
        (tmp_path / name).write_text("", encoding="utf-8")
    defaults = {"--output": "pairs.tsv", "--source": "de", "--target": "en"}
    for option, value in defaults.items():
        if option not in words:
            words = [*words, option, value]
    answer = run_command(capfd, "pair", *words)
    assert answer.code == 2
    assert named in answer.err
    assert not (tmp_path / "pairs.tsv").exists()
