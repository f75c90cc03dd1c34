"""Ctrl-C and the signals of schedulers stop a training where it can be saved."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.training.distributed import World

log = logging.getLogger("nmt")
# Ctrl-C; a scheduler's end of time, before and after its warning; a closed terminal.
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)
]  # Windows has the first two


class Interrupted(Exception):
    """A signal has asked the training to stop; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = number


class StopSignal:
    """A request to stop, raised only where `check` is called, that is, where the training can be saved."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.signal = 0  # its number; 0: none has come

    def check(self) -> None:
        """Raise Interrupted if any process has been asked to stop; every process must call it at the same point."""
        if number := int(self.world.max(self.signal)):
            raise Interrupted(number)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within the block the first signal requests a stop; a second one stops a single process at once.

        Under torchrun a Ctrl-C comes twice, from the terminal and from torchrun, so there a second one changes nothing.
        """

        def request(number: int, frame: FrameType | None) -> None:
            if self.signal and self.world.size == 1:
                raise KeyboardInterrupt
            self.signal = self.signal or number
            log.info("Stopping after this update …")

        try:
            before = {number: signal.signal(number, request) for number in SIGNALS}
        except ValueError:  # not in the main thread, which alone may handle signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
