"""Atomic writing of files and folders, and write errors as one sentence.

A file or folder is written under a temporary name in the same folder, flushed to disk, and renamed. It is never
incomplete under its own name, and an interruption, a kill or a power cut leaves the old one as it was. What a killed
process leaves under a temporary name is removed by the next writer in that folder (nmt/data/leftovers.py).
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nmt.data.leftovers import new_temporary, remove_leftovers
from nmt.errors import UserError


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a device or an open descriptor (/dev/stdout, /dev/fd/3)."""
    return os.path.dirname(os.path.abspath(path)) in ("/dev", "/dev/fd", "/proc/self/fd")


@contextmanager
def open_atomic(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A file opened for writing that replaces `path` once it is complete and on the disk, and keeps its permissions.

    `previous`: the name that the old file gets then. A symbolic link is followed. A device or a pipe is written to, not
    replaced. Raises OSError.
    """
    if is_stream(path) or (path.exists() and not path.is_file()):
        with open(path, "ab") as file:
            yield file
        return
    path = path.resolve()
    remove_leftovers(path.parent)
    with new_temporary(path, lambda name: name.touch(exist_ok=False)) as temporary:
        try:
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                os.chmod(temporary, path.stat().st_mode & 0o7777)
                if previous is not None:
                    os.replace(path, previous)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    sync(path.parent)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file with `open_atomic`, text as UTF-8. Raises OSError."""
    with open_atomic(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def link_atomic(path: Path, name: Path) -> None:
    """Give a file another name in its folder, which replaces that of another file. Raises OSError."""

    def make(temporary: Path) -> None:
        try:
            os.link(path, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, temporary)
            sync(temporary)

    with new_temporary(name, make) as temporary:
        os.replace(temporary, name)
        temporary.unlink(missing_ok=True)  # it is still there if both names were one file already


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that is flushed to disk and renamed to `folder`: a folder that exists is complete.

    If another process finishes the same folder first, its folder stays and this one is removed. Raises UserError where
    nothing can be written, and where `folder` was there before and is not empty.
    """
    with ExitStack() as stack:
        try:
            had_content = has_content(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder.parent)
            temporary = stack.enter_context(new_temporary(Path(os.path.abspath(folder)), Path.mkdir))
        except OSError as error:
            raise UserError(f"Nothing can be written to {folder.parent}: {error.strerror or error}.") from None
        try:
            with report_write_errors(folder):
                yield temporary
                sync_tree(temporary)
            try:
                temporary.rename(folder)
            except OSError as error:
                if had_content or not has_content(folder):
                    raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    sync(folder.parent)


def has_content(folder: Path) -> bool:
    """Whether this is a folder that holds anything."""
    return folder.is_dir() and any(folder.iterdir())


def sync_tree(folder: Path) -> None:
    """Bring a folder, all files in it and all folders in it to the disk. Raises OSError."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def sync(path: Path) -> None:
    """Bring a file's content, or the names in a folder, to the disk; where the system cannot, nothing happens."""
    with suppress(PermissionError):  # Windows opens no folder
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def report_write_errors(folder: Path) -> Iterator[None]:
    """Around code that writes to `folder`: an OSError (a full disk, a read-only folder) becomes a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or folder}: {error.strerror or error}.") from None
