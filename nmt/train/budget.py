"""When a training ends, in updates.

Minutes are turned into updates once, after the first FIT updates; from then on only updates count, so a training that
was interrupted ends where the uninterrupted one would have.
"""

from nmt.config import TrainConfig

FIT = 50  # updates that are timed
WARM = 5  # of them, not counted: the first ones allocate


def total_updates(train: TrainConfig, updates_per_epoch: float) -> int | None:
    """The smallest of the limits that are known in advance; None if there are only minutes."""
    limits = []
    if train.max_steps is not None:
        limits.append(train.max_steps)
    if train.max_epochs is not None:
        limits.append(max(1, round(train.max_epochs * updates_per_epoch)))
    return min(limits) if limits else None


def fitted(train: TrainConfig, known: int | None, elapsed: float, update: float, validation: float) -> int:
    """How many updates fit into max_minutes: `elapsed` seconds are gone after FIT updates, one more takes `update`
    seconds and a validation `validation`."""
    assert train.max_minutes is not None
    left = max(0.0, 60 * train.max_minutes - elapsed - validation)  # the last update is followed by a validation
    total = FIT + int(left / (update + validation / train.validate_every))
    return total if known is None else min(total, known)
