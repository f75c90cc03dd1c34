"""Points of each schedule by hand, and the number of updates from steps, epochs and minutes."""

from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from torch import nn

from nmt.config.schedules import SCHEDULES
from nmt.config.schema import OptimConfig, TrainConfig
from nmt.evaluate.verdict import TrainingFigures
from nmt.models.dropout import UNDECIDED_DROPOUT, Dropout
from nmt.training import schedule
from nmt.training.distributed import World
from nmt.training.schedule import (
    TimeBudget,
    learning_rate,
    planned_updates,
    warmup_updates,
    warn_of_passes,
    with_new_limits,
)
from nmt.training.state import TrainState
from nmt.training.train_step import TrainMetrics
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult

# Peak 2, warm-up 4, 12 updates in all, final fraction 0.2: from 2 to 0.4.
POINTS = {
    "inverse_sqrt": {4: 2.0, 9: 2 * (2 / 3), 16: 1.0, 64: 0.5},
    "cosine": {
        4: 2.0,
        6: 0.4 + 1.6 * (2 + 2**0.5) / 4,
        8: 1.2,
        10: 0.4 + 1.6 * (2 - 2**0.5) / 4,
        12: 0.4,
        99: 0.4,
    },
    "linear": {4: 2.0, 6: 1.6, 8: 1.2, 10: 0.8, 12: 0.4, 99: 0.4},
    "constant": {4: 2.0, 8: 2.0, 99: 2.0},
}


def optim(schedule: str, final: float = 0.0, warmup: int | None = None) -> OptimConfig:
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


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_points_by_hand(schedule):
    points = {1: 0.5, 2: 1.0, 3: 1.5} | POINTS[schedule]
    for step, expected in points.items():
        assert learning_rate(optim(schedule, 0.2), 4, step, 12) == pytest.approx(
            expected, abs=1e-12
        )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_warmup_or_nothing_else(schedule):
    """Without warm-up, after a tenth of the training: cos 18° = √(10 + 2 √5) / 4."""
    expected = {
        "inverse_sqrt": 2.0,
        "cosine": 1 + (10 + 2 * 5**0.5) ** 0.5 / 4,
        "linear": 1.8,
        "constant": 2.0,
    }
    assert learning_rate(optim(schedule), 0, 1, 10) == pytest.approx(expected[schedule])
    assert [learning_rate(optim(schedule), 8, step, 4) for step in range(1, 5)] == [
        0.25,
        0.5,
        0.75,
        1.0,
    ]


def test_the_default_warmup_is_a_quarter_of_a_short_training():
    by_length = {None: 400, 20_000: 400, 1600: 400, 1200: 300, 10: 2}
    assert {total: warmup_updates(optim("linear"), total) for total in by_length} == by_length
    assert [warmup_updates(optim("linear", warmup=7), total) for total in (None, 100, 10)] == [
        7,
        7,
        2,
    ]
    assert warmup_updates(optim("inverse_sqrt", warmup=7), 10) == 7


def test_many_passes_are_warned_of(caplog):
    warn_of_passes(100)
    assert not caplog.text
    warn_of_passes(400)
    assert "400 passes over the training pairs" in caplog.text


def train_config(**values: float) -> TrainConfig:
    empty = {field.name: None for field in fields(TrainConfig)}
    return TrainConfig(**(empty | values))  # type: ignore[arg-type]


def test_the_smaller_of_steps_and_epochs():
    assert planned_updates(train_config(max_epochs=0.5), 9.0) == 4
    assert planned_updates(train_config(max_epochs=0.01), 9.0) == 1
    assert planned_updates(train_config(max_epochs=3, max_steps=20), 9.0) == 20
    assert planned_updates(train_config(max_minutes=3), 9.0) is None


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    return clock


def test_minutes_are_converted_by_updates_that_are_no_longer_slow(clock):
    """2 minutes: 6 s are measured; updates take 0.5 s for 4 s, then 0.05 s, and validations 1 s
    every 100 updates."""
    state = TrainState(validate_every=100)
    budget = TimeBudget(state, train_config(max_minutes=2.0), World(), None)
    while not budget.can_estimate():
        clock.now += 0.5 if clock.now < 1004 else 0.05
        state.step += 1
        budget.after_update()
    assert 1006 <= clock.now < 1007 and state.step >= schedule.MIN_UPDATES
    budget.validation_seconds = 1.0
    update = budget.end_measurement()
    assert update == pytest.approx(0.05, abs=1e-6)
    left = 120 * (1 - schedule.RESERVE) - (clock.now - 1000) - 1
    assert budget.total_updates(update) == state.step + int(left / (update + 1 / 100))


@pytest.mark.parametrize("seconds", [0.1, 2.4, 2.6, 9.0, 100.0])
def test_validations_take_at_most_a_twentieth_of_the_time(seconds):
    """Updates of 0.1 s: a validation every 500 of them may take 2.5 s."""
    budget = TimeBudget(TrainState(), train_config(max_minutes=2.0), World(), None)
    budget.validation_seconds = seconds
    interval = budget.validation_interval(0.1)
    assert interval % 500 == 0
    assert seconds <= 0.05 * 0.1 * interval
    assert interval == 500 or seconds > 0.05 * 0.1 * (interval - 500)


@pytest.mark.parametrize("earlier", [0.0, 40.0])
def test_the_clock_goes_on_where_an_interrupted_training_ended(clock, earlier):
    """Hours later: only the seconds of training count, and updates are timed anew.

    They are slow once more: those of the first half of the measured 6 s are not timed.
    """
    state = TrainState(step=500, seconds=earlier)
    budget = TimeBudget(state, train_config(max_minutes=2.0), World(), None)
    while not budget.can_estimate():
        clock.now += 0.5 if clock.now < 1003 else 0.05
        state.step += 1
        budget.after_update()
    assert state.seconds == pytest.approx(earlier + clock.now - 1000)
    assert 6 <= clock.now - 1000 < 6.2
    assert budget.end_measurement() == pytest.approx(0.05)


@pytest.mark.parametrize("given, interval", [(None, 2000), (100, 100)])
def test_the_minutes_decide_how_often_is_validated_where_that_is_open(clock, given, interval):
    """A validation takes 9 s, an update 0.1 s."""
    train = train_config(max_minutes=30.0, validate_every=given, accumulate=1)
    state = TrainState(step=100, seconds=20.0, validate_every=given or 500)
    trainer = trainer_of(state, train, SimpleNamespace(stop=None), None)
    trainer.run_validation = lambda reference_lengths: setattr(clock, "now", clock.now + 9)
    trainer.decide_by_length = trainer.save = lambda: None
    budget = TimeBudget(state, train, World(), None)
    budget.timed_from = (0, 10.0)
    trainer.convert_minutes(budget, SimpleNamespace(set_total=lambda total: None))
    assert state.validate_every == interval
    left = 1800 * (1 - schedule.RESERVE) - 29 - 9
    assert state.total_steps == 100 + int(left / (0.1 + 9 / interval))


@pytest.mark.parametrize("interruptions", [[], [100, 200], [400, 500]])
@pytest.mark.parametrize(
    "slower, limit, corrections", [(1.01, None, 0), (2.5, None, 3), (0.5, None, 3), (0.5, 7000, 0)]
)
def test_a_training_ends_in_its_time_also_where_its_speed_changes(
    clock, slower, limit, corrections, interruptions
):
    """15 minutes of updates of 0.1 s, from the fifth minute on of another length, and validations
    of 4 s; after an interruption nothing but `state` is left."""

    def validate() -> None:
        clock.now += 4

    state = TrainState()
    train = train_config(max_minutes=15.0)
    remaining = list(interruptions)
    lost = 0.0
    totals = list[int]()
    budget = TimeBudget(state, train, World(), limit)
    while not state.budget_spent:
        seconds = clock.now - 1000 - lost
        if remaining and seconds > remaining[0]:
            remaining.pop(0)
            lost += 5000
            clock.now += 5000
            budget = TimeBudget(state, train, World(), limit)
        clock.now += 0.1 * (slower if seconds > 300 else 1)
        state.step += 1
        budget.after_update()
        if budget.can_estimate():
            budget.time_validation(validate)
            state.total_steps = budget.total_updates(budget.end_measurement())
            state.budget_fixed = True
            totals.append(state.total_steps)
        elif (total := budget.corrected()) is not None:
            state.total_steps = total
            totals.append(total)
        if state.step % 500 == 0 or state.budget_spent:
            budget.time_validation(validate)
    assert not remaining
    if limit:
        assert totals == [limit]
    else:
        assert 14.5 <= (clock.now - 1000 - lost) / 60 <= 15.2
    assert bool(corrections) <= len(totals) - 1 <= corrections


@pytest.mark.parametrize(
    "finished, seconds, limits, begins",
    [
        (False, 50.0, {"max_steps": 20}, None),
        (True, 50.0, {"max_steps": 20}, True),
        (True, 50.0, {"max_steps": 12}, False),
        (True, 50.0, {"max_minutes": 2}, True),
        (True, 120.0, {"max_minutes": 2}, False),
        (True, 50.0, {"max_steps": 20, "max_minutes": 0.5}, False),
        (True, 50.0, {"max_steps": 20, "patience": 3}, False),
    ],
)
def test_other_limits_for_a_training(finished, seconds, limits, begins):
    """One that was interrupted keeps its schedule; one that has ended begins another, if it has
    updates, minutes and patience left."""
    state = TrainState(
        step=12,
        total_steps=12,
        finished=finished,
        seconds=seconds,
        budget_fixed=True,
        warmup_steps=3,
        dropout=0.3,
        validations_since_best=3,
    )
    total = limits.get("max_steps")
    found = with_new_limits(state, total, train_config(**{"patience": 0, **limits}))
    wanted = state
    if begins is not False:
        wanted = replace(state, total_steps=total, budget_fixed=False)
    if begins:
        wanted = replace(
            wanted,
            finished=False,
            schedule_start=12,
            warmup_steps=None,
            dropout=None,
            validations_since_best=0,
        )
    assert found == wanted


def trainer_of(
    state: TrainState, train: TrainConfig, validation: object, checkpoints: object
) -> Trainer:
    """A trainer of one weight, with five updates an epoch."""
    train_step = SimpleNamespace(
        world=World(), state=state, model=nn.Linear(1, 1), device=None, optimizer=None
    )
    train_step.settle = lambda: None
    train_step.metrics = TrainMetrics()
    train_step.batches = SimpleNamespace(pairs=range(90), batches_per_epoch=10)
    return Trainer(SimpleNamespace(train=train), train_step, validation, checkpoints)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "limits, minutes",
    [
        ({"max_minutes": 5}, 2.0),
        ({"max_minutes": 5, "max_steps": 21}, 2.0),
        ({"max_minutes": 5, "max_steps": 20}, None),
        ({"max_minutes": 5, "max_epochs": 4}, None),
        ({"max_steps": 20}, None),
    ],
)
def test_the_verdict_learns_what_has_ended_the_training(limits, minutes):
    state = TrainState(step=20, seconds=120.0, scores=[4.0, 3.0, 2.0, 1.0])
    train = train_config(accumulate=2, patience=3, metric="loss", **limits)
    trainer = trainer_of(state, train, SimpleNamespace(stop=None), None)
    assert trainer.figures == TrainingFigures(90, 4.0, minutes, is_rising=True)
    state.validations_since_best = 3
    state.scores.reverse()
    assert trainer.figures == TrainingFigures(90, 4.0, minutes, False, is_early=True)


@pytest.mark.parametrize(
    "limits, fixed, total, warmup",
    [
        ({"max_steps": 1000}, False, 1000, 250),
        ({"max_steps": 1000, "max_minutes": 5}, False, 1000, None),
        ({"max_minutes": 5}, True, 4000, 400),
        ({"max_minutes": 5}, False, None, None),
    ],
)
@pytest.mark.parametrize("start", [0, 100])
@pytest.mark.parametrize("from_run", [None, "parent"])
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
@pytest.mark.parametrize("given", [None, 0.2])
def test_what_depends_on_the_length_is_decided_when_it_is_known(
    limits, fixed, total, warmup, start, from_run, r_drop, given, monkeypatch
):
    """The warm-up is that of the rest; dropout depends on all passes, at five updates each."""
    decided = []

    def dropout(passes: float, needs_some: bool) -> float:
        decided.append((passes, needs_some))
        return 0.3

    monkeypatch.setattr("nmt.config.presets.dropout", dropout)
    state = TrainState(
        total_steps=None if total is None else total + start,
        budget_fixed=fixed,
        step=start,
        schedule_start=start,
    )
    train = train_config(accumulate=2, r_drop=r_drop, **limits)
    trainer = trainer_of(state, train, SimpleNamespace(stop=None), None)
    trainer.config.optim = optim("linear")
    trainer.config.from_run = from_run
    trainer.config.model = SimpleNamespace(dropout=given)
    trainer.model = Dropout(given)
    trainer.decide_by_length()
    assert state.warmup_steps == warmup
    is_decided = warmup is not None and given is None
    if is_decided:
        assert decided == [((total + start) / 5, from_run is not None or r_drop > 0)]
    else:
        assert not decided
    assert state.dropout == (0.3 if is_decided else None)
    assert trainer.model.probability == (0.3 if is_decided else given or UNDECIDED_DROPOUT)


def test_a_validation_counts_and_does_not_end_a_point_of_the_curves():
    """Six by their losses; an update before the third was skipped, and the second was so before."""
    losses = [3.0, 2.0, 2.5, 2.0, 1.0]
    best = [(3.0, 0), (2.0, 0), (2.0, 1), (2.0, 2), (1.0, 0)]
    clean = [10, 20, 20, 40, 50]
    remaining = iter(losses)
    saved = []
    marked = []
    checkpoints = SimpleNamespace(
        save_scored=lambda weights, step, result, is_best: saved.append((step, is_best)),
        save_last=lambda *_: None,
        mark_validated=lambda: marked.append(state.step),
    )

    def validate(_: bool) -> ValidationResult:
        return ValidationResult({"loss": next(remaining)}, [])

    state = TrainState()
    validation = SimpleNamespace(stop=None, run=validate)
    trainer = trainer_of(state, train_config(metric="loss"), validation, checkpoints)
    for step, wanted, rollback_step in zip(range(10, 60, 10), best, clean, strict=True):
        state.step = step
        if step == 30:
            state.skipped = [21]
        metrics = TrainMetrics(nll=5.0, tokens=3, updates=1)
        trainer.train_step.metrics = metrics
        trainer.validate()
        assert (state.best, state.validations_since_best) == wanted
        assert (state.validated_step, state.rollback_step) == (step, rollback_step)
        assert trainer.train_step.metrics is metrics and state.metrics == metrics.sums()
    assert state.scores == losses
    assert saved == [(10, True), (20, True), (30, False), (40, False), (50, True)]
    assert marked == [10, 20, 40, 50]


@pytest.mark.parametrize(
    "step, validated, total, due",
    [
        (0, 0, None, False),
        (99, 0, None, False),
        (100, 0, None, True),
        (100, 100, None, False),
        (150, 100, 150, True),
        (150, 150, 150, False),
        (149, 100, 150, False),
        (0, 0, 0, False),
    ],
)
def test_every_hundredth_update_and_the_last_are_validated_once(step, validated, total, due):
    state = TrainState(step, validated_step=validated, total_steps=total, validate_every=100)
    assert state.validation_due == due


@pytest.mark.parametrize("minutes, seconds", [(1, 0.5), (1, 30), (0.05, 2), (None, 1)])
def test_saves_by_time_are_rare_where_a_save_is_slow(clock, minutes, seconds):
    """After train.save_minutes, and from the second on in a fiftieth of the time at most."""
    ends = [clock.now]

    def save_last(*_: object) -> None:
        clock.now += seconds
        ends.append(clock.now)

    train = train_config(save_minutes=minutes)
    checkpoints = SimpleNamespace(save_last=save_last)
    trainer = trainer_of(TrainState(), train, SimpleNamespace(stop=None), checkpoints)
    while clock.now < 20_000:
        clock.now += 1  # an update
        trainer.save_by_time()
    waits = [end - seconds - start for start, end in pairwise(ends)]
    assert bool(waits) == (minutes is not None)
    for number, wait in enumerate(waits):
        wanted = max(60 * minutes, 50 * seconds if number else 0)
        assert wanted <= wait <= wanted + 1
