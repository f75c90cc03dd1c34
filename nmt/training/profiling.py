"""A PyTorch profile of some updates, for TensorBoard's profiler plugin and Perfetto."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import profiler

log = logging.getLogger("nmt")
# Updates before the recording; the first ones are slower, since kernels are compiled
WAIT = 10
WARMUP = 2


@contextmanager
def profiled(updates: int, folder: Path) -> Iterator[Callable[[], None]]:
    """Record `updates` updates within the block; yields a function to call after each update.

    The trace is `folder`/HOST_PID.TIME.pt.trace.json. It is written after the last of these
    updates, or at the end of the block. With 0 updates nothing is recorded.
    """
    if not updates:
        yield lambda: None
        return
    schedule = profiler.schedule(wait=WAIT, warmup=WARMUP, active=updates, repeat=1)
    write = profiler.tensorboard_trace_handler(str(folder))
    is_written = False

    def finish(recorded: profiler.profile) -> None:
        nonlocal is_written
        write(recorded)
        is_written = True
        log.info("The profile is in %s.", folder)

    with profiler.profile(
        schedule=schedule, on_trace_ready=finish, record_shapes=True, profile_memory=True
    ) as recorder:
        yield recorder.step
    if not is_written:
        log.warning("There is no profile: it begins after %d updates.", WAIT + WARMUP)
