"""What is scored, and which stored results are used again."""

import os
import shutil
import threading
from pathlib import Path

import pytest
import torch
from corpora import Trained, door

from nmt import pipeline, results, runs, test_sets
from nmt.alignments import Gold
from nmt.decode.translator import Translator
from nmt.train import checkpoint

SENTENCE = "Ein Junge malt das rote Fahrrad."


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the trained run that may be written to."""
    return Path(shutil.copytree(trained.folder, tmp_path / "runs" / "tiny"))


def test_a_run_is_scored_on_the_corpus_it_was_trained_on(trained: Trained, run, capfd, tmp_path, monkeypatch):
    """From any folder, and whatever its configuration would make today."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "prepare_corpus", lambda config: pytest.fail("it is there already"))
    assert door(capfd, "evaluate", str(run)).out.splitlines() == trained.lines
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_another_corpus_is_refused(run, capfd, monkeypatch):
    monkeypatch.setattr(test_sets, "existing_corpus", lambda *_: None)
    told = pipeline.report
    monkeypatch.setattr(pipeline, "report", lambda corpus: told(corpus) | {"corpus_hash": "0" * 64})
    answer = door(capfd, "evaluate", str(run))
    assert answer.code == 2 and "is no longer in" in answer.err and not answer.out


@pytest.mark.parametrize("change", ["nothing", "weights", "format"])
def test_a_result_is_that_of_its_weights_in_their_format(run, capfd, change):
    """Under the same names, a training that was repeated on another machine may have left other weights."""
    assert door(capfd, "evaluate", str(run)).code == 0
    payload = checkpoint.load(run / "best.pt")
    if change == "weights":
        payload["model"]["encoder.0.feed_forward.0.bias"] += 0.5
    elif change == "format":
        payload["config"]["precision"] = "bf16"
    checkpoint.save(run / "best.pt", payload)
    again = door(capfd, "evaluate", str(run))
    assert again.code == 0 and ("sentences in" in again.err) == (change != "nothing")


def test_the_format_is_that_of_the_machine(run, monkeypatch):
    """precision=auto is bf16 on one machine and float32 on the next."""
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(runs, "pick_precision", lambda name, device, dtype=dtype: dtype)
        made.append(runs.load([run / "best.pt"]).made)
    assert made[0] != made[1] and "bfloat16 on cpu" in made[1].values()


def test_no_score_stands_beside_other_translations(tmp_path, monkeypatch):
    """A disk that fills up between the two files leaves no pair that does not belong together."""
    results.write_result(tmp_path, ["one"], {"bleu": 1})
    real = results.write_atomic

    def full(path: Path, content: str) -> None:
        if path.suffix == ".json":
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(results, "write_atomic", full)
    with pytest.raises(OSError, match="No space"):
        results.write_result(tmp_path, ["two"], {"bleu": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["hyp"]


def test_a_folder_that_cannot_be_written_to_is_told_before_the_work(run, capfd, monkeypatch):
    (run / "evaluate" / "test" / "result.json").unlink()
    monkeypatch.setattr(Translator, "search_batch", lambda *_: pytest.fail("it has begun to translate"))

    def denied(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(runs, "check_writable", denied)
    answer = door(capfd, "evaluate", str(run))
    assert answer.code == 2 and str(run / "evaluate" / "test") in answer.err


def test_half_a_note_about_the_journal_is_no_crash(trained: Trained, run, capfd):
    (run / "evaluate" / "journal.json").write_text("")
    arguments = [word for word in trained.arguments if not word.startswith("run_folder=")]
    answer = door(capfd, "train", *arguments, f"run_folder={run.parent}")
    assert answer.code == 0 and answer.out.splitlines() == trained.lines


def test_links_are_named_with_their_text():
    """Which layer is chosen depends on the words of the validation pairs too."""
    links = [({(0, 0)}, {(0, 0)})]
    one, other = (Gold(Path("x"), [(text, "A boy.")], links) for text in ("Ein Junge.", "ein junge."))
    assert one.digest() != other.digest()


def test_a_comparison_is_not_written_into_a_run(run, capfd):
    curves = sorted((run / "tensorboard").iterdir())
    answer = door(capfd, "compare", str(run), "--output", str(run))
    assert answer.code == 2 and "is a run" in answer.err
    assert sorted((run / "tensorboard").iterdir()) == curves


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "tiny", "--input", ""],
        ["translate", "tiny", "--output", "", "Ja."],
        ["evaluate", "tiny", "--source", "", "--reference", ""],
        ["align", "tiny", "--source", ""],
        ["align", "tiny", "Ja.", "--png", ""],
        ["compare", "tiny", "--output="],
    ],
)
def test_an_empty_name_is_refused(words, trained: Trained, capfd):
    """As a shell makes it of a variable that is not set."""
    answer = door(capfd, *words, "--runs", trained.runs)
    assert answer.code == 2 and "an empty name" in answer.err


def test_translations_go_to_a_pipe(trained: Trained, capfd, tmp_path):
    """Also to one that is named /dev/fd/N, as >(…) is in bash."""
    wanted = door(capfd, "translate", "tiny", "--runs", trained.runs, SENTENCE).out
    os.mkfifo(tmp_path / "pipe")
    ours, theirs = os.pipe()

    def read_from(source: str | int, read: list[str]) -> None:
        with open(source, encoding="utf-8") as file:
            read.append(file.readline())

    for path, source in ((str(tmp_path / "pipe"), str(tmp_path / "pipe")), (f"/dev/fd/{theirs}", ours)):
        read: list[str] = []
        reader = threading.Thread(target=read_from, args=(source, read))
        reader.start()
        answer = door(capfd, "translate", "tiny", "--runs", trained.runs, "--output", path, SENTENCE)
        reader.join(10)
        assert answer.code == 0 and read == [wanted]
    os.close(theirs)


def test_a_file_name_that_is_no_utf8_can_be_scored(trained: Trained, run, capfd, tmp_path):
    paths = [tmp_path / os.fsdecode(f"caf\xe9.{side}".encode("latin-1")) for side in ("de", "en")]
    for path in paths:
        path.write_text(f"{SENTENCE}\n", encoding="utf-8")
    answer = door(capfd, "evaluate", str(run), "--source", str(paths[0]), "--reference", str(paths[1]))
    assert answer.code == 0 and answer.out.startswith("caf?.de\t")
