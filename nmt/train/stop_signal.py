"""Stopping between two batches, and before broken numbers reach the weights."""

import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("nmt")


class Interrupted(Exception):
    """Somebody asked the training to stop."""


class TrainingDiverged(Exception):
    """The numbers of a training have become useless; says which."""


class StopSignal:
    """A request to stop, raised where it is safe."""

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        """Give way to a request."""
        if self.asked:
            raise Interrupted

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """The first Ctrl-C (or SIGTERM, as Slurm sends) asks for a stop; a second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            log.info("Stopping after this update …")

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: nothing to catch
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def check_finite(loss: float, norm: float, vocabulary: int, told: Callable[[], str]) -> None:
    """Raise Broken when a loss or gradient norm is not finite, or the loss five times worse than guessing.

    `told` says where the numbers come from.
    """
    if not (math.isfinite(loss) and math.isfinite(norm)) or loss > 5 * math.log(vocabulary):
        raise TrainingDiverged(f"loss {loss:.4g}, gradient norm {norm:.4g} in {told()}")
