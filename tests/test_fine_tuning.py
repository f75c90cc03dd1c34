"""nmt train from=RUN: a trained model is trained further on new text, with old text in between."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from corpora import Answer, folder_options, pairs, run_command, write_pairs

from nmt.data.corpus import read_report
from nmt.runs import pipeline
from nmt.training import checkpoint
from nmt.view.progress import Progress

SMALL = [
    "device=cpu", "precision=fp32", "train.batch_tokens=256", "train.validate_every=5", "train.max_steps=12",
    "train.log_sentences=0", "train.prune_checkpoints=false",
]  # fmt: skip


@pytest.fixture
def new_text(tmp_path: Path) -> list[str]:
    """The overrides that choose new text, 96 + 8 + 6 pairs of another style."""
    every = [(german, f"Look, {english}") for german, english in pairs(110, seed=1)]
    for name, part in {"train": every[:96], "valid": every[96:104], "test": every[104:]}.items():
        write_pairs(tmp_path, name, part)
    return [f"data.{name}={tmp_path / name}" for name in ("train", "valid", "test")]


@pytest.fixture
def tune(trained, new_text, tmp_path, capfd):
    """tune(NAME, WORD …) → exit code, stdout and stderr of a training that starts from the small run."""

    def run(name: str, *words: str) -> Answer:
        given = {word.partition("=")[0]: word for word in [*new_text, *SMALL, *folder_options(tmp_path), *words]}
        return run_command(capfd, "train", f"from={trained.folder}", f"name={name}", *given.values())

    return run


def weights(path: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(path)["model"]


def corpus_of(root: Path) -> Path:
    (folder,) = (root / "data").glob("corpus-*")
    return folder


@pytest.mark.slow
def test_old_and_new_sets_are_scored_before_and_after(tune, trained, tmp_path):
    answer = tune("tuned")
    assert answer.code == 0, answer.err
    new, old = (line.split("\t") for line in answer.out.splitlines())
    assert (new[0], old[0]) == ("test", "old-test")
    before = trained.lines[0].split("\t")[1]
    difference = re.fullmatch(rf"before {re.escape(before)} \(([+-]\d+\.\d\d)\)", old[4])
    assert difference and float(difference[1]) == pytest.approx(float(old[1]) - float(before), abs=0.011)
    result = json.loads((tmp_path / "runs/tuned/evaluate/test/result.json").read_text())
    parent = checkpoint.digest(checkpoint.load(trained.folder / "best.safetensors"))
    (model,) = result["provenance"]["models"]
    assert model["parent"] == {"checkpoint": "tiny/best.safetensors", "weights": parent} and model["weights"] != parent
    again = tune("tuned")
    assert (again.code, again.out) == (0, answer.out) and "already trained" in again.err
    assert not list((trained.folder / "evaluate").glob("*before*"))


@pytest.mark.slow
def test_the_training_begins_with_weights_and_pieces_of_the_run(tune, trained, tmp_path):
    assert tune("still", "optim.lr=1e-30").code == 0
    start, end = (weights(folder / "best.safetensors") for folder in (trained.folder, tmp_path / "runs/still"))
    assert start.keys() == end.keys() and all(torch.equal(start[name], end[name]) for name in start)
    saved = [checkpoint.load(folder / "best.safetensors") for folder in (trained.folder, tmp_path / "runs/still")]
    assert saved[0]["tokenizers"]["source"].equal(saved[1]["tokenizers"]["source"])
    assert saved[0]["config"]["model"] == saved[1]["config"]["model"]


@pytest.mark.slow
def test_interrupted_and_continued_is_uninterrupted(tune, tmp_path, monkeypatch):
    assert tune("whole", "model.dropout=0.3").code == 0
    real, remaining = Progress.update, [3, 7]

    def update(self: Progress, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        if self.unit == "update" and remaining and self.count == remaining[0]:
            remaining.pop(0)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)
    codes = [tune("broken", "model.dropout=0.3").code for _ in range(3)]
    assert codes == [130, 130, 0]
    for name in ("last", "best"):
        whole, broken = (weights(tmp_path / "runs" / run / f"{name}.safetensors") for run in ("whole", "broken"))
        assert all(torch.equal(whole[key], broken[key]) for key in whole)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 0.9])
def test_old_text_has_its_share_in_bytes(share, tune, tmp_path, trained):
    """Of long new lines; where each old pair comes more than once, a hash says which come once more."""
    long = [(" ".join([german] * 3), " ".join([english] * 3)) for german, english in pairs(96, seed=1)]
    write_pairs(tmp_path, "train", long)
    assert tune("replay", f"train.replay={share}", "train.max_steps=1").code == 0
    report = read_report(corpus_of(tmp_path))
    new, _ = report["audit"]["train"]["origins"]
    assert new["lines"] == 96
    sides = [(corpus_of(tmp_path) / f"train.{language}").read_bytes().splitlines() for language in ("de", "en")]
    old = sum(len(line) + 1 for side in sides for line in side[96:])
    assert old / sum(len(line) + 1 for side in sides for line in side) == pytest.approx(share, abs=0.06)
    lines = (corpus_of(tmp_path) / "train.de").read_text().splitlines()
    (source,) = (trained.root / "data").glob("corpus-*")
    assert set(lines[96:]) <= set((source / "train.de").read_text().splitlines())
    assert report["sets"] == ["test", "old-test"]


@pytest.mark.slow
def test_without_replay_the_corpus_of_the_run_may_be_gone(trained, new_text, tmp_path, capfd):
    shutil.copytree(trained.folder, tmp_path / "runs" / "base")
    moved = [*new_text, *SMALL, *folder_options(tmp_path), "name=alone", "train.max_steps=1"]
    path = tmp_path / "runs" / "base"
    for file in path.glob("*.safetensors"):
        payload = checkpoint.load(file)
        payload["config"]["data_folder"] = str(tmp_path / "nowhere")
        checkpoint.save(file, payload)
    refused = run_command(capfd, "train", "from=base", *moved)
    assert refused.code == 2 and "give train.replay=0" in refused.err
    answer = run_command(capfd, "train", "from=base", "train.replay=0", *moved)
    assert answer.code == 0 and answer.out.startswith("test\t") and len(answer.out.splitlines()) == 1
    assert "its test sets are not scored again" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.hidden_size=64"], "model.hidden_size is 32 in that run, not 64"),
        (["model=luong_global"], "model cannot be given"),
        (["tokenizer.vocabulary_size=500"], "tokenizer.vocabulary_size is 376 in that run, not 500"),
        (["data.target=fr"], "data.target=fr does not fit it"),
        (["data.source=en", "data.target=de"], "translates from de to en; data.source=en does not fit it"),
        (["from=latest"], "from=latest would be another run"),
        (["from=nothing"], "'nothing' is no run name"),
        pytest.param(["data.origin_tags=true"], "has no piece <train>", marks=pytest.mark.slow),
        (["data.test=[TEXT/test,TEXT/old-test]"], "data.test names a set 'old-test'"),
    ],
)
def test_what_cannot_fit_is_refused(words, message, trained, new_text, tmp_path, refused):
    write_pairs(tmp_path, "old-test", pairs(3))
    words = [word.replace("TEXT", str(tmp_path)) for word in words]
    given = [f"from={trained.folder}", *new_text, *SMALL, *folder_options(tmp_path), "name=other", *words]
    given = list({word.partition("=")[0]: word for word in given}.values())
    assert message in refused("train", *given)
    assert not (tmp_path / "runs" / "other").exists()


@pytest.mark.slow
def test_its_own_folder_and_another_run_are_refused(trained, tune, new_text, tmp_path, refused):
    shutil.copytree(trained.folder, tmp_path / "runs" / "tiny")
    given = [*new_text, *SMALL, *folder_options(tmp_path)]
    assert "give the new one another name" in refused("train", "from=tiny", "name=tiny", *given)
    assert "it needs from=RUN" in refused(
        "train", "data=files", "data.source=de", "data.target=en", "train.replay=0.5", "name=no", *given
    )
    assert tune("tuned", "train.max_steps=1").code == 0
    shutil.copy(trained.folder / "average.safetensors", tmp_path / "runs" / "tiny" / "best.safetensors")
    payload = checkpoint.load(tmp_path / "runs" / "tiny" / "best.safetensors")
    payload["model"] = {name: tensor + 1 for name, tensor in payload["model"].items()}
    checkpoint.save(tmp_path / "runs" / "tiny" / "best.safetensors", payload)
    assert "the weights of from=RUN (was" in refused("train", "from=tiny", "name=tuned", *given, "train.max_steps=1")


def test_defaults_of_a_training_that_starts_from_a_run(trained, new_text, tmp_path):
    (config,) = pipeline.compose([f"from={trained.folder}", *new_text, *folder_options(tmp_path), "model.dropout=0.25"])
    assert config.name == "tiny-tuned" and (config.data.source, config.data.target) == ("de", "en")
    assert config.optim.lr == 2e-3 and config.train.replay == 0.78 and config.model.hidden_size == 32
    assert config.model.dropout == 0.25 and config.tokenizer.vocabulary_size == 376
