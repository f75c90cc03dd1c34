"""The sum of the gradients of several processes.

N processes, M micro-batches an update, P parameters. Process r computes the micro-batches r, r + N, … of the plan.
"""

from collections.abc import Iterable
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nmt.training.distributed import World, lost_processes

ALIGNMENT = 16  # floats; each parameter's gradient starts at a multiple of it


class OrderedSum:
    """g_0 + g_1 + … + g_{M−1} in this order, whatever N is: the bits of one process that adds up M micro-batches.

    Each process owns a part of the parameters, P / N numbers. After every round of N micro-batches each process sends
    each part of its gradient to its owner, which adds the N of them in order; in the end the owners send the sums to
    all. With M = N a process sends as many numbers as in a ring all-reduce, 2 P (N − 1) / N, whose order of addition
    depends on N. While a round is under way the next micro-batch is computed.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        self.parameters = [each for each in parameters if each.requires_grad]
        sizes = [-(-each.numel() // ALIGNMENT) * ALIGNMENT for each in self.parameters]
        self.starts = list(accumulate(sizes, initial=0))[:-1]
        self.used = [False for _ in self.parameters]  # whether a parameter has had a gradient
        part = -(-sum(sizes) // world.size)
        self.sent, self.received = (self.parameters[0].new_zeros(world.size, part) for _ in range(2))
        self.total: Tensor | None = None  # of this process's part
        self.under_way: dist.Work | None = None

    def views(self, rows: Tensor) -> list[Tensor]:
        """A view of each parameter's gradient in all rows [N P/N]."""
        flat, pairs = rows.flatten(), zip(self.starts, self.parameters, strict=True)
        return [flat[start : start + each.numel()].view_as(each) for start, each in pairs]

    def add(self) -> None:
        """Take the gradients of one micro-batch from the parameters, and clear them."""
        self.receive()
        for number, (parameter, view) in enumerate(zip(self.parameters, self.views(self.sent), strict=True)):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
                parameter.grad, self.used[number] = None, True
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

    def finish(self) -> None:
        """Make the sums, valid until the next `add`, the parameters' gradients in every process."""
        self.receive()
        total, self.total = self.total, None
        with lost_processes():
            dist.all_gather(list(self.received), total)
        for parameter, view, used in zip(self.parameters, self.views(self.received), self.used, strict=True):
            parameter.grad = view if used else None  # the optimizer leaves out a parameter that has none


def all_reduce(parameters: Iterable[nn.Parameter]) -> None:
    """Add up the gradients of all processes, in an order of the backend's."""
    gradients = [each.grad for each in parameters if each.grad is not None]
    total = torch.cat([gradient.flatten() for gradient in gradients])
    with lost_processes():
        dist.all_reduce(total)
    for gradient, part in zip(gradients, total.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
