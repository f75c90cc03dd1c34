"""How many updates a training has, and the learning rate of each.

max_minutes is converted into a number of updates when enough of them have been timed. That number
changes only where the training would end clearly too early or too late, and is saved at once, so a
resumed training goes on with it.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from nmt.config.schedules import SCHEDULES
from nmt.config.schema import LIMITS, OptimConfig, TrainConfig
from nmt.training.distributed import World
from nmt.training.state import VALIDATE_EVERY, TrainState

log = logging.getLogger("nmt")

WARMUP = 400  # updates
LARGEST_WARMUP = 0.25  # fraction of the training
MANY_PASSES = 300  # over the training pairs; with 1,000 of them, passes 100 to 240 still help
MIN_UPDATES = 50  # before max_minutes is converted
MIN_TIMED_UPDATES = 10  # since `TimeBudget.timed_from`
# How long updates are made before max_minutes is converted. Those of the second half are timed,
# because the first ones are the slowest
MEASURED_FRACTION = 0.05  # of max_minutes
MAX_MEASURED_SECONDS = 60.0
# Seconds of updates from which on their number may be corrected, or MEASURED_FRACTION if that is
# more
MIN_CORRECTION_SECONDS = 60.0
# Fraction of max_minutes by which the end may be missed before the number of updates changes
CLEARLY = 0.02
# Largest fraction of the time for validations, where train.validate_every leaves it open
VALIDATION_SHARE = 0.05
# Fraction of max_minutes kept back for a machine that slows down and for the last checkpoints
RESERVE = 0.01


def is_endless(schedule: str, max_minutes: float | None) -> bool:
    """Whether a training whose budget is raised goes on as before.

    That is so if its learning rates do not depend on where it ends.
    """
    return not SCHEDULES[schedule].has_end and max_minutes is None


def has_other_limits(train: TrainConfig, earlier: TrainConfig) -> bool:
    """Whether a training has other limits than it had with the configuration `earlier`."""
    return any(getattr(train, name) != getattr(earlier, name) for name in LIMITS)


def with_new_limits(state: TrainState, total: int | None, train: TrainConfig) -> TrainState:
    """A stored state, changed for other limits than it was trained with.

    `total`: updates by max_steps and max_epochs. An interrupted training keeps its place in a
    schedule that ends elsewhere. A finished one that has updates or minutes left begins another
    schedule where it ended, with a warm-up and a decay of its own.
    """
    if not state.finished:
        return replace(state, total_steps=total, budget_fixed=False)
    has_updates = total is None or total > state.step
    has_minutes = train.max_minutes is None or 60 * train.max_minutes > state.seconds
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
    """optim.warmup_steps, or WARMUP for null; at most LARGEST_WARMUP of the `total` updates.

    A given optim.warmup_steps has no such limit in a schedule without an end, so that a longer
    training has the same updates.
    """
    wanted = WARMUP if optim.warmup_steps is None else optim.warmup_steps
    if total is None:
        return wanted
    if optim.warmup_steps is not None and not SCHEDULES[optim.schedule].has_end:
        return wanted
    return min(wanted, round(LARGEST_WARMUP * total))


def learning_rate(optim: OptimConfig, warmup: int, step: int, total: int) -> float:
    """The learning rate of update `step`, counted from 1, of a schedule of `total` updates.

    It rises linearly to its peak, then has the shape of the schedule.
    """
    if step < warmup:
        return optim.lr * (step / warmup)
    schedule = SCHEDULES[optim.schedule]
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return optim.lr * schedule.shape(step, warmup, progress, optim.final_lr_fraction)


def warn_of_passes(passes: float) -> None:
    """Log a warning where a training passes over its text very often."""
    if passes > MANY_PASSES:
        log.warning(
            "%d passes over the training pairs are too many; the model knows them by heart long "
            "before the end. Fewer minutes or updates do as well, and more text does better.",
            passes,
        )


def planned_updates(train: TrainConfig, updates_per_epoch: float) -> int | None:
    """The smaller of max_steps and max_epochs in updates; None if max_minutes is the only limit."""
    if train.max_epochs is None:
        return train.max_steps
    by_epochs = max(1, round(train.max_epochs * updates_per_epoch))
    return by_epochs if train.max_steps is None else min(train.max_steps, by_epochs)


class TimeBudget:
    """Keeps state.seconds, and estimates how many updates max_minutes has time for.

    All processes use the clock of process 0, so that they all compute the same number. `limit`:
    updates by max_steps and max_epochs.
    """

    def __init__(
        self, state: TrainState, train: TrainConfig, world: World, limit: int | None
    ) -> None:
        self.state = state
        self.train = train
        self.world = world
        self.limit = limit
        self.seconds_before = state.seconds  # before the training was resumed
        self.start = self.world.now() - state.seconds  # as if it had not been interrupted
        self.measured_seconds = min(  # of training before max_minutes is converted
            60 * MEASURED_FRACTION * (train.max_minutes or 0.0), MAX_MEASURED_SECONDS
        )
        # The step and second since which updates are timed; None until the slow ones are over
        self.timed_from: tuple[int, float] | None = None
        self.left_out_seconds = 0.0  # of validations and pictures since then
        self.validation_seconds = 0.0  # of the most recent validation

    def after_update(self) -> None:
        """Bring state.seconds up to date, and set `timed_from` once the first updates are over.

        That is after half of the seconds and half of the updates that are needed.
        """
        state = self.state
        self.read_clock()
        has_half_time = state.seconds - self.seconds_before >= self.measured_seconds / 2
        has_half_updates = state.step >= MIN_UPDATES // 2
        if has_half_time and has_half_updates and self.timed_from is None:
            self.timed_from = (state.step, state.seconds)
            self.left_out_seconds = 0.0

    def read_clock(self) -> None:
        """Bring state.seconds up to date."""
        self.state.seconds = self.world.now() - self.start

    def time_validation(self, validate: Callable[[], object]) -> float:
        """Run `validate`; its seconds are kept for the estimate, and returned."""
        self.validation_seconds = self.leave_out(validate)
        return self.validation_seconds

    def leave_out(self, work: Callable[[], object]) -> float:
        """Run `work`; its seconds do not count as time of updates, and are returned."""
        start = self.world.now()
        work()
        seconds = self.world.now() - start
        self.left_out_seconds += seconds
        return seconds

    def can_estimate(self) -> bool:
        """Whether max_minutes is not converted yet, but enough updates have been timed for that."""
        state = self.state
        if self.train.max_minutes is None or state.budget_fixed or self.timed_from is None:
            return False
        enough = state.step >= max(MIN_UPDATES, self.timed_from[0] + MIN_TIMED_UPDATES)
        return enough and state.seconds - self.seconds_before >= self.measured_seconds

    def end_measurement(self) -> float:
        """The seconds of an update since `timed_from`; another measurement begins."""
        assert self.timed_from is not None
        self.read_clock()
        state = self.state
        step, seconds = self.timed_from
        timed = state.seconds - seconds - self.left_out_seconds
        self.timed_from = (state.step, state.seconds)
        self.left_out_seconds = 0.0
        return timed / (state.step - step)

    def validation_interval(self, update_seconds: float) -> int:
        """Updates between validations, so that these take at most VALIDATION_SHARE of the time.

        The result is a multiple of VALIDATE_EVERY.
        """
        fewest = self.validation_seconds / (VALIDATION_SHARE * update_seconds)
        return VALIDATE_EVERY * max(1, math.ceil(fewest / VALIDATE_EVERY))

    def total_updates(self, update_seconds: float) -> int:
        """The updates of the whole training, if one takes so many seconds from now on.

        They are at most those of max_steps and max_epochs.
        """
        assert self.train.max_minutes is not None
        state = self.state
        budget = 60 * self.train.max_minutes * (1 - RESERVE)
        # Leaves time for the validation at the end
        left = max(0.0, budget - state.seconds - self.validation_seconds)
        total = state.step + int(left / self.with_validations(update_seconds))
        return min(total, self.limit or total)

    def with_validations(self, update_seconds: float) -> float:
        """The seconds of an update with its share of the validations."""
        return update_seconds + self.validation_seconds / self.state.validate_every

    def corrected(self) -> int | None:
        """Another total number of updates, if the present one would clearly miss max_minutes.

        None if the present one stays. That is judged by at least a minute of updates.
        """
        state = self.state
        minutes = self.train.max_minutes
        if minutes is None or not state.budget_fixed:
            return None
        # After a training is resumed, no validation has been timed at first
        if self.timed_from is None or not self.validation_seconds:
            return None
        timed = state.seconds - self.timed_from[1] - self.left_out_seconds
        if timed < max(MIN_CORRECTION_SECONDS, 60 * MEASURED_FRACTION * minutes):
            return None
        assert state.total_steps is not None
        update_seconds = self.end_measurement()
        total = self.total_updates(update_seconds)
        missed = abs(total - state.total_steps) * self.with_validations(update_seconds)
        return total if missed > 60 * CLEARLY * minutes else None
