"""Invalid updates: skipped, then the training goes back once, then it ends; the same after an
interruption."""

import math
import re
from dataclasses import asdict
from itertools import count

import pytest
import torch
from test_train import at_update, comparable, differing, train_state

from nmt.errors import UserError
from nmt.training.state import (
    MAX_DEVIATIONS,
    MAX_SKIPPED,
    MIN_RISE,
    MIN_UPDATES,
    WINDOW,
    TrainingDiverged,
    TrainState,
)

WORDS = ["train.validate_every=4", "train.max_steps=16", "train.log_sentences=0", "data.test=null"]


def after(losses: list[float]) -> TrainState:
    state = TrainState()
    for loss in losses:
        state.step += 1  # an update is counted before its loss is read
        state.record_loss(loss)
        state.tokens += 1
    return state


def test_the_running_mean_and_variance_by_hand():
    state = after([4.0, 2.0])
    assert state.loss_mean == pytest.approx(4 - 0.01 * 2)
    assert state.loss_variance == pytest.approx(0.99 * 0.01 * 2**2)


def test_a_loss_may_be_five_times_a_guess_and_no_jump_above_the_mean():
    """The guess among 100 pieces is log 100; losses that vary widely may go on to vary."""
    assert TrainState().loss_limit(100) == pytest.approx(23.03, abs=0.01)
    assert 5.0 < after([3.0, 3.2] * MIN_UPDATES).loss_limit(100) < 5.6
    assert after([3.0, 3.2] * (MIN_UPDATES // 2 - 1)).loss_limit(100) > 23, "too early to compare"
    assert after([2.0, 4.0] * MIN_UPDATES).loss_limit(100) > 7
    for deviation in (0.5, 2.0):
        state = TrainState(step=MIN_UPDATES, loss_mean=1.0, loss_variance=deviation**2)
        rise = max(MIN_RISE, MAX_DEVIATIONS * deviation)
        assert state.loss_limit(10**9) == pytest.approx(1 + rise)
    state = TrainState(step=MIN_UPDATES, loss_mean=1.0, loss_variance=100.0)
    assert state.loss_limit(100) == pytest.approx(5 * math.log(100))


def test_too_many_skipped_updates_in_a_window():
    state = TrainState()
    # the first is out of the window of the last one
    for step in (1, *range(WINDOW, WINDOW + MAX_SKIPPED)):
        state.step = step
        state.record_skip(math.nan, 1.0, 9.0, "batch 3")
    state.step += 1
    with pytest.raises(TrainingDiverged, match="loss nan.*batch 3"):
        state.record_skip(math.nan, 1.0, 9.0, "batch 3")


@pytest.mark.parametrize(
    "key, value",
    [
        ("unknown", 1),
        ("step", 1.5),
        ("step", True),
        ("step", "1"),
        ("finished", 1),
        ("best", "x"),
        ("precision", 16),
        ("precision", "bf16\x1b[2J"),
        ("scores", 1.0),
        ("scores", {}),
        ("scores", [1.0, "x"]),
        ("skipped", [1, True]),
        ("point", []),
        ("point", {1: 1.0}),
        ("point", {"loss": "x"}),
        ("point", {"loss": 1.0, "\x1b": 1.0}),
        ("validate_every", 0),
    ],
)
def test_a_state_from_a_file_has_only_what_a_training_writes(key, value):
    given = TrainState(step=3, scores=[1.0], skipped=[2], point={"loss": 1.0}, precision="bf16")
    stored = asdict(given)
    assert TrainState.from_dict(stored) == given
    with pytest.raises(UserError, match=key):
        TrainState.from_dict(stored | {key: value})


@pytest.fixture
def nan_at(monkeypatch):
    """nan_at(N …): these gradient norms of the process are NaN, counted from 1."""

    def patch(*numbers: int) -> None:
        real = torch.nn.utils.clip_grad_norm_
        calls = count(1)

        def clip(*arguments: object, **options: object) -> torch.Tensor:
            norm = real(*arguments, **options)  # type: ignore[arg-type]
            return norm * float("nan") if next(calls) in numbers else norm

        monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)

    return patch


def test_invalid_updates_are_skipped_and_too_many_lead_back_to_a_clean_validation(
    train, folder, nan_at
):
    """Update 6 makes the validation of update 8 unclean, so the sixth invalid update leads back to
    update 4; after that they are counted anew."""
    nan_at(6, *range(9, 14), 15)
    answer = train("one")
    assert answer.code == 0
    said = re.findall(r"Update (\d+) is skipped: .* nan in batch \d+ of epoch \d+", answer.err)
    assert said == ["6", "9", "10", "11", "12", "15"]
    assert "Update 13: " in answer.err and "with the weights of update 4." in answer.err
    state = train_state(folder("one"))
    assert state["step"] == 16 and state["skipped"] == [15] and state["rolled_back"]


@pytest.mark.slow
def test_many_invalid_updates_roll_the_training_back_once(train, folder, nan_at, monkeypatch):
    """Updates 7 to 12 are invalid: five are skipped, the sixth goes back to update 4; later the
    same ends it.

    An interrupted training makes the same decisions: after the third skipped update and after the
    return.
    """
    nan_at(*range(7, 13))
    answer = train("back")
    assert answer.code == 0 and answer.err.count("is skipped") == 5
    assert "goes on with the weights of update 4" in answer.err
    nan_at(*range(7, 13))  # counts anew
    at_update(monkeypatch, 9, 13)
    assert [train("parts").code for _ in range(3)] == [130, 130, 0]
    whole, parts = (
        comparable(folder(name) / "last.safetensors")["model"] for name in ("back", "parts")
    )
    assert differing(whole, parts) == []
    nan_at(*range(7, 13), *range(13, 19))
    answer = train("twice", "train.max_steps=30")
    assert (
        answer.code == 2
        and ("diverged after update 18") in answer.err
        and "Traceback" not in answer.err
    )
