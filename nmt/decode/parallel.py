"""Work that is divided among several processes, each with one thread.

Search runs hundreds of small operations a column, which a second thread hardly speeds up; a second search in parallel
to the first does 1.0 to 1.3 times as much on two cores, where it was measured; more cores were not. The processes are
forked, so that they share the memory of the model. One that is killed is replaced, and its task done again.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from nmt.data.processes import end_with_parent
from nmt.errors import UserError

log = logging.getLogger("nmt")
MOST_KILLS = 3  # of processes that work on the same task
LISTED_LINES = 10  # in an error message


class WorkersKilled(UserError):
    """MOST_KILLS processes that worked on task `index` were killed."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.rows: list[int] = []  # of the batch, where the task is one
        super().__init__(self.describe())

    def describe(self, lines: Collection[int] = ()) -> str:
        """The sentence for the user, with the numbers of the lines in the batch."""
        numbers = sorted(lines)
        named = ", ".join(map(str, numbers[:LISTED_LINES]))
        more = f" and {len(numbers) - LISTED_LINES} more up to {numbers[-1]}" if len(numbers) > LISTED_LINES else ""
        where = f" (line{'s' if len(numbers) > 1 else ''} {named}{more})" if numbers else ""
        return (
            f"A worker process was killed {MOST_KILLS} times on one batch{where}, possibly because memory ran out; "
            "smaller batches (--batch-tokens N) need less, and with OMP_NUM_THREADS=1 there is one process."
        )


@dataclass(eq=False)
class Worker:
    """A process, the parent's end of the pipe to it, and the task that it works on."""

    process: BaseProcess
    pipe: Connection
    index: int | None = None

    def end(self) -> None:
        """Terminate the process and wait for its end."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def usable_processes(device: torch.device) -> int:
    """How many processes can divide the work of a CPU: as many as PyTorch has threads; 1 elsewhere and without fork."""
    forks = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    return torch.get_num_threads() if forks and device.type == "cpu" else 1


def parallel_map(function: Callable[[Any], Any], items: Sequence[Any], num_processes: int) -> Iterator[Any]:
    """`map(function, items)` in several processes: started in this order, a free process gets the next item.

    An exception in `function` is raised here. A process that is killed is replaced, with a warning
    (multiprocessing.Pool would wait without end); raises WorkersKilled for the third one on the same item. Where the
    system allows no more processes, those that could be started do all the work, or else this one.
    """
    if min(num_processes, len(items)) <= 1:
        yield from map(function, items)
        return
    sys.stdout.flush()  # else a child would write the same buffer again
    workers: list[Worker] = []
    results: dict[int, Any] = {}
    try:
        while len(workers) < min(num_processes, len(items)) and start_worker(workers, function, items):
            pass
        found = distribute(workers, function, items)
        for wanted, item in enumerate(items):
            while wanted not in results and (answer := next(found, None)) is not None:
                results[answer[0]] = answer[1]
            yield results.pop(wanted) if wanted in results else function(item)
    finally:
        for worker in workers:
            worker.end()


def distribute(
    workers: list[Worker], function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """The index of each item with its result, as they come; fewer if no worker is left and none can start."""
    waiting, kills, done = deque(range(len(items))), Counter[int](), 0
    while workers and done < len(items):
        for worker in workers:
            if worker.index is None and waiting:
                worker.index = waiting.popleft()
                with contextlib.suppress(ConnectionError):  # of a process that is dead, its pipe tells when it is read
                    worker.pipe.send(worker.index)
        ready = wait([worker.pipe for worker in workers if worker.index is not None])
        for worker in [worker for worker in workers if worker.pipe in ready]:
            try:
                value, error, trace = worker.pipe.recv()
            except (EOFError, OSError):
                waiting.appendleft(replace_worker(worker, workers, function, items, kills))
                continue
            if error is not None:
                raise error from RuntimeError(trace)
            assert worker.index is not None
            yield worker.index, value
            worker.index = None
            done += 1


def replace_worker(
    worker: Worker, workers: list[Worker], function: Callable[[Any], Any], items: Sequence[Any], kills: "Counter[int]"
) -> int:
    """Start another process for one that was killed; returns the index that has to be done again."""
    workers.remove(worker)
    worker.end()
    index = worker.index
    assert index is not None
    kills[index] += 1
    if kills[index] == MOST_KILLS:
        raise WorkersKilled(index)
    code = worker.process.exitcode or 0
    names = {int(each): each.name for each in signal.Signals}
    described = names.get(-code, f"exit code {code}")
    log.warning("A worker process was killed (%s); its batch is done again.", described)
    start_worker(workers, function, items)
    return index


def start_worker(workers: list[Worker], function: Callable[[Any], Any], items: Sequence[Any]) -> bool:
    """Start a process and add it to `workers`; False if the system refuses."""
    context = multiprocessing.get_context("fork")
    parent_end, child_end = context.Pipe()
    parent_ends = [*(worker.pipe for worker in workers), parent_end]
    arguments = (function, items, child_end, parent_ends, os.getpid())
    process = context.Process(target=work, args=arguments, daemon=True)
    # Ctrl-C waits: a process that is just forked must neither be lost nor print its own traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Since 3.12 Python warns of threads in a process that is forked. PyTorch's own are idle at this point, and
            # a child with one thread does not need them.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        workers.append(Worker(process, parent_end))
    except OSError:
        parent_end.close()
        return False
    finally:
        child_end.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return True


def work(
    function: Callable[[Any], Any], items: Sequence[Any], pipe: Connection, parent_ends: list[Connection], parent: int
) -> None:
    """In the new process: for each index sent (result, None, "") or (None, error, traceback), until the pipe is closed.

    SIGINT is left to the parent. An error that cannot be pickled is sent as a RuntimeError with the same message.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    for end in parent_ends:  # while a child holds one of them open, no child notices that the parent has died
        end.close()
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            index = pipe.recv()
            answer: tuple[Any, Exception | None, str]
            try:
                answer = function(items[index]), None, ""
            except Exception as error:
                answer = None, error, traceback.format_exc()
                try:
                    multiprocessing.reduction.ForkingPickler.dumps(answer)
                except Exception:
                    answer = None, RuntimeError(str(error)), answer[2]
            pipe.send(answer)
