"""A file of `nmt translate --output FILE` that has its name only when it is complete, and can be continued until then.

FILE.part holds the answers so far, and FILE.part.json says to how many lines, of which input, and under which settings.
It is written after each chunk. --resume keeps the answers up to there and goes on after them. The chunks are the same
again, so the file becomes what it would have become without the interruption.
"""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import Timeout

from nmt.attention import cpu
from nmt.commands.translate_output import LAYOUT, NUMBER_FORMAT, PRECISIONS, report_output_errors
from nmt.data.checksums import read_json, write_json
from nmt.data.files import lock
from nmt.data.line_chunks import LineChunk
from nmt.errors import UserError

log = logging.getLogger("nmt")
BLOCK = 1 << 20  # bytes read at once


@dataclass(frozen=True)
class PartState:
    """What FILE.part.json holds: how far the translation is, and with which settings."""

    settings: dict[str, Any] = field(default_factory=dict)
    lines: int = 0  # of the input that are answered
    input: str = hashlib.sha256().hexdigest()  # sha256 of these lines
    bytes: int = 0  # of FILE.part that are their answers
    output: str = hashlib.sha256().hexdigest()  # sha256 of these bytes


class Part:
    """FILE.part while it is written, with FILE.part.json; no other process can write it in the meantime."""

    skipped = 0  # lines of this input that are answered already

    def __init__(self, output: str, resume: bool, stack: ExitStack) -> None:
        self.output = Path(output).resolve()
        self.path, self.state_path, lock_path = (
            self.output.with_name(name.format(self.output.name)) for name in ("{}.part", "{}.part.json", ".{}.lock")
        )
        with report_output_errors(output):
            try:
                if not stack.enter_context(lock(lock_path, timeout=2.0)):
                    log.warning("%s cannot be locked; let only one process write it.", self.path)
            except Timeout:
                raise UserError(f"Another process is writing {self.path}.") from None
            stack.callback(lock_path.unlink, missing_ok=True)
            self.file = open(self.path, "a+b")  # as it is, if it is there
        stack.callback(self.close)
        self.state = self.start = self.find_state(resume)
        self.sha256 = self.keep_finished()
        if LAYOUT in self.start.settings:
            cpu.fix_layout(bool(self.start.settings[LAYOUT]))
            stack.callback(cpu.fix_layout, None)

    def close(self) -> None:
        """Close the file; a full disk has been reported already."""
        with suppress(OSError):
            self.file.close()

    def find_state(self, resume: bool) -> PartState:
        """What is done already; raises UserError for a part that must not be overwritten or cannot be continued."""
        if not os.fstat(self.file.fileno()).st_size:
            return PartState()
        try:
            state = PartState(**read_json(self.state_path))
        except TypeError:  # no such file, a damaged one, or another program's
            raise UserError(
                f"{self.path} exists, but {self.state_path.name} does not describe it; delete it first."
            ) from None
        if state.lines and not resume:
            raise UserError(
                f"{self.path} holds the answers to the first {state.lines:,} lines of an interrupted translation; "
                "--resume continues it. Delete it to begin anew."
            )
        return state

    def keep_finished(self) -> Any:
        """Cut off what was written after the last finished chunk; returns the sha256 of the rest, to be continued."""
        self.file.seek(0)
        sha256, remaining = hashlib.sha256(), self.start.bytes
        while remaining > 0 and (block := self.file.read(min(BLOCK, remaining))):
            sha256.update(block)
            remaining -= len(block)
        if remaining or sha256.hexdigest() != self.start.output:
            raise UserError(f"{self.path} has been changed since it was written; delete it to begin anew.")
        with report_output_errors(self.output):
            self.file.truncate(self.start.bytes)
        return sha256

    @property
    def precision(self) -> str | None:
        """The number format that the finished part was computed in, as --quantization has it; None at the beginning."""
        return PRECISIONS.get(str(self.start.settings.get(NUMBER_FORMAT)).partition(" ")[0])

    def continue_with(self, settings: dict[str, Any]) -> None:
        """Raise UserError unless the finished lines were translated with the same settings."""
        if self.start.lines:
            old = self.start.settings
            names = [name for name in settings | old if settings.get(name) != old.get(name)]
            if names:
                raise UserError(
                    f"{self.path} was begun with another value of {', '.join(names)}; --resume needs the same command. "
                    "Delete it to begin anew."
                )
            log.info("%s: the first %d lines are there already.", self.path, self.start.lines)
        self.save(replace(self.state, settings=settings))

    def has(self, chunk: LineChunk) -> bool:
        """Whether the answers to this chunk are there already; raises UserError if they are to other lines."""
        if chunk.start > self.start.lines:
            return False
        if chunk.stop > self.start.lines or (chunk.stop == self.start.lines and chunk.digest != self.start.input):
            raise UserError(self.other_input())
        self.skipped = chunk.stop
        return True

    def other_input(self) -> str:
        """The message for an input that does not begin as that of the interrupted translation did."""
        return (
            f"{self.path} has the answers to {self.start.lines:,} other lines than this input begins with; delete it."
        )

    def write(self, text: str) -> None:
        """Append an answer."""
        content = text.encode()
        self.sha256.update(content)
        with report_output_errors(self.output):
            self.file.write(content)

    def finish(self, chunk: LineChunk) -> None:
        """From now on the answers to this chunk need not be made again."""
        with report_output_errors(self.output):
            self.file.flush()
            os.fsync(self.file.fileno())
        size, output = os.fstat(self.file.fileno()).st_size, self.sha256.hexdigest()
        self.save(replace(self.state, lines=chunk.stop, input=chunk.digest, bytes=size, output=output))

    def save(self, state: PartState) -> None:
        """Write FILE.part.json."""
        with report_output_errors(self.output):
            write_json(self.state_path, asdict(state))
        self.state = state

    def complete(self) -> None:
        """Give the file its name."""
        if self.skipped < self.start.lines:
            raise UserError(self.other_input())
        with report_output_errors(self.output):
            self.file.flush()
            os.fsync(self.file.fileno())
            if self.output.exists():
                os.chmod(self.path, self.output.stat().st_mode & 0o7777)
            os.replace(self.path, self.output)
            self.state_path.unlink()

    def leave(self) -> None:
        """After an error or an interruption: keep what can be continued."""
        if self.state.lines:
            log.warning(
                "%s holds the answers to the first %d lines; the same command with --resume continues.",
                self.path, self.state.lines,
            )  # fmt: skip
        else:
            self.path.unlink(missing_ok=True)
            self.state_path.unlink(missing_ok=True)


@contextmanager
def open_part(output: str, resume: bool) -> Iterator[Part]:
    """A file of --output; it gets its name at the end, and after an error or a kill --resume continues it."""
    with ExitStack() as stack:
        part = Part(output, resume, stack)
        try:
            yield part
            part.complete()
        except BaseException:
            part.leave()
            raise
