"""The sum of the gradients of several processes.

N processes, M micro-batches an update, P parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import accumulate

import torch.distributed as dist
from torch import Tensor, nn

from nmt.training.distributed import World, lost_processes

ALIGNMENT = 16  # floats; each parameter's gradient starts at a multiple of it


class GradientSum(ABC):
    """The sum of all micro-batches' gradients, left in the parameters' `grad` of every process.

    Process r computes the micro-batches r, r + N, …; `add` takes the gradients of each, `finish` sets the sums. The
    sums stay valid until the next `add`. Gradients are copied into one flat buffer.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        self.parameters, self.world = [each for each in parameters if each.requires_grad], world
        sizes = [-(-each.numel() // ALIGNMENT) * ALIGNMENT for each in self.parameters]
        self.starts = list(accumulate(sizes, initial=0))[:-1]
        self.part = -(-sum(sizes) // world.size)  # numbers that belong to each process
        self.used = [False for _ in self.parameters]  # whether a parameter has had a gradient

    def buffer(self) -> tuple[Tensor, list[Tensor]]:
        """Zeros for all gradients, [N P/N], and a view of each parameter's."""
        rows = self.parameters[0].new_zeros(self.world.size, self.part)
        flat = rows.flatten()
        return rows, [
            flat[start : start + each.numel()].view_as(each)
            for start, each in zip(self.starts, self.parameters, strict=True)
        ]

    def take(self, views: list[Tensor], accumulates: bool) -> None:
        """Copy the parameters' gradients into `views`, or add them to these, and clear them."""
        for number, (parameter, view) in enumerate(zip(self.parameters, views, strict=True)):
            if parameter.grad is not None:
                view.add_(parameter.grad) if accumulates else view.copy_(parameter.grad)
                parameter.grad, self.used[number] = None, True
            elif not accumulates:
                view.zero_()

    def set_gradients(self, views: list[Tensor]) -> None:
        """Make these views the gradients; the optimizer leaves out a parameter that has none."""
        for parameter, view, used in zip(self.parameters, views, self.used, strict=True):
            parameter.grad = view if used else None

    @abstractmethod
    def add(self) -> None:
        """Take the gradients of one micro-batch, and clear them."""

    @abstractmethod
    def finish(self) -> None:
        """Set the parameters' gradients to the sums."""


class OrderedSum(GradientSum):
    """g_0 + g_1 + … + g_{M−1} in this order, whatever N is: the bits of one process that adds up M micro-batches.

    Each process owns a part of the parameters, P / N numbers. After every round of N micro-batches each process sends
    each part of its gradient to its owner, which adds the N of them in order; in the end the owners send the sums to
    all. With M = N a process sends as many numbers as in a ring all-reduce, 2 P (N − 1) / N, whose order of addition
    depends on N. While a round is under way the next micro-batch is computed.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        super().__init__(parameters, world)
        self.sent, self.sent_views = self.buffer()
        self.received, self.received_views = self.buffer()
        self.total: Tensor | None = None  # of this process's part
        self.under_way: list[dist.Work] = []

    def add(self) -> None:
        self.receive()
        self.take(self.sent_views, accumulates=False)
        self.received[self.world.rank] = self.sent[self.world.rank]
        self.exchange(lambda rank: self.sent[rank])

    def exchange(self, outgoing: Callable[[int], Tensor]) -> None:
        """Begin to send outgoing(rank) to each other process, and to receive one row from each."""
        rank, size = self.world.rank, self.world.size
        operations = []
        for distance in range(1, size):
            target, source = (rank + distance) % size, (rank - distance) % size
            operations.append(dist.P2POp(dist.isend, outgoing(target), target))
            operations.append(dist.P2POp(dist.irecv, self.received[source], source))
        with lost_processes():
            self.under_way = dist.batch_isend_irecv(operations)

    def receive(self) -> None:
        """Wait for the round under way, if there is one, and add it to the sum."""
        if not self.under_way:
            return
        self.wait()
        for row in self.received:
            self.total = row.clone() if self.total is None else self.total.add_(row)

    def wait(self) -> None:
        """Wait for all operations under way."""
        with lost_processes():
            for operation in self.under_way:
                operation.wait()
        self.under_way = []

    def finish(self) -> None:
        self.receive()
        total, self.total = self.total, None
        assert total is not None
        self.exchange(lambda rank: total)
        self.wait()
        self.received[self.world.rank] = total
        self.set_gradients(self.received_views)


class UnorderedSum(GradientSum):
    """Each process adds up its own micro-batches, and one all-reduce the processes, in an order of the backend's."""

    def __init__(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        super().__init__(parameters, world)
        self.sum, self.views = self.buffer()
        self.is_empty = True

    def add(self) -> None:
        self.take(self.views, accumulates=not self.is_empty)
        self.is_empty = False

    def finish(self) -> None:
        with lost_processes():
            dist.all_reduce(self.sum)
        self.set_gradients(self.views)
        self.is_empty = True


def make_gradient_sum(model: nn.Module, world: World, ordered: bool) -> GradientSum | None:
    """The sum for the processes of a training; None for a single one."""
    if world.size == 1:
        return None
    return (OrderedSum if ordered else UnorderedSum)(model.parameters(), world)
