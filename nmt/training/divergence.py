"""Updates whose numbers are useless: each is skipped; too many of them, and the training goes back once, then it ends.

All decisions depend on the TrainState alone, so a continued training makes the same ones.
"""

import logging
import math

from nmt.training.state import TrainState

log = logging.getLogger("nmt")

DECAY = 0.99  # of the running mean and variance of the losses
MIN_UPDATES = 100  # before a loss is compared with the running mean
MIN_RISE, MAX_DEVIATIONS = 1.0, 10.0  # a spike is that many nats and standard deviations above the mean
MAX_SKIPPED, WINDOW = 5, 100  # so many updates among so many can be skipped


class TrainingDiverged(Exception):
    """Losses or gradients are useless again and again; the text gives the value and the batch it comes from."""


def find_fault(state: TrainState, loss: float, gradient_norm: float, vocabulary: int) -> str | None:
    """What is wrong with an update's mean −log p or gradient norm; None for a good one.

    Neither may be infinite or NaN; the loss may neither exceed 5 log V, five times that of a uniform guess, nor jump
    far above the losses before it.
    """
    text = f"loss {loss:.4g}, gradient norm {gradient_norm:.4g}"
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)) or loss > 5 * math.log(vocabulary):
        return text
    limit = state.loss_mean + max(MIN_RISE, MAX_DEVIATIONS * math.sqrt(state.loss_variance))
    if state.step >= MIN_UPDATES and loss > limit:
        return f"{text}, while the mean loss is {state.loss_mean:.4g}"
    return None


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
