"""Work that is divided among forked processes, which share this one's memory of that moment."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from nmt.errors import UserError

PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when the one that forked it ends
Item = TypeVar("Item")
Result = TypeVar("Result")
work: Callable[[Any], Any] | None = None  # of a forked process


class ProcessKilled(UserError):
    """A process was killed while it worked."""


def usable_processors() -> int:
    """How many processors this process may use; 1 where processes cannot be forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int, task: str
) -> Iterator[Result]:
    """function(item) for each item, in order.

    This process reads the items, a few more than have been answered. A single item is not worth a
    process. Raises what `function` raises, and ProcessKilled if a process is killed; `task` is what
    the message says they do.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if processes == 1 or len(first) < 2:
        yield from map(function, chain(first, items))
        return
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), start, (function, os.getpid())
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for item in chain(first, items):
            # A new process gets no Ctrl-C before `start`. PyTorch's threads are idle, and a child
            # does not use them.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    waiting.append(pool.submit(call, item))
            finally:  # also where no process can be forked, or one has been killed
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ProcessKilled(
            f"A process that {task} was killed, possibly because memory ran out."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def start(function: Callable[[Any], Any], parent: int) -> None:
    """In a new process: keep the function, leave SIGINT to the parent, and end when it ends."""
    global work
    work = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def call(item: Any) -> Any:
    assert work is not None
    return work(item)
