"""How many updates a training has, and the learning rate of each: a linear warm-up, then a
schedule.

max_minutes is converted into a number of updates when enough of them have been timed. That number
changes only where the training would end clearly too early or too late, and is saved at once, so a
resumed training goes on with it.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from nmt.config.schedules import SCHEDULES
from nmt.config.schema import LIMITS, OptimConfig, TrainConfig
from nmt.errors import choose
from nmt.training.distributed import World
from nmt.training.state import TrainState

log = logging.getLogger("nmt")

# updates; fraction of the training
WARMUP = 400
LARGEST_WARMUP = 0.25
MANY_PASSES = 300  # over the training pairs; 1,000 pairs still teach something between 100 and 240
MIN_UPDATES = 50  # before max_minutes is converted
MIN_TIMED_UPDATES = 10  # since the start or the last resumption
# How long to measure, as a fraction of max_minutes and at most in seconds: the first updates are
# the slowest.
MEASURED_FRACTION = 0.05
MAX_MEASURED_SECONDS = 60.0
# fraction of max_minutes by which the end may be missed before the number of updates changes
CLEARLY = 0.02
# fraction of max_minutes kept back for a machine that slows down and for the last checkpoints
RESERVE = 0.01


def is_endless(schedule: str, max_minutes: float | None) -> bool:
    """Whether a training has the same updates with a larger budget: neither schedule nor minutes
    depend on its end."""
    return not SCHEDULES[schedule].has_end and max_minutes is None


def has_other_limits(train: TrainConfig, earlier: TrainConfig) -> bool:
    """Whether a training would end at another update or minute than it did with the configuration
    `earlier`."""
    return any(getattr(train, name) != getattr(earlier, name) for name in LIMITS)


def with_new_limits(state: TrainState, total: int | None, train: TrainConfig) -> TrainState:
    """A stored state under other limits than it was trained with; `total`: updates by max_steps and
    max_epochs.

    An interrupted training keeps its place in a schedule that ends elsewhere. A finished one that
    has updates or minutes left begins another schedule where it ended, with a warm-up and a decay
    of its own.
    """
    has_updates = total is None or total > state.step
    has_minutes = train.max_minutes is None or 60 * train.max_minutes > state.seconds
    if not state.finished:
        return replace(state, total_steps=total, budget_fixed=False)
    if not (has_updates and has_minutes) or state.patience_spent(train.patience):
        return state
    return replace(
        state,
        finished=False,
        schedule_start=state.step,
        warmup_steps=None,
        total_steps=total,
        budget_fixed=False,
        dropout=None,
        validations_since_best=0,
    )


def warmup_updates(optim: OptimConfig, total: int | None) -> int:
    """optim.warmup_steps, for null WARMUP; at most LARGEST_WARMUP of the `total` updates where that
    is known.

    A number that is given for a schedule without an end stays, so that a longer training has the
    same updates.
    """
    wanted = WARMUP if optim.warmup_steps is None else optim.warmup_steps
    if total is None or optim.warmup_steps is not None and not SCHEDULES[optim.schedule].has_end:
        return wanted
    return min(wanted, round(LARGEST_WARMUP * total))


def learning_rate(optim: OptimConfig, warmup: int, step: int, total: int) -> float:
    """The learning rate of update `step` (from 1) of a schedule of `total`: linearly to the peak,
    then its shape."""
    schedule = choose("schedule", optim.schedule, SCHEDULES)
    if step < warmup:
        return optim.lr * (step / warmup)
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return optim.lr * schedule.shape(step, warmup, progress, optim.final_lr_fraction)


def warn_of_passes(passes: float) -> None:
    """Log a warning where a training passes over its text very often."""
    if passes > MANY_PASSES:
        log.warning(
            "These are %d passes over the training pairs, which will be known by heart long "
            "before; fewer minutes or "
            "updates do as well, and more text does better.",
            passes,
        )


def planned_updates(train: TrainConfig, updates_per_epoch: float) -> int | None:
    """The smaller of max_steps and max_epochs in updates; None if max_minutes is the only limit."""
    epochs = (
        None if train.max_epochs is None else max(1, round(train.max_epochs * updates_per_epoch))
    )
    return min((limit for limit in (train.max_steps, epochs) if limit is not None), default=None)


class TimeBudget:
    """Keeps state.seconds, and estimates how many updates max_minutes has time for.

    Every process of a training goes by the clock of process 0, so that all come to the same number.
    """

    def __init__(
        self, state: TrainState, train: TrainConfig, world: World, limit: int | None
    ) -> None:
        self.state = state
        self.train = train
        self.world = world
        self.limit = limit
        self.seconds_before = state.seconds  # of earlier processes of this training
        self.start = self.world.now() - state.seconds
        self.measured_seconds = min(
            60 * MEASURED_FRACTION * (train.max_minutes or 0.0), MAX_MEASURED_SECONDS
        )
        # an update and its second, once the slow ones are over
        self.timed_from: tuple[int, float] | None = None
        self.left_out_seconds = 0.0  # of validations and pictures since then
        self.validation = 0.0  # seconds of the last one

    def after_update(self) -> None:
        """Bring state.seconds up to date; timing starts after half of the seconds and half of the
        updates needed."""
        state = self.state
        state.seconds = self.world.now() - self.start
        warmed_up = (
            state.seconds - self.seconds_before >= self.measured_seconds / 2
            and state.step >= MIN_UPDATES // 2
        )
        if warmed_up and self.timed_from is None:
            self.timed_from = (state.step, state.seconds)
            self.left_out_seconds = 0.0

    def time_validation(self, validate: Callable[[], object]) -> float:
        """Run `validate`, and keep its seconds for the estimate; they are returned."""
        self.validation = self.leave_out(validate)
        return self.validation

    def leave_out(self, work: Callable[[], object]) -> float:
        """Run `work`; its seconds are returned, and do not count as those of an update."""
        start = self.world.now()
        work()
        seconds = self.world.now() - start
        self.left_out_seconds += seconds
        return seconds

    def can_estimate(self) -> bool:
        """Whether max_minutes is still to be converted and enough updates have been timed for
        it."""
        state = self.state
        if self.train.max_minutes is None or state.budget_fixed or self.timed_from is None:
            return False
        enough = state.step >= max(MIN_UPDATES, self.timed_from[0] + MIN_TIMED_UPDATES)
        return enough and state.seconds - self.seconds_before >= self.measured_seconds

    def estimate(self) -> tuple[int, float]:
        """The total number of updates by the time since `timed_from`, which is set anew; and the
        seconds of an update.

        A smaller limit from max_steps or max_epochs is kept.
        """
        assert self.train.max_minutes is not None and self.timed_from is not None
        self.after_update()
        step, seconds = self.timed_from
        update = (self.state.seconds - seconds - self.left_out_seconds) / (self.state.step - step)
        self.timed_from = (self.state.step, self.state.seconds)
        self.left_out_seconds = 0.0
        budget = 60 * self.train.max_minutes * (1 - RESERVE)
        # a validation ends the training
        left = max(0.0, budget - self.state.seconds - self.validation)
        total = self.state.step + int(left / (update + self.validation / self.train.validate_every))
        return min(total, self.limit or total), update

    def corrected(self) -> int | None:
        """Another total number of updates where, by the last minute or more, this one clearly
        misses max_minutes."""
        state = self.state
        minutes = self.train.max_minutes
        if (
            minutes is None
            or not state.budget_fixed
            or self.timed_from is None
            or not self.validation
        ):
            return None
        timed = state.seconds - self.timed_from[1] - self.left_out_seconds
        if timed < max(MAX_MEASURED_SECONDS, 60 * MEASURED_FRACTION * minutes):
            return None
        assert state.total_steps is not None
        total, update = self.estimate()
        missed = abs(total - state.total_steps) * (
            update + self.validation / self.train.validate_every
        )
        return total if missed > 60 * CLEARLY * minutes else None
