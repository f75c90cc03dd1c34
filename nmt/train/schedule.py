"""The learning rate at each update."""

import math
from collections.abc import Callable

from nmt.errors import choose


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
    """1."""
    return 1.0


def progress(step: int, warmup: int, total: int) -> float:
    """How far between the end of the warm-up and the end of the training, 0 to 1."""
    return min(1.0, max(0.0, (step - warmup) / max(1, total - warmup)))


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}
FITTED = ("cosine", "linear")  # those that must know the end


def rate(schedule: str, peak: float, step: int, warmup: int, total: int, final: float) -> float:
    """The learning rate of update `step` (counted from 1): linear warm-up to `peak`, then the schedule."""
    shape = choose("schedule", schedule, SCHEDULES)
    return peak * (step / warmup if step < warmup else shape(step, warmup, total, final))
