"""One writer in a folder: two trainings in one run folder would mix their checkpoints."""

import errno
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmt.data.locks import acquire, release
from nmt.errors import UserError

log = logging.getLogger("nmt")
FILE = ".lock"  # in the folder; it stays, since to remove it would race with the next process
NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)


@contextmanager
def only_writer(folder: Path, timeout: float = 2.0) -> Iterator[None]:
    """Hold the lock of a folder that exists, so that no other process writes to it; the end of the process frees it.

    Another process with the lock is waited for, at most `timeout` seconds, as a killed one may still be ending. Raises
    UserError, which names that process, and where the folder cannot be written. Where the system or the file system has
    no locks, a warning says so.
    """
    path = folder / FILE
    try:
        descriptor = acquire(path, timeout, create=True)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise UserError(f"Nothing can be written to {folder}: {error.strerror or error}.") from None
        log.warning("%s cannot be locked (%s); take care that only one process writes to it.", folder, error.strerror)
        yield
        return
    if descriptor is None:
        raise UserError(
            f"{folder} is in use by another process{owner(path)}, and what two write would be mixed; wait until it has "
            "ended, or take another folder (name=… of a training)."
        )
    with suppress(OSError):  # a full disk; the text is for people only
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {platform.node()}\n".encode(), 0)
    try:
        yield
    finally:
        release(descriptor)


def owner(path: Path) -> str:
    """` (id 1234 on HOST)` of the process that has a lock, "" where it has not written it yet."""
    try:
        process, host = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return ""
    return f" (id {process} on {host})"
