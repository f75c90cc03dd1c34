"""Training as a whole: what is interrupted ends where the uninterrupted ends, and a run's folder tells the truth."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from corpora import (
    RECURRENT,
    TRANSFORMER,
    Trained,
    door,
    environment,
    pairs,
    small,
    write_corpus,
    write_pairs,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt import timing
from nmt.config import TrainConfig
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.train import checkpoint, precision, time_budget
from nmt.train.checkpoint_manager import CheckpointManager
from nmt.train.precision import pick_precision
from nmt.train.state import TrainState
from nmt.train.time_budget import TimeBudget
from nmt.view.progress import Progress

HARD = [
    "train.accumulate=2",
    "train.sampling=0.2",
    "model.dropout=0.3",
    "train.validate_every=10",
    "train.max_steps=24",
]
MODELS = {"transformer": TRANSFORMER, "recurrent": RECURRENT}
BAHDANAU = ["model=bahdanau", "model.hidden=16", "model.embedding=16"]
DRAWN = ["model=bahdanau_hard", *BAHDANAU[1:]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this file's runs go; they share corpus and tokenizer."""
    return tmp_path_factory.mktemp("runs_of_test_train")


@pytest.fixture
def train(root, corpus, capfd):
    """train(NAME, WORD …) → what came of the command."""
    return lambda name, *words: door(capfd, "train", *small(root, corpus, *words, f"name={name}"))


@pytest.fixture
def folder(root):
    return lambda name: root / "runs" / name


def at_update(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Ctrl-C in the middle of the training, as the terminal sends it, after these updates of the run."""
    real, waiting = Progress.update, list(steps)

    def update(self: Progress, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        if self.unit == "update" and waiting and self.done == waiting[0]:
            waiting.pop(0)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)


def at_validation(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C in the middle of one validation, counted from 1; the one of the average counts too."""
    real, count = Translator.batches, [0]

    def batches(self: Translator, *arguments: object) -> object:
        count[0] += 1
        if count[0] == number:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "batches", batches)


def clocked(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """A clock on which each update takes so many seconds and nothing else takes time, however busy the machine is."""
    real, now = Progress.update, [time.monotonic()]

    def update(self: Progress, *arguments: object) -> None:
        now[0] += seconds * (self.unit == "update")
        real(self, *arguments)  # type: ignore[arg-type]

    patch.setattr(Progress, "update", update)
    patch.setattr(time, "monotonic", lambda: now[0])


def state(path: Path) -> dict:
    """What must be the same: everything but the time that went by and the name."""
    payload = checkpoint.load(path)
    payload["config"].pop("name")
    payload.get("place", {}).pop("seconds", None)
    return payload


def differing(one: object, other: object, where: str = "") -> list[str]:
    """Places at which two nested states differ, to the last bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
        return [] if same else [where]
    if isinstance(one, dict) and isinstance(other, dict):
        strays = [f"{where}.{key}" for key in one.keys() ^ other.keys()]
        return strays + [
            found for key in one.keys() & other.keys() for found in differing(one[key], other[key], f"{where}.{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            found
            for at, both in enumerate(zip(one, other, strict=True))
            for found in differing(*both, f"{where}[{at}]")
        ]
    return [] if one == other else [where]


def same_runs(one: Path, other: Path) -> None:
    """Every checkpoint of two runs is the same."""
    names = sorted(path.name for path in one.glob("*.pt"))
    assert names == sorted(path.name for path in other.glob("*.pt"))
    assert {"last.pt", "best.pt", "average.pt"} <= set(names)
    for name in names:
        assert differing(state(one / name), state(other / name)) == [], name


def scores(out: str) -> list[str]:
    return [line for line in out.splitlines() if "\t" in line]


INTERRUPTIONS = {
    "in the middle of an epoch": lambda patch: at_update(patch, 7),
    "at an update that is to be validated": lambda patch: at_update(patch, 10),
    "within a validation": lambda patch: at_validation(patch, 2),
    "within the validation of the average": lambda patch: at_validation(patch, 4),
    "after the last update": lambda patch: at_update(patch, 24),
    "again and again": lambda patch: at_update(patch, 1, 9, 17, 18, 23),
}


FAST = ("within a validation", "again and again")  # of the recurrent model's


def cases() -> list:
    """Every model with every interruption."""
    found = []
    for model in MODELS:
        for when in INTERRUPTIONS:
            marks = [pytest.mark.slow] if model == "recurrent" and when not in FAST else ()
            found.append(pytest.param(model, when, marks=marks, id=f"{model}, {when}"))
    return found


@pytest.mark.parametrize(("model", "when"), cases())
def test_interrupted_and_continued_is_uninterrupted(model, when, train, folder, monkeypatch):
    """Bit for bit: weights, optimiser, place and generators, with dropout, accumulation and subword sampling; an
    epoch here ends in the middle of an update."""
    words = [*MODELS[model], *HARD]
    straight = train(f"straight-{model}", *words)
    assert straight.code == 0
    name = f"{model}-{when.replace(' ', '-')}"
    with monkeypatch.context() as patch:
        INTERRUPTIONS[when](patch)
        lives = 0
        while (answer := train(name, *words)).code == 130 and lives < 8:
            assert re.search(r"Interrupted after update \d+; .* the same command again", answer.err)
            assert answer.out == ""
            lives += 1
    assert lives >= 1 and answer.code == 0
    assert scores(answer.out) == scores(straight.out)
    same_runs(folder(f"straight-{model}"), folder(name))


@pytest.mark.parametrize("words", [TRANSFORMER, BAHDANAU, DRAWN], ids=["transformer", "bahdanau", "hard"])
def test_a_longer_budget_continues_a_finished_run(words, train, folder):
    """Where the schedule does not know the end, N updates and then M - N more are M updates."""
    words = [*words, *HARD, "optim.schedule=inverse_sqrt", "train.average=0"]
    name = words[0].partition("=")[2]
    assert train(f"{name}-once", *words).code == 0
    assert train(f"{name}-twice", *words, "train.max_steps=13").code == 0
    assert state(folder(f"{name}-twice") / "last.pt")["place"]["step"] == 13
    assert train(f"{name}-twice", *words).code == 0
    once, twice = (state(folder(f"{name}-{which}") / "last.pt") for which in ("once", "twice"))
    for key in ("model", "optimizer", "random"):
        assert differing(once[key], twice[key]) == [], key
    assert once["place"]["step"] == twice["place"]["step"] == 24


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


def test_a_real_ctrl_c_in_a_process_of_its_own(train, folder, root, corpus):
    words = ["train.max_steps=80", "train.validate_every=20"]
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
    assert 20 <= state(folder("killed") / "last.pt")["place"]["step"] < 80
    continued, straight = train("killed", *words), train("unharmed", *words)
    assert "continuing after update" in continued.err
    assert continued.out == straight.out
    same_runs(folder("killed"), folder("unharmed"))


@pytest.mark.slow
def test_a_kill_loses_no_more_than_since_the_last_validation(train, folder, root, corpus):
    """kill -9: nothing is saved then, and yet the run ends where it would have."""
    words = ["train.max_steps=80", "train.validate_every=20"]
    command = [sys.executable, "-m", "nmt", "train", *small(root, corpus, *words, "name=shot")]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        assert running.stderr
        for line in running.stderr:
            if b"update 20:" in line:
                break
        running.kill()
        running.wait(30)
    continued, straight = train("shot", *words), train("unharmed", *words)
    assert continued.out == straight.out
    same_runs(folder("shot"), folder("unharmed"))


def test_a_seed_is_a_run(train, folder):
    words = ["train.max_steps=12", "model.dropout=0.3", "train.sampling=0.2"]
    for name, seed in (("first", 5), ("second", 5), ("third", 6)):
        assert train(name, *words, f"seed={seed}").code == 0
    first, second, third = (state(folder(name) / "last.pt") for name in ("first", "second", "third"))
    assert differing(first, second) == []
    assert len(differing(first["model"], third["model"])) > 5


def test_a_finished_run_is_finished(trained: Trained, capfd):
    files = {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*.pt")}
    events = sorted((trained.folder / "tensorboard").iterdir())
    answer = door(capfd, "train", *trained.arguments)
    assert answer.code == 0 and answer.out.splitlines() == trained.lines
    assert "already trained: 120 updates" in answer.err
    assert {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*.pt")} == files
    assert sorted((trained.folder / "tensorboard").iterdir()) == events


def test_patience_ends(train, folder):
    """With a learning rate that changes nothing, no validation is better than the first."""
    words = ["optim.lr=1e-12", "train.validate_every=4", "train.patience=2", "train.max_steps=100"]
    answer = train("patient", *words)
    assert answer.code == 0 and "No better bleu for 2 validations" in answer.err
    place = state(folder("patient") / "last.pt")["place"]
    assert (place["step"], place["best_step"], place["finished"]) == (12, 4, True)
    assert "already trained" in train("patient", *words).err


def test_a_folder_of_another_training_is_refused(train, folder):
    """Without last.pt (deleted, or the disk was full) its checkpoints would be mixed with those of the new one."""
    words = ["train.max_steps=4", "train.validate_every=2"]
    assert train("mixed", *words).code == 0
    whole = state(folder("mixed") / "best.pt")
    (folder("mixed") / "last.pt").unlink()
    refused = train("mixed", *words, "model.size=32")
    assert refused.code == 2 and "model.size" in refused.err
    assert differing(state(folder("mixed") / "best.pt"), whole) == []
    (folder("mixed") / "step-2.pt").rename(folder("mixed") / "step-9.pt")  # what a longer training had left
    assert train("mixed", *words).code == 0
    assert sorted(path.name for path in folder("mixed").glob("step-*.pt")) == ["step-2.pt", "step-4.pt"]
    assert train("unmixed", *words).code == 0
    same_runs(folder("mixed"), folder("unmixed"))


def test_ctrl_c_in_the_last_validation_is_heard(train, folder, monkeypatch):
    """Where nothing is averaged afterwards, nothing else would ask for it."""
    real = CheckpointManager.keep

    def keep(self: CheckpointManager, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)

    words = ["train.max_steps=2", "train.validate_every=2", "train.average=0"]
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, "keep", keep)
        assert train("heard", *words).code == 130
    assert not state(folder("heard") / "last.pt")["place"]["finished"]
    assert train("heard", *words).code == 0


@pytest.mark.parametrize(("warmup", "warned"), [(8, True), (7, False)])
def test_a_training_that_only_warms_up_is_told_so(train, warmup, warned):
    answer = train(f"warm-{warmup}", "train.max_steps=8", f"optim.warmup_steps={warmup}")
    assert answer.code == 0 and ("optim.warmup_steps=8 is no shorter" in answer.err) == warned


def test_minutes_become_updates_once(train, folder, monkeypatch):
    """The number is found after some updates and kept through an interruption, however slow the second life is."""
    monkeypatch.setattr(time_budget, "FIT", 20)
    words = ["train.max_minutes=0.03", "train.validate_every=1000"]
    with monkeypatch.context() as patch:
        clocked(patch, 0.05)
        at_update(patch, 22)
        answer = train("minutes", *words)
    assert "updates fit into 0.03 minutes" in answer.err and answer.code == 130
    total = state(folder("minutes") / "last.pt")["place"]["total"]
    assert 30 < total <= 35  # 0.98 · 1.8 s / 0.05 s, and less where an update is timed a little longer
    clocked(monkeypatch, 0.5)
    answer = train("minutes", *words)
    assert answer.code == 0 and "fit into" not in answer.err
    place = state(folder("minutes") / "last.pt")["place"]
    assert place["step"] == place["total"] == total
    assert train("minutes", *words, "train.max_minutes=0.02").code == 2, "fitted minutes cannot change"


@pytest.mark.parametrize("interrupt", [lambda patch: at_update(patch, 20), lambda patch: at_validation(patch, 1)])
def test_an_interruption_while_minutes_are_fitted_is_not_forever(interrupt, train, folder, monkeypatch, request):
    monkeypatch.setattr(time_budget, "FIT", 20)
    words = ["train.max_minutes=0.02", "train.validate_every=1000"]
    clocked(monkeypatch, 0.05)
    name = f"forever-{request.node.callspec.indices['interrupt']}"
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert train(name, *words).code == 130
    assert state(folder(name) / "last.pt")["place"]["total"] is None
    real = Progress.update

    def update(self: Progress, *arguments: object) -> None:
        assert self.unit != "update" or self.done < 5000, "it goes on forever"
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Progress, "update", update)
    answer = train(name, *words)
    assert answer.code == 0 and "fit into 0.02 minutes" in answer.err


def test_minutes_are_fitted_by_updates_that_are_no_longer_slow(monkeypatch):
    """2 minutes: 6 s of patience; updates of 0.5 s for 4 s, then of 0.05 s, and validations of 1 s every 100."""
    now = 1000.0
    monkeypatch.setattr(time_budget.time, "monotonic", lambda: now)
    place, train = TrainState(), TrainConfig(**{field.name: 0 for field in fields(TrainConfig)})
    train.max_minutes, train.validate_every = 2.0, 100
    clock = TimeBudget(place, train.max_minutes)
    while not clock.ready(train):
        now += 0.5 if now < 1004 else 0.05
        place.step += 1
        clock.tick()
    assert 1006 <= now < 1007 and place.step >= time_budget.FIT
    total, update = clock.fit(train, 1.0)
    assert update == pytest.approx(0.05, abs=1e-6)
    left = 120 * (1 - time_budget.RESERVE) - (now - 1000) - 1
    assert total == place.step + int(left / (0.05 + 1 / 100))


def test_a_budget_of_epochs_is_counted_in_updates(train, folder):
    answer = train("epochs", "train.max_epochs=0.5")
    batches = int(re.search(r"(\d+) batches an epoch", answer.err)[1])  # type: ignore[index]
    assert state(folder("epochs") / "last.pt")["place"]["step"] == round(batches / 2)


@pytest.fixture
def copied(trained: Trained, tmp_path, capfd):
    """copied(WORD …): the command of the trained run once more, changed, on a copy of its folders."""
    shutil.copytree(trained.folder, tmp_path / "tiny")
    shutil.copytree(trained.root / "data", tmp_path / "data")  # other words may build other stages
    folders = [f"run_folder={tmp_path}", f"data_folder={tmp_path / 'data'}"]

    def again(*words: str):
        before = (tmp_path / "tiny" / "last.pt").read_bytes()
        answer = door(capfd, "train", *small(trained.root, [], *trained.arguments, *folders, *words))
        assert (tmp_path / "tiny" / "last.pt").read_bytes() == before
        return answer

    return again


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("optim.lr=0.02", "optim.lr (was 0.01, now 0.02)"),
        ("model.size=64", "model.size (was 32, now 64)"),
        ("model.dropout=0.5", "model.dropout (was 0.1, now 0.5)"),
        ("seed=2", "seed (was 1, now 2)"),
        ("train.batch_tokens=512", "train.batch_tokens (was 256, now 512)"),
        ("tokenizer.size=340", "tokenizer.size (was 360, now 340)"),
        ("train.max_steps=130", "train.max_steps (was 120, now 130)"),  # optim.schedule=linear knows the end
    ],
)
def test_what_is_trained_cannot_change_on_the_way(copied, word, told):
    answer = copied(word)
    assert answer.code == 2 and answer.out == ""
    assert told in answer.err and "'tiny'" in answer.err and "name=" in answer.err
    assert answer.err.count("(was ") == 1, "it names a key that has not changed"


def test_the_corpus_cannot_change_on_the_way(copied, tmp_path):
    moved = write_corpus(tmp_path / "moved")
    answer = copied(*moved)
    assert answer.code == 0 and "already trained" in answer.err, "the same text elsewhere is the same corpus"
    lines = (tmp_path / "moved" / "train.de").read_text(encoding="utf-8").splitlines()
    lines[3] = "Mein Bruder malt zwei Bücher im Garten."
    (tmp_path / "moved" / "train.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    answer = copied(*moved)
    assert answer.code == 2 and "the corpus (was" in answer.err


@pytest.mark.parametrize(
    "word", ["train.log_every=7", "train.pictures=3", "decode.beam=3", "decode.length_penalty=0.6"]
)
def test_what_is_only_looked_at_may_change(copied, word, tmp_path):
    answer = copied(word)
    assert answer.code == 0 and "already trained" in answer.err and answer.out.startswith("test\t")
    key, _, value = word.partition("=")
    saved = (tmp_path / "tiny" / "config.yaml").read_text(encoding="utf-8")
    assert f"{key.split('.')[1]}: {value}\n" in saved, "config.yaml shows another configuration than the last command's"


def test_a_broken_training_says_where(train, folder):
    answer = train("wild", "optim.lr=1e30", "train.max_steps=50")
    assert answer.code == 2 and answer.out == "" and "Traceback" not in answer.err
    assert re.search(
        r"broke after update \d+: loss .* in batch \d+ of epoch 1 .*no checkpoint yet.*optim\.lr", answer.err
    )
    assert not (folder("wild") / "last.pt").exists()


def test_a_broken_gradient_does_not_reach_the_checkpoint(train, folder, monkeypatch):
    """The thirteenth gradient is not a number; what was saved after the tenth update stays good."""
    real, count = torch.nn.utils.clip_grad_norm_, [0]

    def clip(*arguments: object, **options: object) -> torch.Tensor:
        count[0] += 1
        norm = real(*arguments, **options)  # type: ignore[arg-type]
        return norm * float("nan") if count[0] == 13 else norm

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    answer = train("nan", "train.max_steps=50", "train.validate_every=10")
    last = folder("nan") / "last.pt"
    assert answer.code == 2 and "broke after update 12" in answer.err and "gradient norm nan" in answer.err
    assert str(last) in answer.err and "batch 13 of epoch 1" in answer.err
    payload = state(last)
    assert payload["place"]["step"] == 10 and all(tensor.isfinite().all() for tensor in payload["model"].values())


def test_broken_weights_are_never_the_best(train, folder):
    """A validation right after the update that broke them."""
    answer = train("broken", "optim.lr=1e30", "optim.warmup_steps=0", "train.max_steps=3", "train.validate_every=1")
    assert answer.code == 2 and "Traceback" not in answer.err
    assert ("corpus lines" in answer.err) == ("gradient norm" in answer.err), "a validation has no batch of training"
    for path in folder("broken").glob("*.pt"):
        assert all(tensor.isfinite().all() for tensor in state(path)["model"].values()), path.name


def test_the_average_is_the_mean(trained: Trained):
    steps = [state(path)["model"] for path in sorted(trained.folder.glob("step-*.pt"))]
    assert len(steps) == 2
    mean = state(trained.folder / "average.pt")
    assert mean["origin"] == "average of updates 60, 120"
    for name, tensor in mean["model"].items():
        torch.testing.assert_close(tensor, (steps[0][name] + steps[1][name]) / 2, rtol=1e-6, atol=1e-7)
        assert tensor.dtype == steps[0][name].dtype


def test_only_the_last_steps_are_kept(train, folder):
    assert train("kept", "train.max_steps=25", "train.validate_every=5", "train.average=3").code == 0
    assert {path.name for path in folder("kept").glob("step-*.pt")} == {"step-15.pt", "step-20.pt", "step-25.pt"}
    assert state(folder("kept") / "average.pt")["origin"] == "average of updates 15, 20, 25"


def test_what_counts_is_not_averaged(train, folder):
    """A window that closes counts batches: a mean of 5 and 10 would be wider than any of them was at the end."""
    words = [*RECURRENT, "model.window=local_p", "model.closing=20", "train.max_steps=10", "train.validate_every=5"]
    answer = train("closing", *words, "train.average=2")
    assert answer.code == 0
    assert state(folder("closing") / "average.pt")["model"]["attention.window.updates"] == 10
    told = "has not closed yet: it sees ±20 positions, not ±10"
    origin = state(folder("closing") / "best.pt")["step"]
    assert told in answer.err if origin == 10 else "has not closed yet" in answer.err


def test_a_run_from_before_a_key_existed_goes_on(train, folder):
    """Keys that came later have their defaults, and what was not counted is not known."""
    words = [*RECURRENT, "model.closing=0", "optim.schedule=constant", "train.average=0"]
    assert train("older", *words, "train.max_steps=5").code == 0
    path = folder("older") / "last.pt"
    payload = checkpoint.load(path)
    later = ("normalise", "hard_gradient", "hard_entropy", "closing", "max_positions")
    for key in (*later, "encoder_hidden", "maxout", "position_exponent"):
        del payload["config"]["model"][key]
    del payload["place"]["tokens"]
    checkpoint.save(path, payload)
    assert train("older", *words, "train.max_steps=8").code == 0
    assert state(path)["place"]["step"] == 8 and state(path)["place"]["tokens"] is None


def test_the_best_is_what_validation_says(trained: Trained, capfd):
    """And what it says is what `nmt evaluate` finds for those weights."""
    folder = trained.folder
    found = {path.name: state(path) for path in folder.glob("*.pt") if path.name not in ("best.pt", "last.pt")}
    best = state(folder / "best.pt")
    highest = max(one["valid"]["bleu"] for one in found.values())
    assert best["valid"]["bleu"] == highest > 0
    equal = [one for one in found.values() if one["valid"]["bleu"] == highest]  # often several, when a model has learnt
    assert any(differing(best["model"], one["model"]) == [] for one in equal)
    answer = door(capfd, "evaluate", str(folder / "best.pt"), "--split", "valid", "--beam", "1")
    assert answer.out.split("\t")[1:3] == [f"{best['valid'][one]:.2f}" for one in ("bleu", "chrf")]
    place = state(folder / "last.pt")["place"]
    assert [entry["step"] for entry in place["history"]] == [60, 120]
    assert place["history"][-1]["bleu"] == found["step-120.pt"]["valid"]["bleu"]


def test_the_journal_holds_what_is_promised(trained: Trained):
    events = EventAccumulator(
        str(trained.folder / "tensorboard"), size_guidance={"images": 0, "tensors": 0, "scalars": 0}
    )
    events.Reload()
    tags = events.Tags()
    curves = {tag: [event.step for event in events.Scalars(tag)] for tag in tags["scalars"]}
    often = ["loss/train", "perplexity/train", "optim/learning_rate", "optim/gradient_norm"]
    often += ["speed/target_tokens_per_second", "speed/padding_share", "speed/memory_gib"]
    for tag in often:
        assert curves[tag] == list(range(5, 121, 5)), tag
    for tag in ("loss/valid", "perplexity/valid", "bleu/valid", "chrf/valid"):
        assert curves[tag] == [60, 120], tag
    assert curves["test/test_bleu"] == [0]
    values = {tag: [event.value for event in events.Scalars(tag)] for tag in curves}
    assert max(values["optim/learning_rate"]) == pytest.approx(0.01) and values["optim/learning_rate"][-1] < 1e-3
    assert values["loss/train"][-1] < values["loss/train"][0] and all(value > 0 for value in values["speed/memory_gib"])
    assert all(0 <= value < 0.5 for value in values["speed/padding_share"])
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
    """All tags there are, also those that the accumulator hides."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(folder.glob("events.*"))
    return {value.tag for file in files for event in EventFileLoader(str(file)).Load() for value in event.summary.value}


def test_the_batches_of_an_update_are_one_batch(root, folder, tmp_path, capfd):
    """The loss is a mean over target tokens, not over batches: short and long sentences in batches of their own."""
    every = sorted(pairs(200, seed=3), key=lambda pair: len(pair[0]))
    corpus = write_corpus(tmp_path)
    write_pairs(tmp_path, "train", [*every[:6], *every[-6:]])
    words = [
        "optim.eps=1.0",
        "optim.lr=1.0",
        "optim.clip=0",
        "model.dropout=0",
        "train.max_steps=3",
        "tokenizer.size=300",
    ]

    def weights(name: str, *more: str) -> tuple[dict, int]:
        answer = door(capfd, "train", *small(root, corpus, *words, *more, f"name=accumulated-{name}"))
        assert answer.code == 0, answer.err
        batches = int(re.search(r"(\d+) batches an epoch", answer.err)[1])  # type: ignore[index]
        return state(folder(f"accumulated-{name}") / "last.pt")["model"], batches

    one, batches = weights("one", "train.batch_tokens=10000")
    assert batches == 1
    wrong, batches = weights("not", "train.batch_tokens=320")
    assert batches > 1
    several, _ = weights("several", "train.batch_tokens=320", f"train.accumulate={batches}")
    for name, tensor in one.items():
        torch.testing.assert_close(several[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
    assert any((wrong[name] - tensor).abs().max() > 1e-3 for name, tensor in one.items())


def test_an_empty_translation_at_a_validation_is_no_crash(train, folder, monkeypatch):
    """Models at their beginning write nothing, or pieces without a word in them; there is then nothing to draw."""

    def silent(self, sources, *rest):
        alone = self.tokenizers.target.processor.piece_to_id("▁")
        return [[Hypothesis([] if number % 2 else [alone], -1.0)] for number, _ in enumerate(sources)]

    monkeypatch.setattr(Translator, "search_batch", silent)
    words = ["train.pictures=4", "train.max_steps=2", "train.validate_every=2"]
    assert train("silent", *RECURRENT, *words).code == 0
    events = EventAccumulator(str(folder("silent") / "tensorboard"))
    events.Reload()
    assert "loss/valid" in events.Tags()["scalars"] and not events.Tags()["images"]


def test_the_run_folder_says_what_it_is(trained: Trained):
    assert "size: 32\n" in (trained.folder / "config.yaml").read_text(encoding="utf-8")
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in trained.root.glob("data/corpus-*/report.json")]
    assert state(trained.folder / "last.pt")["corpus_hash"] in [report["corpus_hash"] for report in reports]


@pytest.fixture
def untimed() -> Iterator[None]:
    """No format has been timed in this process, before and afterwards."""
    precision.bf16_pays.cache_clear()
    yield
    precision.bf16_pays.cache_clear()


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("units", [set(), {"amx_tile"}, {"avx512_bf16"}])
@pytest.mark.parametrize("share", [0.2, 0.79, 0.81, 2.0])
def test_auto_takes_bf16_where_the_cpu_has_units_and_they_are_faster(
    monkeypatch: pytest.MonkeyPatch, units: set[str], share: float
) -> None:
    """`share` of float32's time: on an Intel Xeon without its AMX, bf16 takes twice as long."""
    for unit in ("amx_tile", "avx512_bf16"):
        monkeypatch.setattr(torch.cpu, f"_is_{unit}_supported", lambda unit=unit: unit in units, raising=False)
    monkeypatch.setattr(timing, "seconds", lambda way: share if way().dtype == torch.bfloat16 else 1.0)
    wanted = torch.bfloat16 if units and share < 0.8 else torch.float32
    assert pick_precision("auto", torch.device("cpu")) is wanted
    assert pick_precision("fp32", torch.device("cpu")) is torch.float32
    assert pick_precision("bf16", torch.device("cpu")) is torch.bfloat16


@pytest.mark.usefixtures("untimed")
def test_the_formats_are_timed_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = precision.bf16_pays()
    monkeypatch.setattr(timing, "seconds", lambda way: pytest.fail("timed again"))
    assert precision.bf16_pays() is first
