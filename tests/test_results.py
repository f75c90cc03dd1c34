"""What is scored, which stored results are used again, and what happens where nothing can be
written."""

import json
import os
import re
import shutil
import threading
from pathlib import Path
from random import Random

import pytest
from corpora import Trained, corpus_of, run_command

from nmt.commands.evaluate import noise
from nmt.evaluate.verdict import TrainingFigures
from nmt.runs import results, scoring, stages
from nmt.training import checkpoint
from nmt.training.restore import load_config

SENTENCE = "Ein Junge malt das rote Fahrrad."


def test_a_corpus_is_only_looked_for(run_copy, capfd, tmp_path, monkeypatch):
    """A stranger's checkpoint could name files to copy and a folder to write to: nothing is built
    for it."""
    monkeypatch.setattr(
        stages, "build_corpus_stage", lambda config: pytest.fail("nothing is built")
    )
    payload = checkpoint.load(run_copy / "best.safetensors")
    payload["config"] |= {"data_folder": str(tmp_path / "elsewhere")}
    checkpoint.save(run_copy / "best.safetensors", payload)
    answer = run_command(capfd, "evaluate", str(run_copy))
    assert (
        answer.code == 2
        and "is not in" in answer.err
        and "nmt download" in answer.err
        and not answer.out
    )
    assert not (tmp_path / "elsewhere").exists()


def test_a_corpus_that_leads_elsewhere_is_not_read(trained: Trained, run_copy, capfd, tmp_path):
    corpus = corpus_of(trained.root)
    copy = Path(shutil.copytree(corpus, tmp_path / "data" / corpus.name))
    payload = checkpoint.load(run_copy / "best.safetensors")
    payload["config"] |= {"data_folder": str(tmp_path / "data")}
    checkpoint.save(run_copy / "best.safetensors", payload)
    # where it leads nowhere else
    assert run_command(capfd, "evaluate", str(run_copy)).out.splitlines() == trained.lines

    def refused() -> None:
        shutil.rmtree(run_copy / "evaluate", ignore_errors=True)
        answer = run_command(capfd, "evaluate", str(run_copy))
        assert answer.code == 2 and "is not in" in answer.err
        assert not (run_copy / "evaluate").exists()

    (copy / "test.de").unlink()
    (copy / "test.de").symlink_to(corpus / "test.de")
    refused()
    (copy / "test.de").unlink()
    shutil.copy(corpus / "test.de", copy)
    report = json.loads((copy / "report.json").read_text())
    (copy / "report.json").write_text(json.dumps(report | {"sets": ["../../secret"]}))
    refused()


def test_a_result_is_reused_only_for_the_same_weights_and_precision(run_copy, capfd, succeeds):
    """A training repeated on another machine may write other weights under the same names."""
    succeeds("evaluate", str(run_copy))
    for change in ("nothing", "weights", "precision"):
        payload = checkpoint.load(run_copy / "best.safetensors")
        if change == "weights":
            payload["model"]["encoder.0.feed_forward.0.bias"] += 0.5
        elif change == "precision":
            payload["config"]["precision"] = "bf16"
        checkpoint.save(run_copy / "best.safetensors", payload)
        again = run_command(capfd, "evaluate", str(run_copy))
        assert again.code == 0 and ("sentences in" in again.err) == (change != "nothing"), change


def test_only_capitals_are_in_the_reference_too():
    """What a noised source should become is what it should have become without noise."""
    pair = "Ein Junge malt Äpfel.", "A boy paints apples."
    generator = Random(1)
    wanted = {
        "capitals": ("EIN JUNGE MALT ÄPFEL.", "A BOY PAINTS APPLES."),
        "small": ("ein junge malt äpfel.", pair[1]),
        "punctuation": ("Ein Junge malt Äpfel", pair[1]),
    }
    for kind, noised in wanted.items():
        assert noise(*pair, kind, generator) == noised
    typos, target = noise(*pair, "typos", generator)
    assert typos != pair[0] and typos[-1] == "." and target == pair[1]
    drawn = [noise(*pair, "noised", generator) for _ in range(60)]
    assert {*wanted.values()} < {*drawn}
    assert all(target == pair[1] for source, target in drawn if not source.isupper())


def test_a_file_with_the_name_of_a_set_leaves_the_result_of_the_set(run_copy, capfd, tmp_path):
    first = run_command(capfd, "evaluate", str(run_copy), "--split", "valid")
    assert first.code == 0
    before = (run_copy / "evaluate" / "valid" / "result.json").read_bytes()
    for name in ("valid", "other"):
        (tmp_path / name).write_text("Ein Hund.\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "valid"), "--reference", str(tmp_path / "other")]
    answer = run_command(capfd, "evaluate", str(run_copy), *files)
    assert answer.out.startswith("file-valid\t")
    assert (run_copy / "evaluate" / "valid" / "result.json").read_bytes() == before


def test_another_reference_is_scored_anew(run_copy, capfd, tmp_path):
    files = []
    for option, text in (("--source", SENTENCE), ("--reference", "A boy paints.")):
        path = tmp_path / f"set.{option.strip('-')}"
        path.write_text(f"{text}\n", encoding="utf-8")
        files += [option, str(path)]
    first = run_command(capfd, "evaluate", str(run_copy), *files)
    assert run_command(capfd, "evaluate", str(run_copy), *files).out == first.out
    translated = run_command(capfd, "translate", str(run_copy), SENTENCE).out
    Path(files[-1]).write_text(translated, encoding="utf-8")
    again = run_command(capfd, "evaluate", str(run_copy), *files)
    assert "sentences in" in again.err and "\t100.00\t" in again.out != first.out


def test_each_set_is_told_with_its_score_before(trained: Trained, run_copy, tmp_path):
    """Of the weights that a training started from, here worse ones; a gain is positive."""
    payload = checkpoint.load(run_copy / "best.safetensors")
    payload["model"]["encoder.0.feed_forward.0.bias"] += 0.5
    before = tmp_path / "before.safetensors"
    checkpoint.save(before, payload)
    corpus = corpus_of(trained.root)
    config = load_config(run_copy / "best.safetensors")
    figures = TrainingFigures(pairs=240, passes=1.0, minutes=None, is_rising=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "judge_trained", lambda *_: None)
        path = run_copy / "best.safetensors"
        found = scoring.score_trained(path, corpus, ["test"], config.decode, figures, before)
    [result] = found
    stored = json.loads((run_copy / "evaluate" / "test-before" / "result.json").read_text("utf-8"))
    assert result.before == stored["bleu"] != result.bleu
    said = re.search(r"before ([\d.]+) \(([+-][\d.]+)\)", result.line())
    assert said and float(said[1]) == pytest.approx(result.before, abs=0.006)
    assert float(said[2]) == pytest.approx(result.bleu - result.before, abs=0.006)


def test_a_result_of_another_beam_is_stored_beside_that_of_the_run(run_copy, capfd, succeeds):
    first = run_command(capfd, "evaluate", str(run_copy))
    succeeds("evaluate", str(run_copy), "--beam", "3")
    again = run_command(capfd, "evaluate", str(run_copy))
    assert again.out == first.out and "sentences in" not in again.err
    assert (run_copy / "evaluate" / "test-beam-3" / "result.json").exists()


def test_scores_are_never_left_with_other_translations(tmp_path, monkeypatch):
    """A disk that fills up between the two files leaves new translations without scores."""
    results.write_result(tmp_path, ["one"], {"bleu": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "write_json", full)
    with pytest.raises(OSError, match="No space"):
        results.write_result(tmp_path, ["two"], {"bleu": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "hyp"]


def test_scores_of_other_weights_are_not_those_of_a_run(tmp_path):
    models = [{"weights": "a"}, {"weights": "b"}]
    for name, each in zip(("test", "other"), models, strict=True):
        scores = {"bleu": 12.5, "bleu_signature": "x", "chrf": 30.0, "chrf_signature": "y"}
        provenance = {"models": [each], "decode": {"beam": 4}}
        stored = scores | {"provenance": provenance}
        results.write_result(tmp_path / "evaluate" / name, ["eins"], stored)
        assert results.stored_scores(tmp_path, [each]) == {name: scores | {"decode": {"beam": 4}}}
    assert results.stored_scores(tmp_path, models) == {}


def test_translations_go_to_a_pipe(trained: Trained, capfd, succeeds, tmp_path):
    expected = run_command(capfd, "translate", "tiny", "--runs", trained.runs, SENTENCE).out
    os.mkfifo(tmp_path / "pipe")
    lines: list[str] = []
    reader = threading.Thread(
        target=lambda: lines.append((tmp_path / "pipe").read_text(encoding="utf-8"))
    )
    reader.start()
    words = [
        "translate",
        "tiny",
        "--runs",
        trained.runs,
        "--output",
        str(tmp_path / "pipe"),
        SENTENCE,
    ]
    succeeds(*words)
    reader.join(10)
    assert lines == [expected]


def test_a_file_name_that_is_no_utf8_can_be_scored(run_copy, succeeds, tmp_path):
    paths = [tmp_path / os.fsdecode(f"caf\xe9.{side}".encode("latin-1")) for side in ("de", "en")]
    for path in paths:
        path.write_text(f"{SENTENCE}\n", encoding="utf-8")
    files = ["--source", str(paths[0]), "--reference", str(paths[1])]
    answer = succeeds("evaluate", str(run_copy), *files)
    assert answer.out.startswith("caf?.de\t")
