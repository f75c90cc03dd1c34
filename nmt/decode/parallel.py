"""Work that several processes share, each with one thread.

Search is hundreds of small operations a column, which a second thread hardly speeds up; a second search beside the
first does 1.0 to 1.3 times as much on two cores, where it was measured; more cores were not. The processes are forked,
so that the model is there already, once for all of them.
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


def possible(device: torch.device) -> int:
    """How many processes can share the work of a CPU: as many as PyTorch has threads; 1 elsewhere and without fork."""
    forks = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    return torch.get_num_threads() if forks and device.type == "cpu" else 1


def shared(one: Callable[[int], Any], number: int, workers: int) -> list[Any]:
    """[one(0), …, one(number − 1)], begun in this order; whoever has done one gets the next.

    What `one` raises is raised here. Raises UserError when a process is killed (multiprocessing.Pool waits for ever).
    A system that allows no more processes gets along with those there are.
    """
    sys.stdout.flush()  # nothing waits there to be written by a child as well
    team: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(workers, number)):
            if not joined(team, one):
                break
        if not team:
            return [one(which) for which in range(number)]
        return deal(list(team), number)
    finally:
        for process in team.values():
            process.terminate()
            process.join()
        for pipe in team:
            pipe.close()


def joined(team: dict[Connection, BaseProcess], one: Callable[[int], Any]) -> bool:
    """Whether one process more could be started; it is in the team then, behind our end of its pipe."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(one, there, [*team, here]), daemon=True)
    try:
        with warnings.catch_warnings():
            # Since 3.12 Python warns of threads in a process that is forked. PyTorch's own are idle here, and a child
            # that has one thread asks nothing of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
    except OSError:
        here.close()
        return False
    finally:
        there.close()
    team[here] = process
    return True


def deal(pipes: list[Connection], number: int) -> list[Any]:
    """Ask for all the pieces and gather them."""
    done: dict[int, Any] = {}
    coming = iter(range(number))
    try:
        for pipe in pipes:
            pipe.send(next(coming))
        while len(done) < number:
            ready: list[Connection] = wait(pipes)  # type: ignore[assignment]
            for pipe in ready:
                which, value, error, told = pipe.recv()
                if error is not None:
                    raise error from RuntimeError(told)
                done[which] = value
                if (following := next(coming, None)) is not None:
                    pipe.send(following)
    except (EOFError, ConnectionError):
        raise UserError(
            "A process that shared the work was killed, perhaps for want of memory; smaller batches (--batch-tokens N) "
            "need less, and with OMP_NUM_THREADS=1 there is one process."
        ) from None
    return [done[which] for which in range(number)]


def serve(one: Callable[[int], Any], pipe: Connection, parents: list[Connection]) -> None:
    """In a new process: piece after piece, until nobody asks any more. An interruption is the parent's business."""
    for end in parents:  # while a child holds them, no child hears that the parent is gone
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        while True:
            answer(pipe, one, pipe.recv())
    except (EOFError, ConnectionError):
        return


def answer(pipe: Connection, one: Callable[[int], Any], which: int) -> None:
    """One piece of the work, or what went wrong with it and where; errors that no pipe takes are told alone."""
    try:
        found = which, one(which), None, ""
    except Exception as error:
        told = traceback.format_exc()
        try:
            pipe.send((which, None, error, told))
        except ConnectionError:
            raise
        except Exception:
            pipe.send((which, None, RuntimeError(str(error)), told))
        return
    pipe.send(found)
