"""Training by command: an interrupted run ends exactly where an uninterrupted one does, and its
folder is correct."""

import re
import shutil
import signal
from itertools import count
from pathlib import Path

import pytest
import torch
from corpora import (
    RECURRENT,
    TRANSFORMER,
    Trained,
    corpus_of,
    lines_of,
    run_command,
    small,
    write_corpus,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.config import presets
from nmt.corpus.checksums import write_manifest
from nmt.data.augmentation import Noise
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.training import checkpoint
from nmt.training.schedule import TimeBudget
from nmt.training.train_step import TrainStep
from nmt.view.progress import Progress

EVERYTHING = [
    "train.accumulate=2",
    "train.sampled_softmax=20",
    "train.subword_sampling=0.2",
    *(f"train.noise_{kind}=0.1" for kind in ("case", "typos", "punctuation", "merge", "copy")),
    "model.dropout=0.3",
    "train.validate_every=5",
    "train.max_steps=12",
]

WORDS = ["data.test=null"]
STEPS = "train.max_steps=2"


def at_update(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Ctrl-C in the middle of the training, as the terminal sends it, after these updates of the
    run."""
    real = Progress.update
    remaining = list(steps)

    def update(self: Progress, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        if self.unit == "update" and remaining and self.count == remaining[0]:
            remaining.pop(0)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)


def at_validation(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Ctrl-C in the middle of these validations, counted from 1; that of the average counts too."""
    real = Translator.batches
    calls = count(1)

    def batches(self: Translator, *arguments: object) -> object:
        if next(calls) in numbers:
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


def differing(left: dict, right: dict) -> list[str]:
    """The paths at which two checkpoints or parts of them differ, to the last bit."""
    (tensors, plain), (others, other_plain) = (checkpoint.flatten(each) for each in (left, right))
    if tensors.keys() != others.keys() or plain != other_plain:
        return ["names or plain values"]
    return [name for name, tensor in tensors.items() if not equal(tensor, others[name])]


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def assert_same_runs(left: Path, right: Path) -> None:
    """All checkpoints of two runs are the same."""
    names = sorted(path.name for path in left.glob("*.safetensors"))
    assert names == sorted(path.name for path in right.glob("*.safetensors"))
    assert {"last.safetensors", "best.safetensors", "average.safetensors"} <= set(names)
    for name in names:
        assert differing(comparable(left / name), comparable(right / name)) == [], name


MODELS = {
    "transformer": TRANSFORMER,
    "muon": [*TRANSFORMER, "optim=muon"],
    "hard": ["model=bahdanau_hard", "model.hidden_size=16", "model.embedding_size=16"],
}


def each_model(quick: str) -> pytest.MarkDecorator:
    """All but one are for CI."""
    slow = [pytest.param(name, marks=[pytest.mark.slow] * (name != quick)) for name in MODELS]
    return pytest.mark.parametrize("model", slow)


@each_model(quick="transformer")
def test_interrupted_and_continued_is_uninterrupted(model, train, folder, monkeypatch):
    """Bit for bit: weights, optimizer and train state, with dropout, accumulation and subword
    sampling; an epoch ends in the middle of an update. The fifth validation is that of the average.
    """
    words = [*MODELS[model], *EVERYTHING, "train.log_every=2"]
    uninterrupted = train(f"uninterrupted-{model}", *words)
    assert uninterrupted.code == 0
    with monkeypatch.context() as patch:
        at_update(patch, 4, 12)
        at_validation(patch, 2, 5)
        answers = [train(model, *words) for _ in range(5)]
    assert [answer.code for answer in answers] == [130, 130, 130, 130, 0]
    assert [answer.out for answer in answers] == [""] * 4 + [uninterrupted.out]
    assert_same_runs(folder(f"uninterrupted-{model}"), folder(model))
    assert curves(folder(f"uninterrupted-{model}")) == curves(folder(model))


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The points of all curves but that of the speed."""
    events = events_of(folder)
    points = {}
    for tag in events.Tags()["scalars"]:
        if "per_second" not in tag:
            points[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
    return points


def test_a_longer_budget_continues_a_finished_run(train, folder):
    """With a schedule that does not depend on the end, N updates and then M - N more are M
    updates."""
    words = [
        *RECURRENT,
        *EVERYTHING,
        "optim.schedule=inverse_sqrt",
        "train.average_checkpoints=0",
        "train.max_steps=6",
    ]
    assert train("once", *words).code == 0
    assert train("twice", *words, "train.max_steps=3").code == 0
    path = folder("twice") / "last.safetensors"
    payload = checkpoint.load(path)
    assert payload["train_state"]["step"] == 3
    # as a run of an earlier program: without options that were added later, others renamed
    del payload["config"]["model"]["max_positions"]
    del payload["config"]["train"]["prune_checkpoints"]
    payload["config"]["train"]["keep_checkpoints"] = "all"
    payload["config"]["data"]["pairs"] = 0
    checkpoint.save(path, payload)
    assert train("twice", *words).code == 0
    once, twice = (comparable(folder(name) / "last.safetensors") for name in ("once", "twice"))
    assert differing(once["model"], twice["model"]) == []
    assert differing(once["optimizer"], twice["optimizer"]) == []
    assert once["train_state"]["step"] == twice["train_state"]["step"] == 6


def test_more_updates_for_a_finished_run_begin_another_decay(train, folder, monkeypatch):
    """From the weights of the last update, with a warm-up of its own; interrupted there, it ends
    with the same bits."""
    words = [*RECURRENT, *EVERYTHING, "model.dropout=null"]
    rates = record_learning_rates(monkeypatch)
    for name in ("longer", "killed"):
        assert train(name, *words).code == 0
    rates.clear()
    assert train("longer", *words, "train.max_steps=20").code == 0
    falling = [part / 6 for part in (5, 4, 3, 2, 1, 0)]
    assert rates == pytest.approx([0.01 * part for part in (1 / 2, 1, *falling)])
    state = train_state(folder("longer"))
    assert (state["schedule_start"], state["step"], state["warmup_steps"]) == (12, 20, 2)
    with monkeypatch.context() as patch:
        at_update(patch, 16)
        assert train("killed", *words, "train.max_steps=20").code == 130
    assert train("killed", *words, "train.max_steps=20").code == 0
    assert_same_runs(folder("longer"), folder("killed"))
    for steps in (20, 12):
        answer = train("longer", *words, f"train.max_steps={steps}")
        assert "already trained: 20 updates" in answer.err


def record_learning_rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rate of each update from now on."""
    rates: list[float] = []
    real = Progress.update

    def update(self: Progress, count: int = 1, figures: dict[str, float] | None = None) -> None:
        if figures and "lr" in figures:
            rates.append(figures["lr"])
        real(self, count, figures)

    monkeypatch.setattr(Progress, "update", update)
    return rates


def test_other_limits_before_the_first_validation_decide_anew(train, folder, monkeypatch):
    """Interrupted before the minutes were converted, and continued with a number of updates."""
    monkeypatch.setattr(presets, "DROPOUT", [(0.0, 0.0), (1.0, 0.3)])
    words = [*RECURRENT, *EVERYTHING, "model.dropout=null"]
    with monkeypatch.context() as patch:
        at_update(patch, 2)
        assert train("limits", *words, "train.max_steps=null", "train.max_minutes=5").code == 130
        assert train_state(folder("limits"))["dropout"] is None
    assert train("limits", *words, "train.max_steps=8").code == 0
    state = train_state(folder("limits"))
    assert (state["step"], state["dropout"], state["warmup_steps"]) == (8, 0.0, 2)


def test_a_training_that_gets_a_third_of_its_updates_says_so_and_decides_anew(
    train, folder, monkeypatch
):
    """40 updates are expected at the second, and from the fourth on 8: fewer passes, for which
    dropout is less."""
    monkeypatch.setattr(presets, "DROPOUT", [(0.0, 0.1), (1.0, 0.3)])

    def can_estimate(budget: TimeBudget) -> bool:
        return budget.state.step == 2 and not budget.state.budget_fixed

    def corrected(budget: TimeBudget) -> int | None:
        state = budget.state
        return 8 if (state.step, state.total_steps) == (4, 40) else None

    monkeypatch.setattr(TimeBudget, "can_estimate", can_estimate)
    monkeypatch.setattr(TimeBudget, "end_measurement", lambda budget: 0.1)
    monkeypatch.setattr(TimeBudget, "total_updates", lambda budget, update_seconds: 40)
    monkeypatch.setattr(TimeBudget, "corrected", corrected)
    words = [*RECURRENT, *EVERYTHING, "model.dropout=null", "train.max_steps=null"]
    answer = train("busy", *words, "train.max_minutes=5")
    assert answer.code == 0 and "this computer is busy" in answer.err
    assert re.findall(r"model\.dropout=([\d.]+), for", answer.err) == ["0.3", "0.1"]
    state = train_state(folder("busy"))
    assert (state["step"], state["dropout"], state["warmup_steps"]) == (8, 0.1, 2)


def test_patience_counts_validations_without_a_better_score(train, folder):
    words = [*RECURRENT, "optim.lr=1e-30", "train.patience=2", "train.max_steps=40"]
    words += ["train.validate_every=1", "train.average_checkpoints=0"]
    assert train("patient", *words).code == 0
    state = train_state(folder("patient"))
    assert state["step"] == 3 and state["finished"]


def test_a_finished_run_is_left_as_it_is(trained: Trained, copied, tmp_path):
    """But for TensorBoard's curves of the scores, which are written anew."""

    def times() -> dict[Path, int]:
        files = (tmp_path / "tiny").rglob("*")
        kept = (path for path in files if path.suffix == ".safetensors" or "tfevents" in path.name)
        return {path: path.stat().st_mtime_ns for path in kept if path.suffix != ".scores"}

    before = times()
    answer = copied()
    assert answer.code == 0 and answer.out.splitlines() == trained.lines
    assert "already trained: 120 updates" in answer.err
    assert times() == before


def test_a_folder_of_another_training_is_refused(train, folder):
    """Without last.safetensors (deleted, or a full disk) its checkpoints would be mixed with those
    of the new one."""
    words = [*RECURRENT, "train.max_steps=4", "train.validate_every=2"]
    assert train("mixed", *words).code == 0
    for name in ("last", "previous"):
        (folder("mixed") / f"{name}.safetensors").unlink()
    answer = train("mixed", *words, "model.hidden_size=8")
    assert answer.code == 2 and "model.hidden_size" in answer.err
    later = folder("mixed") / "step-9.safetensors"  # as a longer training leaves it
    (folder("mixed") / "step-2.safetensors").rename(later)
    assert train("mixed", *words).code == 0
    names = {path.stem for path in folder("mixed").glob("step-*")}
    assert names == {"step-2", "step-4"}


@pytest.fixture
def copied(trained: Trained, tmp_path, capfd):
    """copied(WORD …): the command of the trained run once more, changed, on a copy of its
    folders."""
    shutil.copytree(trained.folder, tmp_path / "tiny")
    shutil.copytree(trained.root / "data", tmp_path / "data")  # other words may build other stages
    folders = [f"run_folder={tmp_path}", f"data_folder={tmp_path / 'data'}"]

    def again(*words: str):
        before = (tmp_path / "tiny" / "last.safetensors").read_bytes()
        answer = run_command(
            capfd, "train", *small(trained.root, [], *trained.arguments, *folders, *words)
        )
        assert (tmp_path / "tiny" / "last.safetensors").read_bytes() == before
        return answer

    return again


def test_a_resumed_training_refuses_another_configuration(copied):
    """Of all that the weights depend on; other keys are not named."""
    changes = {
        "optim.lr": ("0.01", "0.02"),
        "model.hidden_size": ("32", "64"),
        "seed": ("1", "2"),
        "train.batch_tokens": ("256", "512"),
        "tokenizer.vocabulary_size": ("376", "340"),
    }
    words = [f"{key}={new}" for key, (_, new) in changes.items()]
    answer = copied(*words, "decode.beam=1", "train.log_every=7")
    assert answer.code == 2 and answer.out == "" and "name=" in answer.err
    named = re.findall(r"(\S+) \(was (\S+), now (\S+)\)", answer.err)
    assert {key: (old, new) for key, old, new in named} == changes


def test_a_resumed_training_refuses_another_corpus(copied, tmp_path):
    moved = write_corpus(tmp_path / "moved")
    answer = copied(*moved)
    assert answer.code == 0 and "already trained" in answer.err, "the same text elsewhere"
    path = tmp_path / "moved" / "train.de"
    lines = lines_of(path)
    lines[3] = "Mein Bruder malt zwei Bücher im Garten."
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = copied(*moved)
    assert answer.code == 2 and "the corpus (was" in answer.err


def test_weights_that_are_not_finite_are_never_the_best(train, folder, monkeypatch):
    """The training goes back to the validation before."""
    real = TrainStep.update

    def update(step: TrainStep) -> dict[str, float]:
        figures = real(step)
        if step.state.step == 2:
            step.model.output.weight.data.fill_(torch.nan)
        return figures

    monkeypatch.setattr(TrainStep, "update", update)
    words = [*RECURRENT, "train.max_steps=3", "train.validate_every=1"]
    answer = train("not-finite", *words)
    assert answer.code == 0 and "goes on with the weights of update 1" in answer.err
    paths = list(folder("not-finite").glob("*.safetensors"))
    assert folder("not-finite") / "best.safetensors" in paths
    for path in paths:
        model = comparable(path)["model"]
        assert all(tensor.isfinite().all() for tensor in model.values()), path.name


class Ended(BaseException):
    """The test has seen enough."""


def test_batches_are_made_with_the_noise_that_is_configured(train, monkeypatch):
    """Each kind has its own probability."""
    kinds = ("case", "typos", "punctuation", "merge", "copy", "names", "plain")
    wanted = {kind: number / 10 for number, kind in enumerate(kinds, 1)}
    made = []

    def make(*arguments: object) -> None:
        made.append(arguments)
        raise Ended

    monkeypatch.setattr("nmt.training.build.BatchIterator", make)
    words = [f"train.noise_{kind}={share}" for kind, share in wanted.items()]
    with pytest.raises(Ended):
        train("noise", *RECURRENT, *words, "seed=7", "train.subword_sampling=0.2", STEPS)
    _, _, *rest = made[0]
    assert rest == [256, 7, 0.2, None, Noise(**wanted)]


def test_best_and_average(trained: Trained, capfd, tmp_path):
    """The average is the mean; the best's scores are those that `nmt evaluate` computes for these
    weights. The training would go on with its own weights, not with the average."""
    names = ("step-60", "step-120", "average", "best", "last")
    first, second, mean, best, last = (
        comparable(trained.folder / f"{name}.safetensors") for name in names
    )
    assert differing(last["model"], second["model"]) == []
    assert mean["origin"] == "average of updates 60, 120"
    for name, tensor in mean["model"].items():
        expected = (first["model"][name] + second["model"][name]) / 2
        torch.testing.assert_close(tensor, expected, rtol=1e-6, atol=1e-7)
    highest = max(each["valid"]["bleu"] for each in (first, second, mean))
    # often several
    equal = [each for each in (first, second, mean) if each["valid"]["bleu"] == highest]
    assert best["valid"]["bleu"] == highest > 0
    assert any(differing(best["model"], each["model"]) == [] for each in equal)
    copy = shutil.copy(trained.folder / "best.safetensors", tmp_path)
    answer = run_command(capfd, "evaluate", str(copy), "--split", "valid", "--beam", "1")
    assert answer.out.split("\t")[1:3] == [
        f"{best['valid'][metric]:.2f}" for metric in ("bleu", "chrf")
    ]


def test_the_log_of_a_run_has_its_messages_with_their_times(trained: Trained):
    """How the log of other work ends: test_tensorboard.py."""
    first, *_, last = lines_of(trained.folder / "train.log")
    for line, end in ((first, "begins"), (last, "ended")):
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ", line) and end in line


def events_of(folder: Path) -> EventAccumulator:
    unlimited = {"images": 0, "tensors": 0, "scalars": 0}
    return EventAccumulator(str(folder / "tensorboard"), size_guidance=unlimited).Reload()


def steps_of(events: list) -> list[int]:
    return [event.step for event in events]


def test_tensorboard_gets_all_curves_tables_and_heatmaps(trained: Trained):
    events = events_of(trained.folder)
    updates = list(range(5, 121, 5))
    wanted = {
        "loss/train": updates,
        "perplexity/train": updates,
        "optim/learning_rate": updates,
        "optim/gradient_norm": updates,
        "speed/target_tokens_per_second": updates,
        "speed/padding_fraction": updates,
        "loss/valid": [60, 120],
        "perplexity/valid": [60, 120],
        "bleu/valid": [60, 120],
        "chrf/valid": [60, 120],
        "test/test_bleu": [0],
    }
    for tag, steps in wanted.items():
        assert steps_of(events.Scalars(tag)) == steps, tag
    rates = [event.value for event in events.Scalars("optim/learning_rate")]
    losses = [event.value for event in events.Scalars("loss/train")]
    assert max(rates) == pytest.approx(0.01) and rates[-1] < 1e-3
    assert losses[-1] < losses[0]
    assert steps_of(events.Images("alignment/1/translation")) == [60, 120]
    for tag in ("alignment/1/reference", "heads/1"):
        assert steps_of(events.Images(tag)) == [50, 60, 100, 120]
    table = events.Tensors("translations/text_summary")
    assert steps_of(table) == [60, 120]
    first = lines_of(trained.root / "corpus" / "valid.de")[0]
    assert first in table[-1].tensor_proto.string_val[0].decode()


@each_model(quick="hard")
def test_early_pictures_change_no_bit_of_a_training(model, tmp_path, succeeds, monkeypatch):
    """The error rate is that of `valid.align`, at every picture; one sentence loops, and its
    picture stays small."""
    words = small(
        tmp_path,
        write_corpus(tmp_path / "text"),
        *MODELS[model],
        "model.dropout=0.3",
        "data.test=null",
    )
    words += ["train.max_steps=6", "train.validate_every=4", "train.log_sentences=1"]
    succeeds("download", *words)
    corpus = corpus_of(tmp_path)
    (corpus / "valid.align").write_text("0-0 1-1\n" * 16, encoding="utf-8")
    write_manifest(corpus)

    def search_batch(self, queries):
        space, letter = (self.tokenizers.target.processor.piece_to_id(piece) for piece in "▁e")
        return [[Hypothesis([space, letter] * 100, -1.0)] for _ in queries]

    monkeypatch.setattr(Translator, "search_batch", search_batch)
    found = []
    for name, early in (("with", {2, 3, 5}), ("without", set())):
        monkeypatch.setattr("nmt.training.trainer.EARLY_UPDATES", early)
        succeeds("train", *words, f"name={name}")
        found.append(tmp_path / "runs" / name)
    assert_same_runs(*found)
    events = events_of(found[0])
    rates = events.Scalars("aer/valid")
    assert steps_of(rates) == [2, 3, 4, 5, 6]
    assert all(0 < event.value <= 1 for event in rates)
    assert steps_of(events.Images("alignment/1/reference")) == [2, 3, 4, 5, 6]
    pictures = events.Images("alignment/1/translation")
    assert steps_of(pictures) == [4, 6]
    assert all(max(picture.width, picture.height) < 1200 for picture in pictures)


def test_an_empty_translation_at_a_validation_is_no_crash(train, folder, monkeypatch):
    """An untrained model writes nothing, or pieces that make no word; only the reference has a
    heatmap then."""

    def search_batch(self, queries):
        space = self.tokenizers.target.processor.piece_to_id("▁")
        return [
            [Hypothesis([] if number % 2 else [space], -1.0)] for number, _ in enumerate(queries)
        ]

    monkeypatch.setattr(Translator, "search_batch", search_batch)
    words = ["train.log_sentences=4", "train.max_steps=2", "train.validate_every=2"]
    assert train("empty", *RECURRENT, *words).code == 0
    tags = events_of(folder("empty")).Tags()
    assert "loss/valid" in tags["scalars"]
    assert tags["images"] == [f"alignment/{number}/reference" for number in range(1, 5)]


def test_sets_that_say_little_are_warned_of(tmp_path, succeeds):
    """The 95 % interval of BLEU is about ±70 / √sentences."""
    corpus = write_corpus(tmp_path / "corpus", train=8, valid=25, test=200)
    words = ["train.max_steps=1", "train.batch_tokens=100000", "train.max_epochs=null"]
    answer = succeeds("train", *small(tmp_path, corpus, *words))
    assert "valid has 25 pairs" in answer.err and "14 points" in answer.err
    assert "test has" not in answer.err and "passes over" not in answer.err
