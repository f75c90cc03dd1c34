"""Temporary names, and the removal of what killed processes left under them.

A writer locks its temporary file or folder for as long as it writes; the name says on which kernel. The next writer in
the same folder removes what nobody has locked: at once where it was written under the same running kernel, whose locks
are certain, otherwise (another machine on a shared disk, or before a restart) when nothing in it has changed for a day.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from nmt.data.locks import acquire, release

NAME = re.compile(r"\..{1,50}\.(?:([0-9a-f]{8})-)?[0-9a-f]{8}\.tmp", re.DOTALL)
DAY = 24 * 60 * 60.0


def temporary_sibling(path: Path) -> Path:
    """A new hidden name in the same folder; long names are shortened, as file systems limit names to 255 bytes."""
    return path.with_name(f".{path.name[:50]}.{kernel()}-{secrets.token_hex(4)}.tmp")


@cache
def kernel() -> str:
    """8 hexadecimal digits for the running kernel; another after a restart, the same in all its containers."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@contextmanager
def new_temporary(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A temporary for `path`, made by `make` and locked while it is written. Raises OSError where it cannot be made."""
    temporary, descriptor = made_and_locked(path, make)
    try:
        yield temporary
    finally:
        if descriptor is not None:
            release(descriptor)


def made_and_locked(path: Path, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    """A new temporary and its lock, None where there are no locks and only age decides.

    Between its making and its locking another process may take it for a leftover; then another one is made.
    """
    while True:
        temporary, descriptor = temporary_sibling(path), None
        try:
            make(temporary)
        except OSError as error:
            error.filename = str(path)  # the name that a user knows
            raise
        with suppress(OSError):
            descriptor = acquire(temporary, timeout=1.0)
        if os.path.lexists(temporary):
            return temporary, descriptor
        if descriptor is not None:
            release(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporaries in a folder that no living process writes; what cannot be removed stays."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if (match := NAME.fullmatch(entry.name)) and not entry.is_symlink():
                remove_if_left(Path(entry.path), same_kernel=match[1] == kernel())


def remove_if_left(path: Path, same_kernel: bool) -> None:
    """Remove a temporary whose writer is dead: nobody has locked it, and it is of this kernel or a day old."""
    descriptor = None
    with suppress(OSError):
        idle = time.time() - newest_change(path)
        try:
            descriptor = acquire(path)
            free = descriptor is not None and (same_kernel or idle > DAY)
        except OSError:  # no locks here
            free = idle > DAY
        if free:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if descriptor is not None:
        release(descriptor)


def newest_change(path: Path) -> float:
    """The time of the last change to a file, or to a folder and the files in it. Raises OSError."""
    times = [path.stat().st_mtime]
    if path.is_dir():
        times += [os.lstat(Path(parent, name)).st_mtime for parent, _, names in os.walk(path) for name in names]
    return max(times)
