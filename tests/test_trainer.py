"""The training loop by itself: a Trainer over parts that only record their calls."""

import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from nmt.config.compose import compose_all
from nmt.errors import Stopped, UserError
from nmt.training.distributed import World
from nmt.training.state import TrainingDiverged, TrainState
from nmt.training.stop_signal import StopSignal
from nmt.training.train_step import TrainMetrics
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult


class FakeStep:
    """Updates that count; number `stop_at` requests a stop, those of `diverge_at` diverge."""

    def __init__(self, stop: StopSignal, stop_at: int = -1, diverge_at: tuple[int, ...] = ()) -> None:
        self.stop, self.stop_at, self.diverge_at = stop, stop_at, diverge_at
        self.model, self.state, self.device = nn.Linear(1, 1), TrainState(total_steps=10), torch.device("cpu")
        self.optimizer, self.dtype, self.batches, self.metrics = None, torch.float32, self, TrainMetrics()
        self.pairs, self.batches_per_epoch = range(7), 3

    def update(self) -> dict[str, float]:
        self.state.step += 1
        if self.state.step in self.diverge_at:
            raise TrainingDiverged("loss nan")
        self.stop.signal = signal.SIGINT * (self.state.step == self.stop_at)
        self.metrics.nll, self.metrics.tokens = self.metrics.nll + 6.0, self.metrics.tokens + 3
        self.metrics.updates += 1
        return {"loss": 2.0, "lr": 0.5}

    def settle(self) -> None:
        """Everything has been read."""


class FakeValidation:
    """One BLEU after the other."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = iter(scores)

    def run(self, reference_lengths: bool = False) -> ValidationResult:
        return ValidationResult({"loss": 1.0, "bleu": next(self.scores), "chrf": 0.0}, [])

    def log_examples(self, *arguments: object) -> None:
        pass


class FakeCheckpoints:
    """Writes down which checkpoints are saved; there are none to average."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.last_path = folder, folder / "last.safetensors"
        self.saved: list[tuple[int, bool]] = []
        self.last_steps: list[int] = []
        self.validated: int | None = None

    def save_and_prune(self, weights: dict, step: int, result: ValidationResult, is_best: bool) -> None:
        self.saved.append((step, is_best))

    def mark_validated(self) -> None:
        self.validated = self.saved[-1][0]

    def roll_back(self, model: object, optimizer: object) -> int | None:
        return self.validated

    def save_last(self, model: object, optimizer: object, state: TrainState) -> None:
        self.last_steps.append(state.step)

    def sound_step_paths(self) -> list[Path]:
        return []


class FakeLogger:
    """Keeps the scalars."""

    def __init__(self) -> None:
        self.curves: dict[str, dict[int, float]] = {}
        self.closed = False

    def scalars(self, values: dict[str, float], step: int) -> None:
        for tag, value in values.items():
            self.curves.setdefault(tag, {})[step] = value

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def make(tmp_path):
    """make(SCORES, WORD …, stop_at=N, diverge_at=(N, …)) → a Trainer over fake parts."""

    def make(scores: list[float], *words: str, **updates: object) -> Trainer:
        words = ("train.max_steps=10", "train.validate_every=4", "train.patience=0", "train.log_every=5", *words)
        config, stop, logger = compose_all(list(words), multirun=False)[0], StopSignal(World()), FakeLogger()
        step, checkpoints = FakeStep(stop, **updates), FakeCheckpoints(tmp_path)
        return Trainer(config, step, FakeValidation(scores), checkpoints, lambda: logger, stop, World())  # type: ignore[arg-type]

    return make


def test_updates_validations_and_checkpoints_alternate(make):
    """Every fourth update and the last one are validated and saved; the better BLEU is marked as the best."""
    trainer = make([1.0, 3.0, 2.0])
    trainer.run()
    assert trainer.checkpoints.saved == [(4, True), (8, True), (10, False)]
    assert trainer.checkpoints.last_steps == [4, 8, 10, 10] and trainer.state.finished
    assert trainer.logger.curves["bleu/valid"] == {4: 1.0, 8: 3.0, 10: 2.0}
    assert trainer.logger.curves["loss/train"] == {5: 2.0, 10: 2.0} and trainer.logger.closed


def test_patience_counts_validations_without_a_better_score(make):
    trainer = make([1.0, 0.5, 1.0, 9.0], "train.patience=2", "train.validate_every=2")
    trainer.run()
    assert trainer.state.step == 6 and trainer.state.best == 1.0 and trainer.state.finished


def test_a_stop_saves_and_leaves_the_training_unfinished(make):
    trainer = make([1.0], stop_at=6)
    with pytest.raises(Stopped, match="after update 6"):
        trainer.run()
    assert trainer.checkpoints.last_steps == [4, 6] and not trainer.state.finished and trainer.logger.closed


def test_a_diverged_training_saves_nothing_more(make):
    trainer = make([1.0], diverge_at=(3,))
    with pytest.raises(UserError, match="diverged after update 3: loss nan"):
        trainer.run()
    assert trainer.checkpoints.last_steps == [] and trainer.logger.closed


def test_a_diverged_training_goes_back_once(make, caplog):
    trainer = make([1.0, 2.0, 3.0], diverge_at=(6,))
    trainer.run()
    assert "goes on with the weights of update 4" in caplog.text
    assert trainer.checkpoints.last_steps == [4, 6, 8, 10, 10] and trainer.state.rolled_back
    trainer = make([1.0, 2.0], diverge_at=(6, 9))
    with pytest.raises(UserError, match="diverged after update 9: loss nan"):
        trainer.run()


def test_a_finished_training_opens_no_logger(make):
    trainer = make([])
    trainer.state.finished = True
    trainer.open_logger = lambda: pytest.fail("it logs")
    trainer.run()
