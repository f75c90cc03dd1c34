"""Files read as streams of bytes: plain, packed (.gz, .bz2, .xz, .zst), or a member of a .zip.

How a file begins decides how it is packed, its name only where that cannot be seen. Browsers unpack
a download without changing its name.

Nothing is unpacked to disk. A stranger's file cannot fill the memory or the disk: a line has at
most LONGEST_LINE bytes, and a file does not unpack to more than MOST_RATIO times its size.
"""

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from nmt.errors import UserError, printable


def open_zstd(path: Path, mode: str) -> BinaryIO:
    import pyarrow

    return io.BufferedReader(pyarrow.input_stream(open(path, "rb"), compression="zstd"))


OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": open_zstd}
PACKINGS = f"{', '.join([*OPENERS][:-1])} or {[*OPENERS][-1]}"  # in sentences
MAGIC = {  # the first bytes
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": open_zstd,
}
UNREADABLE = {b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!\x1a\x07": "RAR", b"\x04\x22\x4d\x18": "LZ4"}
BEGINNING = 512  # bytes that tell text from packed data
DAMAGED = (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError)
LONGEST_LINE = 1 << 24  # bytes
MOST_RATIO = 200  # text unpacks to some 3 to 20 times the size of its file
FREE_BYTES = 1 << 30  # below which the ratio does not matter
MOST_ENTRIES = 10_000  # of an archive whose files belong together
MOST_UNPACKED = 1 << 29  # bytes of all its entries
FREE_RATIO = 1 << 23  # bytes of an entry, such as a picture, below which the ratio does not matter
# How a file of an Office before 2007 begins, and one with a password.
OLE = bytes.fromhex("d0cf11e0a1b11ae1")
BLOCK = 1 << 16  # bytes read at a time where there are no lines
CARRIAGE_RETURNS = "its lines end in carriage returns alone; convert them to line feeds"


class DamagedFile(UserError):
    """A packed file that is not as it was written: cut short, or with other bytes."""


def is_damage(error: Exception) -> bool:
    """Whether it comes from what unpacks a file, not from the system that reads it."""
    return isinstance(error, DAMAGED) or isinstance(error, OSError) and error.errno is None


def is_text(begin: bytes) -> bool:
    """Whether a file that begins so is text in UTF-8."""
    try:
        decoded = codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return False
    return bool(decoded) and "\0" not in decoded


def has_carriage_returns_alone(first: bytes) -> bool:
    """Whether the first line of a text is all of it, because no line ends in a line feed."""
    return not first.endswith(b"\n") and b"\r" in first.rstrip(b"\r")


def without_packing(path: Path) -> Path:
    """The name of a file when it is not packed: a.tsv for a.tsv.gz."""
    return path.with_suffix("") if path.suffix in OPENERS else path


@dataclass(frozen=True)
class PackedFile:
    """A file that is read as a stream, or the member of a zip archive with this name."""

    path: Path
    member: str = ""
    errors: str = "strict"  # what becomes of bytes that are not UTF-8, as in bytes.decode
    encoding: str = ""  # from which the content is recoded; "": it is UTF-8

    def __str__(self) -> str:
        return f"{self.path}:{printable(self.member)}" if self.member else str(self.path)

    @property
    def ending(self) -> str:
        """The ending of the name in lower case, without that of the packing: .tsv of a.tsv.gz."""
        name = PurePosixPath(self.member or self.path.name)
        if name.suffix in OPENERS:
            name = PurePosixPath(name.stem)
        return name.suffix.lower()

    def opener(self) -> Any:
        """What opens the file and unpacks it; raises UserError for a packing nmt cannot read."""
        by_name = OPENERS.get(self.path.suffix, open)
        if not self.path.is_file():  # a pipe
            return by_name
        with open(self.path, "rb") as file:
            begin = file.read(BEGINNING)
        for magic, opener in MAGIC.items():
            if begin.startswith(magic):
                return opener
        for magic, name in UNREADABLE.items():
            if begin.startswith(magic):
                raise UserError(f"{self} is packed by {name}; unpack it, or pack it as {PACKINGS}.")
        # Text has a packing's name where a browser has unpacked it. Anything else that has it is
        # damaged, which shows when it is unpacked
        return open if is_text(begin) else by_name

    def open(self) -> BinaryIO:
        """The content, unpacked; raises UserError where the file cannot be opened."""
        try:
            if self.member:
                with zipfile.ZipFile(self.path) as archive:  # the member keeps the file open
                    return archive.open(self.member)  # type: ignore
            return self.opener()(self.path, "rb")
        except DAMAGED:
            raise DamagedFile(f"{self} is damaged; it cannot be unpacked.") from None
        except (NotImplementedError, RuntimeError):
            raise UserError(
                f"{self} is encrypted, or packed by a method that is unknown here; pack it anew."
            ) from None
        except OSError as error:
            raise UserError(f"{self} cannot be read: {error.strerror or error}.") from None

    def lines(self) -> Iterator[bytes]:
        """The lines with their ends.

        Raises UserError for damage, for too long a line, and for lines without line feeds.
        """
        for number, line in enumerate(self.parts(lambda file: file.readline(LONGEST_LINE + 1)), 1):
            if number == 1 and has_carriage_returns_alone(line):
                raise UserError(f"{self}: {CARRIAGE_RETURNS}.")
            if len(line) > LONGEST_LINE:
                raise UserError(f"{self}, line {number}, is longer than {LONGEST_LINE:,} bytes.")
            yield line

    def blocks(self) -> Iterator[bytes]:
        """The content in blocks; raises UserError for damage."""
        return self.parts(lambda file: file.read(BLOCK))

    def parts(self, read: Callable[[Any], Any]) -> Iterator[bytes]:
        number = 0
        size = 0
        most = inf  # of a pipe, which has no size to compare with
        if self.path.is_file():
            most = max(FREE_BYTES, MOST_RATIO * self.path.stat().st_size)
        with self.open() as file:
            text = io.TextIOWrapper(file, self.encoding, newline="\n") if self.encoding else None
            try:
                while part := read(text or file):
                    if text:
                        part = part.encode()
                    number += part.count(b"\n")
                    size += len(part)
                    if size > most:
                        raise UserError(
                            f"{self} unpacks to more than {MOST_RATIO} times its size; unpack it "
                            "yourself."
                        )
                    yield part
            except (*DAMAGED, OSError) as error:
                if is_damage(error):
                    raise DamagedFile(
                        f"{self} is cut short or damaged after line {number}; it cannot be "
                        "unpacked."
                    ) from None
                reason = getattr(error, "strerror", None) or error
                raise UserError(f"{self} cannot be read: {reason}.") from None
            except UnicodeDecodeError:
                raise UserError(
                    f"{self}, behind line {number}, has bytes that are not {self.encoding}; "
                    "data.encoding=NAME names another encoding."
                ) from None

    def count_lines(self) -> int | None:
        """How many lines there are; None for no regular file, for an empty and a damaged one."""
        number = 0
        end = b"\n"
        with suppress(UserError, OSError):  # which are reported when the file is read
            if not self.path.is_file():
                return None
            for block in self.blocks():
                number += block.count(b"\n")
                end = block[-1:]
            return number + (end != b"\n") or None
        return None


def archive_problem(entries: list[zipfile.ZipInfo]) -> str | None:
    """What forbids to unpack an archive with these entries; None if nothing does.

    Their stated sizes count: zipfile reads no more than these.
    """
    if len(entries) > MOST_ENTRIES:
        return f"it has {len(entries):,} files inside, more than {MOST_ENTRIES:,}"
    size = sum(entry.file_size for entry in entries)
    if size > MOST_UNPACKED:
        return f"it unpacks to {size:,} bytes, more than {MOST_UNPACKED:,}"
    for entry in entries:
        if entry.file_size > max(FREE_RATIO, MOST_RATIO * entry.compress_size):
            return (
                f"{entry.filename[:100]} unpacks to {entry.file_size:,} bytes, more than "
                f"{MOST_RATIO} times its packed size"
            )
    if len({entry.filename for entry in entries}) < len(entries):
        return "two files inside have the same name"
    return None


def member_names(path: Path) -> list[str]:
    """The names of the files in an archive, without what macOS adds to each; raises UserError."""
    names = [entry.filename for entry in archive_entries(path) if not entry.is_dir()]
    return [name for name in names if not name.startswith("__MACOSX/")]


def archive_entries(path: Path) -> list[zipfile.ZipInfo]:
    """What an archive has, in its order; raises UserError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (*DAMAGED, ValueError, NotImplementedError):
        raise DamagedFile(f"{path} is not a zip archive, or it is cut short or damaged.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
