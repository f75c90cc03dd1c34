"""How far a long work is: a bar on a terminal, a line now and then in a log file; everything on stderr."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from types import TracebackType

from tqdm import tqdm

EVERY = 30.0  # seconds between two log lines
log = logging.getLogger("nmt")


class Progress:
    """A bar with rate and time left when stderr is a terminal, otherwise at most one log line in 30 seconds.

    with Progress(total, "step", "training", start=resumed_at) as bar:
        bar.update(1, {"loss": 3.2})
    """

    def __init__(self, total: int | None, unit: str, description: str, start: int = 0):
        self.total, self.unit, self.description = total, unit, description
        self.start = self.done = start
        self.began = self.spoke = time.monotonic()
        terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=total,
            initial=start,
            unit=unit,
            desc=description,
            file=sys.stderr,
            dynamic_ncols=True,
            disable=not terminal,
        )

    def update(self, count: int, figures: Mapping[str, float] | None = None) -> None:
        """Say that `count` more are done, with numbers to show beside."""
        self.done += count
        if not self.bar.disable:
            self.bar.set_postfix_str(shown(figures), refresh=False)
            self.bar.update(count)
        elif time.monotonic() - self.spoke >= EVERY:
            self.spoke = time.monotonic()
            log.info("%s", self.line(figures))

    def retotal(self, total: int) -> None:
        """The end has become known, or another."""
        self.total = self.bar.total = total

    def line(self, figures: Mapping[str, float] | None = None) -> str:
        """The sentence for the log: `training: 120/1000 step, 4.0 step/s, 3:40 left, loss 3.2`."""
        rate = (self.done - self.start) / max(time.monotonic() - self.began, 1e-9)
        place = f"{self.done}/{self.total}" if self.total is not None else str(self.done)
        parts = [f"{self.description}: {place} {self.unit}", f"{rate:.3g} {self.unit}/s"]
        if self.total is not None and rate > 0:
            parts.append(f"{tqdm.format_interval(max(self.total - self.done, 0) / rate)} left")
        return ", ".join(parts + ([shown(figures)] if figures else []))

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bar.close()


def shown(figures: Mapping[str, float] | None) -> str:
    """Numbers as text: `loss 3.214, lr 0.0005`."""
    return ", ".join(f"{name} {value:.4g}" for name, value in (figures or {}).items())


class AboveTheBar(logging.Handler):
    """Writes a log line to stderr above a bar that may stand there, instead of through it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; stderr is looked up now, since it may have been replaced."""
        try:
            tqdm.write(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)


def install_logging() -> None:
    """Let logger `nmt` speak from level INFO on, plainly and on stderr; calling it again changes nothing.

    Records do not go on to the root logger: a handler that somebody else put there may write to stdout.
    """
    log.setLevel(logging.INFO)
    log.propagate = False
    if not any(isinstance(handler, AboveTheBar) for handler in log.handlers):
        log.addHandler(AboveTheBar())
