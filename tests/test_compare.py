"""Runs side by side: the statistics on paper, the tables as text, and the command on small runs."""

import argparse
import io
import json
import math
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from conftest import MODELS
from corpora import Answer, Trained, door, small, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sacrebleu import corpus_bleu
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt import test_sets
from nmt.alignments import extraction
from nmt.compare import test_sets as compare_test_sets
from nmt.compare.labels import build, looks
from nmt.compare.measures import Measures
from nmt.compare.perplexity import measure_perplexity
from nmt.compare.results import same_experiment
from nmt.compare.systems import System, training
from nmt.compare.test_sets import TextSet, longest_source, shown_rows
from nmt.compose import compose_all
from nmt.config import Config, to_dict
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.evaluate.lengths import bleu_by_length, count_words, join_pairs, length_buckets
from nmt.evaluate.lengths import corpus_bleu as bleu_alone
from nmt.evaluate.scores import score
from nmt.evaluate.significance import paired_bootstrap
from nmt.evaluate.spread import spread
from nmt.models.build import build as build_model
from nmt.runs import load
from nmt.train import checkpoint
from nmt.view.comparison_page import Picture, Section, Table, markdown, page
from nmt.view.curves import Line, curves

ROOT = Path(__file__).resolve().parent.parent
WHO = ("boy", "girl", "cat")
REFERENCES = [f"the {noun} sees {count} red apples by the river" for noun in WHO for count in range(8)]
BETTER = [line.replace("red", "green") if number % 3 else line for number, line in enumerate(REFERENCES)]
WORSE = [line.replace("sees", "saw") if number % 2 else "a river" for number, line in enumerate(REFERENCES)]


# --- chance ---


def test_scores_and_signatures_are_those_of_evaluate():
    found = paired_bootstrap([BETTER, WORSE], REFERENCES, samples=100)
    for number, system in enumerate((BETTER, WORSE)):
        wanted = score(system, REFERENCES)
        assert found.intervals["bleu"][number].score == pytest.approx(wanted["bleu"])
        assert found.intervals["chrf"][number].score == pytest.approx(wanted["chrf"])
    assert found.signatures["bleu"].startswith("lines:24|nrefs:1|bs:100|seed:12345|case:mixed|eff:no|tok:13a")
    assert "lines:24|" in found.signatures["chrf"] and "nc:6" in found.signatures["chrf"]


def test_the_interval_and_p_are_those_of_the_resampled_sets():
    """Each resample scored as a corpus of its own."""
    drawn = np.random.default_rng(12345).choice(24, size=(100, 24), replace=True)
    references = [[REFERENCES[row] for row in rows] for rows in drawn]
    ours, theirs = (
        np.array(
            [
                corpus_bleu([system[row] for row in rows], [some], force=True).score
                for rows, some in zip(drawn, references, strict=True)
            ]
        )
        for system in (BETTER, WORSE)
    )
    first, second = paired_bootstrap([BETTER, WORSE], REFERENCES, samples=100).intervals["bleu"]
    for interval, scores in ((first, ours), (second, theirs)):
        ordered = np.sort(scores)
        assert interval.half_width == pytest.approx(
            (ordered[97] - ordered[2]) / 2, abs=1e-4
        )  # 2.5 % cut off at each end
        assert interval.mean == pytest.approx(scores.mean(), abs=1e-4)
    differences = abs(ours - theirs)
    beyond = (differences - differences.mean() > abs(first.score - second.score)).sum()
    assert first.p is None and second.p == pytest.approx((beyond + 1) / 101)


def test_a_system_does_not_differ_from_itself():
    """SacreBLEU's formula alone would call a double significantly different: 1 / 101."""
    found = paired_bootstrap([BETTER, list(BETTER), WORSE], REFERENCES, samples=100)
    assert [one.p for one in found.intervals["bleu"]] == [None, 1.0, pytest.approx(1 / 101)]
    assert [one.p for one in found.intervals["chrf"]][:2] == [None, 1.0]


def test_the_seed_is_fixed_whatever_the_environment_says(monkeypatch):
    wanted = paired_bootstrap([BETTER, WORSE], REFERENCES, samples=100)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    assert paired_bootstrap([BETTER, WORSE], REFERENCES, samples=100) == wanted
    assert os.environ["SACREBLEU_SEED"] == "7"


@pytest.mark.parametrize(
    "systems, references, samples, words",
    [
        ([], REFERENCES, 100, "nothing to compare"),
        ([[]], [], 100, "nothing to compare"),
        ([BETTER[1:]], REFERENCES, 100, "23 translations cannot be scored against 24 references"),
        ([BETTER], REFERENCES, 99, "99 resamples are too few"),
        ([BETTER], REFERENCES, 3_000_000, "choose at most 2083333"),
    ],
)
def test_what_cannot_be_resampled_is_refused(systems, references, samples, words):
    with pytest.raises(UserError, match=words):
        paired_bootstrap(systems, references, samples=samples)


# --- lengths ---


def test_words_are_counted_with_punctuation_apart():
    assert count_words("Das ist, glaube ich, gut.") == 8
    assert count_words("") == 0 and count_words("  ") == 0
    assert count_words("私は行く。") == 5


def test_buckets_on_paper():
    lengths = [0] + [3] * 20 + [8] * 19 + [12] * 30 + [45] * 2 + [60] * 3
    found = length_buckets(lengths)
    assert [(one.label, len(one.rows)) for one in found] == [("1–5", 20), ("6+", 54)]
    assert found[1].mean_length == pytest.approx((19 * 8 + 30 * 12 + 2 * 45 + 3 * 60) / 54)
    assert [one.label for one in length_buckets([60] * 30)] == ["51+"]
    assert [one.label for one in length_buckets([60] * 3)] == ["51+"]
    assert [one.label for one in length_buckets([5] * 20 + [6] * 20 + [30] * 20)] == ["1–5", "6–10", "11–30"]
    assert length_buckets([0, 0]) == [] and length_buckets([]) == []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 70), max_size=60), st.integers(1, 20))
def test_buckets_share_out_the_sentences(lengths, smallest):
    found = length_buckets(lengths, smallest)
    rows = [row for one in found for row in one.rows]
    assert sorted(rows) == [row for row, length in enumerate(lengths) if length]
    for one in found:
        assert all(one.first <= lengths[row] <= (one.last or 70) for row in one.rows)
        assert len(one.rows) >= min(smallest, len(rows)) and one.rows == sorted(one.rows)
    for one, other in zip(found, found[1:], strict=False):
        assert one.last is not None and other.first == one.last + 1


def test_a_bucket_is_scored_as_a_corpus():
    lengths = [count_words(line) for line in REFERENCES[:12]] + [12] * 12
    found = length_buckets(lengths, 5)
    assert [len(one.rows) for one in found] == [12, 12]
    values = bleu_by_length(BETTER, REFERENCES, found, "en")
    assert values[0] == pytest.approx(corpus_bleu(BETTER[:12], [REFERENCES[:12]]).score)
    assert values[1] == pytest.approx(corpus_bleu(BETTER[12:], [REFERENCES[12:]]).score)
    assert bleu_alone(BETTER, REFERENCES, "en") == pytest.approx(score(BETTER, REFERENCES)["bleu"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text("ab", min_size=1), st.text("cd", min_size=1)), max_size=12), st.integers(1, 5))
def test_joining_keeps_the_words_and_their_order(pairs, count):
    found = join_pairs(pairs, count)
    assert len(found) == len(pairs) // count
    for side in (0, 1):
        kept = [pair[side] for pair in pairs[: len(found) * count]]
        assert " ".join(pair[side] for pair in found) == " ".join(kept)
        assert all(pair[side].count(" ") == count - 1 for pair in found)


def test_spread_on_paper():
    assert spread([1.0, 2.0, 3.0, 4.0]) == (2.5, pytest.approx(math.sqrt(5 / 3)), 1.0, 4.0, 4)
    assert spread([7.0]) == (7.0, None, 7.0, 7.0, 1)
    with pytest.raises(ValueError):
        spread([])


# --- how it looks ---


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=2), min_size=1, max_size=3))
def test_a_markdown_table_keeps_its_columns(rows):
    lines = markdown([Table("title", ["a", "b"], rows)]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(rows) + 2
    for line in table:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert re.fullmatch(r"\| -+:? \| -+:? \|", table[1])


def test_markdown_on_paper():
    found = markdown([Table("t_x", ["run", "BLEU"], [["luong_global", "41.08 ± 1.12"], ["_a|b", "9.1"]], ["1 < 2."])])
    assert found == (
        "## t_x\n\n"
        "| run          |         BLEU |\n"
        "| ------------ | -----------: |\n"
        "| luong_global | 41.08 ± 1.12 |\n"
        "| \\_a\\|b       |          9.1 |\n\n"
        "- 1 \\< 2.\n"
    )


def test_the_page_needs_nothing_beside_it():
    name = "<script>alert(1)</script>"
    parts = [Table(name, ["a"], [[name]], [name]), Section(name, [Picture(b"\x89PNG", name, name)], [name])]
    found = page(name, [name], parts)
    assert "<script" not in found and "&lt;script&gt;" in found
    assert not re.search(r"https?:|src=\"(?!data:)|<link|@import", found)


def test_ten_lines_differ_in_more_than_colour():
    lines = [Line(f"_run_{number}", [float(number), 50.0 - number]) for number in range(10)]
    figure = curves(lines, ["1–5", "6+"], [30, 19], "a title", "words", "BLEU")
    drawn = figure.axes[0].get_lines()[::2]  # each line is followed by its hollow points
    assert len({(line.get_marker(), line.get_linestyle()) for line in drawn}) == 10
    assert len({(line.get_color(), line.get_linestyle()) for line in drawn}) == 10
    hollow = figure.axes[0].get_lines()[1::2]
    assert [list(line.get_xdata()) for line in hollow] == [[1]] * 10
    names = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert names == [f"_run_{number}" for number in range(10)]  # the highest right end first
    with pytest.raises(ValueError):
        curves(lines, ["1–5"], [30], "a title", "words", "BLEU")


# --- the command ---


class Runs(NamedTuple):
    """Runs of one corpus: `tiny`, trained; `tiny-seed2`, with fresh weights; `blind`, no attention and unfinished."""

    root: Path

    def compare(self, capfd: pytest.CaptureFixture[str], *words: str) -> Answer:
        short = ["--samples", "100", "--sentences", "1"]
        return door(capfd, "compare", "--runs", str(self.root), "--output", str(self.root / "out"), *short, *words)

    def numbers(self) -> dict:
        return json.loads((self.root / "out" / "comparison.json").read_text(encoding="utf-8"))


def untrained(trained: Trained, folder: Path, *words: str) -> dict:
    """A best.pt with fresh weights, of the same corpus and tokenizer."""
    config = compose_all([*trained.arguments, *words], multirun=False)[0]
    tokenizers = Tokenizers.load(next((trained.root / "data").glob("tokenizer-*")))
    torch.manual_seed(config.seed)
    model = build_model(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    corpus = checkpoint.load(trained.folder / "best.pt")["corpus_hash"]
    payload = checkpoint.pack(config, tokenizers, corpus) | {"model": model.state_dict(), "origin": "update 0"}
    folder.mkdir(parents=True)
    checkpoint.save(folder / "best.pt", payload)
    return payload


@pytest.fixture(scope="module")
def runs(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("compare")
    shutil.copytree(trained.folder, root / "tiny")
    untrained(trained, root / "tiny-seed2", "seed=2", "name=tiny-seed2")
    other = trained._replace(arguments=[word for word in trained.arguments if not word.startswith("model")])
    recurrent = ("model=seq2seq", "model.hidden=16", "model.embedding=16")
    payload = untrained(other, root / "blind", *recurrent, "name=blind")
    place = {"step": 30, "seconds": 60.0, "finished": False, "tokens": 1200}
    checkpoint.save(root / "blind" / "last.pt", payload | {"place": place, "random": {}})
    return Runs(root)


def table_rows(answer: Answer, heading: str) -> dict[str, dict[str, str]]:
    """The rows of the table under a heading, by run and column."""
    text = answer.out.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    return {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:]}


def test_one_table_over_runs(runs: Runs, trained: Trained, capfd):
    before = writers()
    answer = runs.compare(capfd, "tiny", "tiny-seed2", "blind", "--long", "5")
    assert answer.code == 0, answer.err
    rows = table_rows(answer, "test: 12 sentences")
    assert list(rows) == ["tiny", "tiny-seed2", "blind (unfinished)"]
    _, bleu, chrf, _ = trained.lines[0].split("\t")
    assert rows["tiny"]["BLEU"].startswith(f"{bleu} ± ") and rows["tiny"]["chrF"].startswith(f"{chrf} ± ")
    assert rows["tiny"]["p of BLEU"] == "–" and rows["tiny-seed2"]["p of BLEU"] == "0.010"  # 1 / 101
    blind = rows["blind (unfinished)"]
    assert [blind[name] for name in ("order", "score", "window", "AER")] == ["never", "–", "–", "–"]
    assert (blind["minutes"], blind["tokens/s"]) == ("1.0", "20")
    assert rows["tiny"]["order"] == "2 layers × 2 heads" and rows["tiny-seed2"]["minutes"] == "–"
    assert float(rows["tiny"]["per word"]) > float(rows["tiny"]["perplexity"]) > 1
    assert list(table_rows(answer, "test: BLEU by source length")) == list(rows)
    long = table_rows(answer, "test: BLEU of joined sentences")["tiny"]
    assert list(long.values())[1] == bleu and len(long) == 6
    source = (trained.root / "corpus" / "train.de").read_text(encoding="utf-8").splitlines()
    longest = max(len(line.split()) for line in source) + 1  # the full stop
    assert f"single sentences of at most {longest} words: what is longer it has never seen" in answer.out
    lines = (trained.root / "corpus" / "test.de").read_text(encoding="utf-8").splitlines()
    words = [count_words(line) for line in lines]
    means = [one["mean_words"] for one in runs.numbers()["sets"]["test"]["joined"]]
    assert means[0] == pytest.approx(sum(words) / 12)
    assert means[4] == pytest.approx(sum(words[:10]) / 2) and sum(words[:10]) / 10 != sum(words) / 12
    (seeds,) = table_rows(answer, "Seeds").values()
    assert seeds["runs"] == "tiny" and seeds["seeds"] == "1, 2" and seeds["n"] == "2"
    first, second = (run["sets"]["test"]["bleu"]["score"] for run in runs.numbers()["runs"][:2])
    assert seeds["BLEU"].startswith(f"{(first + second) / 2:.2f} ± {abs(first - second) / math.sqrt(2):.2f} (")
    the_journal_has_it_all(runs.root / "out", answer.out, runs.numbers())
    assert writers() <= before, "a journal is not closed"


def writers() -> set[threading.Thread]:
    """The threads of open journals; what they hold is on disk for certain when they have ended."""
    return {one for one in threading.enumerate() if type(one).__module__.startswith("tensorboard.")}


def the_journal_has_it_all(folder: Path, text: str, numbers: dict) -> None:
    """TensorBoard's files as TensorBoard reads them: the tables, the pictures, and each run's figures as curves."""
    whole = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert whole.Tensors("comparison/text_summary")[0].tensor_proto.string_val == [text.encode()]
    assert set(whole.Tags()["images"]) == {"bleu-by-length-test", "bleu-joined-test", "1/tiny", "1/tiny-seed2"}
    [plot] = whole.Images("bleu-by-length-test")
    shown, written = Image.open(io.BytesIO(plot.encoded_image_string)), Image.open(folder / "bleu-by-length-test.png")
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(written.convert("RGB")))
    about = numbers["sets"]["test"]
    for run in numbers["runs"]:
        own, curves = run["sets"]["test"], EventAccumulator(str(folder / "tensorboard" / run["name"])).Reload()
        steps = [round(one["mean"]) for one in about["lengths"]], [round(one["mean_words"]) for one in about["joined"]]
        wanted = {
            "bleu": [(0, own["bleu"]["score"])],
            "chrf": [(0, own["chrf"]["score"])],
            "perplexity_per_piece": [(0, own["perplexity_per_piece"])],
            "perplexity_per_word": [(0, own["perplexity_per_word"])],
            "bleu_by_source_words": list(zip(steps[0], own["bleu_by_length"], strict=True)),
            "bleu_joined_by_source_words": list(zip(steps[1], own["bleu_joined"], strict=True)),
        }
        assert set(curves.Tags()["scalars"]) == {f"test/{name}" for name in wanted}
        for name, points in wanted.items():
            found = [(event.step, pytest.approx(event.value, rel=1e-6)) for event in curves.Scalars(f"test/{name}")]
            assert points == found, name


def test_everything_is_written(runs: Runs, trained: Trained, capfd):
    answer = runs.compare(capfd, "tiny", "blind", "--sentences", "2,5")
    folder = runs.root / "out"
    text = (folder / "comparison.md").read_text(encoding="utf-8")
    assert text.startswith(answer.out) and "![bleu-by-length-test](bleu-by-length-test.png)" in text
    assert (folder / "bleu-by-length-test.png").read_bytes().startswith(b"\x89PNG")
    html = (folder / "comparison.html").read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == 1 + 2  # the curve, and two sentences of the one that attends
    for line, side in (("de", "source"), ("en", "reference")):
        second = (trained.root / "corpus" / f"test.{line}").read_text(encoding="utf-8").splitlines()[1]
        assert f'<p class="note">{side}: {second}</p>' in html
    assert html.count("<figcaption>layer 0, decoder step output; its own translation: ") == 2
    assert 'alt="where tiny looked: layer 0, decoder step output"' in html
    assert "sentence 2" in html and "sentence 5" in html and "Without a picture: blind (no attention)." in html
    assert {path.parent.name for path in folder.glob("tensorboard/**/events.*")} == {"tensorboard", "tiny", "blind"}
    numbers = runs.numbers()
    stored = json.loads((runs.root / "tiny" / "evaluate" / "test" / "result.json").read_text(encoding="utf-8"))
    (tiny, blind) = numbers["runs"]
    assert tiny["sets"]["test"]["bleu"]["score"] == pytest.approx(stored["bleu"])
    assert tiny["made"]["models"][0]["corpus_hash"] == blind["made"]["models"][0]["corpus_hash"]
    assert numbers["bootstrap"] == {"samples": 100, "seed": 12345, "first": "tiny"}
    assert blind["unfinished"] and blind["trainings"][0]["updates"] == 30 and not tiny["unfinished"]


def test_translations_that_are_there_are_taken(runs: Runs, capfd):
    first = runs.compare(capfd, "tiny", "blind")
    before = {path: path.stat().st_mtime_ns for path in runs.root.glob("*/evaluate/test/hyp")}
    again = runs.compare(capfd, "tiny", "blind")
    assert again.out == first.out and again.code == 0 and len(before) >= 2
    assert {path: path.stat().st_mtime_ns for path in runs.root.glob("*/evaluate/test/hyp")} == before
    assert len(list((runs.root / "out" / "tensorboard").glob("events.*"))) == 1


def test_one_run_alone_has_a_table_too(runs: Runs, capfd):
    answer = runs.compare(capfd, "tiny", "--split", "valid")
    assert answer.code == 0 and list(table_rows(answer, "valid: 16 sentences")) == ["tiny"]


def test_an_ensemble_is_a_row(runs: Runs, capfd):
    answer = runs.compare(capfd, "tiny", "tiny,tiny-seed2")
    assert answer.code == 0
    assert table_rows(answer, "test: 12 sentences")["tiny+tiny-seed2"]["order"] == "ensemble of 2"


def test_perplexity_is_that_of_each_sentence_alone(runs: Runs):
    """Batches of any size, padded or not, against one pair at a time; blank lines are left out."""
    translator = load([runs.root / "tiny" / "best.pt"]).translator
    pairs = [("Ein Junge malt das rote Fahrrad.", "A boy paints the red bicycle."), ("Ja.", "Yes."), ("", "Nothing")]
    found = measure_perplexity(translator, pairs)
    ids = [[side.encode(text) for side, text in zip(translator.tokenizers, pair, strict=True)] for pair in pairs[:2]]
    records = [translator.force_decode((source, target)) for source, target in ids]
    likely = [value for record in records for value in record.log_probabilities]
    assert found.total == pytest.approx(-sum(likely), rel=1e-5) and found.pieces == len(likely) and found.words == 9
    assert found.per_piece == pytest.approx(math.exp(-sum(likely) / len(likely)), rel=1e-5)
    assert found.per_word == pytest.approx(math.exp(-sum(likely) / 9), rel=1e-5)


def own_links(runs: Runs, capfd, folder: Path, *words: str) -> list[str]:
    """Files, and links of the model's own."""
    folder.mkdir()
    (folder / "a.de").write_text("Ein Junge malt das rote Fahrrad.\nMein Bruder sucht kein Brot.\n", encoding="utf-8")
    (folder / "a.en").write_text("A boy paints the red bicycle.\nMy brother looks for no bread.\n", encoding="utf-8")
    files = ["--source", str(folder / "a.de")]
    drawn = door(
        capfd, "align", "tiny", "--runs", str(runs.root), *files, "--target", str(folder / "a.en"), "--pharaoh", *words
    )
    (folder / "a.align").write_text(drawn.out, encoding="utf-8")
    return [*files, "--reference", str(folder / "a.en"), "--gold", str(folder / "a.align")]


def test_links_of_its_own_have_no_error(runs: Runs, capfd, tmp_path):
    files = own_links(runs, capfd, tmp_path / "own")
    answer = runs.compare(capfd, "tiny", "blind", *files)
    rows = table_rows(answer, "a.de: 2 sentences")
    assert rows["tiny"]["AER"] == "0.000" and rows["blind (unfinished)"]["AER"] == "–"
    assert "layer 0, decoder step output, not chosen but taken: the layer of the run's pictures: tiny" in answer.out
    assert "tiny: no known links of a validation set" in answer.err and "--valid-gold" in answer.err
    text = (tmp_path / "own" / "a.align").read_text(encoding="utf-8")
    (tmp_path / "own" / "a.align").write_text(text.splitlines()[0], encoding="utf-8")
    short = runs.compare(capfd, "tiny", *files)
    assert short.code == 2 and "has 1 lines, but there are 2 sentence pairs" in short.err


@pytest.mark.parametrize("layer", ["0", "1"])
def test_what_to_read_off_is_chosen_on_the_validation_set(
    runs: Runs, trained: Trained, capfd, tmp_path, monkeypatch, layer
):
    """Links that the model itself drew there from one layer: that layer is read off on the test set too."""
    (folder,) = (trained.root / "data").glob("corpus-*")
    corpus = Path(shutil.copytree(folder, tmp_path / "corpus"))
    for module in (compare_test_sets, test_sets):
        monkeypatch.setattr(module, "existing_corpus", lambda *given: corpus)
    words = ["align", "tiny", "--runs", str(runs.root), "--pharaoh"]
    for name, drawn in (("valid", layer), ("test", "0")):
        files = ["--source", str(corpus / f"{name}.de"), "--target", str(corpus / f"{name}.en")]
        (corpus / f"{name}.align").write_text(door(capfd, *words, *files, "--layer", drawn).out, encoding="utf-8")
    answer = runs.compare(capfd, "tiny")
    assert f"layer {layer}, decoder step output, chosen among 6 on 16 validation pairs: tiny" in answer.out
    assert "no known links" not in answer.err
    error = float(table_rows(answer, "test: 12 sentences")["tiny"]["AER"])
    assert error == 0 if layer == "0" else error > 0
    flattered = runs.compare(capfd, "tiny", "--split", "valid").out
    assert f"layer {layer}, decoder step output, chosen among 6 on these pairs: tiny" in flattered
    assert "it flatters the run" in flattered and "it flatters the run" not in answer.out


def test_the_error_rate_is_the_same_wherever_one_stands(trained: Trained, align_to, tmp_path, capfd, monkeypatch):
    """A run with folders of its own: evaluate and compare find its validation links from any folder."""
    home = tmp_path / "home"
    align_to(home, layer=1)
    found = set()
    for number, folder in enumerate((home, tmp_path)):
        monkeypatch.chdir(folder)
        files = [word.replace("HOME", str(home)) for word in ("--source=HOME/a.de", "--reference=HOME/a.en")]
        files += [f"--gold={home / 'a.align'}"]
        shutil.rmtree(home / "runs" / "tiny" / "evaluate", ignore_errors=True)  # measured again
        out = str(tmp_path / f"out{number}")
        said = door(capfd, "compare", "tiny", "--runs", str(home / "runs"), *files, "--output", out, "--samples", "100")
        assert "layer 1, decoder step output, chosen among 6 on 16 validation pairs: tiny" in said.out
        found.add(table_rows(said, "a.de: 2 sentences")["tiny"]["AER"])
        shutil.rmtree(home / "runs" / "tiny" / "evaluate")
        alone = door(capfd, "evaluate", "tiny", "--runs", str(home / "runs"), *files)
        found.add(re.search(r"AER ([0-9.]+) \(layer 1, output\)", alone.out)[1])  # type: ignore[index]
    assert len(found) == 1


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_layer_and_row_can_be_chosen_on_other_pairs(align_to, verb, tmp_path, capfd):
    """The validation set says layer 1; what is given says layer 0."""
    home = tmp_path / "home"
    align_to(home, layer=1)
    align_to.links(home / "dev", home / "corpus" / "valid", 0)
    words = [verb, "tiny", "--runs", str(home / "runs"), f"--source={home}/a.de", f"--reference={home}/a.en"]
    words += [f"--gold={home}/a.align", f"--valid-source={home}/corpus/valid.de"]
    words += [f"--valid-target={home}/corpus/valid.en", f"--valid-gold={home}/dev.align"]
    words += ["--output", str(tmp_path / "out"), "--samples", "100"] if verb == "compare" else []
    answer = door(capfd, *words)
    assert answer.code == 0, answer.err
    assert (
        "layer 0, decoder step output, chosen among 6 on 16" if verb == "compare" else "(layer 0, output)"
    ) in answer.out


class Homes:
    """Makes a run that has folders of its own, with known links that its own layers draw."""

    def __init__(self, trained: Trained, capfd: pytest.CaptureFixture[str]) -> None:
        self.trained, self.capfd = trained, capfd

    def __call__(self, home: Path, layer: int) -> None:
        (home / "runs" / "tiny").mkdir(parents=True)
        payload = checkpoint.load(self.trained.folder / "best.pt")
        payload["config"] |= {"data_folder": "data", "run_folder": "runs"}
        checkpoint.save(home / "runs" / "tiny" / "best.pt", payload)
        (folder,) = (self.trained.root / "data").glob("corpus-*")
        corpus = Path(shutil.copytree(folder, home / "data" / folder.name))
        shutil.copytree(folder, home / "corpus")
        self.links(corpus / "valid", corpus / "valid", layer)
        for side, lines in (
            ("de", "Ein Junge malt das Fahrrad.\nKein Brot.\n"),
            ("en", "A boy paints it.\nNo bread.\n"),
        ):
            (home / f"a.{side}").write_text(lines, encoding="utf-8")
        (home / "a.align").write_text("0-0 1-1 2-2 4-3\n0-0 1-1 2-2\n", encoding="utf-8")

    def links(self, path: Path, pairs: Path, layer: int) -> None:
        """Links of one layer, into PATH.align."""
        words = ["align", "tiny", "--runs", self.trained.runs, "--pharaoh", "--layer", str(layer)]
        drawn = door(self.capfd, *words, "--source", f"{pairs}.de", "--target", f"{pairs}.en").out
        path.with_suffix(".align").write_text(drawn, encoding="utf-8")


@pytest.fixture
def align_to(trained: Trained, capfd: pytest.CaptureFixture[str]) -> Homes:
    return Homes(trained, capfd)


def test_a_pair_that_is_too_long_stops_nothing(runs: Runs, capfd, tmp_path, monkeypatch):
    files = own_links(runs, capfd, tmp_path / "own")
    for ending, line in (("de", "Ein Junge " * 30), ("en", "A boy"), ("align", "0-0")):
        with (tmp_path / "own" / f"a.{ending}").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    monkeypatch.setattr(extraction, "MAX_LENGTH_FACTOR", 0.25)
    answer = runs.compare(capfd, "tiny", "blind", *files, "--sentences", "3,1")
    assert answer.code == 0, answer.err
    assert "AER leaves out pairs that are too long to look at: tiny 1." in answer.out
    assert "Perplexity leaves out pairs that are too long to look at: tiny 1, blind 1." in answer.out
    assert table_rows(answer, "a.de: 3 sentences")["tiny"]["AER"] == "0.000"
    assert [run["sets"]["a.de"]["target_words"] for run in runs.numbers()["runs"]] == [14, 14]  # of two references
    html = (runs.root / "out" / "comparison.html").read_text(encoding="utf-8")
    assert "Without a picture: tiny (too long to look at), blind (no attention)." in html


def changed(runs: Runs, name: str, **changes: object) -> None:
    """A copy of `tiny` whose checkpoint says something else."""
    shutil.rmtree(runs.root / name, ignore_errors=True)
    (runs.root / name).mkdir()
    payload = checkpoint.load(runs.root / "tiny" / "best.pt")
    checkpoint.save(runs.root / name / "best.pt", payload | changes)


def test_runs_of_other_corpora_need_a_text(runs: Runs, capfd, tmp_path):
    changed(runs, "foreign", corpus_hash="f" * 64)
    answer = runs.compare(capfd, "tiny", "foreign")
    assert answer.code == 2 and "foreign was trained on another corpus (ffffffffff)" in answer.err
    files = own_links(runs, capfd, tmp_path / "own")[:4]
    assert runs.compare(capfd, "tiny", "foreign", *files).code == 0


def test_a_run_without_its_corpus_is_told(runs: Runs, capfd):
    changed(runs, "foreign", corpus_hash="f" * 64)
    answer = runs.compare(capfd, "foreign")
    assert answer.code == 2 and "is no longer in" in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize(
    "words, told",
    [
        (["tiny", "nobody"], "'nobody' is no run name"),
        (["tiny", "damaged"], "is damaged or cut short"),
        (["tiny", "tiny"], "The run tiny is given twice"),
        (["tiny", "--split", "tset"], "--split tset is not possible; choose one of test, valid."),
        (["tiny", "--source", "x"], "--source and --reference belong together"),
        (["tiny", "--gold", "x"], "--gold FILE belongs to --source FILE and --reference FILE"),
        (["tiny", "--sentences", "²"], "--sentences ² is not possible; test has lines 1 to 12"),
        (["tiny", "--tokenized"], "--tokenized says how links are written; it needs --gold FILE or --valid-gold FILE"),
        (["tiny", "--reverse"], "--reverse says how links are written"),
        (["tiny", "--base", "1"], "--base 1 says how links are written"),
        (["tiny", "--split", "test", "--source", "x", "--reference", "y"], "--split names sets of the corpus"),
        (["tiny", "--valid-gold", "x"], "--valid-source, --valid-target and --valid-gold belong together"),
        (["tiny", "--samples", "12"], "12 resamples are too few"),
        (["tiny", "--long", "1"], "--long 1 is not possible with test; choose 2 to 12"),
        (["tiny", "--long", "13"], "choose 2 to 12"),
        (["tiny", "--sentences", "1,13"], "--sentences 13 is not possible; test has lines 1 to 12"),
        ([], "required: RUN"),
    ],
)
def test_a_mistake_is_told_before_any_work(runs: Runs, capfd, tmp_path, words, told):
    (runs.root / "damaged").mkdir(exist_ok=True)
    (runs.root / "damaged" / "best.pt").write_bytes((runs.root / "tiny" / "best.pt").read_bytes()[:5000])
    answer = runs.compare(capfd, *words, "--output", str(tmp_path / "out"))
    assert answer.code == 2 and told in answer.err and answer.out == ""
    assert answer.err.count("nmt: ") == 1 and "Traceback" not in answer.err
    assert not (tmp_path / "out").exists()


def test_short_sentences_are_drawn():
    """6 to 12 words of the source, the first three, and a reference to force."""
    lengths = [3, 6, 13, 12, 5, 7, 8]
    pairs = [("wort " * length, "word") for length in lengths]
    pairs[1] = (pairs[1][0], " ")
    found = TextSet("test", Path("a"), Path("b"), pairs, None)
    assert shown_rows(argparse.Namespace(sentences=None), found) == [3, 5, 6]
    assert shown_rows(argparse.Namespace(sentences="7,1"), found) == [6, 0]
    with pytest.raises(UserError, match="--sentences 2 is not possible; line 2 of test is blank on a side"):
        shown_rows(argparse.Namespace(sentences="2"), found)


def test_the_longest_sentence_may_have_few_characters(tmp_path):
    lines = ["Donaudampfschifffahrtsgesellschaft zwei drei"] * 250 + ["a b c d e"]
    (tmp_path / "train.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert longest_source(tmp_path / "train.de") == 5


def entrant(config: Config, name: str = "one") -> System:
    return System(name, [Path(name)], config, {}, "", 0, [])


def test_every_model_is_described_in_its_own_words():
    described = {}
    for name in MODELS:
        one = entrant(compose_all([f"model={name}"], multirun=False)[0])
        described[name] = (*looks(one), *build(one))
    assert len(set(described.values())) == len(MODELS), described
    cells = {name: cells[1:3] for name, cells in described.items()}
    assert cells["transformer"] == ("softmax, sinusoidal", "global")
    assert cells["transformer_linear"] == ("linear, sinusoidal", "global")
    assert cells["transformer_alibi"] == ("softmax, alibi", "global")
    assert cells["transformer_sliding"] == ("softmax, sinusoidal", "sliding, D = 8")
    assert cells["bahdanau_hard"] == ("hard additive", "global")
    assert cells["luong_local_p_dot"] == ("dot", "local_p, D = 10") and cells["seq2seq"] == ("–", "–")


def test_seeds_of_runs_of_different_ages_are_one_experiment():
    """A key that came between two trainings has its default in the older one."""
    configs = [to_dict(compose_all(["model=transformer", f"seed={seed}"], multirun=False)[0]) for seed in (1, 2, 3)]
    del configs[1]["model"]["attention_dropout"]
    configs[2]["model"]["attention_dropout"] = 0.1
    first, older, other = (
        Measures(None, {"models": [{"corpus_hash": "a", "config": config}]}, {}, [])  # type: ignore[arg-type]
        for config in configs
    )
    assert same_experiment(first, older) and not same_experiment(first, other)


@pytest.mark.parametrize("tokens, speed", [(None, None), (0, None), (600, 10.0)])
def test_tokens_that_were_not_counted_give_no_speed(trained: Trained, tmp_path, tokens, speed):
    place = {"step": 3, "seconds": 60.0, "tokens": tokens}
    checkpoint.save(tmp_path / "last.pt", checkpoint.load(trained.folder / "best.pt") | {"place": place})
    found = training(tmp_path / "best.pt")
    assert found is not None and found.speed == speed and (found.tokens is None) == (speed is None)


# --- make compare ---


@pytest.mark.parametrize(
    "given", [[], ["DATA=multi30k"], ["SEEDS=3", "LONG=6"], ["LONG=1"], ["MODELS=seq2seq bahdanau", "SEEDS=1 2"]]
)
def test_make_compares_what_it_trains(given):
    done = subprocess.run(
        ["make", "-n", "compare", *given], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    train, compare = (
        re.search(rf"bin/nmt {verb} (.*)$", done.stdout, re.MULTILINE)[1]
        for verb in ("train", "compare")  # type: ignore[index]
    )
    long = " --long '6'" if "LONG=6" in given else "" if "LONG=1" in given else " --long '4'"
    assert compare.endswith(f"'{long}") and ("--long" in compare) == bool(long)
    words = train.split(" -m")[0].replace("'", "").split()
    configs = compose_all(words, multirun=True)
    assert [config.name for config in configs] == compare.split(" --output")[0].split()
    minutes = 15 if "DATA=multi30k" in given else 6
    assert {config.train.max_minutes for config in configs} == {minutes}
    assert len(configs) == (4 if "SEEDS=1 2" in given else 10)


def test_a_run_that_fails_does_not_stop_the_rest(tmp_path, capfd):
    words = small(tmp_path, write_corpus(tmp_path / "corpus", train=40), "train.max_steps=2", "tokenizer.size=5,330")
    answer = door(capfd, "train", *words, "-m")
    assert answer.code == 2 and "size5: tokenizer.size=5 is too small" in answer.err
    assert answer.out.startswith("files-transformer_tiny-size330\ttest\t")


def test_vocabularies_are_told_apart(runs: Runs, trained: Trained, capfd):
    """Perplexities of a piece get a letter where runs cut the target in different ways."""
    same = table_rows(runs.compare(capfd, "tiny", "tiny-seed2"), "test: 12 sentences")
    assert re.fullmatch(r"[0-9.]+", same["tiny"]["perplexity"])
    payload = checkpoint.load(runs.root / "tiny-seed2" / "best.pt")
    models = payload["tokenizers"]
    # The same pieces in another file: an empty field of protobuf, number 100, which SentencePiece does not know.
    other = models | {"target": torch.cat([models["source"], torch.tensor([0xA2, 0x06, 0], dtype=torch.uint8)])}
    changed(runs, "other", tokenizers=other, config=payload["config"], model=payload["model"])
    try:
        answer = runs.compare(capfd, "tiny", "other")
    finally:
        shutil.rmtree(runs.root / "other")
    rows = table_rows(answer, "test: 12 sentences")
    assert rows["tiny"]["perplexity"].endswith(" a"), answer.err
    assert rows["other"]["perplexity"].endswith(" b") and "the same letter" in answer.out
