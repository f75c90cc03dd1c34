"""Points of each schedule by hand."""

from dataclasses import fields

import pytest

from nmt.config.schema import OptimConfig
from nmt.errors import UserError
from nmt.training.schedule import SCHEDULES, learning_rate

# Peak 2, warm-up 4, 12 updates in all, final fraction 0.2: from 2 to 0.4.
POINTS = {
    "inverse_sqrt": {4: 2.0, 9: 2 * (2 / 3), 16: 1.0, 64: 0.5},
    "cosine": {4: 2.0, 6: 0.4 + 1.6 * (2 + 2**0.5) / 4, 8: 1.2, 10: 0.4 + 1.6 * (2 - 2**0.5) / 4, 12: 0.4, 99: 0.4},
    "linear": {4: 2.0, 6: 1.6, 8: 1.2, 10: 0.8, 12: 0.4, 99: 0.4},
    "constant": {4: 2.0, 8: 2.0, 99: 2.0},
}


def optim(schedule: str, warmup: int, final: float = 0.0) -> OptimConfig:
    return OptimConfig(
        lr=2.0,
        betas=[0.9, 0.98],
        eps=1e-9,
        weight_decay=0,
        clip_norm=1,
        schedule=schedule,
        warmup_steps=warmup,
        final_lr_fraction=final,
    )


def test_the_configuration_allows_all_of_them():
    (schedule,) = (field for field in fields(OptimConfig) if field.name == "schedule")
    assert schedule.metadata["choices"] == tuple(SCHEDULES)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_points_by_hand(schedule):
    points = {1: 0.5, 2: 1.0, 3: 1.5} | POINTS[schedule]
    for step, expected in points.items():
        assert learning_rate(optim(schedule, 4, 0.2), step, 12) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warmup_the_first_update_has_a_learning_rate(schedule):
    """After a tenth of the training: cos 18° = √(10 + 2 √5) / 4."""
    expected = {"inverse_sqrt": 2.0, "cosine": 1 + (10 + 2 * 5**0.5) ** 0.5 / 4, "linear": 1.8, "constant": 2.0}
    assert learning_rate(optim(schedule, 0), 1, 10) == pytest.approx(expected[schedule])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_training_shorter_than_its_warmup_only_rises(schedule):
    assert [learning_rate(optim(schedule, 8), step, 4) for step in range(1, 5)] == [0.25, 0.5, 0.75, 1.0]


def test_an_unknown_schedule_is_refused_with_the_possible_ones():
    with pytest.raises(UserError, match="'step'.*cosine"):
        learning_rate(optim("step", 0), 1, 1)
