"""Points of each schedule by hand."""

from dataclasses import fields

import pytest

from nmt.config import OptimConfig
from nmt.errors import UserError
from nmt.train.schedule import SCHEDULES, rate

# Peak 2, warm-up 4, 12 updates in all, final share 0.2: from 2 to 0.4.
POINTS = {
    "inverse_sqrt": {4: 2.0, 9: 2 * (2 / 3), 16: 1.0, 64: 0.5},
    "cosine": {4: 2.0, 6: 0.4 + 1.6 * (2 + 2**0.5) / 4, 8: 1.2, 10: 0.4 + 1.6 * (2 - 2**0.5) / 4, 12: 0.4, 99: 0.4},
    "linear": {4: 2.0, 6: 1.6, 8: 1.2, 10: 0.8, 12: 0.4, 99: 0.4},
    "constant": {4: 2.0, 8: 2.0, 99: 2.0},
}


def test_the_configuration_knows_them():
    (schedule,) = (field for field in fields(OptimConfig) if field.name == "schedule")
    assert schedule.metadata["choices"] == tuple(SCHEDULES)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_points_by_hand(schedule):
    points = {1: 0.5, 2: 1.0, 3: 1.5} | POINTS[schedule]
    for step, wanted in points.items():
        assert rate(schedule, 2.0, step, 4, 12, 0.2) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warm_up_the_first_update_is_not_lost(schedule):
    """The tenth of the way: cos 18° = √(10 + 2 √5) / 4."""
    firsts = {"inverse_sqrt": 2.0, "cosine": 1 + (10 + 2 * 5**0.5) ** 0.5 / 4, "linear": 1.8, "constant": 2.0}
    assert rate(schedule, 2.0, 1, 0, 10, 0.0) == pytest.approx(firsts[schedule])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_training_shorter_than_its_warm_up_only_rises(schedule):
    assert [rate(schedule, 2.0, step, 8, 4, 0.0) for step in range(1, 5)] == [0.25, 0.5, 0.75, 1.0]


def test_an_unknown_schedule_is_named_with_the_known():
    with pytest.raises(UserError, match="'step'.*cosine"):
        rate("step", 1.0, 1, 0, 1, 0.0)
