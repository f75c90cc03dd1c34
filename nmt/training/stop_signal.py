"""Ending a training early: on Ctrl-C between two batches, and on numbers that are not finite before an update."""

import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("nmt")


class Interrupted(Exception):
    """A signal has asked the training to stop."""


class TrainingDiverged(Exception):
    """A loss or gradient norm is useless; the text gives its value and the batch it comes from."""


class StopSignal:
    """A request to stop, raised only where `check` is called, that is, where the training can be saved."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        """Raise Interrupted if a stop has been requested."""
        if self.requested:
            raise Interrupted

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within the block the first SIGINT or SIGTERM (Ctrl-C, Slurm) requests a stop; a second one stops at once."""

        def request(number: int, frame: FrameType | None) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            log.info("Stopping after this update …")

        try:
            before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread, which alone may handle signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def check_finite(loss: float, gradient_norm: float, vocabulary: int, describe_batch: Callable[[], str]) -> None:
    """Raise TrainingDiverged if loss or gradient norm is not finite, or the loss > 5 log V, five times a uniform guess.

    `describe_batch` gives the text that names the batch.
    """
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)) or loss > 5 * math.log(vocabulary):
        raise TrainingDiverged(f"loss {loss:.4g}, gradient norm {gradient_norm:.4g} in {describe_batch()}")
