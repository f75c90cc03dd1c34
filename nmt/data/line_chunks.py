"""The input of `nmt translate`: read in chunks as it comes, and no line of it ends the work.

A line that cannot be read (no UTF-8, or longer than any sentence) is blank in its chunk, and the
chunk says why, so that every line of input still has its answer. What is read for training or
scoring is strict (`parallel_text`).
"""

import gzip
import hashlib
import os
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from nmt.data.parallel_text import BYTE_ORDER_MARK
from nmt.errors import UserError

CHUNK_LINES = 2000  # lines that are sorted by length and translated together
# a chunk of long lines ends here, so that memory does not grow with their length
CHUNK_CHARACTERS = 1 << 20
LONGEST_LINE = 1 << 22  # bytes; of a longer line no more is kept
BLOCK = 1 << 20  # bytes read at once
# seconds without input, or since a line came, after which a pipe is answered
PAUSE = 0.05
LONGEST_WAIT = 1.0


@dataclass
class LineChunk:
    """Lines that are translated together."""

    start: int  # the number of the first line, from 1
    texts: list[str] = field(default_factory=list)  # a line that cannot be read is blank
    # number of a line → what is wrong with it
    unreadable: dict[int, str] = field(default_factory=dict)
    characters: int = 0
    digest: str = ""  # sha256 of the input up to the end of this chunk

    @property
    def stop(self) -> int:
        """The number of the last line; start − 1 if there is none."""
        return self.start + len(self.texts) - 1

    @property
    def is_full(self) -> bool:
        return len(self.texts) >= CHUNK_LINES or self.characters >= CHUNK_CHARACTERS

    def add(self, raw: bytes) -> None:
        """Append a line without its "\\n"; "\\r" before it and a byte order mark at the beginning
        are removed."""
        text = b"" if len(raw) > LONGEST_LINE else raw.removesuffix(b"\r")
        number = self.stop + 1
        try:
            self.add_text((text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text).decode())
        except UnicodeDecodeError:
            self.add_text("")
            self.unreadable[number] = "not UTF-8"
        if len(raw) > LONGEST_LINE:
            self.unreadable[number] = f"longer than {LONGEST_LINE:,} bytes"

    def add_text(self, text: str) -> None:
        self.texts.append(text)
        self.characters += len(text)


def text_chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in chunks, for their translation."""
    chunk = LineChunk(1)
    for line in lines:
        chunk.add_text(line)
        if chunk.is_full:
            yield chunk.texts
            chunk = LineChunk(1)
    if chunk.texts:
        yield chunk.texts


def read_chunks(file: BinaryIO, name: str, live: bool) -> Iterator[LineChunk]:
    """The lines of a file in the chunks of `text_chunks`; with `live` a pipe's as soon as it
    pauses.

    Where a file cannot be read further, all lines before that come first; then UserError is raised.
    `name` is what its message calls the file.
    """
    live = live and not is_regular(file)
    digest = hashlib.sha256()
    chunk = LineChunk(1)
    began = 0.0
    problem = ""
    try:
        # of a damaged file all that can be unpacked
        read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        for raw in split_lines(
            pipe_blocks(file.fileno()) if live else iter(partial(read, BLOCK), b"")
        ):
            if raw is not None:
                began = began if chunk.texts else time.monotonic()
                chunk.add(raw)
                digest.update(raw + b"\n")
            due = live and (raw is None or time.monotonic() - began >= LONGEST_WAIT)
            if chunk.texts and (due or chunk.is_full):
                chunk.digest = digest.hexdigest()
                yield chunk
                chunk = LineChunk(chunk.stop + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        problem = "it is cut short or damaged and cannot be unpacked"
    except OSError as error:
        problem = error.strerror or str(error)
    if chunk.texts:
        chunk.digest = digest.hexdigest()
        yield chunk
    if problem:
        raise UserError(f"{name} cannot be read after line {chunk.stop}: {problem}.")


def is_regular(file: BinaryIO) -> bool:
    """Whether all of a file is there already; also where that cannot be told, or where a pipe
    cannot be waited for."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not hasattr(select, "poll")
    except OSError:  # a file in memory has no number
        return True


def pipe_blocks(descriptor: int) -> Iterator[bytes | None]:
    """What comes through a pipe, as it comes; None where it has paused."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        if not poll.poll(1000 * PAUSE):
            yield None
            poll.poll()
        if not (block := os.read(descriptor, BLOCK)):
            return
        yield block


def split_lines(blocks: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """The lines in blocks of bytes, without line feeds, and each None; an overlong line is cut just
    past the limit."""
    rest = b""
    for block in blocks:
        if block is None:
            yield None
            continue
        *lines, rest = (rest + block).split(b"\n")
        yield from (line[: LONGEST_LINE + 1] for line in lines)
        rest = rest[: LONGEST_LINE + 1]
    if rest:
        yield rest
