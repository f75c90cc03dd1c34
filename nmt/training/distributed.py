"""Several processes that train one model together: `torchrun --nproc-per-node=N -m nmt train …`.

torchrun starts N processes, each with a rank from 0 to N − 1; its environment variables describe
how they find each other. Process 0 alone writes files and messages. An update has M micro-batches:
process r computes r, r + N, … of the plan. Gradients are exchanged over the device's own backend,
gloo on a CPU and NCCL on GPUs, all else over gloo.
"""

import atexit
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nmt.errors import ProcessLost, UserError

T = TypeVar("T")
log = logging.getLogger("nmt")
# Environment variables that torchrun sets
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
EXCHANGE_TIMEOUT = timedelta(minutes=10)  # in an update: a process that is this late is lost
WAIT_TIMEOUT = timedelta(days=7)  # in other work: process 0 may build a corpus for hours
ALIGNMENT = 16  # floats; each gradient starts at a multiple of it, as PyTorch aligns CPU tensors
# Ctrl-C, the end of a scheduler's job, its warning before that, a closed terminal
SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
SIGNALS = [getattr(signal, name) for name in SIGNAL_NAMES if hasattr(signal, name)]  # Windows: two


@contextmanager
def lost_processes() -> Iterator[None]:
    """Around communication: an error of the backend becomes ProcessLost."""
    try:
        yield
    except RuntimeError as error:  # DistBackendError and its relatives are RuntimeErrors
        log.debug("%s", error)
        raise ProcessLost(
            "Another process of this training has ended or cannot be reached; give the same "
            "command again to continue."
        ) from None


class World:
    """All processes of a training, seen from this one; a single process by default."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self.patient_group = None  # for work in which another process may be hours late
        if size > 1:
            with lost_processes():
                self.patient_group = dist.new_group(backend="gloo", timeout=WAIT_TIMEOUT)

    @property
    def is_main(self) -> bool:
        """Whether this is process 0, which writes."""
        return self.rank == 0

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """The values of every process, by rank; each process gives the same number of values.

        Numbers above 2^53 are rounded.
        """
        if self.size == 1:
            return [list(values)]
        given = torch.tensor(values, dtype=torch.float64)
        by_rank = [torch.empty_like(given) for _ in range(self.size)]
        with lost_processes():
            dist.all_gather(by_rank, given)
        return [row.tolist() for row in by_rank]

    def gather_objects(self, value: T) -> list[T]:
        """The value of every process, by rank: anything that can be pickled.

        Returns once every process has called it; one may be hours later than another.
        """
        if self.size == 1:
            return [value]
        by_rank: list[Any] = [None] * self.size
        with lost_processes():
            dist.all_gather_object(by_rank, value, group=self.patient_group)
        return by_rank

    def max(self, value: float) -> float:
        """The largest value of any process."""
        return max(row[0] for row in self.gather([value]))

    def broadcast(self, value: T) -> T:
        """The value of process 0: anything that can be pickled."""
        return self.gather_objects(value)[0]

    def now(self) -> float:
        """Seconds on the clock of process 0."""
        return self.gather([time.monotonic()])[0][0]

    def check_device(self, device: torch.device) -> None:
        """Raise UserError where several processes of this machine would use the same GPU."""
        if self.size == 1 or device.type != "cuda":
            return
        if device.index is not None or int(os.environ["LOCAL_RANK"]) >= torch.cuda.device_count():
            raise UserError(
                "Several processes need device=cuda and a GPU each; this machine has "
                f"{torch.cuda.device_count()}, and device is {device}."
            )

    def main_first(self, function: Callable[[], T]) -> T:
        """function(), called by process 0, and by the others once it has returned there."""
        if not self.is_main:
            self.gather_objects(None)  # waits for process 0
            return function()
        result = function()
        self.gather_objects(None)  # lets the others go on
        return result

    def check_equal(self, description: str, value: str) -> None:
        """Raise UserError if `value` is not the same in every process."""
        first, *others = self.gather_objects(value)
        for rank, other in enumerate(others, start=1):
            if other != first:
                raise UserError(
                    f"{description}: process {rank} has another one than process 0; all need the "
                    "same version, kind of processor, and shared data_folder and run_folder."
                )

    def map(self, function: Callable[[Any], T], batches: Sequence[Any]) -> list[T]:
        """[function(batch) for batch in batches], each computed by one process and sent to all."""
        computed = [function(batch) for batch in batches[self.rank :: self.size]]
        by_rank = self.gather_objects(computed)
        return [by_rank[number % self.size][number // self.size] for number in range(len(batches))]


@functools.cache
def world() -> World:
    """The processes that torchrun has started, or this one alone; they join at the first call."""
    by_torchrun = all(variable in os.environ for variable in VARIABLES)
    if not by_torchrun or os.environ["WORLD_SIZE"] == "1":
        return World()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with lost_processes():
        dist.init_process_group(backend, timeout=EXCHANGE_TIMEOUT, **restart_arguments())
    # If gloo's threads still run when the process ends, they often abort it
    atexit.register(dist.destroy_process_group)
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)  # the GPU that device=cuda then means
    if dist.get_rank():
        log.setLevel(logging.ERROR)  # process 0 reports for all
    return World(dist.get_rank(), dist.get_world_size())


def restart_arguments() -> dict[str, Any]:
    """Arguments of init_process_group for processes that torchrun may have restarted.

    With torchrun's default rendezvous, on one machine, the store still has the addresses of the
    processes before them, so each attempt gets keys of its own. The c10d rendezvous, which several
    machines need for restarts, opens a new store.
    """
    environment = os.environ
    on_one_machine = environment.get("LOCAL_WORLD_SIZE") == environment["WORLD_SIZE"]
    if not on_one_machine or not dist.is_torchelastic_launched():
        return {}
    rank = int(environment["RANK"])
    size = int(environment["WORLD_SIZE"])
    port = int(environment["MASTER_PORT"])
    # The store is in process 0, unless torchrun itself has it
    is_master = rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = dist.TCPStore(environment["MASTER_ADDR"], port, size, is_master)
    attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    return {
        "store": dist.PrefixStore(f"attempt {attempt}", store),
        "rank": rank,
        "world_size": size,
    }


def has_joined() -> bool:
    """Whether this process communicates with others."""
    return dist.is_available() and dist.is_initialized()


class Interrupted(Exception):
    """A signal has asked the training to stop; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = number


class StopSignal:
    """Keeps the signal that asks the training to stop.

    `check` is called where the training can be saved, and then raises Interrupted.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.signal = 0  # its number; 0: none has come

    def check(self) -> None:
        """Raise Interrupted if any process has been asked to stop.

        Every process must call it at the same point.
        """
        number = int(self.world.max(self.signal))
        if number:
            raise Interrupted(number)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within the block the first signal requests a stop; a second one ends the process at once.

        Under torchrun a Ctrl-C comes twice, from the terminal and from torchrun, so there a second
        one changes nothing. A signal that is ignored stays so: `nohup` ignores a closed terminal.
        """

        def request(number: int, frame: FrameType | None) -> None:
            if self.signal and self.world.size == 1:
                raise KeyboardInterrupt
            self.signal = self.signal or number
            log.info("Stopping after this update …")

        old_handlers = {}
        # Only the main thread may handle signals
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    old_handlers[number] = signal.signal(number, request)
        try:
            yield
        finally:
            for number, handler in old_handlers.items():
                signal.signal(number, handler)


class OrderedSum:
    """The sum of the gradients of M micro-batches, in an order that does not depend on N.

    It is g_0 + g_1 + … + g_{M−1}, and has the bits of one process that adds up M micro-batches.
    A gradient has P numbers, and each process owns P / N of them. A round is N micro-batches, one
    in each process. After it each process sends every owner that owner's part of its gradient, and
    the owner adds the N parts in order, while the next micro-batch is computed. In the end the
    owners send their sums to all. With M = N a process sends 2 P (N − 1) / N numbers, as many as in
    a ring all-reduce; but there the order of addition depends on N.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.starts = list[int]()  # where each parameter's gradient begins in the flat [P]
        size = 0
        for parameter in self.parameters:
            self.starts.append(size)
            size += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
        part = -(-size // world.size)
        # [N, P/N]: row r is the part of this process's gradient that process r owns
        self.sent = self.parameters[0].new_zeros(world.size, part)
        # [N, P/N]: in a round, row r comes from process r; in `finish`, it is process r's sum
        self.received = torch.zeros_like(self.sent)
        self.total: Tensor | None = None  # [P/N]: the sum so far of the part that this process owns
        self.under_way: dist.Work | None = None

    def views(self, rows: Tensor) -> list[Tensor]:
        """Each parameter's gradient as a view of all rows [N, P/N]."""
        flat = rows.flatten()  # [P]
        views = []
        for start, parameter in zip(self.starts, self.parameters, strict=True):
            views.append(flat[start : start + parameter.numel()].view_as(parameter))
        return views

    def add(self) -> None:
        """Take the gradients of one micro-batch from the parameters, and clear them."""
        self.receive()
        for parameter, view in zip(self.parameters, self.views(self.sent), strict=True):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
                parameter.grad = None
        with lost_processes():
            self.under_way = dist.all_to_all_single(self.received, self.sent, async_op=True)

    def receive(self) -> None:
        """Wait for the round under way, if there is one, and add it to the sum."""
        if self.under_way is None:
            return
        with lost_processes():
            self.under_way.wait()
        self.under_way = None
        for row in self.received:
            self.total = row.clone() if self.total is None else self.total.add_(row)

    def discard(self) -> None:
        """Forget the micro-batches of an update that is given up; every process must give it up."""
        self.receive()  # a round that is under way still uses the buffers
        self.total = None

    def finish(self) -> None:
        """Set the gradients of all parameters to their sums, in every process.

        They are views of `received`, and valid until the next `add`, whose exchange overwrites it.
        """
        self.receive()
        total = self.total
        self.total = None
        with lost_processes():
            dist.all_gather(list(self.received), total)
        for parameter, view in zip(self.parameters, self.views(self.received), strict=True):
            parameter.grad = view


def all_reduce(parameters: Iterable[nn.Parameter]) -> None:
    """Add up the gradients of all processes in the order of the backend.

    The same parameters must have a gradient in every process.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total = torch.cat([gradient.flatten() for gradient in gradients])
    with lost_processes():
        dist.all_reduce(total)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, total.split(sizes), strict=True):
        gradient.copy_(part.view_as(gradient))
