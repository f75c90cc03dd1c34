"""Stopping between two batches, and before broken numbers reach the weights."""

import logging
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("nmt")


class Interrupted(Exception):
    """Somebody asked the training to stop."""


class Stop:
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


def broken(loss: float, norm: float, vocabulary: int) -> bool:
    """Whether the numbers of an update must not reach the weights: not finite, or five times worse than guessing."""
    return not (math.isfinite(loss) and math.isfinite(norm)) or loss > 5 * math.log(vocabulary)
