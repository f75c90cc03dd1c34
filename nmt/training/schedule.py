"""The learning rate of each update: a linear warm-up, then one of SCHEDULES."""

import logging
import math
from collections.abc import Callable

from nmt.config.schema import OptimConfig
from nmt.errors import choose

log = logging.getLogger("nmt")


def inverse_sqrt(step: int, warmup: int, total: int, final: float) -> float:
    """√(warmup / step) (Vaswani 2017 eq. 3)."""
    return math.sqrt(max(warmup, 1) / step)


def cosine(step: int, warmup: int, total: int, final: float) -> float:
    """Half a cosine from 1 to `final`."""
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress(step, warmup, total)))


def linear(step: int, warmup: int, total: int, final: float) -> float:
    """A straight line from 1 to `final`."""
    return 1 - (1 - final) * progress(step, warmup, total)


def constant(step: int, warmup: int, total: int, final: float) -> float:
    """Always 1: the learning rate stays at its peak."""
    return 1.0


def progress(step: int, warmup: int, total: int) -> float:
    """The fraction of the way from the end of the warm-up to the end of the training, 0 to 1."""
    return min(1.0, max(0.0, (step - warmup) / max(1, total - warmup)))


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}
SCHEDULES_WITH_END = ("cosine", "linear")  # those that depend on the total number of updates


def can_be_extended(schedule: str, max_minutes: float | None) -> bool:
    """Whether a finished training can go on with a larger budget: neither schedule nor minutes have fixed its end."""
    return schedule not in SCHEDULES_WITH_END and max_minutes is None


def learning_rate(optim: OptimConfig, step: int, total: int) -> float:
    """The learning rate of update `step` (counted from 1) of `total`: linear warm-up to the peak, then the schedule."""
    shape = choose("schedule", optim.schedule, SCHEDULES)
    warmup = optim.warmup_steps
    return optim.lr * (step / warmup if step < warmup else shape(step, warmup, total, optim.final_lr_fraction))


def warn_if_only_warmup(optim: OptimConfig, total: int | None) -> None:
    """Log a warning where the warm-up is as long as the training, so that the learning rate never falls."""
    if total is not None and optim.warmup_steps >= total:
        log.warning(
            "optim.warmup_steps=%d is no shorter than the whole training (%d updates), so that the learning rate only "
            "rises; choose a smaller one.", optim.warmup_steps, total,
        )  # fmt: skip
