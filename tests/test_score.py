"""Scores of given translations: those of search, however the pairs arrive."""

import gzip
import io
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import VOCABULARY
from corpora import Answer, Trained, run_command
from test_forced_decoding import some_pairs, translator_of

import nmt
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import BOS
from nmt.decode import pair_scores
from nmt.decode.pair_scores import PairScore, log_probabilities
from nmt.decode.translator import Query
from nmt.errors import UserError

SOURCES = ["Ein Hund läuft.", "Drei rote Fahrräder im Park.", "Ja!", "Um 8:15 kommt Anna heim."]


@pytest.fixture
def score(trained: Trained, capfd, monkeypatch) -> Callable[..., Answer]:
    """score(WORD …, stdin=…) → what came of `nmt score tiny WORD …`."""

    def run(*words: str | Path, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return run_command(capfd, "score", "tiny", "--runs", trained.runs, *map(str, words))

    return run


@pytest.fixture(scope="module")
def pairs(trained: Trained) -> list[tuple[str, str]]:
    """Sources with their translations and with those of other sources."""
    targets = [each.text for each in nmt.load("tiny", run_folder=trained.runs).translate(SOURCES)]
    return list(zip(SOURCES + SOURCES, targets + targets[::-1], strict=True))


def as_lines(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def test_the_hypotheses_of_a_search_have_its_scores(name, small_model):
    """Each of the n best, scored among pairs of other lengths."""
    translator = translator_of(small_model(name))
    sources = [source for source, _ in some_pairs(12)]
    pairs = []
    searched = []
    queries = [Query(Encoded(source)) for source in sources]
    for source, hypotheses in zip(sources, translator.search(queries), strict=True):
        for hypothesis in hypotheses:
            pairs.append((source, hypothesis.ids))
            searched.append(hypothesis.log_probabilities)
    for values, expected in zip(log_probabilities(translator, pairs), searched, strict=True):
        assert values == pytest.approx(expected, abs=1e-4)


def test_batches_and_processes_change_no_score(small_model, monkeypatch):
    translator = translator_of(small_model("transformer"))
    pairs = some_pairs(40)
    alone = [log_probabilities(translator, [pair])[0] for pair in pairs]
    finished: list[int] = []
    monkeypatch.setattr(pair_scores, "CPU_POSITIONS", 40)
    for processes in (1, 2):
        finished.clear()
        divided = replace(translator, num_processes=processes)
        together = log_probabilities(divided, pairs, finished.append)
        assert sum(finished) == len(pairs) and len(finished) > 3
        for values, expected in zip(together, alone, strict=True):
            assert values == pytest.approx(expected, abs=1e-5)


def test_the_probabilities_of_a_column_sum_to_one(small_model):
    """Over all pieces but <s>, which no target has."""
    translator = translator_of(small_model("transformer"))
    pieces = [number for number in range(VOCABULARY) if number != BOS]
    first_columns = log_probabilities(translator, [([5, 6], [piece]) for piece in pieces])
    assert sum(math.exp(values[0]) for values in first_columns) == pytest.approx(1, abs=1e-5)


def test_a_target_is_scored_with_the_length_that_search_counts(trained, pairs):
    run = nmt.load("tiny", run_folder=trained.runs)
    alpha = 0.6
    decode = replace(run.translator.decode, length_penalty=alpha)
    run = replace(run, translator=replace(run.translator, decode=decode))
    translations = run.translate(SOURCES)
    scored = run.score_pairs(pairs[: len(SOURCES)])
    equal = 0
    for score, translation in zip(scored, translations, strict=True):
        length = len(score.pieces) + 1
        assert score.log_probability == pytest.approx(score.score * length**alpha)
        if score.pieces == translation.pieces:  # the tokenizer would divide the text like this
            assert score.score == pytest.approx(translation.score, abs=1e-4)
            equal += 1
    assert equal
    others = run.score_pairs(pairs[len(SOURCES) :])
    assert np.mean([each.score for each in scored]) > np.mean([each.score for each in others])


def test_words_share_the_log_probability_of_the_target():
    """That of </s> is in no word; ▁ alone belongs to the word after it."""
    score = PairScore(["▁ab", "c", "▁", "d", ","], [-1.0, -2.0, -4.0, -8.0, -16.0, -32.0], 0.0)
    assert score.words() == [("abc", -3.0), ("d", -12.0), (",", -16.0)]
    assert score.log_probability == -63


def test_pairs_come_from_lines_or_from_two_files(score, pairs, tmp_path):
    expected = score(stdin=as_lines(pairs))
    assert expected.code == 0 and len(expected.out.splitlines()) == len(pairs)
    together = tmp_path / "pairs.tsv.gz"
    together.write_bytes(gzip.compress(as_lines(pairs)))
    assert score(together).out == expected.out
    sides = [tmp_path / "source", tmp_path / "target"]
    for number, path in enumerate(sides):
        lines = [pair[number].replace(" ", "\t") for pair in pairs]
        text = "\ufeff" + "".join(f"{line}\r\n" for line in lines)
        path.write_text(text, encoding="utf-8", newline="")
    assert score(*sides).out == expected.out, "a tab in a sentence is a space"

    of_pairs = score("--format", "jsonl", stdin=as_lines(pairs)).out.splitlines()
    for number, (line, entry) in enumerate(
        zip(expected.out.splitlines(), map(json.loads, of_pairs), strict=True), 1
    ):
        assert entry["line"] == number
        assert line == f"{entry['log_probability']:.4f}\t{entry['score']:.4f}"
        values = entry["log_probabilities"]
        assert sum(values) == pytest.approx(entry["log_probability"], abs=1e-2)
        assert len(values) == len(entry["pieces"]) + 1
        words = sum(entry["word_log_probabilities"])
        assert words == pytest.approx(sum(values[:-1]), abs=1e-2)


def test_a_line_that_is_no_pair_has_a_blank_answer(score, pairs, monkeypatch):
    """So that every line has its answer, and a million lines do not end with one of them."""
    counted: list[int] = []
    progress = nullcontext(counted.append)
    monkeypatch.setattr("nmt.commands.score.line_progress", lambda *_: progress)
    lines = as_lines(pairs).splitlines(keepends=True)
    expected = score(stdin=b"".join(lines)).out.splitlines()
    lines.insert(3, b"a\tb\tc\n")
    lines.insert(2, b"no tab\n")
    lines.insert(1, b"\xff\t\xfe\n")
    counted.clear()
    answer = score(stdin=b"".join(lines))
    assert sum(counted) == len(lines)
    answers = answer.out.splitlines()
    blank = [number for number, line in enumerate(answers, 1) if not line]
    assert blank == [2, 4, 6]
    assert list(filter(None, answers)) == expected
    for said in ("Line 2 is not UTF-8", "Line 4 is not SOURCE", "Line 6 is not SOURCE"):
        assert said in answer.err
    entries = score("--format", "jsonl", stdin=b"".join(lines)).out.splitlines()
    assert [json.loads(entry).get("error") for entry in entries].count(None) == len(expected)


def test_the_language_of_a_target_has_no_probability_but_a_length(small_model, monkeypatch):
    """As in a search, whose hypotheses begin with it."""
    translator = translator_of(small_model("transformer"), prefixes=(0, 1))
    monkeypatch.setattr(type(translator.tokenizers), "encode_pairs", lambda _, pairs: pairs)
    ids = ([5, 6], [9, 10, 11])
    (score,) = pair_scores.score_pairs(translator, [ids])
    (values,) = log_probabilities(translator, [ids])
    assert score.pieces == ["▁10", "▁11"]
    assert score.log_probabilities == values[1:]
    assert score.score == pytest.approx(sum(values[1:]) / 4)


def test_a_pair_that_is_too_long_for_the_model(small_model, monkeypatch):
    """Learned positions end somewhere; </s> has one too."""
    model = small_model("transformer_learned", max_positions=600)
    translator = translator_of(model)
    monkeypatch.setattr(
        type(translator.tokenizers), "encode_pairs", lambda _, pairs: pairs, raising=True
    )
    lengths = [(599, 3), (600, 3), (3, 599), (3, 600)]
    ids = [([5] * source, [6] * target) for source, target in lengths]
    scores = list(pair_scores.score_pairs(translator, ids))
    assert [score is None for score in scores] == [False, True, False, True]


def test_an_interrupted_file_becomes_what_it_would_have_been(score, pairs, tmp_path, monkeypatch):
    source = tmp_path / "pairs"
    source.write_bytes(as_lines(pairs))
    expected = score(source).out
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 3)
    whole = tmp_path / "whole"
    assert score(source, "--output", whole).code == 0
    assert whole.read_text("utf-8") == expected, "as in one chunk"
    part = tmp_path / "part"
    calls = []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise UserError("the third chunk fails.")
        return pair_scores.score_pairs(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("nmt.commands.score.score_pairs", failing)
        assert score(source, "--output", part).code == 2
    assert not part.exists()
    assert score(source, "--output", part, "--resume").code == 0
    assert part.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["a", "b", "c"], "3"),
        (["missing"], "missing"),
        (["one", "two"], "2 lines"),
        (["one", "empty"], "0 lines"),
        (["one", "--output", "one"], "--output one"),
        (["one", "--resume"], "--output"),
        (["one", "--tokenized"], "--format=jsonl"),
        (["one", "--quantization", "int8"], "int8"),
        (["one", "--source", "fr"], "fr"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_refusals(words, named, trained, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("a\tb\n", encoding="utf-8")
    Path("two").write_text("a\nb\n", encoding="utf-8")
    Path("empty").touch()
    assert named in refused("score", "tiny", "--runs", trained.runs, *words)
    assert Path("one").read_text(encoding="utf-8") == "a\tb\n"


def test_python_refuses_what_is_no_text(trained):
    run = nmt.load("tiny", run_folder=trained.runs)
    with pytest.raises(UserError, match="no text"):
        run.score_pairs([("a", "\ud800")])
