"""Updates with an invalid loss or gradient: each is skipped; after too many the training goes back once, then it ends.

All decisions depend on the TrainState alone, so a continued training makes the same ones.
"""

import logging
import math

from torch import Tensor

from nmt.training.state import TrainState

log = logging.getLogger("nmt")

DECAY = 0.99  # of the running mean and variance of the losses
MIN_UPDATES = 100  # before a loss is compared with the running mean
MIN_RISE, MAX_DEVIATIONS = 1.0, 10.0  # a spike is that many nats and standard deviations above the mean
MAX_SKIPPED, WINDOW = 5, 100  # so many updates among so many can be skipped


class TrainingDiverged(Exception):
    """Losses or gradients are invalid again and again; the text gives the value and the batch it comes from."""


def loss_limit(state: TrainState, vocabulary: int) -> float:
    """The largest mean −log p that the next update may have.

    5 log V, five times that of a uniform guess; and it may not jump far above the losses before it.
    """
    limit = 5 * math.log(vocabulary)
    if state.step < MIN_UPDATES:
        return limit
    return min(limit, state.loss_mean + max(MIN_RISE, MAX_DEVIATIONS * math.sqrt(state.loss_variance)))


def must_skip(loss: Tensor, gradient_norm: Tensor, limit: float) -> Tensor:
    """Whether an update has a fault, as 1 or 0 on its device, so that the host does not wait for it."""
    return ((loss <= limit) & loss.isfinite() & gradient_norm.isfinite()).logical_not().float()


def find_fault(state: TrainState, loss: float, gradient_norm: float, limit: float) -> str | None:
    """What is wrong with an update's mean −log p or gradient norm; None for a good one.

    Neither may be infinite or NaN, nor the loss above `limit`. `state` has the losses before this one.
    """
    if math.isfinite(loss) and math.isfinite(gradient_norm) and loss <= limit:
        return None
    mean = f", while the mean loss is {state.loss_mean:.4g}" if limit < loss < math.inf and state.tokens else ""
    return f"loss {loss:.4g}, gradient norm {gradient_norm:.4g}{mean}"


def record_loss(state: TrainState, loss: float) -> None:
    """Bring the running mean and variance of the losses up to date."""
    if not state.tokens:  # the first
        state.loss_mean = loss
    change = loss - state.loss_mean
    state.loss_mean += (1 - DECAY) * change
    state.loss_variance = DECAY * (state.loss_variance + (1 - DECAY) * change**2)


def record_skip(state: TrainState, fault: str) -> None:
    """Note that update `state.step` was left out; raises TrainingDiverged when there are too many of them."""
    state.skipped = [step for step in state.skipped if step > state.step - WINDOW] + [state.step]
    if len(state.skipped) > MAX_SKIPPED:
        raise TrainingDiverged(fault)
    log.warning("Update %d is skipped: %s.", state.step, fault)
