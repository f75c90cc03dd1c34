"""The shapes of the learning rate after the linear warm-up (`optim.schedule`)."""

import math
from collections.abc import Callable
from typing import NamedTuple


class Schedule(NamedTuple):
    """An entry of SCHEDULES.

    `shape`: what the peak is multiplied by, from the update, the length of the warm-up, the
    fraction of the way from its end to that of the training, and optim.final_lr_fraction.
    """

    shape: Callable[[int, int, float, float], float]
    has_end: bool = False  # whether it depends on the total number of updates


SCHEDULES = {
    "inverse_sqrt": Schedule(
        lambda step, warmup, progress, final: math.sqrt(max(warmup, 1) / step)
    ),
    "cosine": Schedule(
        lambda step, warmup, progress, final: (
            final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))
        ),
        True,
    ),
    "linear": Schedule(lambda step, warmup, progress, final: 1 - (1 - final) * progress, True),
    "constant": Schedule(lambda step, warmup, progress, final: 1.0),
}
