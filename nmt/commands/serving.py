"""nmt serve from its first moment on: what a hang-up does while the service is still loaded."""

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

STDERR = 2


def run(options: argparse.Namespace) -> int:
    """Answer requests until SIGINT or SIGTERM; what has been taken is answered first."""
    hang_ups: list[int] = []  # that the service has not acted on
    has_terminal = os.isatty(STDERR)

    def hang_up(number: int, frame: FrameType | None) -> None:
        if has_terminal and not os.isatty(STDERR):  # the terminal has been closed
            signal.raise_signal(signal.SIGTERM)
        else:
            hang_ups.append(number)

    with signal_handlers({"SIGHUP": hang_up}):
        from nmt.commands.serve import serve  # which imports PyTorch

        return serve(options, hang_ups)


@contextmanager
def signal_handlers(handlers: Mapping[str, Callable[..., None]]) -> Iterator[None]:
    """In the block these functions handle the signals with these names, where there are such."""
    before = {}
    for name, handler in handlers.items():
        if hasattr(signal, name):  # Windows has no SIGHUP
            number = getattr(signal, name)
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
