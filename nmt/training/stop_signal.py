"""Ctrl-C and SIGTERM stop a training where it can be saved."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("nmt")


class Interrupted(Exception):
    """A signal has asked the training to stop."""


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
