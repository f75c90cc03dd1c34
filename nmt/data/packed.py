"""Files read as streams of bytes: plain, packed (.gz, .bz2, .xz), or a member of a .zip; nothing is unpacked to disk.

A stranger's file cannot fill the memory or the disk: a line has at most LONGEST_LINE bytes, and what unpacks to more
than MAX_RATIO times its size is refused once it has passed MAX_FREE bytes.
"""

import bz2
import gzip
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from nmt.errors import UserError, is_printable

OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
MAGIC = {".gz": b"\x1f\x8b\x08", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0"}  # the first bytes
LONGEST_MAGIC = 6
DAMAGED = (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError)
LONGEST_LINE = 1 << 24  # bytes
BLOCK = 1 << 16  # bytes read at a time where there are no lines
MAX_RATIO, MAX_FREE = 200, 1 << 28  # text is packed to a third or a fifth; repetitive text perhaps to a fiftieth
MAX_MEMBERS = 10_000
ENCRYPTED = 0x1  # a flag bit of a zip member


class DamagedFile(UserError):
    """A packed file that is not as it was written: cut short, or with other bytes."""


def without_packing(path: Path) -> Path:
    """The name of a file when it is not packed: a.tsv for a.tsv.gz."""
    return path.with_suffix("") if path.suffix in OPENERS else path


@dataclass(frozen=True)
class PackedFile:
    """A file that is read as a stream, or the member of a zip archive with this name."""

    path: Path
    member: str = ""
    errors: str = "strict"  # what becomes of bytes that are not UTF-8, as in bytes.decode

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @property
    def ending(self) -> str:
        """The ending of the name without that of the packing, in lower case, such as `.tsv` of a.tsv.gz."""
        name = PurePosixPath(self.member or self.path.name)
        return (PurePosixPath(name.stem) if name.suffix in OPENERS else name).suffix.lower()

    @cached_property
    def opener(self) -> Any:
        """What opens the file and unpacks it: by its ending, or by how a regular file begins."""
        if self.path.suffix not in OPENERS and self.path.is_file():
            with open(self.path, "rb") as file:
                begin = file.read(LONGEST_MAGIC)
            return next((OPENERS[ending] for ending, magic in MAGIC.items() if begin.startswith(magic)), open)
        return OPENERS.get(self.path.suffix, open)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The content, unpacked; raises UserError where the file cannot be opened."""
        try:
            file = self.open_member() if self.member else self.opener(self.path, "rb")
        except DAMAGED:
            raise DamagedFile(f"{self} is damaged; it cannot be unpacked.") from None
        except NotImplementedError:
            raise UserError(f"{self} is packed by a method that cannot be unpacked here; pack it anew.") from None
        except OSError as error:
            raise UserError(f"{self} cannot be read: {error.strerror or error}.") from None
        with file:
            yield cast(BinaryIO, file)

    def open_member(self) -> BinaryIO:
        """The member of the archive, opened; raises UserError for one that is refused."""
        with open_zip(self.path) as archive:  # the member keeps the file open
            return cast(BinaryIO, archive.open(self.member))

    @property
    def limit(self) -> float:
        """The bytes that it may have when it is unpacked."""
        packed = self.member or self.opener is not open
        return max(MAX_FREE, MAX_RATIO * self.path.stat().st_size) if packed else float("inf")

    def lines(self) -> Iterator[bytes]:
        """The lines with their ends; raises UserError for damage and for what is too large."""
        for number, line in enumerate(self.read_by(lambda file: file.readline(LONGEST_LINE + 1)), 1):
            if len(line) > LONGEST_LINE:
                raise UserError(f"{self}, line {number}, is longer than {LONGEST_LINE:,} bytes.")
            yield line

    def blocks(self) -> Iterator[bytes]:
        """The content in blocks; raises UserError for damage and for what is too large."""
        return self.read_by(lambda file: file.read(BLOCK))

    def read_by(self, read: Callable[[BinaryIO], bytes]) -> Iterator[bytes]:
        """The content in the parts that `read` takes."""
        with self.open() as file:
            number, rest = 0, self.limit
            try:
                while part := read(file):
                    number, rest = number + part.count(b"\n"), rest - len(part)
                    if rest < 0:
                        raise UserError(f"{self} unpacks to more than {MAX_RATIO} times its size, which no text does.")
                    yield part
            except DAMAGED:
                message = f"{self} is cut short or damaged after line {number}; it cannot be unpacked."
                raise DamagedFile(message) from None
            except OSError as error:
                raise UserError(f"{self} cannot be read: {error.strerror or error}.") from None

    def count_lines(self) -> int | None:
        """How many lines there are; None for no regular file, and for damage, which is reported when it is read."""
        number, end = 0, b"\n"
        try:
            for block in self.blocks() if self.path.is_file() else ():
                number, end = number + block.count(b"\n"), block[-1:]
        except (UserError, OSError):
            return None
        return number + (end != b"\n") or None


def open_zip(path: Path) -> zipfile.ZipFile:
    """An archive all of whose members may be read; raises UserError for a damaged one and for a name that leads out."""
    try:
        archive = zipfile.ZipFile(path)
    except (*DAMAGED, ValueError, NotImplementedError):
        raise DamagedFile(f"{path} is no zip archive, or it is cut short or damaged.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        if len(archive.infolist()) > MAX_MEMBERS:
            raise UserError(f"{path} has more than {MAX_MEMBERS:,} members; it is no corpus.")
        for info in archive.infolist():
            check_member(path, info)
    except UserError:
        archive.close()
        raise
    return archive


def check_member(path: Path, info: zipfile.ZipInfo) -> None:
    """Raise UserError for a member that is encrypted, a link, a bomb, or whose name leads out of the archive."""
    name = PurePosixPath(info.filename)
    if name.is_absolute() or ".." in name.parts or "\\" in info.filename or not is_printable(info.filename):
        raise UserError(f"{path} is refused: its member {info.filename!a:.80} has a name that leads elsewhere.")
    if info.flag_bits & ENCRYPTED:
        raise UserError(f"{path} is refused: its member {info.filename} is encrypted.")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UserError(f"{path} is refused: its member {info.filename} is a link.")
    if info.file_size > max(MAX_FREE, MAX_RATIO * info.compress_size):
        raise UserError(
            f"{path} is refused: its member {info.filename} unpacks from {info.compress_size:,} to {info.file_size:,} "
            "bytes, which no text does."
        )


def member_names(path: Path) -> list[str]:
    """The names of the files in an archive, without what macOS adds to each; raises UserError."""
    with open_zip(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    return [name for name in names if not name.startswith("__MACOSX/")]
