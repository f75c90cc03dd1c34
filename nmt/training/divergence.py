"""A training whose numbers have become useless is stopped before they reach the weights."""

import math
from collections.abc import Callable


class TrainingDiverged(Exception):
    """A loss or gradient norm is useless; the text gives its value and the batch it comes from."""


def check_finite(loss: float, gradient_norm: float, vocabulary: int, describe_batch: Callable[[], str]) -> None:
    """Raise TrainingDiverged if loss or gradient norm is not finite, or the loss > 5 log V, five times a uniform guess.

    `describe_batch` gives the text that names the batch.
    """
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)) or loss > 5 * math.log(vocabulary):
        raise TrainingDiverged(f"loss {loss:.4g}, gradient norm {gradient_norm:.4g} in {describe_batch()}")
