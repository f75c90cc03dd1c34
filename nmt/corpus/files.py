"""Writing that is all or nothing, by one process at a time; write errors become one sentence.

A file or folder is written inside a hidden temporary folder beside it, flushed to disk, and
renamed. It is never incomplete under its own name, and an interruption, a kill or a power cut
leaves the old one as it was. The temporary folder holds a lock that ends with its writer; what a
killed process left is removed by the next writer beside it.
"""

import errno
import hashlib
import logging
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from nmt.errors import UserError

log = logging.getLogger("nmt")
LOCK = ".lock"  # in a folder; that of a run stays: to remove it would race with the next process
TEMPORARY = re.compile(r"\..{1,50}\.([0-9a-f]{8})-\w{8}\.tmp", re.DOTALL)
DAY = 24 * 60 * 60.0
NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)


@contextmanager
def open_atomic(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A file opened for writing that replaces `path` once it is complete and on the disk.

    It keeps the permissions of the old file, which then gets the name `previous`. A symbolic link
    is followed. A device or a pipe is written to, not replaced. Raises OSError.
    """
    if is_stream(path) or (path.exists() and not path.is_file()):
        with open(path, "ab") as file:
            yield file
        return
    path = path.resolve()
    with temporary_folder(path) as folder:
        with open(folder / "new", "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(folder / "new", path.stat().st_mode & 0o7777)
            if previous is not None:
                os.replace(path, previous)
        os.replace(folder / "new", path)
    sync(path.parent)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a device or an open descriptor (/dev/stdout, /dev/fd/3)."""
    return os.path.dirname(os.path.abspath(path)) in ("/dev", "/dev/fd", "/proc/self/fd")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file with `open_atomic`, text as UTF-8. Raises OSError."""
    with open_atomic(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def link_atomic(path: Path, name: Path) -> None:
    """Give a file another name on its disk, which replaces that of another file. Raises OSError."""
    with temporary_folder(name) as folder:
        try:
            os.link(path, folder / "new")
        except OSError:  # a file system without hard links
            shutil.copyfile(path, folder / "new")
            sync(folder / "new")
        os.replace(folder / "new", name)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that is flushed to disk and renamed to `folder`, which is thus complete.

    If another process finishes the same folder first, its folder stays and this one is removed.
    Raises UserError if nothing can be written, or if `folder` was there before and is not empty.
    """
    folder = Path(os.path.abspath(folder))
    with ExitStack() as stack:
        try:
            had_content = folder.is_dir() and any(folder.iterdir())
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(temporary_folder(folder)) / "new"
            temporary.mkdir()
        except OSError as error:
            raise UserError(
                f"Nothing can be written to {folder.parent}: {error.strerror or error}."
            ) from None
        with report_write_errors(folder):
            yield temporary
            for path in (*temporary.rglob("*"), temporary):
                sync(path)
        try:
            temporary.rename(folder)
        except OSError as error:
            if had_content or not (folder.is_dir() and any(folder.iterdir())):
                raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
    sync(folder.parent)


def sync(path: Path) -> None:
    """Bring a file's content, or the names in a folder, to the disk, if the system can."""
    with suppress(PermissionError):  # Windows opens no folder
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A hidden folder beside `path`, locked while it is used, then removed. Raises OSError."""
    remove_leftovers(path.parent)
    prefix = f".{path.name[:50]}.{kernel()}-"
    try:
        folder = tempfile.TemporaryDirectory(
            ".tmp", prefix, path.parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        error.filename = str(path)  # the name that a user knows
        raise
    with folder as name, lock(Path(name, LOCK), timeout=-1):
        yield Path(name)


@cache
def kernel() -> str:
    """8 hexadecimal digits for the running kernel: new after a restart, the same in containers."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders that no living process writes; what cannot be removed stays.

    The locks of the running kernel are certain. What another one wrote (another machine on a shared
    disk, this one before a restart) goes when nothing in it has changed for a day.
    """
    with suppress(OSError):
        for entry in os.scandir(folder):
            match = TEMPORARY.fullmatch(entry.name)
            if match and not entry.is_symlink():
                with suppress(OSError):  # Timeout, too: it is being written
                    remove_leftover(Path(entry.path), is_ours=match[1] == kernel())


def remove_leftover(path: Path, is_ours: bool) -> None:
    if is_ours and (path / LOCK).exists():
        with lock(path / LOCK, timeout=0) as is_locked:
            if is_locked:
                shutil.rmtree(path)
        return
    changed = max(part.lstat().st_mtime for part in (path, *path.rglob("*")))
    if time.time() - changed > DAY:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def lock(path: Path, timeout: float) -> Iterator[bool]:
    """Hold a lock file that the end of this process frees; False if the disk has no locks.

    `timeout`: seconds to wait for another process, -1 for ever. Raises OSError, also as Timeout.
    """
    held = FileLock(path, timeout=timeout)
    try:
        path.parent.stat()  # raises where there is no such folder: filelock would make it
        held.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        yield False
        return
    try:
        yield True
    finally:
        held.release()


@contextmanager
def only_writer(folder: Path, timeout: float = 2.0) -> Iterator[None]:
    """Hold the lock of a folder that exists, so that no other process writes to it.

    The end of the process frees it. Another process with the lock is waited for, at most `timeout`
    seconds, as a killed one may still be ending. Raises UserError, which names that process, and if
    the folder cannot be written.
    """
    path = folder / LOCK
    with ExitStack() as stack:
        try:
            is_locked = stack.enter_context(lock(path, timeout))
        except Timeout:
            owner = ""
            with suppress(OSError, ValueError):  # it has not been written yet
                process, host = path.read_text(encoding="utf-8").split()
                owner = f" (id {process} on {host})"
            raise UserError(
                f"{folder} is in use by another process{owner}, and what two write would be mixed; "
                "wait until it has ended, or take another folder (name=… of a training)."
            ) from None
        except OSError as error:
            raise UserError(
                f"Nothing can be written to {folder}: {error.strerror or error}."
            ) from None
        if not is_locked:
            log.warning(
                "%s cannot be locked; take care that only one process writes to it.", folder
            )
        with suppress(OSError):  # a full disk; the text is for people only
            path.write_text(f"{os.getpid()} {platform.node()}\n", encoding="utf-8")
        yield


@contextmanager
def report_write_errors(folder: Path) -> Iterator[None]:
    """Around code that writes to `folder`: an OSError, such as a full disk, becomes a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write {error.filename or folder}: {error.strerror or error}."
        ) from None


def refuse_links(*paths: Path) -> None:
    """Raise UserError if one is a symbolic link: a stranger's run could have others overwritten."""
    for path in paths:
        if path.is_symlink():
            raise UserError(
                f"{path} is a link; results are only read from and written to a run's own folder."
            )
