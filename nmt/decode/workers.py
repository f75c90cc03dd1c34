"""Work that several processes share, each with one thread.

Search is hundreds of small operations a column, which a second thread hardly speeds up; a second search beside the
first does 1.0 to 1.3 times as much on two cores, where it was measured; more cores were not. The processes are forked,
so that the model is there already, once for all of them.
"""

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

work: Callable[[int], Any]  # of this process; the pool's parent has none


def possible(device: torch.device) -> int:
    """How many processes can share the work of a CPU: as many as PyTorch has threads; 1 elsewhere and without fork."""
    forks = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    return torch.get_num_threads() if forks and device.type == "cpu" else 1


def shared(one: Callable[[int], Any], number: int, workers: int) -> list[Any]:
    """[one(0), …, one(number − 1)], begun in this order."""
    with warnings.catch_warnings():
        # Since 3.12 Python warns of threads in a process that is forked. PyTorch's own are idle here, and a child that
        # has one thread asks nothing of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = multiprocessing.get_context("fork").Pool(min(workers, number), begin, (one,))
    with pool:
        return pool.map(run, range(number), chunksize=1)


def begin(one: Callable[[int], Any]) -> None:
    """In a new process; an interruption is the parent's business."""
    global work
    work = one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)


def run(number: int) -> Any:
    """One piece of the work, in a process of the pool."""
    return work(number)
