"""Training by command: an interrupted run ends exactly where an uninterrupted one does, and its folder is correct."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from corpora import (
    RECURRENT,
    TRANSFORMER,
    Answer,
    Trained,
    environment,
    pairs,
    run_command,
    small,
    write_corpus,
    write_pairs,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.attention import cpu
from nmt.config.schema import TrainConfig
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.training import checkpoint, schedule
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.distributed import World
from nmt.training.precision import select_precision
from nmt.training.schedule import TimeBudget
from nmt.training.state import TrainState
from nmt.view.progress import Progress

EVERYTHING = [
    "train.accumulate=2",
    "train.subword_sampling=0.2",
    *(f"train.noise_{kind}=0.1" for kind in ("case", "typos", "punctuation", "merge", "copy", "words")),
    "model.dropout=0.3",
    "train.validate_every=5",
    "train.max_steps=12",
]
MODELS = {"transformer": TRANSFORMER, "muon": [*TRANSFORMER, "optim=muon"], "recurrent": RECURRENT}
HARD_ATTENTION = ["model=bahdanau_hard", "model.hidden_size=16", "model.embedding_size=16"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this file's runs, which have one corpus and one tokenizer."""
    return tmp_path_factory.mktemp("runs_of_test_train")


@pytest.fixture
def train(root, corpus, capfd):
    """train(NAME, WORD …) → exit code, stdout and stderr of the command."""
    return lambda name, *words: run_command(capfd, "train", *small(root, corpus, *words, f"name={name}"))


@pytest.fixture
def folder(root):
    return lambda name: root / "runs" / name


def at_update(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Ctrl-C in the middle of the training, as the terminal sends it, after these updates of the run."""
    real, remaining = Progress.update, list(steps)

    def update(self: Progress, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        if self.unit == "update" and remaining and self.count == remaining[0]:
            remaining.pop(0)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)


def at_validation(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C in the middle of a validation, counted from 1; that of the average counts too."""
    real, numbers = Translator.batches, count(1)

    def batches(self: Translator, *arguments: object) -> object:
        if next(numbers) == number:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "batches", batches)


def comparable(path: Path) -> dict:
    """A checkpoint without what may differ between equal runs: name and seconds."""
    payload = checkpoint.load(path)
    payload["config"].pop("name")
    payload.get("train_state", {}).pop("seconds", None)
    return payload


def train_state(folder: Path) -> dict:
    return checkpoint.load(folder / "last.safetensors")["train_state"]


def differing(left: object, right: object, path: str = "") -> list[str]:
    """The paths at which two nested structures differ, to the last bit."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        same = left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
        return [] if same else [path]
    if isinstance(left, dict) and isinstance(right, dict):
        missing = [f"{path}.{key}" for key in left.keys() ^ right.keys()]
        common = left.keys() & right.keys()
        return missing + [name for key in common for name in differing(left[key], right[key], f"{path}.{key}")]
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [name for index, pair in pairs for name in differing(*pair, f"{path}[{index}]")]
    return [] if left == right else [path]


def assert_same_runs(left: Path, right: Path) -> None:
    """All checkpoints of two runs are the same."""
    names = sorted(path.name for path in left.glob("*.safetensors"))
    assert names == sorted(path.name for path in right.glob("*.safetensors"))
    assert {"last.safetensors", "best.safetensors", "average.safetensors"} <= set(names)
    for name in names:
        assert differing(comparable(left / name), comparable(right / name)) == [], name


def scores(out: str) -> list[str]:
    return [line for line in out.splitlines() if "\t" in line]


INTERRUPTIONS = {
    "in the middle of an epoch": lambda patch: at_update(patch, 3),
    "at an update that is to be validated": lambda patch: at_update(patch, 5),
    "within a validation": lambda patch: at_validation(patch, 2),
    "within the validation of the average": lambda patch: at_validation(patch, 4),
    "after the last update": lambda patch: at_update(patch, 12),
    "again and again": lambda patch: at_update(patch, 1, 8, 9),
}


FAST = ("transformer", "again and again"), ("transformer", "within a validation")


def cases() -> list:
    """Every model with every interruption."""
    parameters = []
    for model in MODELS:
        for when in INTERRUPTIONS:
            marks = [] if (model, when) in FAST else [pytest.mark.slow]
            parameters.append(pytest.param(model, when, marks=marks, id=f"{model}, {when}"))
    return parameters


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, Answer]:
    """What the command printed that trained each model without an interruption; the first test of a model trains it."""
    return {}


@pytest.mark.parametrize(("model", "when"), cases())
def test_interrupted_and_continued_is_uninterrupted(model, when, train, folder, monkeypatch, uninterrupted):
    """Bit for bit: weights, optimizer and train state, with dropout, accumulation and subword
    sampling; an epoch ends in the middle of an update."""
    words = [*MODELS[model], *EVERYTHING]
    if model not in uninterrupted:
        uninterrupted[model] = train(f"uninterrupted-{model}", *words)
        assert uninterrupted[model].code == 0
    name = f"{model}-{when.replace(' ', '-')}"
    with monkeypatch.context() as patch:
        INTERRUPTIONS[when](patch)
        interruptions = 0
        while (answer := train(name, *words)).code == 130 and interruptions < 8:
            assert re.search(r"Interrupted after update \d+; .* the same command again", answer.err)
            assert answer.out == ""
            interruptions += 1
    assert interruptions >= 1 and answer.code == 0
    assert scores(answer.out) == scores(uninterrupted[model].out)
    assert_same_runs(folder(f"uninterrupted-{model}"), folder(name))


@pytest.mark.parametrize(
    "words", [TRANSFORMER, pytest.param(HARD_ATTENTION, marks=pytest.mark.slow)], ids=["transformer", "hard"]
)
def test_a_longer_budget_continues_a_finished_run(words, train, folder):
    """With a schedule that does not depend on the end, N updates and then M - N more are M updates."""
    words = [*words, *EVERYTHING, "optim.schedule=inverse_sqrt", "train.average_checkpoints=0"]
    name = words[0].partition("=")[2]
    assert train(f"{name}-once", *words).code == 0
    assert train(f"{name}-twice", *words, "train.max_steps=7").code == 0
    assert train_state(folder(f"{name}-twice"))["step"] == 7
    assert train(f"{name}-twice", *words).code == 0
    once, twice = (comparable(folder(f"{name}-{which}") / "last.safetensors") for which in ("once", "twice"))
    for key in ("model", "optimizer"):
        assert differing(once[key], twice[key]) == [], key
    assert once["train_state"]["step"] == twice["train_state"]["step"] == 12


# `nmt` with pauses after its first 20 updates: however late the signal comes, it comes before the end.
SLOW = """
import sys, time
from nmt.cli import main
from nmt.view.progress import Progress
real, calls = Progress.update, []
def update(self, *arguments):
    real(self, *arguments)
    calls.append(1)
    time.sleep(0.2 * (len(calls) > 20))
Progress.update = update
sys.exit(main())
"""


@pytest.mark.slow
def test_a_real_ctrl_c_in_a_process_of_its_own(train, folder, root, corpus):
    words = ["train.max_steps=40", "train.validate_every=20"]
    command = [sys.executable, "-c", SLOW, "train", *small(root, corpus, *words, "name=killed")]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr and running.stdout
        for line in running.stderr:
            if b"update 20:" in line:
                break
        running.send_signal(signal.SIGINT)
        rest, out = running.stderr.read().decode(), running.stdout.read()
        assert running.wait(30) == 130 and out == b""
    assert "Traceback" not in rest and re.search(r"^nmt: Interrupted after update \d+;", rest, re.MULTILINE)
    assert 20 <= train_state(folder("killed"))["step"] < 40
    resumed, uninterrupted = train("killed", *words), train("not-killed", *words)
    assert "continuing after update" in resumed.err
    assert resumed.out == uninterrupted.out
    assert_same_runs(folder("killed"), folder("not-killed"))


@pytest.mark.slow
def test_a_kill_loses_no_more_than_since_the_last_validation(train, folder, root, corpus):
    """kill -9: nothing is saved at that moment, and the resumed run still ends where it would have."""
    words = ["train.max_steps=40", "train.validate_every=20"]
    command = [sys.executable, "-m", "nmt", "train", *small(root, corpus, *words, "name=kill-9")]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        assert running.stderr
        for line in running.stderr:
            if b"update 20:" in line:
                break
        running.kill()
        running.wait(30)
    resumed, uninterrupted = train("kill-9", *words), train("not-killed", *words)
    assert resumed.out == uninterrupted.out
    assert_same_runs(folder("kill-9"), folder("not-killed"))


def test_runs_of_one_seed_are_equal(train, folder):
    words = ["train.max_steps=12", "model.dropout=0.3", "train.subword_sampling=0.2"]
    for name, seed in (("first", 5), ("second", 5), ("third", 6)):
        assert train(name, *words, f"seed={seed}").code == 0
    first, second, third = (comparable(folder(name) / "last.safetensors") for name in ("first", "second", "third"))
    assert differing(first, second) == []
    assert len(differing(first["model"], third["model"])) > 5


def test_a_finished_run_is_left_as_it_is(trained: Trained, copied, tmp_path):
    folder = tmp_path / "tiny"
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    events = sorted((folder / "tensorboard").iterdir())
    answer = copied()
    assert answer.code == 0 and answer.out.splitlines() == trained.lines
    assert "already trained: 120 updates" in answer.err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == files
    assert sorted((folder / "tensorboard").iterdir()) == events


def test_patience_ends_a_training(train, folder):
    """With a learning rate that changes nothing, no validation is better than the first."""
    words = ["optim.lr=1e-12", "train.validate_every=4", "train.patience=2", "train.max_steps=100"]
    answer = train("patient", *words)
    assert answer.code == 0 and "Early stopping: no better bleu in 2 validations" in answer.err
    state = train_state(folder("patient"))
    assert (state["step"], state["validations_since_best"], state["finished"]) == (12, 2, True)
    assert checkpoint.load(folder("patient") / "best.safetensors")["step"] == 4
    assert "already trained" in train("patient", *words).err


def test_a_folder_of_another_training_is_refused(train, folder):
    """Without last.safetensors (deleted, or a full disk) its checkpoints would be mixed with those of the new one."""
    words = ["train.max_steps=4", "train.validate_every=2"]
    assert train("mixed", *words).code == 0
    best = comparable(folder("mixed") / "best.safetensors")
    for name in ("last", "previous"):
        (folder("mixed") / f"{name}.safetensors").unlink()
    refused = train("mixed", *words, "model.hidden_size=32")
    assert refused.code == 2 and "model.hidden_size" in refused.err
    assert differing(comparable(folder("mixed") / "best.safetensors"), best) == []
    (folder("mixed") / "step-2.safetensors").rename(
        folder("mixed") / "step-9.safetensors"
    )  # as a longer training leaves it
    assert train("mixed", *words).code == 0
    assert sorted(path.name for path in folder("mixed").glob("step-*.safetensors")) == [
        "step-2.safetensors",
        "step-4.safetensors",
    ]
    assert train("unmixed", *words).code == 0
    assert_same_runs(folder("mixed"), folder("unmixed"))


def test_ctrl_c_in_the_last_validation_stops(train, folder, monkeypatch):
    """Without averaging no later batch would check for it."""
    real = CheckpointManager.save_and_prune

    def save_and_prune(self: CheckpointManager, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)

    words = ["train.max_steps=2", "train.validate_every=2", "train.average_checkpoints=0"]
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, "save_and_prune", save_and_prune)
        assert train("last-validation", *words).code == 130
    assert not train_state(folder("last-validation"))["finished"]
    assert train("last-validation", *words).code == 0


@pytest.mark.parametrize(("warmup", "warned"), [(8, True), (7, False)])
def test_a_training_of_warmup_alone_is_warned_of(train, warmup, warned):
    answer = train(f"warm-{warmup}", "train.max_steps=8", f"optim.warmup_steps={warmup}")
    assert answer.code == 0 and ("optim.warmup_steps=8 is no shorter" in answer.err) == warned


@pytest.fixture
def seconds_per_update(monkeypatch) -> Callable[[float], None]:
    """seconds_per_update(S): the budget reads a clock by which updates and validations take S seconds."""
    monkeypatch.setattr(schedule, "MIN_UPDATES", 20)

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=count(0.0, seconds).__next__))

    set_clock(0.01)
    return set_clock


@pytest.mark.slow
def test_minutes_become_updates_once(train, folder, monkeypatch, seconds_per_update):
    """The number is estimated after some updates and kept through an interruption, however slow the rest is."""
    words = ["train.max_minutes=0.03", "train.validate_every=1000"]
    with monkeypatch.context() as patch:
        at_update(patch, 22)
        answer = train("minutes", *words)
    assert "updates fit into 0.03 minutes" in answer.err and answer.code == 130
    total = train_state(folder("minutes"))["total_steps"]
    assert 100 < total < 1.8 / 0.01
    seconds_per_update(1.0)
    answer = train("minutes", *words)
    assert answer.code == 0 and "fit into" not in answer.err
    state = train_state(folder("minutes"))
    assert state["step"] == state["total_steps"] == total
    assert train("minutes", *words, "train.max_minutes=0.02").code == 2, "converted minutes cannot change"


@pytest.mark.slow
@pytest.mark.usefixtures("seconds_per_update")
@pytest.mark.parametrize("interrupt", [lambda patch: at_update(patch, 20), lambda patch: at_validation(patch, 1)])
def test_a_training_interrupted_before_minutes_are_converted_still_ends(interrupt, train, folder, monkeypatch, request):
    words = ["train.max_minutes=0.02", "train.validate_every=1000"]
    name = f"unconverted-{request.node.callspec.indices['interrupt']}"
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert train(name, *words).code == 130
    assert train_state(folder(name))["total_steps"] is None
    real = Progress.update

    def update(self: Progress, *arguments: object) -> None:
        assert self.unit != "update" or self.count < 5000, "it does not end"
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Progress, "update", update)
    answer = train(name, *words)
    assert answer.code == 0 and "fit into 0.02 minutes" in answer.err


def test_minutes_are_converted_by_updates_that_are_no_longer_slow(monkeypatch):
    """2 minutes: 6 s are measured; updates take 0.5 s for 4 s, then 0.05 s, and validations 1 s every 100 updates."""
    now = 1000.0
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now)
    state, train = TrainState(), TrainConfig(**{field.name: 0 for field in fields(TrainConfig)})
    train.max_minutes, train.validate_every = 2.0, 100
    budget = TimeBudget(state, train, World())
    while not budget.can_estimate():
        now += 0.5 if now < 1004 else 0.05
        state.step += 1
        budget.after_update()
    assert 1006 <= now < 1007 and state.step >= schedule.MIN_UPDATES
    total, update = budget.estimate(1.0)
    assert update == pytest.approx(0.05, abs=1e-6)
    left = 120 * (1 - schedule.RESERVE) - (now - 1000) - 1
    assert total == state.step + int(left / (0.05 + 1 / 100))


def test_a_budget_of_epochs_is_counted_in_updates(train, folder):
    answer = train("epochs", "train.max_epochs=0.5")
    batches = int(re.search(r"(\d+) batches an epoch", answer.err)[1])  # type: ignore[index]
    assert train_state(folder("epochs"))["step"] == round(batches / 2)


@pytest.fixture
def copied(trained: Trained, tmp_path, capfd):
    """copied(WORD …): the command of the trained run once more, changed, on a copy of its folders."""
    shutil.copytree(trained.folder, tmp_path / "tiny")
    shutil.copytree(trained.root / "data", tmp_path / "data")  # other words may build other stages
    folders = [f"run_folder={tmp_path}", f"data_folder={tmp_path / 'data'}"]

    def again(*words: str):
        before = (tmp_path / "tiny" / "last.safetensors").read_bytes()
        answer = run_command(capfd, "train", *small(trained.root, [], *trained.arguments, *folders, *words))
        assert (tmp_path / "tiny" / "last.safetensors").read_bytes() == before
        return answer

    return again


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("optim.lr=0.02", "optim.lr (was 0.01, now 0.02)"),
        ("model.hidden_size=64", "model.hidden_size (was 32, now 64)"),
        ("model.dropout=0.5", "model.dropout (was 0.1, now 0.5)"),
        ("seed=2", "seed (was 1, now 2)"),
        ("train.batch_tokens=512", "train.batch_tokens (was 256, now 512)"),
        ("tokenizer.vocabulary_size=340", "tokenizer.vocabulary_size (was 376, now 340)"),
        ("train.max_steps=130", "train.max_steps (was 120, now 130)"),  # optim.schedule=linear depends on it
    ],
)
def test_a_resumed_training_refuses_another_configuration(copied, word, change):
    answer = copied(word)
    assert answer.code == 2 and answer.out == ""
    assert change in answer.err and "'tiny'" in answer.err and "name=" in answer.err
    assert answer.err.count("(was ") == 1, "it names a key that has not changed"


def test_a_run_of_an_earlier_configuration_is_resumed(train, folder):
    """An option that was added later has its default, as if the run had been trained with it; others were renamed."""
    words = [*RECURRENT, "optim.schedule=constant", "train.average_checkpoints=0"]
    assert train("older", *words, "train.max_steps=5").code == 0
    path = folder("older") / "last.safetensors"
    payload = checkpoint.load(path)
    for key in ("hard_attention_gradient", "window_narrowing_batches", "max_positions"):
        del payload["config"]["model"][key]
    del payload["config"]["train"]["prune_checkpoints"]
    payload["config"]["train"]["keep_checkpoints"] = "all"
    payload["config"]["data"]["pairs"] = 0
    checkpoint.save(path, payload)
    assert train("older", *words, "train.max_steps=8").code == 0
    assert train_state(folder("older"))["step"] == 8


def test_a_resumed_training_refuses_another_corpus(copied, tmp_path):
    moved = write_corpus(tmp_path / "moved")
    answer = copied(*moved)
    assert answer.code == 0 and "already trained" in answer.err, "the same text elsewhere is the same corpus"
    lines = (tmp_path / "moved" / "train.de").read_text(encoding="utf-8").splitlines()
    lines[3] = "Mein Bruder malt zwei Bücher im Garten."
    (tmp_path / "moved" / "train.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    answer = copied(*moved)
    assert answer.code == 2 and "the corpus (was" in answer.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["train.log_every=7", "train.log_sentences=3", "decode.beam=3", "decode.length_penalty=0.6"]
)
def test_keys_without_effect_on_the_weights_may_change(copied, word, tmp_path):
    answer = copied(word)
    assert answer.code == 0 and "already trained" in answer.err and answer.out.startswith("test\t")
    key, _, value = word.partition("=")
    saved = (tmp_path / "tiny" / "config.yaml").read_text(encoding="utf-8")
    assert f"{key.split('.')[1]}: {value}\n" in saved, "config.yaml shows another configuration than the last command's"


def test_a_diverged_training_names_the_batch(train, folder):
    answer = train("wild", "optim.lr=1e9", "train.max_steps=50")
    assert answer.code == 2 and answer.out == "" and "Traceback" not in answer.err
    assert re.search(
        r"diverged after update \d+: loss .* in batch \d+ of epoch 1 .*no checkpoint yet.*optim\.lr", answer.err
    )
    assert not (folder("wild") / "last.safetensors").exists()


def test_weights_that_are_not_finite_are_never_the_best(train, folder):
    """A validation follows the update after which they are not finite."""
    answer = train("not-finite", "optim.lr=1e30", "optim.warmup_steps=0", "train.max_steps=3", "train.validate_every=1")
    assert answer.code == 2 and "Traceback" not in answer.err
    assert ("corpus lines" in answer.err) == ("gradient norm" in answer.err), "a validation has no batch of training"
    for path in folder("not-finite").glob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in comparable(path)["model"].values()), path.name


def test_the_average_is_the_mean(trained: Trained):
    steps = [comparable(path)["model"] for path in sorted(trained.folder.glob("step-*.safetensors"))]
    assert len(steps) == 2
    mean = comparable(trained.folder / "average.safetensors")
    assert mean["origin"] == "average of updates 60, 120"
    for name, tensor in mean["model"].items():
        torch.testing.assert_close(tensor, (steps[0][name] + steps[1][name]) / 2, rtol=1e-6, atol=1e-7)
        assert tensor.dtype == steps[0][name].dtype


@pytest.mark.slow
def test_only_the_last_step_checkpoints_are_kept(train, folder):
    assert train("kept", "train.max_steps=25", "train.validate_every=5", "train.average_checkpoints=3").code == 0
    assert {path.name for path in folder("kept").glob("step-*.safetensors")} == {
        "step-15.safetensors",
        "step-20.safetensors",
        "step-25.safetensors",
    }
    assert comparable(folder("kept") / "average.safetensors")["origin"] == "average of updates 15, 20, 25"


def test_integers_are_not_averaged(train, folder):
    """A window that closes counts batches: the mean of 5 and 10 would make it wider than it was at the end."""
    words = [
        *RECURRENT,
        "model.window=local_p",
        "model.window_narrowing_batches=20",
        "train.max_steps=10",
        "train.validate_every=5",
    ]
    answer = train("closing", *words, "train.average_checkpoints=2")
    assert answer.code == 0
    assert checkpoint.load(folder("closing") / "average.safetensors")["model"]["attention.window.updates"] == 10
    best_step = checkpoint.load(folder("closing") / "best.safetensors")["step"]
    warning = "has not narrowed to its radius yet" + (": it reaches ±20 positions, not ±10" if best_step == 10 else "")
    assert warning in answer.err


def test_the_best_checkpoint_has_the_best_validation_score(trained: Trained, capfd, tmp_path):
    """Its scores are those that `nmt evaluate` computes for these weights."""
    folder = trained.folder
    names = ("step-60.safetensors", "step-120.safetensors", "average.safetensors")
    candidates = [checkpoint.load(folder / name) for name in names]
    best, highest = (
        checkpoint.load(folder / "best.safetensors"),
        max(candidates, key=lambda each: each["valid"]["bleu"]),
    )
    assert best["valid"]["bleu"] == highest["valid"]["bleu"] > 0
    equal = [each for each in candidates if each["valid"]["bleu"] == highest["valid"]["bleu"]]  # often several
    assert any(differing(best["model"], each["model"]) == [] for each in equal)
    copy = shutil.copy(folder / "best.safetensors", tmp_path)
    answer = run_command(capfd, "evaluate", str(copy), "--split", "valid", "--beam", "1")
    assert answer.out.split("\t")[1:3] == [f"{best['valid'][metric]:.2f}" for metric in ("bleu", "chrf")]


def test_tensorboard_gets_all_curves_tables_and_heatmaps(trained: Trained):
    events = EventAccumulator(
        str(trained.folder / "tensorboard"), size_guidance={"images": 0, "tensors": 0, "scalars": 0}
    )
    events.Reload()
    tags = events.Tags()
    curves = {tag: [event.step for event in events.Scalars(tag)] for tag in tags["scalars"]}
    often = ["loss/train", "perplexity/train", "optim/learning_rate", "optim/gradient_norm"]
    often += ["speed/target_tokens_per_second", "speed/padding_fraction", "speed/memory_gib"]
    for tag in often:
        assert curves[tag] == list(range(5, 121, 5)), tag
    for tag in ("loss/valid", "perplexity/valid", "bleu/valid", "chrf/valid"):
        assert curves[tag] == [60, 120], tag
    assert curves["test/test_bleu"] == [0]
    values = {tag: [event.value for event in events.Scalars(tag)] for tag in curves}
    assert max(values["optim/learning_rate"]) == pytest.approx(0.01) and values["optim/learning_rate"][-1] < 1e-3
    assert values["loss/train"][-1] < values["loss/train"][0] and all(value > 0 for value in values["speed/memory_gib"])
    assert all(0 <= value < 0.5 for value in values["speed/padding_fraction"])
    assert all(value > 10 for value in values["speed/target_tokens_per_second"])
    assert [event.step for event in events.Images("alignment/1")] == [60, 120]
    assert events.Images("alignment/1")[0].encoded_image_string.startswith(b"\x89PNG")
    assert [event.step for event in events.Images("heads/1")] == [60, 120]
    table = events.Tensors("translations/text_summary")
    assert [event.step for event in table] == [60, 120]
    text = table[-1].tensor_proto.string_val[0].decode()
    assert text.startswith("| source | reference | hypothesis |")
    first = (trained.root / "corpus" / "valid.de").read_text(encoding="utf-8").splitlines()[0]
    assert first in text
    assert any(tag.startswith("_hparams_") for tag in summaries(trained.folder / "tensorboard"))


def summaries(folder: Path) -> set[str]:
    """All tags, also those that the accumulator hides."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(folder.glob("events.*"))
    return {value.tag for file in files for event in EventFileLoader(str(file)).Load() for value in event.summary.value}


def test_the_batches_of_an_update_are_one_batch(root, folder, tmp_path, capfd):
    """The loss is a mean over target tokens, not over batches: short and long sentences are in separate batches."""
    every = sorted(pairs(200, seed=3), key=lambda pair: len(pair[0]))
    corpus = write_corpus(tmp_path)
    write_pairs(tmp_path, "train", [*every[:6], *every[-6:]])
    words = [
        "optim.eps=1.0",
        "optim.lr=1.0",
        "optim.clip_norm=0",
        "model.dropout=0",
        "train.max_steps=3",
        "tokenizer.vocabulary_size=320",
    ]

    def weights(name: str, *more: str) -> tuple[dict, int]:
        answer = run_command(capfd, "train", *small(root, corpus, *words, *more, f"name=accumulated-{name}"))
        assert answer.code == 0, answer.err
        batches = int(re.search(r"(\d+) batches an epoch", answer.err)[1])  # type: ignore[index]
        return comparable(folder(f"accumulated-{name}") / "last.safetensors")["model"], batches

    single, batches = weights("single", "train.batch_tokens=10000")
    assert batches == 1
    separate, batches = weights("separate", "train.batch_tokens=320")
    assert batches > 1
    accumulated, _ = weights("accumulated", "train.batch_tokens=320", f"train.accumulate={batches}")
    for name, tensor in single.items():
        torch.testing.assert_close(accumulated[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
    assert any((separate[name] - tensor).abs().max() > 1e-3 for name, tensor in single.items())


def test_an_empty_translation_at_a_validation_is_no_crash(train, folder, monkeypatch):
    """An untrained model writes nothing, or pieces that make no word; there is no heatmap then."""

    def search_batch(self, sources, *rest):
        space = self.tokenizers.target.processor.piece_to_id("▁")
        return [[Hypothesis([] if number % 2 else [space], -1.0)] for number, _ in enumerate(sources)]

    monkeypatch.setattr(Translator, "search_batch", search_batch)
    words = ["train.log_sentences=4", "train.max_steps=2", "train.validate_every=2"]
    assert train("empty", *RECURRENT, *words).code == 0
    events = EventAccumulator(str(folder("empty") / "tensorboard"))
    events.Reload()
    assert "loss/valid" in events.Tags()["scalars"] and not events.Tags()["images"]


def test_the_run_folder_names_its_configuration_and_corpus(trained: Trained):
    assert "size: 32\n" in (trained.folder / "config.yaml").read_text(encoding="utf-8")
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in trained.root.glob("data/corpus-*/report.json")]
    assert comparable(trained.folder / "last.safetensors")["corpus_hash"] in [
        report["corpus_hash"] for report in reports
    ]


@pytest.fixture
def untimed() -> Iterator[None]:
    """No format has been timed in this process, before and afterwards."""
    cpu.bf16_is_faster.cache_clear()
    yield
    cpu.bf16_is_faster.cache_clear()


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("units", [set(), {"amx_tile"}, {"avx512_bf16"}])
@pytest.mark.parametrize("ratio", [0.2, 0.79, 0.81, 2.0])
def test_auto_takes_bf16_where_the_cpu_has_units_and_they_are_faster(
    monkeypatch: pytest.MonkeyPatch, units: set[str], ratio: float
) -> None:
    """`ratio` to float32's time: on an Intel Xeon without its AMX, bf16 takes twice as long."""
    for unit in ("amx_tile", "avx512_bf16"):
        monkeypatch.setattr(torch.cpu, f"_is_{unit}_supported", lambda unit=unit: unit in units, raising=False)
    monkeypatch.setattr(cpu, "seconds", lambda way: ratio if way().dtype == torch.bfloat16 else 1.0)
    wanted = torch.bfloat16 if units and ratio < 0.8 else torch.float32
    assert select_precision("auto", torch.device("cpu")) is wanted
    assert select_precision("fp32", torch.device("cpu")) is torch.float32
    assert select_precision("bf16", torch.device("cpu")) is torch.bfloat16


@pytest.mark.usefixtures("untimed")
def test_bf16_is_timed_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cpu.bf16_is_faster()
    monkeypatch.setattr(cpu, "seconds", lambda way: pytest.fail("timed again"))
    assert cpu.bf16_is_faster() is first
