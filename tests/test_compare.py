"""Comparison of runs: the statistics by hand, the tables as text, and the command on small runs."""

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from conftest import MODELS, composed
from corpora import Answer, Trained, run_command
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.config.compose import compose_all
from nmt.config.validation import validate
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.evaluate import extraction
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.lengths import count_words, length_buckets
from nmt.models.build import build as build_model
from nmt.runs import test_sets
from nmt.runs.comparison import report
from nmt.runs.comparison import test_sets as compare_test_sets
from nmt.runs.comparison.perplexity import measure_perplexity
from nmt.runs.comparison.systems import System
from nmt.runs.run import load
from nmt.training import checkpoint
from nmt.view.comparison_page import Table, to_markdown
from nmt.view.curves import Curve, plot_curves

ROOT = Path(__file__).resolve().parent.parent
WHO = ("boy", "girl", "cat")
REFERENCES = [f"the {noun} sees {count} red apples by the river" for noun in WHO for count in range(8)]
BETTER = [line.replace("red", "green") if number % 3 else line for number, line in enumerate(REFERENCES)]


# --- lengths ---


def test_words_are_counted_with_punctuation_apart():
    assert [count_words(text) for text in ("Das ist, glaube ich, gut.", "  ", "私は行く。")] == [8, 0, 5]


def test_buckets_by_hand():
    lengths = [0] + [3] * 20 + [8] * 19 + [12] * 30 + [45] * 2 + [60] * 3
    merged = length_buckets(lengths)
    assert [(bucket.label, len(bucket.rows)) for bucket in merged] == [("1–5", 20), ("6+", 54)]
    assert merged[1].mean_length == pytest.approx((19 * 8 + 30 * 12 + 2 * 45 + 3 * 60) / 54)
    assert [bucket.label for bucket in length_buckets([60] * 3)] == ["51+"] and length_buckets([0]) == []
    assert [bucket.label for bucket in length_buckets([5] * 20 + [6] * 20 + [30] * 20)] == ["1–5", "6–10", "11–30"]


@given(st.lists(st.integers(0, 70), max_size=60), st.integers(1, 20))
def test_every_sentence_is_in_one_bucket(lengths, smallest):
    merged = length_buckets(lengths, smallest)
    rows = [row for bucket in merged for row in bucket.rows]
    assert sorted(rows) == [row for row, length in enumerate(lengths) if length]
    for bucket in merged:
        assert all(bucket.first <= lengths[row] <= (bucket.last or 70) for row in bucket.rows)
        assert len(bucket.rows) >= min(smallest, len(rows)) and bucket.rows == sorted(bucket.rows)
    for bucket, following in zip(merged, merged[1:], strict=False):
        assert bucket.last is not None and following.first == bucket.last + 1


# --- tables, page and figures ---


@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=2), min_size=1, max_size=3))
def test_a_markdown_table_keeps_its_columns(rows):
    lines = to_markdown([Table("title", ["a", "b"], rows)]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(rows) + 2
    for line in table:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert re.fullmatch(r"\| -+:? \| -+:? \|", table[1])


def test_markdown_by_hand():
    text = to_markdown([Table("t_x", ["run", "BLEU"], [["luong_global", "41.08 ± 1.12"], ["_a|b", "9.1"]], ["1 < 2."])])
    assert text == (
        "## t_x\n\n"
        "| run          |         BLEU |\n"
        "| ------------ | -----------: |\n"
        "| luong_global | 41.08 ± 1.12 |\n"
        "| \\_a\\|b       |          9.1 |\n\n"
        "- 1 \\< 2.\n"
    )


def test_ten_curves_differ_in_more_than_color():
    lines = [Curve(f"_run_{number}", [float(number), 50.0 - number]) for number in range(10)]
    figure = plot_curves(lines, ["1–5", "6+"], [30, 19], "a title", "words", "BLEU")
    drawn = figure.axes[0].get_lines()[::2]  # each line is followed by its hollow points
    assert len({(line.get_marker(), line.get_linestyle()) for line in drawn}) == 10
    assert len({(line.get_color(), line.get_linestyle()) for line in drawn}) == 10
    names = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert names == [f"_run_{number}" for number in range(10)]  # the highest right end first


# --- the command ---


class Runs(NamedTuple):
    """Runs of one corpus: `tiny`, trained; `tiny-seed2`, with random weights; `plain`, no attention and unfinished."""

    root: Path

    def compare(self, capfd: pytest.CaptureFixture[str], *words: str) -> Answer:
        short = {"--runs": str(self.root), "--output": str(self.root / "out"), "--samples": "100", "--sentences": "1"}
        options = [f"{name}={value}" for name, value in short.items() if name not in words]
        return run_command(capfd, "compare", *options, *words)

    def numbers(self) -> dict:
        return json.loads((self.root / "out" / "comparison.json").read_text(encoding="utf-8"))


def untrained(trained: Trained, folder: Path, *words: str) -> dict:
    """A best.safetensors with random weights, of the same corpus and tokenizer."""
    config = compose_all([*trained.arguments, *words], multirun=False)[0]
    tokenizers = Tokenizers.load(next((trained.root / "data").glob("tokenizer-*")))
    torch.manual_seed(config.seed)
    model = build_model(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    corpus = checkpoint.load(trained.folder / "best.safetensors")["corpus_hash"]
    payload = checkpoint.pack(config, tokenizers, corpus) | {"model": model.state_dict(), "origin": "update 0"}
    folder.mkdir(parents=True)
    checkpoint.save(folder / "best.safetensors", payload)
    return payload


@pytest.fixture(scope="module")
def runs(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("compare")
    shutil.copytree(trained.folder, root / "tiny")
    untrained(trained, root / "tiny-seed2", "seed=2", "name=tiny-seed2")
    other = trained._replace(arguments=[word for word in trained.arguments if not word.startswith("model")])
    recurrent = ("model=seq2seq", "model.hidden_size=16", "model.embedding_size=16")
    payload = untrained(other, root / "plain", *recurrent, "name=plain")
    state = {"step": 30, "seconds": 60.0, "finished": False, "tokens": 1200, "device": "cpu"}
    checkpoint.save(root / "plain" / "last.safetensors", payload | {"train_state": state})
    return Runs(root)


@pytest.fixture
def drawn() -> None:
    """Figures are drawn; in the other tests of this file an empty image replaces each, which saves half of the time."""


@pytest.fixture(autouse=True)
def empty_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(report, "png", lambda figure: b"\x89PNG")
        monkeypatch.setattr(Alignment, "figure", lambda *_, **__: None)
        monkeypatch.setattr(report.TensorBoardLogger, "figure", lambda *_: None)


def table_rows(answer: Answer, heading: str) -> dict[str, dict[str, str]]:
    """The rows of the table under a heading, by run and column."""
    text = answer.out.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    return {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:]}


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_one_table_over_runs(runs: Runs, trained: Trained, capfd):
    answer = runs.compare(capfd, "tiny", "tiny-seed2", "plain", "--long", "5")
    assert answer.code == 0, answer.err
    rows, numbers = table_rows(answer, "test: 12 sentences"), runs.numbers()
    assert list(rows) == ["tiny", "tiny-seed2", "plain (unfinished)"]
    _, bleu, chrf, _ = trained.lines[0].split("\t")
    assert rows["tiny"]["BLEU"].startswith(f"{bleu} ± ") and rows["tiny"]["chrF"].startswith(f"{chrf} ± ")
    significance = numbers["runs"][1]["sets"]["test"]["bleu"]["p"]
    assert rows["tiny"]["p of BLEU"] == "–" and rows["tiny-seed2"]["p of BLEU"] == f"{significance:.3f}"
    assert significance * 101 == pytest.approx(round(significance * 101)) and 1 / 101 <= significance <= 1
    plain = rows["plain (unfinished)"]
    assert [plain[name] for name in ("attention", "score", "window", "AER")] == ["never", "–", "–", "–"]
    assert (plain["minutes"], plain["tokens/s"]) == ("1.0", "20")
    assert rows["tiny"]["attention"] == "2 layers × 2 heads" and rows["tiny-seed2"]["minutes"] == "–"
    assert float(rows["tiny"]["per word"]) > float(rows["tiny"]["perplexity"]) > 1
    assert list(table_rows(answer, "test: BLEU by source length")) == list(rows)
    long = table_rows(answer, "test: BLEU of joined sentences")["tiny"]
    assert list(long.values())[1] == bleu and len(long) == 6
    lines = (trained.root / "corpus" / "test.de").read_text(encoding="utf-8").splitlines()
    words = [count_words(line) for line in lines]
    means = [joined["mean_words"] for joined in numbers["sets"]["test"]["joined"]]
    assert (means[0], means[4]) == pytest.approx((sum(words) / 12, sum(words[:10]) / 2))
    (seeds,) = table_rows(answer, "Seeds").values()
    assert seeds["runs"] == "tiny" and seeds["seeds"] == "1, 2" and seeds["n"] == "2"
    first, second = (run["sets"]["test"]["bleu"]["score"] for run in numbers["runs"][:2])
    assert seeds["BLEU"].startswith(f"{(first + second) / 2:.2f} ± {abs(first - second) / math.sqrt(2):.2f} (")
    check_tensorboard(runs.root / "out", answer.out, numbers)


def check_tensorboard(folder: Path, text: str, numbers: dict) -> None:
    """TensorBoard's files as TensorBoard reads them: the tables, the figures, and each run's scores as curves."""
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert events.Tensors("comparison/text_summary")[0].tensor_proto.string_val == [text.encode()]
    assert set(events.Tags()["images"]) == {"bleu-by-length-test", "bleu-joined-test", "1/tiny", "1/tiny-seed2"}
    buckets = [round(bucket["mean"]) for bucket in numbers["sets"]["test"]["lengths"]]
    for run in numbers["runs"]:
        own, curves = run["sets"]["test"], EventAccumulator(str(folder / "tensorboard" / run["name"])).Reload()
        wanted = {
            "bleu": [(0, own["bleu"]["score"])],
            "perplexity_per_word": [(0, own["perplexity_per_word"])],
            "bleu_by_source_words": list(zip(buckets, own["bleu_by_length"], strict=True)),
        }
        for name, points in wanted.items():
            logged = [(event.step, pytest.approx(event.value, rel=1e-6)) for event in curves.Scalars(f"test/{name}")]
            assert points == logged, name


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_everything_is_written_and_translations_are_reused(runs: Runs, trained: Trained, capfd):
    answer = runs.compare(capfd, "tiny", "plain", "--sentences", "2,5")
    before = {path: path.stat().st_mtime_ns for path in runs.root.glob("*/evaluate/test/hyp")}
    assert runs.compare(capfd, "tiny", "plain", "--sentences", "2,5").out == answer.out
    assert {path: path.stat().st_mtime_ns for path in runs.root.glob("*/evaluate/test/hyp")} == before
    folder = runs.root / "out"
    text = (folder / "comparison.md").read_text(encoding="utf-8")
    assert text.startswith(answer.out) and "![bleu-by-length-test](bleu-by-length-test.png)" in text
    assert (folder / "bleu-by-length-test.png").read_bytes().startswith(b"\x89PNG")
    html = (folder / "comparison.html").read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == 1 + 2  # the curves, and two sentences of the run with attention
    for line, side in (("de", "source"), ("en", "reference")):
        second = (trained.root / "corpus" / f"test.{line}").read_text(encoding="utf-8").splitlines()[1]
        assert f"{side}: {second}</p>" in html
    assert html.count("<figcaption>layer 0, decoder step output; its own translation: ") == 2
    assert "Without a heatmap: plain (no attention)." in html
    assert len(list((folder / "tensorboard").glob("events.*"))) == 1
    (tiny, plain), numbers = runs.numbers()["runs"], runs.numbers()
    stored = json.loads((runs.root / "tiny" / "evaluate" / "test" / "result.json").read_text(encoding="utf-8"))
    assert tiny["sets"]["test"]["bleu"]["score"] == pytest.approx(stored["bleu"])
    assert numbers["bootstrap"] == {"samples": 100, "seed": 12345, "first": "tiny"}
    assert plain["unfinished"] and plain["trainings"][0]["updates"] == 30 and not tiny["unfinished"]


def test_one_run_alone_and_an_ensemble_have_a_row_each(runs: Runs, capfd):
    answer = runs.compare(capfd, "tiny,tiny-seed2", "--split", "valid")
    assert answer.code == 0
    assert table_rows(answer, "valid: 16 sentences")["tiny+tiny-seed2"]["attention"] == "ensemble of 2"


def test_several_references_and_metrics(runs: Runs, capfd, tmp_path):
    """The second reference is what the run writes, so nothing is wrong with it; the lower error rate is the better."""
    files = own_links(runs, capfd, tmp_path / "own")[:4]
    written = run_command(
        capfd, "translate", "tiny", "--runs", str(runs.root), "--input", files[1], "--engine", "torch"
    )
    (tmp_path / "second").write_text(written.out, encoding="utf-8")
    words = [*files, "--reference", str(tmp_path / "second"), "--metrics", "ter,bleu"]
    evaluated = run_command(capfd, "evaluate", "tiny", "--runs", str(runs.root), *words)
    assert re.match(r"a\.de\t100\.00\t100\.00\tnrefs:2\|.*\tTER 0\.00 \(nrefs:2\|", evaluated.out), evaluated
    answer = runs.compare(capfd, "tiny", "plain", *words)
    rows = table_rows(answer, "a.de: 2 sentences")
    assert rows["tiny"]["TER"].startswith("0.00 ± 0.00") and rows["plain (unfinished)"]["p of TER"] != "–"
    assert runs.numbers()["runs"][0]["sets"]["a.de"]["ter"]["score"] == 0
    wrong = run_command(capfd, "evaluate", "tiny", "--runs", str(runs.root), *files, "--metrics", "meteor")
    assert wrong.code == 2 and "meteor" in wrong.err and "chrf++" in wrong.err


def test_perplexity_is_that_of_each_sentence_alone(runs: Runs):
    """Batches of any size, padded or not, against one pair at a time; blank lines are left out."""
    translator = load([runs.root / "tiny" / "best.safetensors"]).translator
    pairs = [("Ein Junge malt das rote Fahrrad.", "A boy paints the red bicycle."), ("Ja.", "Yes."), ("", "Nothing")]
    perplexity = measure_perplexity(translator, pairs)
    ids = [[side.encode(text) for side, text in zip(translator.tokenizers, pair, strict=True)] for pair in pairs[:2]]
    records = [translator.force_decode((source, target)) for source, target in ids]
    log_probabilities = [value for record in records for value in record.log_probabilities]
    nll, pieces = -sum(log_probabilities), len(log_probabilities)
    assert perplexity.nll == pytest.approx(nll, rel=1e-5)
    assert (perplexity.pieces, perplexity.words) == (pieces, 9)
    assert perplexity.per_piece == pytest.approx(math.exp(nll / pieces), rel=1e-5)
    assert perplexity.per_word == pytest.approx(math.exp(nll / 9), rel=1e-5)


def own_links(runs: Runs, capfd, folder: Path, *words: str) -> list[str]:
    """The options for two sentence pairs and the links that the model itself predicts for them."""
    folder.mkdir()
    (folder / "a.de").write_text("Ein Junge malt das rote Fahrrad.\nMein Bruder sucht kein Brot.\n", encoding="utf-8")
    (folder / "a.en").write_text("A boy paints the red bicycle.\nMy brother looks for no bread.\n", encoding="utf-8")
    files = ["--source", str(folder / "a.de")]
    drawn = run_command(
        capfd, "align", "tiny", "--runs", str(runs.root), *files, "--target", str(folder / "a.en"), "--pharaoh", *words
    )
    (folder / "a.align").write_text(drawn.out, encoding="utf-8")
    return [*files, "--reference", str(folder / "a.en"), "--gold", str(folder / "a.align")]


def test_links_of_its_own_have_no_error(runs: Runs, capfd, tmp_path):
    files = own_links(runs, capfd, tmp_path / "own")
    answer = runs.compare(capfd, "tiny", "plain", *files)
    rows = table_rows(answer, "a.de: 2 sentences")
    assert rows["tiny"]["AER"] == "0.000" and rows["plain (unfinished)"]["AER"] == "–"
    assert "layer 0, decoder step output, not chosen" in answer.out and "--valid-gold" in answer.err
    links = tmp_path / "own" / "a.align"
    links.write_text(links.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    short = runs.compare(capfd, "tiny", *files)
    assert short.code == 2 and "has 1 lines, but there are 2 sentence pairs" in short.err


def test_layer_and_step_are_chosen_on_the_validation_set_or_on_other_pairs(
    runs: Runs, trained: Trained, capfd, tmp_path, monkeypatch
):
    """The validation set's links are of layer 1, input, which is used on the test set; given pairs give layer 0."""
    (folder,) = (trained.root / "data").glob("corpus-*")
    corpus = Path(shutil.copytree(folder, tmp_path / "corpus"))
    for module in (compare_test_sets, test_sets):
        monkeypatch.setattr(module, "existing_corpus", lambda *_: corpus)
    words = ["align", "tiny", "--runs", str(runs.root), "--pharaoh"]
    input_step = ["--layer", "1", "--decoder-step", "input"]
    for target, name, layer in (("valid", "valid", input_step), ("test", "test", []), ("dev", "valid", [])):
        files = ["--source", str(corpus / f"{name}.de"), "--target", str(corpus / f"{name}.en")]
        drawn = run_command(capfd, *words, *files, *layer).out
        (corpus / f"{target}.align").write_text(drawn, encoding="utf-8")
    answer = runs.compare(capfd, "tiny")
    assert "layer 1, decoder step input, chosen among 6 on 16 validation pairs: tiny" in answer.out
    assert float(table_rows(answer, "test: 12 sentences")["tiny"]["AER"]) > 0 and "no gold links" not in answer.err
    on_valid = runs.compare(capfd, "tiny", "--split", "valid").out
    assert "layer 1, decoder step input, chosen among 6 on these pairs: tiny" in on_valid
    assert "too optimistic" in on_valid and "too optimistic" not in answer.out
    given = own_links(runs, capfd, tmp_path / "own")
    given += [f"--valid-source={corpus}/valid.de", f"--valid-target={corpus}/valid.en"]
    given += [f"--valid-gold={corpus}/dev.align"]
    assert "layer 0, decoder step output, chosen among 6 on 16" in runs.compare(capfd, "tiny", *given).out
    assert "(layer 0, output)" in run_command(capfd, "evaluate", "tiny", "--runs", str(runs.root), *given).out


def test_a_pair_that_is_too_long_stops_nothing(runs: Runs, capfd, tmp_path, monkeypatch):
    files = own_links(runs, capfd, tmp_path / "own")
    for ending, line in (("de", "Ein Junge " * 30), ("en", "A boy"), ("align", "0-0")):
        with (tmp_path / "own" / f"a.{ending}").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    monkeypatch.setattr(extraction, "MAX_LENGTH_FACTOR", 0.25)
    answer = runs.compare(capfd, "tiny", "plain", *files, "--sentences", "3,1")
    assert answer.code == 0, answer.err
    assert "AER leaves out pairs that are too long for forced decoding: tiny 1." in answer.out
    assert "Perplexity leaves out pairs that are too long for forced decoding: tiny 1, plain 1." in answer.out
    assert [run["sets"]["a.de"]["target_words"] for run in runs.numbers()["runs"]] == [14, 14]  # of two references


def changed(runs: Runs, name: str, **changes: object) -> None:
    """A copy of `tiny` with other values in its checkpoint."""
    shutil.rmtree(runs.root / name, ignore_errors=True)
    (runs.root / name).mkdir()
    payload = checkpoint.load(runs.root / "tiny" / "best.safetensors")
    checkpoint.save(runs.root / name / "best.safetensors", payload | changes)


def test_runs_of_other_corpora_need_a_text(runs: Runs, capfd, tmp_path):
    changed(runs, "foreign", corpus_hash="f" * 64)
    answer = runs.compare(capfd, "tiny", "foreign")
    assert answer.code == 2 and "foreign was trained on another corpus (ffffffffff)" in answer.err
    alone = runs.compare(capfd, "foreign")
    assert alone.code == 2 and "is no longer in" in alone.err
    files = own_links(runs, capfd, tmp_path / "own")[:4]
    assert runs.compare(capfd, "tiny", "foreign", *files).code == 0


def test_a_mistake_is_reported_before_any_work(runs: Runs, capfd, tmp_path):
    for words, message in (
        ("tiny nobody", "'nobody' is no run name"),
        ("tiny tiny", "The run tiny is given twice"),
        ("tiny --split tset", "choose one of test, valid."),
        ("tiny --source x", "--source and --reference belong together"),
        ("tiny --gold x", "--gold FILE belongs to --source FILE and --reference FILE"),
        ("tiny --sentences ²", "--sentences ² is not possible"),
        ("tiny --reverse", "--reverse describes how links are written"),
        ("tiny --split test --source x --reference y", "--split names sets of the corpus"),
        ("tiny --valid-gold x", "--valid-source, --valid-target and --valid-gold belong together"),
        ("tiny --samples 12", "12 resamples are too few"),
        ("tiny --long 13", "choose 2 to 12"),
        ("tiny --sentences 1,13", "test has lines 1 to 12"),
        ("", "required: RUN"),
    ):
        answer = runs.compare(capfd, *words.split(), "--output", str(tmp_path / "out"))
        assert answer.code == 2 and message in answer.err and answer.out == "", words
        assert answer.err.count("nmt: ") == 1 and not (tmp_path / "out").exists(), words


def test_short_sentences_are_drawn():
    """6 to 12 words of the source, the first three, and a reference to force."""
    pairs = [("wort " * length, "word") for length in (3, 6, 13, 12, 5, 7, 8)]
    pairs[1] = (pairs[1][0], " ")
    test_set = test_sets.TestSet("test", Path("a"), [Path("b")])
    test_set.pairs = pairs
    assert compare_test_sets.rows_to_draw(test_set, None) == [3, 5, 6]
    assert compare_test_sets.rows_to_draw(test_set, [7, 1, 7]) == [6, 0]
    with pytest.raises(UserError, match="line 2 of test is blank on a side"):
        compare_test_sets.rows_to_draw(test_set, [2])


def test_every_model_has_labels_of_its_own():
    described = {}
    for name in MODELS:
        system = System(name, [Path(name)], validate(composed(name)), {}, "", 0, [])
        described[name] = (*system.attention_labels(), *system.architecture_labels())
    assert len(set(described.values())) == len(MODELS), described
    cells = {name: cells[1:3] for name, cells in described.items()}
    assert cells["transformer_sliding"] == ("softmax, sinusoidal", "sliding, D = 8")
    assert cells["luong_local_p_dot"] == ("dot", "local_p, D = 10") and cells["seq2seq"] == ("–", "–")


# --- make compare ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "count"), [(["SEEDS=3", "LONG=6"], 10), (["MODELS=seq2seq bahdanau", "SEEDS=1 2"], 4)]
)
def test_make_compares_what_it_trains(given, count):
    command = ["make", "-n", "compare", *given]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    train, compare = (re.search(rf"bin/nmt {verb} (.*)$", printed, re.MULTILINE)[1] for verb in ("train", "compare"))
    assert compare.endswith("--long '6'" if "LONG=6" in given else "--long '4'")
    configs = compose_all(train.split(" -m")[0].replace("'", "").split(), multirun=True)
    assert [config.name for config in configs] == compare.split(" --output")[0].split()
    assert len(configs) == count and {config.train.max_minutes for config in configs} == {6}


def test_vocabularies_are_distinguished(runs: Runs, trained: Trained, capfd):
    """Perplexities of a piece get a letter where runs have different target tokenizers."""
    same = table_rows(runs.compare(capfd, "tiny", "tiny-seed2"), "test: 12 sentences")
    assert re.fullmatch(r"[0-9.]+", same["tiny"]["perplexity"])
    payload = checkpoint.load(runs.root / "tiny-seed2" / "best.safetensors")
    models = payload["tokenizers"]
    # The same pieces in another file: an empty field of protobuf, number 100, which SentencePiece does not know.
    other = models | {"target": torch.cat([models["source"], torch.tensor([0xA2, 0x06, 0], dtype=torch.uint8)])}
    changed(runs, "other", tokenizers=other, config=payload["config"], model=payload["model"])
    answer = runs.compare(capfd, "tiny", "other")
    rows = table_rows(answer, "test: 12 sentences")
    assert rows["tiny"]["perplexity"].endswith(" a"), answer.err
    assert rows["other"]["perplexity"].endswith(" b") and "the same letter" in answer.out
