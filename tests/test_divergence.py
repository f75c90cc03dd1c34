"""Invalid updates: skipped, then the training goes back once, then it ends; the same after an interruption."""

import math
import re
import signal
from itertools import count
from pathlib import Path

import pytest
import torch
from corpora import run_command, small, write_corpus

from nmt.training import checkpoint
from nmt.training.divergence import (
    MAX_SKIPPED,
    MIN_UPDATES,
    WINDOW,
    TrainingDiverged,
    find_fault,
    loss_limit,
    must_skip,
    record_loss,
    record_skip,
)
from nmt.training.state import TrainState
from nmt.training.train_step import TrainStep


def after(losses: list[float]) -> TrainState:
    state = TrainState()
    for loss in losses:
        record_loss(state, loss)
        state.step, state.tokens = state.step + 1, state.tokens + 1
    return state


def fault(state: TrainState, loss: float, norm: float) -> str | None:
    """What is wrong with an update among 100 pieces; the device decides the same."""
    limit = loss_limit(state, 100)
    found = find_fault(state, loss, norm, limit)
    on_device = must_skip(torch.tensor(loss, dtype=torch.float64), torch.tensor(norm), limit)
    assert on_device.tolist() == float(found is not None)
    return found


def test_the_running_mean_and_variance_by_hand():
    state = after([4.0, 2.0])
    assert state.loss_mean == pytest.approx(4 - 0.01 * 2)
    assert state.loss_variance == pytest.approx(0.99 * 0.01 * 2**2)


@pytest.mark.parametrize("loss, norm", [(math.nan, 1.0), (math.inf, 1.0), (3.0, math.nan), (3.0, math.inf), (30, 1.0)])
def test_an_invalid_number_is_a_fault_from_the_first_update_on(loss, norm):
    assert fault(TrainState(), loss, norm) is not None  # 5 log 100 = 23
    assert fault(TrainState(), 22.0, 1e6) is None


def test_a_jump_far_above_the_mean_is_a_fault():
    state = after([3.0, 3.2] * MIN_UPDATES)
    assert fault(state, 3.9, 1.0) is None
    assert "mean loss is 3.0" in (fault(state, 4.6, 1.0) or "")
    assert fault(after([3.0, 3.2] * (MIN_UPDATES // 2 - 1)), 4.6, 1.0) is None, "too early to compare"


def test_losses_that_vary_widely_may_vary():
    assert fault(after([2.0, 4.0] * MIN_UPDATES), 7.0, 1.0) is None


def test_too_many_skipped_updates_in_a_window():
    state = TrainState()
    for step in (1, *range(WINDOW, WINDOW + MAX_SKIPPED)):  # the first is out of the window of the last one
        state.step = step
        record_skip(state, "loss nan")
    state.step += 1
    with pytest.raises(TrainingDiverged, match="loss nan"):
        record_skip(state, "loss nan")


@pytest.fixture
def nan_at(monkeypatch):
    """nan_at(N …): these gradient norms of the process are NaN, counted from 1."""

    def patch(*numbers: int) -> None:
        real, calls = torch.nn.utils.clip_grad_norm_, count(1)

        def clip(*arguments: object, **options: object) -> torch.Tensor:
            norm = real(*arguments, **options)  # type: ignore[arg-type]
            return norm * float("nan") if next(calls) in numbers else norm

        monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)

    return patch


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def train(tmp_path, corpus, capfd):
    """train(NAME, WORD …) → exit code, stdout and stderr of a training with dropout, validated every 4 updates."""
    words = ("train.validate_every=4", "train.max_steps=16", "train.log_sentences=0", "data.test=null")
    return lambda name, *more: run_command(capfd, "train", *small(tmp_path, corpus, *words, *more, f"name={name}"))


def weights(root: Path, name: str) -> dict[str, torch.Tensor]:
    return checkpoint.load(root / "runs" / name / "last.safetensors")["model"]


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


def test_one_invalid_update_is_skipped_and_said(train, nan_at, tmp_path):
    nan_at(6)
    answer = train("one")
    assert answer.code == 0
    assert re.search(r"Update 6 is skipped: loss [\d.]+, gradient norm nan in batch \d+ of epoch \d+", answer.err)
    state = checkpoint.load(tmp_path / "runs" / "one" / "last.safetensors")["train_state"]
    assert state["step"] == 16 and state["skipped"] == [6] and not state["rolled_back"]


@pytest.mark.slow
def test_many_invalid_updates_roll_the_training_back_once(train, nan_at, tmp_path):
    """Updates 7 to 12 are invalid: five are skipped, the sixth goes back to update 4; later the same ends it."""
    nan_at(*range(7, 13))
    answer = train("back")
    assert answer.code == 0 and answer.err.count("is skipped") == 5
    assert "Update 12: loss" in answer.err and "goes on with the weights of update 4" in answer.err
    nan_at(*range(7, 13), *range(13, 19))
    answer = train("twice", "train.max_steps=30")
    assert answer.code == 2 and "diverged after update 18" in answer.err and "Traceback" not in answer.err


@pytest.mark.slow
def test_an_interrupted_training_makes_the_same_decisions(train, nan_at, tmp_path, monkeypatch):
    """The training of the test above, interrupted after the third skipped update and after the return."""
    nan_at(*range(7, 13))
    assert train("whole").code == 0
    nan_at(*range(7, 13))  # counts anew
    stop_after(monkeypatch, 9, 13)
    assert [train("parts").code for _ in range(3)] == [130, 130, 0]
    assert equal(weights(tmp_path, "whole"), weights(tmp_path, "parts"))


def stop_after(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Ctrl-C after these updates."""
    real, remaining = TrainStep.update, list(steps)

    def update(self: TrainStep) -> dict[str, float]:
        figures = real(self)
        if remaining and self.state.step == remaining[0]:
            remaining.pop(0)
            signal.raise_signal(signal.SIGINT)
        return figures

    monkeypatch.setattr(TrainStep, "update", update)
