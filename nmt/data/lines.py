"""Files of one sentence a line: found, read and written without ever shifting a line.

A line ends at the byte 0x0A and nowhere else. `str.splitlines` and text-mode files also break at U+2028, U+0085,
U+000B or a lone carriage return, which may stand inside a sentence; one such break shifts every later pair.
"""

import contextlib
import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from nmt.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def side(prefix: str, language: str) -> Path:
    """PREFIX.language or PREFIX.language.gz, the plain file first; raises UserError when there is neither."""
    plain = Path(f"{prefix}.{language}").expanduser()
    with contextlib.suppress(OSError):  # a folder that may not be looked into
        for path in (plain, plain.with_name(plain.name + ".gz")):
            if path.is_file():
                return path
    raise UserError(f"There is no file {plain} (nor {plain.name}.gz); PREFIX={prefix} stands for PREFIX.{language}.")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the sentences of a plain or .gz file; raises UserError for bytes that are no UTF-8 and for damage."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(decoded(file, str(path)), 1):
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError(f"{path} is cut short or damaged after line {number}; it cannot be unpacked.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the sentences of an open file, which `name` calls; raises UserError for bytes that are no UTF-8."""
    for number, line in enumerate(file, 1):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode()
        except UnicodeDecodeError:
            raise UserError(f"{name}, line {number}, is not UTF-8; convert the file to UTF-8.") from None


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield line n of both files together; raises UserError when one file is empty or ends before the other."""
    empty = True
    for left, right in zip_longest(read_lines(source), read_lines(target)):
        if left is None or right is None:
            raise UserError(unequal(source, target))
        empty = False
        yield left, right
    if empty:
        raise UserError(f"{source} and {target} are empty.")


def unequal(source: Path, target: Path) -> str:
    """The sentence for two files of which one is shorter."""
    counts = {path: sum(1 for _ in read_lines(path)) for path in (source, target)}
    for path, count in counts.items():
        if not count:
            return f"{path} is empty."
    told = " and ".join(f"{path} has {count:,} lines" for path, count in counts.items())
    return f"{told}; line n of one must be the translation of line n of the other."


class LineWriter:
    """Writes one sentence a line and keeps the sha256 of what it wrote."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "wb")
        self.digest = hashlib.sha256()

    def write(self, sentence: str) -> None:
        """Write a sentence; a carriage return or line feed inside it becomes a space, so that other tools agree."""
        line = sentence.replace("\r", " ").replace("\n", " ").encode() + b"\n"
        self.file.write(line)
        self.digest.update(line)

    def close(self) -> None:
        """Write what is still in memory and close the file."""
        self.file.close()


@contextlib.contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at its end, whole, under the rights that it had or that any new file gets.

    A device or a pipe is written to, not replaced.
    """
    streams = os.path.dirname(os.path.abspath(path)) in ("/dev", "/dev/fd", "/proc/self/fd")
    if streams or (path.exists() and not path.is_file()):
        with open(path, "ab") as file:
            yield file
        return
    path = path.resolve()
    mask = os.umask(0)
    os.umask(mask)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that no reader meets half of it."""
    with open_atomic(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Around code that writes below `folder`: a full disk or a read-only folder is told in one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or folder}: {error.strerror or error}.") from None
