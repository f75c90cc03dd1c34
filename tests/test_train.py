"""Training by command: an interrupted run ends exactly where an uninterrupted one does, and its folder is correct."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
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
    run_command,
    small,
    write_corpus,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.training import checkpoint, schedule
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.view.progress import Progress

EVERYTHING = [
    "train.accumulate=2",
    "train.subword_sampling=0.2",
    *(f"train.noise_{kind}=0.1" for kind in ("case", "typos", "punctuation", "merge", "copy")),
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


INTERRUPTIONS = {  # in order; each may be several runs of the command
    "anywhere": lambda patch: (at_update(patch, 1, 5, 8, 12), at_validation(patch, 2)),
    "within the validation of the average": lambda patch: at_validation(patch, 4),
}
FAST = ("transformer", "anywhere")
CASES = [
    pytest.param(model, when, marks=[pytest.mark.slow] * ((model, when) != FAST))
    for model in MODELS
    for when in INTERRUPTIONS
]


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, Answer]:
    """What the command printed that trained each model without an interruption; the first test of a model trains it."""
    return {}


@pytest.mark.parametrize(("model", "when"), CASES)
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


def test_a_finished_run_is_left_as_it_is(trained: Trained, copied, tmp_path):
    folder = tmp_path / "tiny"
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    events = sorted((folder / "tensorboard").iterdir())
    answer = copied()
    assert answer.code == 0 and answer.out.splitlines() == trained.lines
    assert "already trained: 120 updates" in answer.err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == files
    assert sorted((folder / "tensorboard").iterdir()) == events


def test_a_folder_of_another_training_is_refused(train, folder):
    """Without last.safetensors (deleted, or a full disk) its checkpoints would be mixed with those of the new one."""
    words = ["train.max_steps=4", "train.validate_every=2", "data.test=null"]
    assert train("mixed", *words).code == 0
    for name in ("last", "previous"):
        (folder("mixed") / f"{name}.safetensors").unlink()
    answer = train("mixed", *words, "model.hidden_size=32")
    assert answer.code == 2 and "model.hidden_size" in answer.err
    later = folder("mixed") / "step-9.safetensors"  # as a longer training leaves it
    (folder("mixed") / "step-2.safetensors").rename(later)
    assert train("mixed", *words).code == 0
    assert {path.name for path in folder("mixed").glob("step-*")} == {"step-2.safetensors", "step-4.safetensors"}


@pytest.mark.slow
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


def test_a_resumed_training_refuses_another_configuration(copied):
    """Of all that the weights depend on, max_steps too where the schedule depends on it; other keys are not named."""
    changes = {
        "optim.lr": ("0.01", "0.02"),
        "model.hidden_size": ("32", "64"),
        "seed": ("1", "2"),
        "train.batch_tokens": ("256", "512"),
        "tokenizer.vocabulary_size": ("376", "340"),
        "train.max_steps": ("120", "130"),
    }
    answer = copied(*(f"{key}={new}" for key, (_, new) in changes.items()), "decode.beam=1", "train.log_every=7")
    assert answer.code == 2 and answer.out == "" and "name=" in answer.err
    assert answer.err.count("(was ") == len(changes)
    assert all(f"{key} (was {old}, now {new})" in answer.err for key, (old, new) in changes.items())


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
def test_keys_without_effect_on_the_weights_may_change(copied, tmp_path):
    answer = copied("train.log_every=7", "train.log_sentences=3", "decode.beam=3")
    assert answer.code == 0 and "already trained" in answer.err and answer.out.startswith("test\t")
    saved = (tmp_path / "tiny" / "config.yaml").read_text(encoding="utf-8")
    assert "beam: 3\n" in saved, "config.yaml shows another configuration than the last command's"


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
