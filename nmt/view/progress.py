"""Progress of long work, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import logging
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tqdm import tqdm

from nmt.errors import UserError, report_os_error
from nmt.view.text import short_number, visible

LOG_INTERVAL = 30.0  # seconds between two log lines
DELAY = 1.0  # seconds before a bar is shown, so that short work leaves none
log = logging.getLogger("nmt")


class Progress:
    """A bar with speed and time left on a terminal, else at most one log line in 30 seconds.

    with Progress(total, "step", "training", start=resumed_at) as bar:
        bar.update(1, {"loss": 3.2})
    """

    def __init__(self, total: int | None, unit: str, description: str, start: int = 0):
        self.total = total
        self.unit = unit
        self.description = visible(description)
        self.start = self.count = start
        self.started = self.last_logged = time.monotonic()
        terminal = sys.stderr.isatty() and log.isEnabledFor(logging.INFO)
        self.bar = tqdm(
            desc=self.description,
            total=total,
            initial=start,
            unit=unit,
            file=sys.stderr,
            dynamic_ncols=True,
            disable=not terminal,
            delay=DELAY,
            leave=None,  # one inside another leaves no line
        )

    def update(self, count: int, figures: Mapping[str, float] | None = None) -> None:
        """Add `count` finished units, and show `figures` with them."""
        self.count += count
        if not self.bar.disable:
            self.bar.set_postfix_str(format_figures(figures), refresh=False)
            self.bar.update(count)
        elif time.monotonic() - self.last_logged >= LOG_INTERVAL:
            self.last_logged = time.monotonic()
            log.info("%s", self.line(figures))

    def set_total(self, total: int) -> None:
        """Set or change the number of units at the end."""
        self.total = self.bar.total = total

    def line(self, figures: Mapping[str, float] | None = None) -> str:
        """The log line: `training: 120/1000 step, 4.0 step/s, 3:40 left, loss 3.2`."""
        speed = (self.count - self.start) / max(time.monotonic() - self.started, 1e-9)
        position = f"{self.count}/{self.total}" if self.total is not None else str(self.count)
        parts = [
            f"{self.description}: {position} {self.unit}",
            f"{short_number(speed)} {self.unit}/s",
        ]
        if self.total is not None and speed > 0:
            parts.append(f"{tqdm.format_interval(max(self.total - self.count, 0) / speed)} left")
        if figures:
            parts.append(format_figures(figures))
        return ", ".join(parts)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()


def format_figures(figures: Mapping[str, float] | None) -> str:
    """Numbers as text: `loss 3.214, lr 0.0005, tokens/s 12,345`."""
    shown = []
    for name, value in (figures or {}).items():
        shown.append(f"{name} {value:.4g}" if value < 1000 else f"{name} {value:,.0f}")
    return ", ".join(shown)


class TqdmHandler(logging.Handler):
    """Writes a log line to stderr above a progress bar, instead of through it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # sys.stderr may have been replaced
            tqdm.write(visible(self.format(record), keep="\n\t"), file=sys.stderr)
        except Exception:
            self.handleError(record)


def install_logging() -> None:
    """Let the logger `nmt` write plain messages to stderr, from level INFO on.

    Calling it again changes nothing. Records do not propagate to the root logger: a handler that
    another library installed there may write to stdout.
    """
    log.setLevel(logging.INFO)
    log.propagate = False
    if not any(isinstance(handler, TqdmHandler) for handler in log.handlers):
        log.addHandler(TqdmHandler())


class LogFile(logging.FileHandler):
    """Appends log lines with their times to a file; on a full disk, the line is only on stderr."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: what makes the log fail will stop the work itself with a sentence."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Within the block messages also go to this file.

    So does what ends it: a sentence, or the traceback of a bug. Raises UserError if the file cannot
    be opened.
    """
    with report_os_error(f"Cannot write {path}"):
        handler = LogFile(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))

    def add(level: int, text: str, error: BaseException | None = None) -> None:
        """A line that is not shown on stderr, with the traceback of `error`."""
        details = (type(error), error, error.__traceback__) if error else None
        handler.handle(logging.LogRecord(log.name, level, "", 0, text, None, details))

    log.addHandler(handler)
    try:
        add(logging.INFO, f"process {os.getpid()} on {platform.node()} begins")
        yield
        add(logging.INFO, "ended")
    except UserError as error:
        add(logging.ERROR, str(error))
        raise
    except BaseException as error:
        add(logging.CRITICAL, f"ended by {type(error).__name__}", error)
        raise
    finally:
        log.removeHandler(handler)
        handler.close()
