"""When a training ends, in updates.

Minutes are turned into updates once, after a share of them and some updates; from then on only updates count, so a
training that was interrupted ends where the uninterrupted one would have.
"""

import logging
import time

from nmt.config import TrainConfig
from nmt.train.state import TrainState

log = logging.getLogger("nmt")

FIT = 50  # least number of updates before the minutes are fitted
TIMED = 10  # at least so many must have been timed in this life
SHARE, LONGEST = 0.05, 60.0  # of the minutes, and in seconds: how long to wait, since the first updates are the slowest
RESERVE = 0.02  # of the minutes: what a machine may slow down after it was timed, and the last checkpoints


def known_total(train: TrainConfig, updates_per_epoch: float) -> int | None:
    """The smaller of the limits that are known in advance; None if there are only minutes."""
    limits = []
    if train.max_steps is not None:
        limits.append(train.max_steps)
    if train.max_epochs is not None:
        limits.append(max(1, round(train.max_epochs * updates_per_epoch)))
    return min(limits) if limits else None


def warn_of_warmup(warmup: int, total: int | None) -> None:
    """A learning rate that only rises teaches little."""
    if total is not None and warmup >= total:
        log.warning(
            "optim.warmup_steps=%d is no shorter than the whole training (%d updates), so that the learning rate only "
            "rises; choose a smaller one.", warmup, total,
        )  # fmt: skip


class TimeBudget:
    """Counts the seconds of a training over all its lives, and what an update takes."""

    def __init__(self, place: TrainState, minutes: float | None) -> None:
        self.place, self.born = place, place.seconds
        self.began = time.monotonic() - place.seconds
        self.patience = min(60 * SHARE * (minutes or 0.0), LONGEST)
        self.mark = (place.step, place.seconds)
        self.warm = False  # whether the mark stands where timing begins
        self.looking = 0.0  # seconds of validations since the mark

    def tick(self) -> None:
        """After each update; timing begins after half of the patience and of the updates."""
        self.place.seconds = time.monotonic() - self.began
        late = self.place.seconds - self.born >= self.patience / 2 and self.place.step >= FIT // 2
        if late and not self.warm:
            self.mark, self.looking, self.warm = (self.place.step, self.place.seconds), 0.0, True

    def ready(self, train: TrainConfig) -> bool:
        """Whether it is time to turn the minutes into updates."""
        if train.max_minutes is None or self.place.fitted or not self.warm:
            return False
        timed, lived = self.place.step - self.mark[0], self.place.seconds - self.born
        return self.place.step >= FIT and timed >= TIMED and lived >= self.patience

    def fit(self, train: TrainConfig, validation: float) -> tuple[int, float]:
        """How many updates fit into max_minutes if a validation takes so many seconds; and the seconds of one."""
        assert train.max_minutes is not None
        self.tick()
        step, seconds = self.mark
        update = (self.place.seconds - seconds - self.looking) / (self.place.step - step)
        left = max(0.0, 60 * train.max_minutes * (1 - RESERVE) - self.place.seconds - validation)  # one ends it
        total = self.place.step + int(left / (update + validation / train.validate_every))
        return min(total, self.place.total or total), update
