"""Atomic writing of files and folders, and write errors as one sentence.

A file or folder is written under a temporary name in the same folder and renamed at the end. It is never incomplete
under its own name, and an interruption leaves the old one as it was.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nmt.errors import UserError


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file opened for writing that replaces `path` once it is complete and on the disk, and keeps its permissions.

    A symbolic link is followed. A device or a pipe is written to, not replaced. Raises OSError.
    """
    is_stream = os.path.dirname(os.path.abspath(path)) in ("/dev", "/dev/fd", "/proc/self/fd")
    if is_stream or (path.exists() and not path.is_file()):
        with open(path, "ab") as file:
            yield file
        return
    path = path.resolve()
    temporary = temporary_sibling(path)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file with `open_atomic`, text as UTF-8. Raises OSError."""
    with open_atomic(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def link_atomic(path: Path, name: Path) -> None:
    """Give a file another name in its folder, which replaces that of another file. Raises OSError."""
    temporary = temporary_sibling(name)
    try:
        os.link(path, temporary)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, temporary)
    os.replace(temporary, name)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `folder` at the end, so that a folder that exists is complete.

    If another process finishes the same folder first, its folder stays and this one is removed. Raises UserError where
    nothing can be written, and where `folder` was there before and is not empty.
    """
    temporary = temporary_sibling(Path(os.path.abspath(folder)))
    try:
        had_content = has_content(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise UserError(f"Nothing can be written to {folder.parent}: {error.strerror or error}.") from None
    try:
        with report_write_errors(folder):
            yield temporary
        try:
            temporary.rename(folder)
        except OSError as error:
            if had_content or not has_content(folder):
                raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def has_content(folder: Path) -> bool:
    """Whether this is a folder that holds anything."""
    return folder.is_dir() and any(folder.iterdir())


def temporary_sibling(path: Path) -> Path:
    """A new hidden name in the same folder; long names are shortened, as file systems limit names to 255 bytes."""
    return path.with_name(f".{path.name[:50]}.{secrets.token_hex(4)}.tmp")


@contextmanager
def report_write_errors(folder: Path) -> Iterator[None]:
    """Around code that writes to `folder`: an OSError (a full disk, a read-only folder) becomes a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or folder}: {error.strerror or error}.") from None
