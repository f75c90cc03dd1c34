"""The checkpoints of a run: which of them are kept, what is best, and what a continuation mends."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
from corpora import compose_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from nmt.config.schema import Config, to_dict
from nmt.config.validation import validate
from nmt.errors import UserError
from nmt.training import checkpoint, checkpoint_manager
from nmt.training.checkpoint_manager import CheckpointManager, refuse_changes
from nmt.training.state import TrainState
from nmt.training.validation import ValidationResult

EVERY = 5  # updates between two validations
ENDLESS = ["train.max_minutes=null", "train.max_epochs=null", "train.max_steps=100"]
KEPT = 3  # validation checkpoints
SCORES = st.integers(1, 4).map(float)


@cache
def composed(*words: str) -> Config:
    return compose_one(f"train.average_checkpoints={KEPT}", *words)


@cache
def validated(text: str) -> Config:
    return validate(json.loads(text))


class Training:
    """A training of one weight, which is the number of the update; so are the moments."""

    def __init__(self, folder: Path, config: Config, tokenizers, **options) -> None:
        self.checkpoints = CheckpointManager(folder, config, tokenizers, "text", **options)
        self.model = nn.Linear(1, 1, bias=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.0)
        self.state = TrainState()
        self.metric = config.train.metric

    @property
    def numbers(self) -> list[torch.Tensor]:
        moments = self.optimizer.state[self.model.weight]
        return [self.model.weight, moments["exp_avg"], moments["exp_avg_sq"]]

    def update_to(self, step: int) -> None:
        self.state.step = step
        self.model(torch.zeros(1)).sum().backward()
        self.optimizer.step()
        for tensor in self.numbers:
            tensor.detach().fill_(step)

    def validate(self, score: float, save: bool = True) -> None:
        result = ValidationResult({self.metric: score}, [])
        is_best = result.better_than(self.state.best, self.metric)
        if is_best:
            self.state.best = score
        step = self.state.step
        self.checkpoints.save_scored(self.model.state_dict(), step, result, is_best)
        if save:
            self.save()

    def save(self) -> None:
        self.checkpoints.save_last(self.model, self.optimizer, self.state)

    def continued(self) -> int | None:
        """Go on from the files, as another process does; returns the update."""
        restored = self.checkpoints.restore(self.model, self.optimizer)
        if restored is None:
            return None
        self.state = restored[0]
        assert all(tensor.item() == self.state.step for tensor in self.numbers)
        return self.state.step


@pytest.fixture
def training(vocabularies, tmp_path_factory, monkeypatch) -> Callable[..., Training]:
    """training(WORD …, FOLDER) → a Training in a new folder, or in the one that is given.

    A configuration is packed and validated once, and nothing waits for the disk.
    """

    @cache
    def entries(words: tuple[str, ...]) -> checkpoint.Payload:
        return checkpoint.common_entries(composed(*words), vocabularies[True], "text")

    monkeypatch.setattr(checkpoint_manager, "validate", lambda saved: validated(json.dumps(saved)))
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def make(*words: str, folder: Path | None = None, **options) -> Training:
        folder = folder or tmp_path_factory.mktemp("run")
        common = entries(words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint, "common_entries", lambda *_: common)
            return Training(folder, composed(*words), vocabularies[True], **options)

    return make


def kept(folder: Path) -> set[int]:
    """The updates of the validation checkpoints in a folder."""
    return {int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.safetensors")}


def step_in(path: Path) -> int:
    return int(checkpoint.load(path)["model"]["weight"].item())


def best_of(scores: dict[int, float], metric: str) -> set[int]:
    """The updates with the best score: the lowest loss, or the highest of another metric."""
    best = min(scores.values()) if metric == "loss" else max(scores.values())
    return {step for step, score in scores.items() if score == best}


with_folders = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@with_folders
@given(
    metric=st.sampled_from(["loss", "bleu"]),
    first=st.integers(0, 22),
    scores=st.lists(SCORES, min_size=1, max_size=6),
    unsaved=st.lists(SCORES, max_size=KEPT + 1),
    lost=st.booleans(),
)
def test_a_continuation_has_the_last_checkpoints_and_the_best_of_them(
    training, metric, first, scores, unsaved, lost
):
    """A process is killed after validations whose updates are not saved, and best may be lost."""
    run = training(f"train.metric={metric}")
    folder = run.checkpoints.folder
    by_step = dict[int, float]()
    for number, score in enumerate(scores, first + 1):
        by_step[EVERY * number] = score
        run.update_to(EVERY * number)
        run.validate(score)
    saved = run.state.step
    first_best = min(best_of(by_step, metric))
    assert kept(folder) == set(list(by_step)[-KEPT:])
    assert step_in(run.checkpoints.best_path) == first_best
    for number, score in enumerate(unsaved, 1):
        run.update_to(saved + EVERY * number)
        run.validate(score, save=False)

    left = {step: by_step[step] for step in kept(folder) & by_step.keys()}
    if lost:
        run.checkpoints.best_path.unlink()
    run = training(f"train.metric={metric}", folder=folder)
    assert run.continued() == saved
    assert kept(folder) == left.keys()
    if lost and left:
        assert step_in(run.checkpoints.best_path) in best_of(left, metric)
        assert run.state.best == left[step_in(run.checkpoints.best_path)]
    elif lost:
        assert run.state.best is None and not run.checkpoints.best_path.exists()


@with_folders
@given(marked=st.lists(st.booleans(), min_size=1, max_size=6))
def test_a_training_goes_back_to_the_last_clean_validation(training, marked):
    """Its weights and moments stay as they were, whatever is saved after them."""
    run = training()
    wanted = None
    for number, is_clean in enumerate(marked, 1):
        run.update_to(number)
        run.save()
        if is_clean:
            run.checkpoints.mark_validated()
            wanted = number
    assert run.checkpoints.roll_back(run.model, run.optimizer) == wanted
    assert all(tensor.item() == (wanted or len(marked)) for tensor in run.numbers)


OTHER_TEXT = {"corpus_hash": "b" * 64}
OTHER_WEIGHTS = {"parent": {"checkpoint": "a/best.safetensors", "weights": "c" * 64}}


@pytest.mark.parametrize(
    "changes, named",
    [
        ({}, []),
        (OTHER_TEXT, ["the corpus (was text, now bbbbbbbbbb)"]),
        (OTHER_WEIGHTS, ["from=RUN (was none, now cccccccccc)"]),
        ({"tokenizers": {"source": torch.ones(9, dtype=torch.uint8)}}, ["tokenizer"]),
        (OTHER_TEXT | OTHER_WEIGHTS, ["the corpus", "from=RUN"]),
        (OTHER_TEXT | {"tokenizers": {}}, ["the corpus"]),  # which has made the tokenizer
    ],
)
def test_a_run_is_not_continued_with_other_text_or_weights(training, changes, named):
    saved = training().checkpoints.common
    new = saved | changes
    if not named:
        refuse_changes(saved, new, "tiny")
        return
    with pytest.raises(UserError) as caught:
        refuse_changes(saved, new, "tiny")
    message = str(caught.value)
    assert all(part in message for part in named)
    assert ("tokenizer" in message) == ("tokenizer" in named)


def test_another_model_is_named_by_a_few_keys(training):
    saved = training().checkpoints.common
    new = saved | {"config": to_dict(composed("model=luong_global"))}
    with pytest.raises(UserError, match=r": model.kind \(was .*, and \d\d other keys;") as caught:
        refuse_changes(saved, new, "tiny")
    assert str(caught.value).count("(was") == checkpoint_manager.MOST_NAMED


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_process_0_changes_files(training):
    """The others restore the same, also where process 0 would delete and mend."""
    run = training()
    folder = run.checkpoints.folder
    for step in (4, 8, 12):
        run.update_to(step)
        run.validate(1.0, save=step < 12)
    run.checkpoints.mark_validated()
    run.checkpoints.average_path.write_bytes(b"damaged")
    before = contents(folder)
    other = training(folder=folder, writes=False)
    assert other.continued() == 8
    assert not other.checkpoints.sound_or_set_aside(run.checkpoints.average_path)
    other.checkpoints.prune(replace(other.state, finished=True))
    other.checkpoints.start_anew()
    assert contents(folder) == before
    assert training(folder=folder).continued() == 8 and kept(folder) == {4, 8}


def test_only_a_training_that_can_never_go_on_is_pruned(training):
    every = {"last", "previous", "best", "step-4", "step-8", "validated"}
    for schedule, prune, finished in product(["cosine", "constant"], ["true", "false"], [0, 1]):
        run = training(f"optim.schedule={schedule}", f"train.prune_checkpoints={prune}", *ENDLESS)
        for step in (4, 8):
            run.update_to(step)
            run.validate(1.0)
            run.checkpoints.mark_validated()
        run.state.finished = bool(finished)
        run.save()
        is_over = (schedule, prune, finished) == ("cosine", "true", 1)
        names = {path.stem for path in run.checkpoints.folder.glob("*.safetensors")}
        assert names == ({"last", "best"} if is_over else every)
        assert ("optimizer" in checkpoint.load(run.checkpoints.last_path)) != is_over


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("missing", ["optimizer", "train_state"])
def test_a_training_is_continued_only_from_all_that_it_needs(training, missing, finished):
    """One that has ended needs no moments."""
    run = training()
    run.update_to(4)
    run.state.finished = finished
    run.validate(1.0)
    payload = checkpoint.load(run.checkpoints.last_path)
    payload.pop(missing, None)
    checkpoint.save(run.checkpoints.last_path, payload | {"origin": "update 4"})
    if finished and missing == "optimizer":
        assert run.continued() == 4
    else:
        with pytest.raises(UserError, match=f"has no .*{missing}"):
            run.continued()


@pytest.mark.parametrize(
    "step, clean, finished, kept_for_later",
    [(4, 4, False, True), (4, 2, False, False), (0, 0, False, False), (4, 4, True, False)],
    ids=["killed before it was kept", "unclean", "no validation yet", "finished"],
)
def test_a_continuation_keeps_a_clean_validation_to_go_back_to(
    training, step, clean, finished, kept_for_later
):
    run = training()
    run.update_to(step)
    run.state.rollback_step = clean
    run.state.finished = finished
    run.validate(1.0)
    assert run.continued() == step
    assert (run.checkpoints.roll_back(run.model, run.optimizer) == step) == kept_for_later
