"""How many threads an update takes on a CPU: as many as are fastest at the time.

A thread that another program keeps from running holds up the others in each of a thousand operations: beside one
busy process an update of two threads takes 330 ms where one thread takes 145, and two 113 when nothing is beside
them (Zen 4, two cores). So a few updates are tried with fewer or more threads, and timed. No result changes: that is
done only where gradients have the same bits with any of these numbers, which is tried first.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor

from nmt.data.batches import Cursor
from nmt.training.train_step import TrainStep

log = logging.getLogger("nmt")

COMPARED = 8  # updates with the present number of threads
UNTIMED, TRIED = 3, 5  # updates of a trial: the first ones compile kernels for their number of threads
FASTER, SLOWER, FAR_SLOWER = 0.95, 1.3, 2.0  # times of an update, compared with those before
FIRST_TRIAL, RAREST_TRIAL = 16, 256  # updates between two trials; twice as many after each that was of no use


def thread_choices(step: TrainStep) -> list[int]:
    """PyTorch's number of threads, half of it, … 1; the first alone where gradients would get other bits.

    Tried on the next batch of the training. Products may be divided among threads in another way when batches are
    many times larger than that one.
    """
    threads = torch.get_num_threads()
    if step.device.type != "cpu" or step.world.size > 1 or threads == 1:
        return [threads]
    choices = [threads >> number for number in range(threads.bit_length())]
    batch = step.batches.batch(
        *step.batches.existing_position(Cursor(step.state.epoch, step.state.shard, step.state.position))
    )
    found: list[list[Tensor | None]] = []
    step.model.train()
    for number in choices:
        torch.set_num_threads(number)
        nll = step.backward(0, batch, batch.tokens)
        found.append([nll, *(parameter.grad for parameter in step.model.parameters())])
        step.optimizer.zero_grad()
    torch.set_num_threads(threads)
    same = all(
        one is other or (one is not None and other is not None and torch.equal(one, other))
        for gradients in found[1:]
        for one, other in zip(found[0], gradients, strict=True)
    )
    return choices if same else [threads]


class ThreadChoice:
    """The number of threads of the next update; `choices` from the largest to the smallest, the first is in use."""

    def __init__(self, choices: Sequence[int]) -> None:
        self.choices, self.place, self.step = choices, 0, 1  # the next trial is `step` places further
        self.recent = deque[float](maxlen=COMPARED)  # seconds a position
        self.usual = math.inf  # the same when a trial was last made
        self.trial: list[float] | None = None
        self.waiting, self.wait = 0, FIRST_TRIAL  # updates since the last trial, and until the next
        self.warned = False

    def __enter__(self) -> "ThreadChoice":
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.choices[0])

    def update(self, step: TrainStep) -> dict[str, float]:
        """`TrainStep.update`, timed."""
        start = time.monotonic()
        figures = step.update()
        self.after_update(time.monotonic() - start, step.positions)
        return figures

    def after_update(self, seconds: float, positions: int) -> None:
        """Begin or end a trial where it is time to; `positions` of source and target were in the update."""
        if self.trial is not None:
            self.trial.append(seconds / positions)
            self.judge(self.trial[UNTIMED:])
            return
        self.recent.append(seconds / positions)
        self.waiting += 1
        if len(self.recent) < COMPARED:
            return
        now = median(self.recent)
        if len(self.choices) == 1:
            if self.choices[0] > 1 and not self.warned:
                self.watch(now)
        elif self.waiting >= self.wait or now > SLOWER * self.usual:
            self.usual, self.trial = now, []
            if not 0 <= self.place + self.step < len(self.choices):
                self.step = -self.step
            torch.set_num_threads(self.choices[self.place + self.step])

    def judge(self, timed: list[float]) -> None:
        """End a trial with these times of its updates if they are enough, or leave no doubt."""
        assert self.trial is not None
        if len(timed) < TRIED and not (len(timed) > 1 and min(timed) > SLOWER * self.usual):
            return
        if median(timed) < FASTER * self.usual:
            self.place, self.wait, self.usual = self.place + self.step, FIRST_TRIAL, median(timed)
            log.info("Updates take %d of %d threads, which is faster now.", self.choices[self.place], self.choices[0])
        else:
            self.wait, self.step = min(2 * self.wait, RAREST_TRIAL), -self.step
        torch.set_num_threads(self.choices[self.place])
        self.recent.clear()
        self.trial, self.waiting = None, 0

    def watch(self, now: float) -> None:
        """Say once that updates have become far slower, where the number of threads cannot be changed."""
        if now > FAR_SLOWER * self.usual:
            log.warning(
                "Updates take %.1f times as long as before; if another program keeps the processor busy, "
                "OMP_NUM_THREADS=1 may be faster.", now / self.usual,
            )  # fmt: skip
            self.warned = True
        self.usual = min(self.usual, now)
