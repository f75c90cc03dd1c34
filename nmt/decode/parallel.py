"""The batches of a search divided among several processes, each with one thread.

Search runs hundreds of small operations in each column, which a second thread hardly speeds up. Two
processes were 1.0 to 1.3 times as fast as one on two cores; more cores were not measured.
"""

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from nmt.corpus.processes import ProcessKilled, map_in_order
from nmt.errors import UserError

log = logging.getLogger("nmt")
MOST_KILLS = 3  # so many kills, with no item done in between, end the work with an error


class WorkersKilled(UserError):
    """Processes were killed MOST_KILLS times while they worked on item `index` or a later one."""

    def __init__(self, index: int, where: str = "one batch") -> None:
        self.index = index
        super().__init__(
            f"A worker process was killed {MOST_KILLS} times on {where}, possibly because memory "
            "ran out; smaller batches (--batch-tokens N) need less, and with OMP_NUM_THREADS=1 "
            "there is one process."
        )


def usable_processes(device: torch.device) -> int:
    """How many processes can divide the work: one for each of PyTorch's threads.

    It is 1 on a GPU, and where processes cannot be forked.
    """
    if sys.platform == "linux" and device.type == "cpu":
        return torch.get_num_threads()
    return 1


def parallel_map(
    function: Callable[[Any], Any], items: Sequence[Any], num_processes: int
) -> Iterator[Any]:
    """`map(function, items)` in several forked processes.

    An exception in `function` is raised here; an OSError only after this process has done the rest
    alone, since it may have been raised by a failed fork. If a process is killed, the items that
    are not done are begun again, with a warning; raises WorkersKilled if that does not help. If the
    system allows no more processes, this one does the work.
    """
    call = partial(call_in_one_thread, function, os.getpid())
    earlier_children = set(multiprocessing.active_children())
    done = 0
    kills = 0
    while done < len(items):
        try:
            for result in map_in_order(call, items[done:], num_processes, "translates"):
                yield result
                done += 1
                kills = 0
        except ProcessKilled:
            kills += 1
            if kills == MOST_KILLS:
                raise WorkersKilled(done) from None
            log.warning("A worker process was killed; its batch is done again.")
        except OSError:  # the system allows no more processes, or has no memory for them
            if num_processes == 1:
                raise
            # End those that were started before the failure
            for process in set(multiprocessing.active_children()) - earlier_children:
                process.terminate()
            num_processes = 1


def call_in_one_thread(function: Callable[[Any], Any], parent: int, item: Any) -> Any:
    """function(item), in one thread if this process was forked from `parent`.

    PyTorch's other threads do not exist in a forked process.
    """
    if os.getpid() != parent:
        torch.set_num_threads(1)
    return function(item)
