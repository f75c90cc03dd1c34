"""Locks that end with their process: the kernel frees them, also after SIGKILL or a crash.

A lock is an flock on an open file or folder. A child made by fork lets go of its parent's locks, so that a worker that
outlives its parent holds nothing. Systems without `fcntl` (Windows) and some network file systems have no such locks;
every function says so with OSError.
"""

import errno
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

POLL_SECONDS = 0.05
held: set[int] = set()  # the descriptors of this process's locks


def acquire(path: Path, timeout: float = 0.0, create: bool = False) -> int | None:
    """Lock a file or folder; returns what `release` takes, None if another has had the lock for `timeout` seconds.

    `create`: make the file where there is none. Raises OSError where it cannot be opened or there are no locks.
    """
    if fcntl is None:
        raise OSError(errno.EOPNOTSUPP, "no locks on this system")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) if create else os.O_RDONLY
    descriptor, end = os.open(path, flags | os.O_CLOEXEC, 0o666), time.monotonic() + timeout
    try:
        while not lock(descriptor):
            if time.monotonic() >= end:
                os.close(descriptor)
                return None
            time.sleep(POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    held.add(descriptor)
    return descriptor


def lock(descriptor: int) -> bool:
    """Lock an open file now; False if another has the lock. Raises OSError where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Free a lock that `acquire` returned."""
    held.discard(descriptor)
    os.close(descriptor)


def forget_in_child() -> None:
    """In a forked child: close the parent's locks; the parent keeps them."""
    for descriptor in held:
        os.close(descriptor)
    held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_in_child)
