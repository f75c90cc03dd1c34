"""How many threads an update takes on a CPU: as many as are fastest at the time.

A thread that another program keeps from running holds up the others in each of a thousand
operations. Beside one busy process an update of two threads takes 330 ms and one of one thread
145 ms; with nothing beside them two threads take 113 ms (Zen 4, two cores). So a few updates are
tried with fewer or more threads, and timed.

Numbers of threads are used only if the next batch gets gradients with the same bits from each of
them, which is tried first. A batch that is many times larger could still get other bits.

Before that, `faster_dtype` times the same batch in both number formats.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Mapping
from statistics import median

import torch
from torch import Tensor

from nmt.data.batches import Batch, Cursor
from nmt.training.train_step import TrainStep

log = logging.getLogger("nmt")

COMPARED = 8  # updates with the present number of threads
PASSES = 3  # of a batch in each number format
MOST_PARAMETERS = 30e6  # of a model for which both are tried: in larger ones bf16 is faster
CLEARLY_FASTER = 0.9  # relative to float32, which is more exact
# Updates of a trial; the first ones compile kernels for their number of threads
UNTIMED = 3
TRIED = 5
# Time of an update, relative to those before
FASTER = 0.95
SLOWER = 1.3
FAR_SLOWER = 2.0
# Updates between two trials; twice as many after each useless trial
FIRST_TRIAL = 16
RAREST_TRIAL = 256
# Largest fraction of the time for useless trials: after an expensive one the next comes later
LARGEST_SHARE = 0.02


def next_batch(step: TrainStep) -> Batch:
    """The batch that the training begins with, or goes on with."""
    cursor = Cursor(step.state.epoch, step.state.shard, step.state.position)
    return step.batches.batch(step.batches.existing_position(cursor))


def faster_dtype(step: TrainStep) -> torch.dtype:
    """The number format of an update: if it is bf16, on a CPU, float32 where that is faster.

    Its large products are faster in bf16, but small ones may not be: on an Intel Xeon with AMX, an
    update of a model of width 64 took 130 ms in bf16 and 60 ms in float32, at a width of 128 it
    took 146 and 130 ms, and at 256 as long in both.
    """
    size = sum(parameter.numel() for parameter in step.model.parameters())
    is_alone = step.device.type == "cpu" and step.world.size == 1
    has_choice = is_alone and step.dtype == torch.bfloat16 and not step.config.train.compile
    if not has_choice or size > MOST_PARAMETERS:
        return step.dtype
    batch = next_batch(step)
    planned = step.dtype
    seconds = {torch.bfloat16: math.inf, torch.float32: math.inf}
    step.model.train()
    try:
        for _ in range(PASSES):  # the first compiles kernels
            for dtype in seconds:
                step.dtype = dtype
                start = time.monotonic()
                step.add_gradients([batch], batch.tokens)
                seconds[dtype] = min(seconds[dtype], time.monotonic() - start)
                step.discard_gradients()
    finally:
        step.dtype = planned
    is_faster = seconds[torch.bfloat16] <= CLEARLY_FASTER * seconds[torch.float32]
    return torch.bfloat16 if is_faster else torch.float32


def thread_choices(step: TrainStep) -> dict[int, float]:
    """The numbers of threads to choose from, with the seconds that each takes for one batch.

    PyTorch's number, a half of it, a quarter and so on down to 1; only PyTorch's where gradients
    would get other bits. The batch is the next one of the training.
    """
    threads = torch.get_num_threads()
    if step.device.type != "cpu" or step.world.size > 1 or threads == 1:
        return {threads: 0.0}
    batch = next_batch(step)
    choices = [threads]
    while choices[0] > 1:
        choices.insert(0, choices[0] // 2)
    seconds: dict[int, float] = {}
    first_results: list[Tensor] = []
    step.model.train()
    try:
        for number in [1, *choices]:  # 1 again: the very first pass is slow
            torch.set_num_threads(number)
            start = time.monotonic()
            results = step.add_gradients([batch], batch.tokens)
            seconds[number] = time.monotonic() - start
            for parameter in step.model.parameters():
                if parameter.grad is not None:
                    results.append(parameter.grad)
            step.discard_gradients()
            first_results = first_results or results
            if not all(map(torch.equal, first_results, results)):
                return {threads: 0.0}
    finally:
        torch.set_num_threads(threads)
    return seconds


class ThreadChoice:
    """The number of threads of the next update; the first is the fastest of `thread_choices`."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self.choices = sorted(seconds)
        self.place = self.choices.index(min(seconds, key=seconds.__getitem__))  # of the one in use
        self.direction = 1  # the next trial is of the next larger number; −1: the next smaller one
        self.recent = deque[float](maxlen=COMPARED)  # seconds a position, of the last updates
        # Seconds a position to compare with: the median when the last trial began, or that of a
        # faster trial; with one choice, the smallest median so far
        self.usual = math.inf
        self.trial: list[float] | None = None  # seconds a position, of a trial's updates so far
        self.waited = 0  # updates since the last trial
        self.wait = FIRST_TRIAL  # updates from that to the next trial
        self.has_warned = False

    def __enter__(self) -> "ThreadChoice":
        torch.set_num_threads(self.choices[self.place])
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.choices[-1])

    def update(self, step: TrainStep) -> dict[str, float]:
        """`TrainStep.update`, timed."""
        start = time.monotonic()
        shown = step.update()
        if step.device.type == "cpu":
            self.after_update(time.monotonic() - start, step.positions)
        return shown

    def after_update(self, seconds: float, positions: int) -> None:
        """Begin or end a trial if it is time to; `positions` are those of the last update."""
        if self.trial is not None:
            self.trial.append(seconds / positions)
            self.judge(self.trial)
            return
        self.recent.append(seconds / positions)
        self.waited += 1
        if len(self.recent) < COMPARED:
            return
        now = median(self.recent)
        if len(self.choices) == 1:
            if self.choices[0] > 1 and not self.has_warned:
                self.watch(now)
        elif self.waited >= self.wait or now > SLOWER * self.usual:
            self.usual = now
            self.trial = []
            if not 0 <= self.place + self.direction < len(self.choices):
                self.direction = -self.direction
            torch.set_num_threads(self.choices[self.place + self.direction])

    def judge(self, trial: list[float]) -> None:
        """End a trial if it has enough updates, or if it is without doubt slower."""
        timed = trial[UNTIMED:]
        clearly_slower = len(timed) > 1 and min(timed) > SLOWER * self.usual
        far_slower = len(trial) > 1 and min(trial[-2:]) > FAR_SLOWER * self.usual
        if len(timed) < TRIED and not clearly_slower and not far_slower:
            return
        if timed and median(timed) < FASTER * self.usual:
            self.place += self.direction
            self.usual = median(timed)
            self.wait = FIRST_TRIAL
            log.info(
                "Updates take %d of %d threads, which is faster now.",
                self.choices[self.place],
                self.choices[-1],
            )
        else:
            self.direction = -self.direction
            # Updates that could have been made meanwhile
            lost = sum(trial) / self.usual - len(trial)
            self.wait = max(min(2 * self.wait, RAREST_TRIAL), round(lost / LARGEST_SHARE))
        torch.set_num_threads(self.choices[self.place])
        self.recent.clear()
        self.trial = None
        self.waited = 0

    def watch(self, now: float) -> None:
        """Warn once of updates that have become far slower, where the threads cannot be changed."""
        if now > FAR_SLOWER * self.usual:
            log.warning(
                "Updates take %.1f times as long as before; if another program keeps the "
                "processor busy, OMP_NUM_THREADS=1 may be faster.",
                now / self.usual,
            )
            self.has_warned = True
        self.usual = min(self.usual, now)
