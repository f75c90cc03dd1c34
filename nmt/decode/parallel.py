"""Work that is divided among several processes, each with one thread.

Search runs hundreds of small operations a column, which a second thread hardly speeds up; a second search in parallel
to the first does 1.0 to 1.3 times as much on two cores, where it was measured; more cores were not. The processes are
forked, so that they share the memory of the model.
"""

import multiprocessing
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from nmt.errors import UserError


def usable_processes(device: torch.device) -> int:
    """How many processes can divide the work of a CPU: as many as PyTorch has threads; 1 elsewhere and without fork."""
    forks = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    return torch.get_num_threads() if forks and device.type == "cpu" else 1


def parallel_map(function: Callable[[int], Any], count: int, num_processes: int) -> list[Any]:
    """[function(0), …, function(count − 1)], started in this order; a free process gets the next index.

    An exception in `function` is raised here. Raises UserError when a process is killed (multiprocessing.Pool would
    wait without end). Where the system allows no more processes, those that could be started do all the work.
    """
    sys.stdout.flush()  # else a child would write the same buffer again
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(num_processes, count)):
            if not start_worker(workers, function):
                break
        if not workers:
            return [function(index) for index in range(count)]
        return distribute(list(workers), count)
    finally:
        for process in workers.values():
            process.terminate()
            process.join()
        for pipe in workers:
            pipe.close()


def start_worker(workers: dict[Connection, BaseProcess], function: Callable[[int], Any]) -> bool:
    """Start a process and add it to `workers` under the parent's end of its pipe; False if the system refuses."""
    context = multiprocessing.get_context("fork")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=worker_loop, args=(function, child_end, [*workers, parent_end]), daemon=True)
    try:
        with warnings.catch_warnings():
            # Since 3.12 Python warns of threads in a process that is forked. PyTorch's own are idle at this point, and
            # a child with one thread does not need them.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
    except OSError:
        parent_end.close()
        return False
    finally:
        child_end.close()
    workers[parent_end] = process
    return True


def distribute(pipes: list[Connection], count: int) -> list[Any]:
    """Send the indices 0 … count − 1 to the workers and gather their results in order."""
    results: dict[int, Any] = {}
    indices = iter(range(count))
    try:
        for pipe in pipes:
            pipe.send(next(indices))
        while len(results) < count:
            ready: list[Connection] = wait(pipes)  # type: ignore[assignment]
            for pipe in ready:
                index, value, error, trace = pipe.recv()
                if error is not None:
                    raise error from RuntimeError(trace)
                results[index] = value
                if (following := next(indices, None)) is not None:
                    pipe.send(following)
    except (EOFError, ConnectionError):
        raise UserError(
            "A worker process was killed, possibly because memory ran out; smaller batches (--batch-tokens N) "
            "need less, and with OMP_NUM_THREADS=1 there is one process."
        ) from None
    return [results[index] for index in range(count)]


def worker_loop(function: Callable[[int], Any], pipe: Connection, parent_ends: list[Connection]) -> None:
    """In the new process: run tasks until the pipe is closed. SIGINT is left to the parent."""
    for end in parent_ends:  # while a child holds one of them open, no child notices that the parent has died
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        while True:
            run_task(pipe, function, pipe.recv())
    except (EOFError, ConnectionError):
        return


def run_task(pipe: Connection, function: Callable[[int], Any], index: int) -> None:
    """Send (index, function(index), None, ""), or (index, None, error, traceback).

    An error that cannot be pickled is sent as a RuntimeError with the same message.
    """
    try:
        result = index, function(index), None, ""
    except Exception as error:
        trace = traceback.format_exc()
        try:
            pipe.send((index, None, error, trace))
        except ConnectionError:
            raise
        except Exception:
            pipe.send((index, None, RuntimeError(str(error)), trace))
        return
    pipe.send(result)
