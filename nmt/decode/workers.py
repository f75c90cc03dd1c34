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
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from nmt.errors import UserError


def possible(device: torch.device) -> int:
    """How many processes can share the work of a CPU: as many as PyTorch has threads; 1 elsewhere and without fork."""
    forks = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    return torch.get_num_threads() if forks and device.type == "cpu" else 1


def shared(one: Callable[[int], Any], number: int, workers: int) -> list[Any]:
    """[one(0), …, one(number − 1)], begun in this order; whoever has done one gets the next.

    What `one` raises is raised here. Raises UserError when a process is killed (multiprocessing.Pool waits for ever).
    """
    context = multiprocessing.get_context("fork")
    done: dict[int, Any] = {}
    processes: list[Any] = []
    ours: list[Connection] = []
    try:
        for first in range(min(workers, number)):
            here, there = context.Pipe()
            ours.append(here)
            process = context.Process(target=serve, args=(one, there, list(ours)), daemon=True)
            with warnings.catch_warnings():
                # Since 3.12 Python warns of threads in a process that is forked. PyTorch's own are idle here, and a
                # child that has one thread asks nothing of them.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            processes.append(process)
            there.close()
            here.send(first)
        following = len(ours)
        while len(done) < number:
            ready: list[Connection] = wait(ours)  # type: ignore[assignment]
            for pipe in ready:
                which, value, error = pipe.recv()
                if error is not None:
                    raise error
                done[which] = value
                if following < number:
                    pipe.send(following)
                    following += 1
    except (EOFError, ConnectionError):
        raise UserError(
            "A process that shared the work was killed, perhaps for want of memory; smaller batches "
            "(decode.batch_tokens=…) need less, and with OMP_NUM_THREADS=1 there is one process."
        ) from None
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for pipe in ours:
            pipe.close()
    return [done[which] for which in range(number)]


def serve(one: Callable[[int], Any], pipe: Connection, parents: list[Connection]) -> None:
    """In a new process: piece after piece, until nobody asks any more. An interruption is the parent's business."""
    for end in parents:  # while a child holds them, no child hears that the parent is gone
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    while True:
        try:
            which = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            pipe.send((which, one(which), None))
        except Exception as error:
            pipe.send((which, None, error))
