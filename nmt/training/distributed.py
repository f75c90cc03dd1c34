"""Several processes that train one model together: `torchrun --nproc-per-node=N -m nmt train …`.

N processes, each with a rank from 0 to N − 1. torchrun starts them; its environment variables describe how they find
each other. Process 0 alone writes files and messages. Gradients (nmt/training/gradient_sum.py) go over the device's own
backend, gloo on a CPU and NCCL on GPUs, small tensors over gloo.
"""

import atexit
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from nmt.decode.beam_search import Hypothesis, NBest
from nmt.errors import ProcessLost, UserError

T = TypeVar("T")
log = logging.getLogger("nmt")
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # that torchrun sets
EXCHANGE_TIMEOUT = timedelta(minutes=30)  # of updates: a process that is that late is lost
WAIT_TIMEOUT = timedelta(days=7)  # of other work: process 0 may build a corpus for hours


@contextmanager
def lost_processes() -> Iterator[None]:
    """Around communication: an error of the backend becomes ProcessLost."""
    try:
        yield
    except RuntimeError as error:  # DistBackendError and its relatives are RuntimeErrors
        log.debug("%s", error)
        raise ProcessLost(
            "Another process of this training has ended or cannot be reached; give the same command again to continue."
        ) from None


class World:
    """All processes of a training, seen from this one; a single process by default."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.patient = None  # the group in which process 0 may be waited for
        if size > 1:
            with lost_processes():
                self.patient = dist.new_group(backend="gloo", timeout=WAIT_TIMEOUT)

    @property
    def is_main(self) -> bool:
        """Whether this is process 0, which writes."""
        return self.rank == 0

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """The values of every process, by rank; each gives equally many. Numbers above 2^53 are rounded."""
        if self.size == 1:
            return [list(values)]
        own = torch.tensor(values, dtype=torch.float64)
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        with lost_processes():
            dist.all_gather(everyone, own)
        return [each.tolist() for each in everyone]

    def max(self, value: float) -> float:
        """The largest value of any process."""
        return max(row[0] for row in self.gather([value]))

    def broadcast(self, value: float, patient: bool = False) -> float:
        """The value of process 0; `patient`: it may be late by more than EXCHANGE_TIMEOUT."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        with lost_processes():
            dist.broadcast(shared, 0, group=self.patient if patient else None)
        return shared.item()

    def gather_integers(self, values: Sequence[int]) -> list[list[int]]:
        """The 64-bit integers of every process, by rank, of any number."""
        if self.size == 1:
            return [list(values)]
        number, numbers = torch.tensor([len(values)]), [torch.empty(1, dtype=torch.int64) for _ in range(self.size)]
        with lost_processes():
            dist.all_gather(numbers, number, group=self.patient)
        lengths = [int(each) for each in numbers]
        own = torch.zeros(max(lengths), dtype=torch.int64)
        own[: len(values)] = torch.tensor(values, dtype=torch.int64)
        everyone = [torch.empty_like(own) for _ in lengths]
        with lost_processes():
            dist.all_gather(everyone, own, group=self.patient)
        return [each[:length].tolist() for each, length in zip(everyone, lengths, strict=True)]

    def check_device(self, device: torch.device) -> None:
        """Raise UserError where several processes of this machine would use the same GPU."""
        if self.size == 1 or device.type != "cuda":
            return
        if device.index is not None or int(os.environ["LOCAL_RANK"]) >= torch.cuda.device_count():
            raise UserError(
                f"Several processes need device=cuda and a GPU each; this machine has {torch.cuda.device_count()}, and "
                f"device is {device}."
            )

    def main_first(self, function: Callable[[], T]) -> T:
        """function(), called by process 0, and by the others once it has returned there."""
        if not self.is_main:
            self.broadcast(0, patient=True)
            return function()
        result = function()
        self.broadcast(0, patient=True)
        return result

    def check_equal(self, description: str, value: str | bytes) -> None:
        """Raise UserError if `value` is not the same in every process."""
        digest = blake2b(value if isinstance(value, bytes) else value.encode(), digest_size=6).digest()
        numbers = [row[0] for row in self.gather([float(int.from_bytes(digest, "little"))])]
        if different := [rank for rank, number in enumerate(numbers) if number != numbers[0]]:
            raise UserError(
                f"{description}: process {different[0]} has another one than process 0; all need the same version, "
                "kind of processor, and shared data_folder and run_folder."
            )


@functools.cache
def world() -> World:
    """The processes that torchrun has started, joined at the first call; one process without torchrun."""
    if not all(variable in os.environ for variable in VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        return World()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with lost_processes():
        dist.init_process_group(backend, timeout=EXCHANGE_TIMEOUT, **after_restart())
    atexit.register(dist.destroy_process_group)  # gloo's threads, if left to the end of the process, often abort it
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)  # which `cuda` then means
    if dist.get_rank():
        log.setLevel(logging.ERROR)  # process 0 reports for all
    return World(dist.get_rank(), dist.get_world_size())


def after_restart() -> dict[str, Any]:
    """Where the processes of one machine that torchrun has restarted find each other, for init_process_group.

    With torchrun's default rendezvous the store still has the addresses of the processes before them, so each attempt
    gets keys of its own. Its c10d rendezvous, which several machines need for restarts, opens a new store.
    """
    environment = os.environ
    if environment.get("LOCAL_WORLD_SIZE") != environment["WORLD_SIZE"] or not dist.is_torchelastic_launched():
        return {}
    size, attempt = int(environment["WORLD_SIZE"]), environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_master = environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and environment["RANK"] == "0"
    store = dist.TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), size, is_master)
    return {
        "store": dist.PrefixStore(f"attempt {attempt}", store),
        "rank": int(environment["RANK"]),
        "world_size": size,
    }


def has_joined() -> bool:
    """Whether this process communicates with others."""
    return dist.is_available() and dist.is_initialized()


def share_batches(world: World, function: Callable[[np.ndarray], NBest], batches: Sequence[np.ndarray]) -> list[NBest]:
    """`map(function, batches)`, each computed by one process of the world and sent to all."""
    own = [value for batch in batches[world.rank :: world.size] for value in pack_nbest(function(batch))]
    values = [iter(each) for each in world.gather_integers(own)]
    return [unpack_nbest(values[number % world.size]) for number in range(len(batches))]


def pack_nbest(nbest: NBest) -> list[int]:
    """The n best of each sentence as 64-bit integers: numbers, lengths, ids, and the bits of the scores."""
    values = [len(nbest)]
    for hypotheses in nbest:
        values.append(len(hypotheses))
        for hypothesis in hypotheses:
            values += [int(np.float64(hypothesis.score).view(np.int64)), len(hypothesis.ids), *hypothesis.ids]
    return values


def unpack_nbest(values: Iterator[int]) -> NBest:
    """The next list that `pack_nbest` packed."""

    def hypothesis() -> Hypothesis:
        score, length = float(np.int64(next(values)).view(np.float64)), next(values)
        return Hypothesis(list(itertools.islice(values, length)), score)

    return [[hypothesis() for _ in range(next(values))] for _ in range(next(values))]
