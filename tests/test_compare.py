"""Comparison of runs: tables as text, and the command on small runs."""

import json
import math
import re
import shutil
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from corpora import Answer, Trained, compose_one, corpus_of, lines_of, run_command
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.compare import rows_to_draw
from nmt.corpus.checksums import write_manifest
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.evaluate.significance import Interval, Significance
from nmt.models.build import build as build_model
from nmt.runs.comparison import Scored, SetComparison, large_groups, reference_perplexity
from nmt.runs.results import Result
from nmt.runs.run import load
from nmt.runs.scoring import TestSet, fingerprint
from nmt.training import checkpoint
from nmt.view.page import Table


@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=2), min_size=1, max_size=3))
def test_a_markdown_table_keeps_its_columns(rows):
    lines = Table("title", ["a", "b"], rows).markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(rows) + 2
    for line in table:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert re.fullmatch(r"\| -+:? \| -+:? \|", table[1])


def test_a_column_of_numbers_is_aligned_to_the_right():
    """If each of its cells is one; one number among texts changes nothing."""
    table = Table("title", ["a", "b", "c"], [["1", "2", "x"], ["-3.5", "x", "4"]])
    ruler = table.markdown().splitlines()[3]
    assert re.fullmatch(r"\| -+: \| -+ \| -+ \|", ruler)
    assert re.findall(r'<td class="number">(.*?)</td>', table.html()) == ["1", "-3.5"]


class Runs(NamedTuple):
    """Runs of one corpus: `tiny`, trained; `tiny-seed2`, with random weights; `plain`, no attention
    and unfinished."""

    root: Path

    def compare(self, capfd: pytest.CaptureFixture[str], *words: str) -> Answer:
        short = {
            "--runs": str(self.root),
            "--output": str(self.root / "out"),
            "--samples": "100",
            "--sentences": "1",
        }
        options = [f"{name}={value}" for name, value in short.items() if name not in words]
        return run_command(capfd, "compare", *options, *words)

    def numbers(self) -> dict:
        return json.loads((self.root / "out" / "comparison.json").read_text(encoding="utf-8"))


def untrained(trained: Trained, folder: Path, *words: str) -> dict:
    """A best.safetensors with random weights, of the same corpus and tokenizer."""
    config = compose_one(*trained.arguments, *words)
    tokenizers = Tokenizers.load(next((trained.root / "data").glob("tokenizer-*")))
    torch.manual_seed(config.seed)
    model = build_model(
        config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint
    )
    corpus = checkpoint.load(trained.folder / "best.safetensors")["corpus_hash"]
    payload = checkpoint.common_entries(config, tokenizers, corpus) | {
        "model": model.state_dict(),
        "origin": "update 0",
    }
    folder.mkdir(parents=True)
    checkpoint.save(folder / "best.safetensors", payload)
    return payload


@pytest.fixture(scope="module")
def runs(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("compare")
    shutil.copytree(trained.folder, root / "tiny")
    untrained(trained, root / "tiny-seed2", "seed=2", "name=tiny-seed2")
    other = trained._replace(
        arguments=[word for word in trained.arguments if not word.startswith("model")]
    )
    recurrent = ("model=seq2seq", "model.hidden_size=16", "model.embedding_size=16")
    payload = untrained(other, root / "plain", *recurrent, "name=plain")
    state = {"step": 30, "seconds": 60.0, "finished": False, "tokens": 1200, "device": "cpu"}
    checkpoint.save(root / "plain" / "last.safetensors", payload | {"train_state": state})
    return Runs(root)


def table_rows(answer: Answer, heading: str) -> dict[str, dict[str, str]]:
    """The rows of the table under a heading, by run and column."""
    assert answer.code == 0, answer.err
    text = answer.out.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:]}


def test_tables_over_runs(runs: Runs, trained: Trained, capfd, monkeypatch):
    """The scores are those of `nmt train`, p and ± those of the JSON; seeds, lengths and joined
    sentences."""
    monkeypatch.setattr("nmt.runs.comparison.FEWEST", 1)
    answer = runs.compare(
        capfd, *"tiny tiny-seed2 plain tiny,tiny-seed2 --long 2 --sentences 5".split()
    )
    rows = table_rows(answer, "test: 12 sentences")
    names = ["tiny", "tiny-seed2", "plain", "tiny+tiny-seed2"]
    assert list(rows) == names
    scores = {name: run["sets"]["test"] for name, run in runs.numbers()["runs"].items()}
    for name, score in zip(("BLEU", "chrF"), trained.lines[0].split("\t")[1:], strict=False):
        half = scores["tiny"][name.lower()]["half_width"]
        assert rows["tiny"][name] == f"{score} ± {half:.2f}"
    p = scores["tiny-seed2"]["bleu"]["p"]
    assert [rows[name]["p of BLEU"] for name in names[:2]] == ["–", f"{p:.3f}"]

    described = table_rows(answer, "Runs")
    attention = ["2 layers × 2 heads", "2 layers × 2 heads", "never", "ensemble of 2"]
    assert [described[name]["attention"] for name in names] == attention
    plain = {"score": "–", "window": "–", "updates": "30 (unfinished)", "minutes": "1.0"}
    assert plain.items() | {("tokens/s", "20")} <= described["plain"].items()
    assert described["tiny-seed2"]["minutes"] == "–"

    lengths = table_rows(answer, "test: BLEU by words of the source")
    assert list(lengths) == names
    assert sum(map(int, re.findall(r"n = (\d+)", str(lengths["tiny"])))) == 12
    seeds = table_rows(answer, "Seeds")["test"]
    values = [scores[name]["bleu"]["score"] for name in names[:2]]
    spread = f"{statistics.mean(values):.3g} ± {statistics.stdev(values):.2g}"
    assert seeds.items() >= {"runs": "tiny, tiny-seed2", "seeds": "1, 2", "BLEU": spread}.items()
    assert list(table_rows(answer, "test-joined2: 6 sentences")) == names
    source, target = (lines_of(trained.root / "corpus" / f"test.{side}") for side in ("de", "en"))
    joined = lines_of(runs.root / "out" / "joined" / "test-joined2.source")
    assert joined == [" ".join(source[row : row + 2]) for row in range(0, 12, 2)]
    example = table_rows(answer, "test, sentence 5")
    assert example["source"]["text"] == source[4]
    assert example["reference"]["text"] == target[4]
    html = (runs.root / "out" / "comparison.html").read_text(encoding="utf-8")
    # curves of two sets, a sentence of three runs with attention
    assert html.count("data:image/png;base64,") == 2 + 3
    assert (runs.root / "out" / "comparison.md").read_text(encoding="utf-8") == answer.out


def test_two_checkpoints_of_a_metric_are_two_columns():
    names = ["comet=A", "comet=B"]
    stored = {"comet=A": 0.5, "comet=A_signature": "", "comet=B": 0.6, "comet=B_signature": ""}
    result = Result("test", {"sentences": 1, "seconds": 0} | stored, [], names)
    scored = Scored(result, 1.0, 0, [])
    significance = Significance({name: [Interval(0.5, 0.5, 0.1, None)] for name in names}, {})
    columns = SetComparison(set_of([]), {"run": scored}, significance).table().columns
    labels = ["COMET A", "COMET B"]
    assert columns[1::2][:2] == labels
    assert list(scored.numbers())[:2] == labels


def set_of(pairs: list[tuple[str, str]]) -> TestSet:
    made = TestSet("test", Path("a"), [Path("b")])
    made.pairs = pairs
    return made


def test_lengths_with_few_sentences_are_left_out_and_named():
    pairs = [("ein Wort mehr", "x")] * 30 + [("ein " * 8, "x")] * 29 + [("ein " * 60, "x")]
    measured = set_of(pairs)
    assert large_groups(measured) == {"1–5": list(range(30))}
    scored = Scored(Result("test", {}, [], []), 1.0, 0, [12.5])
    table = SetComparison(measured, {"run": scored}, None).length_table()
    assert table.columns == ["run", "1–5 (n = 30)"]
    assert table.rows == [["run", "12.50"]]
    assert "6–10 (n = 29), 51+ (n = 1)" in table.notes[0]


def test_the_first_short_pairs_are_drawn_or_those_that_are_named():
    """A pair with a blank side has no attention to draw."""
    lengths = [5, 6, 12, 13, 9, 8, 7]
    pairs = [("Wort " * length, "word") for length in lengths]
    pairs[1:1] = [(" ", "word"), ("Wort " * 8, "")]
    measured = set_of(pairs)
    assert rows_to_draw(measured, None) == [3, 4, 6]
    assert rows_to_draw(measured, "9,1,4,1") == [8, 0, 3]
    for words in ("2", "3", "0", "10", "1,x", "-1", ""):
        with pytest.raises(UserError, match="lines 1 to 9"):
            rows_to_draw(measured, words)


def test_perplexity_is_that_of_each_sentence_alone(runs: Runs):
    """A blank line is left out, and so is a pair that is too long."""
    run = load([runs.root / "tiny" / "best.safetensors"])
    pairs = [
        ("Ein Junge malt das rote Fahrrad.", "A boy paints the bicycle."),
        ("Ja.", "Yes, yes."),
        ("", "Nothing"),
        ("Nichts", " "),
    ]
    pairs.append(("Ein Junge " * 700, "A boy"))
    encoded = run.translator.tokenizers.encode_pairs(pairs[:2])
    nll = -sum(sum(run.translator.force_decode(pair).log_probabilities) for pair in encoded)
    words = 6 + 4  # of the references, with their punctuation
    assert reference_perplexity(run, pairs) == (pytest.approx(math.exp(nll / words), rel=1e-5), 3)
    for unmeasured in ([], pairs[2:3], pairs[2:]):
        assert reference_perplexity(run, unmeasured) == (None, len(unmeasured))


def own_links(runs: Runs, capfd, folder: Path) -> list[str]:
    """The options for two sentence pairs and the links that the model itself predicts for them."""
    folder.mkdir()
    source, target, gold = (folder / f"a.{ending}" for ending in ("de", "en", "align"))
    source.write_text("Ein Junge malt das rote Fahrrad.\nMein Bruder sucht kein Brot.\n")
    target.write_text("A boy paints the red bicycle.\nMy brother looks for no bread.\n")
    files = ["--source", str(source)]
    words = ["align", "tiny", "--runs", str(runs.root), *files, "--target", str(target)]
    gold.write_text(run_command(capfd, *words, "--pharaoh").out)
    return [*files, "--reference", str(target), "--gold", str(gold)]


def test_own_files_with_links_references_and_metrics(runs: Runs, capfd, tmp_path):
    """The second reference is what the run writes, so nothing is wrong with it; its own links have
    no error."""
    files = own_links(runs, capfd, tmp_path / "own")
    where = ["tiny", "--runs", str(runs.root)]
    written = run_command(capfd, "translate", *where, "--input", files[1], "--engine", "torch")
    (tmp_path / "second").write_text(written.out, encoding="utf-8")
    words = [*files, "--reference", str(tmp_path / "second"), "--metrics", "ter,bleu"]
    evaluated = run_command(capfd, "evaluate", *where, *words).out
    scores = r"100\.00\t100\.00\tnrefs:2\|.*\tTER 0\.00 \(nrefs:2\|"
    assert re.match(rf"a\.de\t{scores}", evaluated), evaluated
    answer = runs.compare(capfd, "tiny", "plain", *words)
    rows = table_rows(answer, "a.de: 2 sentences")
    assert rows["tiny"]["TER"].startswith("0.00 ± 0.00")
    assert rows["plain"]["p of TER"] != "–"
    assert [rows[name]["AER"] for name in ("tiny", "plain")] == ["0.000", "–"]
    assert "layer 0, output" in answer.out


def test_layer_and_step_are_chosen_on_the_validation_set(trained: Trained, capfd, tmp_path):
    """Its links are of layer 1, input, which is used on the test set."""
    copied = Path(shutil.copytree(trained.root, tmp_path / "all"))
    runs = Runs(copied / "runs")
    corpus = corpus_of(copied)
    payload = checkpoint.load(runs.root / "tiny" / "best.safetensors")
    payload["config"] |= {"data_folder": str(copied / "data")}
    checkpoint.save(runs.root / "tiny" / "best.safetensors", payload)
    words = ["align", "tiny", "--runs", str(runs.root), "--pharaoh"]
    input_step = ["--layer", "1", "--decoder-step", "input"]
    for name, layer in (("valid", input_step), ("test", [])):
        files = ["--source", str(corpus / f"{name}.de"), "--target", str(corpus / f"{name}.en")]
        drawn = run_command(capfd, *words, *files, *layer).out
        (corpus / f"{name}.align").write_text(drawn, encoding="utf-8")
    write_manifest(corpus)
    answer = runs.compare(capfd, "tiny")
    assert float(table_rows(answer, "test: 12 sentences")["tiny"]["AER"]) > 0
    assert "layer 1, input, chosen on 16 validation pairs" in answer.out
    assert ("layer 1, input, chosen on these pairs") in runs.compare(
        capfd, "tiny", "--split", "valid"
    ).out


def test_runs_of_other_corpora_need_a_text(runs: Runs, capfd, tmp_path):
    (runs.root / "foreign").mkdir()
    payload = checkpoint.load(runs.root / "tiny" / "best.safetensors")
    checkpoint.save(runs.root / "foreign" / "best.safetensors", payload | {"corpus_hash": "f" * 64})
    answer = runs.compare(capfd, "tiny", "foreign")
    assert answer.code == 2 and "another corpus" in answer.err
    alone = runs.compare(capfd, "foreign")
    assert alone.code == 2 and "is not in" in alone.err
    files = own_links(runs, capfd, tmp_path / "own")[:4]
    answer = runs.compare(capfd, "tiny-seed2", "foreign", *files)
    # Other seeds on another corpus are another experiment.
    assert answer.code == 0 and "## Runs" in answer.out and "## Seeds" not in answer.out


def test_a_mistake_is_reported_before_any_work(runs: Runs, capfd, tmp_path):
    for words, word in (
        ("tiny tiny", "twice"),
        ("tiny --split tset", "tset"),
        ("tiny --sentences 1,13", "1 to 12"),
        ("tiny --samples 12", "12"),
        ("tiny --long 13", "2 to 12"),
    ):
        answer = runs.compare(capfd, *words.split(), "--output", str(tmp_path / "out"))
        assert answer.code == 2 and word in answer.err and answer.out == "", words
        assert answer.err.count("nmt: ") == 1 and not list(tmp_path.glob("out/*")), words


def test_a_score_belongs_to_the_text_of_every_reference(tmp_path):
    found = set()
    for number, changed in enumerate(("", "source", "first", "second")):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths = [folder / name for name in ("source", "first", "second")]
        for path in paths:
            path.write_text(f"a {path.name == changed}\n", encoding="utf-8")
        found.add(fingerprint(TestSet("test", paths[0], paths[1:])))
    assert len(found) == 4
