"""The input of `nmt translate`: read in chunks as it comes, and no line of it ends the work.

A line that cannot be read (no UTF-8, or longer than any sentence) is blank in its chunk, and the
chunk says why, so that every line of input still has its answer. Only UTF-16, as PowerShell writes
it, and lines that end in carriage returns alone are refused as a whole. What is read for training
or scoring is strict (`parallel_text`).
"""

import hashlib
import os
import select
import stat
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from errno import EBADF
from functools import partial
from pathlib import Path
from typing import BinaryIO

from nmt.corpus.packed import (
    CARRIAGE_RETURNS,
    DAMAGED,
    PackedFile,
    has_carriage_returns_alone,
    is_damage,
)
from nmt.corpus.parallel_text import BYTE_ORDER_MARK, read_pairs
from nmt.errors import UserError

CHUNK_LINES = 2000  # lines that are sorted by length and translated together
CHUNK_CHARACTERS = 1 << 20  # in a chunk of long lines, so that it does not fill the memory
LONGEST_LINE = 1 << 22  # bytes; a longer line is not kept
BLOCK = 1 << 20  # bytes read at once
# A pipe is answered after so many seconds without input, or since the first line came
PAUSE = 0.05
LONGEST_WAIT = 1.0


@dataclass
class LineChunk:
    """Lines that are translated together."""

    start: int  # the number of the first line, from 1
    texts: list[str] = field(default_factory=list)  # a line that cannot be read is blank
    unreadable: dict[int, str] = field(default_factory=dict)  # number → what is wrong with the line
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
        """Append a line without its line end, and without a byte order mark at the beginning."""
        text = b"" if len(raw) > LONGEST_LINE else raw.removesuffix(b"\r")
        number = self.stop + 1
        if number == 1:
            text = text.removeprefix(BYTE_ORDER_MARK)
        try:
            self.add_text(text.decode())
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
    """The lines of a file in the chunks of `text_chunks`.

    With `live`, a chunk of a pipe also ends when the pipe pauses. Where a file cannot be read
    further, all lines before that come first; then UserError is raised, which calls the file
    `name`.
    """
    live = live and not is_regular(file)
    # read1 gives all that can be unpacked of a damaged file
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    blocks = pipe_blocks(file.fileno()) if live else iter(partial(read, BLOCK), b"")
    return chunks_of(blocks, name, live)


def paste_chunks(source: Path, target: Path) -> Iterator[LineChunk]:
    """Line n of two files, with a tab between them, in chunks; tabs in a sentence become spaces.

    Raises UserError where a file cannot be read, or ends before the other.
    """
    # What is not UTF-8 is found when the lines of a chunk are decoded
    files = [PackedFile(path, errors="surrogateescape") for path in (source, target)]

    def pasted() -> Iterator[bytes]:
        for pair in read_pairs(*files):
            sides = [sentence.replace("\t", " ") for sentence in pair]
            yield "\t".join(sides).encode(errors="surrogateescape") + b"\n"

    return chunks_of(pasted(), f"{source} or {target}", live=False)


def chunks_of(blocks: Iterable[bytes | None], name: str, live: bool) -> Iterator[LineChunk]:
    """The lines in blocks of bytes, in chunks; None among the blocks is a pause."""
    digest = hashlib.sha256()
    chunk = LineChunk(1)
    began = 0.0
    problem = ""
    try:
        for line in split_lines(blocks):
            if line is not None:
                if chunk.stop == 0 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                    problem = "it is UTF-16; convert it to UTF-8"
                    break
                if chunk.stop == 0 and has_carriage_returns_alone(line):
                    problem = CARRIAGE_RETURNS
                    break
                if not chunk.texts:
                    began = time.monotonic()
                raw = line.removesuffix(b"\n")
                chunk.add(raw)
                digest.update(raw + b"\n")
            due = live and (line is None or time.monotonic() - began >= LONGEST_WAIT)
            if chunk.texts and (due or chunk.is_full):
                chunk.digest = digest.hexdigest()
                yield chunk
                chunk = LineChunk(chunk.stop + 1)
    except (*DAMAGED, OSError) as error:
        problem = "it is cut short or damaged and cannot be unpacked"
        if not is_damage(error):
            problem = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == EBADF:
            problem = "it is closed"
    if chunk.texts:
        chunk.digest = digest.hexdigest()
        yield chunk
    if problem:
        raise UserError(f"{name} cannot be read after line {chunk.stop}: {problem}.")


def is_regular(file: BinaryIO) -> bool:
    """Whether a file is complete, or cannot be waited for as a pipe."""
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
    """The lines in blocks of bytes, with line feeds, and each None among the blocks.

    An overlong line is cut just past the limit.
    """
    rest = b""
    for block in blocks:
        if block is None:
            yield None
            continue
        *lines, rest = (rest + block).split(b"\n")
        yield from (line[: LONGEST_LINE + 1] + b"\n" for line in lines)
        rest = rest[: LONGEST_LINE + 1]
    if rest:
        yield rest
