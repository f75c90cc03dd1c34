"""Which device, which number format, and how the machine is told."""

import ctypes
import functools
import logging

import torch
from torch.nn import functional

from nmt.errors import UserError
from nmt.models.rnn import multiplies_bf16
from nmt.timing import least_seconds

log = logging.getLogger("nmt")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
ROWS, SIZE = 256, 512  # of the product that is timed to know which format is faster
CLEARLY = 0.8  # of float32's time or less


def pick_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else the CPU; raises UserError for a device that is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"device={name} is not available here; choose auto, cpu or a device that torch sees.") from None
    return device


def pick_device_again(name: str) -> torch.device:
    """The device a run was trained on where there is such a one, else what `auto` finds."""
    try:
        return pick_device(name)
    except UserError:
        return pick_device("auto")


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it faster (CUDA ≥ 8.0; a CPU is timed), else fp32."""
    if name != "auto":
        return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        fast = device.type == "cpu" and multiplies_bf16() and bf16_pays()
    return torch.bfloat16 if fast else torch.float32


@functools.cache
def bf16_pays() -> bool:
    """Whether products of bf16 take clearly less time than float32's, timed once in a process (20 to 50 ms).

    The CPU's units do not tell: AMX multiplies bf16 up to nine times as fast as float32, AVX512-BF16 two to four times
    on an AMD Zen 4 or 5, but half as fast on an Intel Xeon whose host hides its AMX.
    """
    full, low = (
        (torch.ones(ROWS, SIZE, dtype=dtype), torch.ones(SIZE, SIZE, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    )
    of_full, of_low = least_seconds(lambda: functional.linear(*full), lambda: functional.linear(*low))
    return of_low <= CLEARLY * of_full


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """bf16 for matrix products where chosen; parameters stay fp32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


def seed_everything(seed: int) -> None:
    """The generators of every device; what is drawn elsewhere is drawn from generators of its own."""
    torch.manual_seed(seed)


def keep_memory() -> None:
    """Tell glibc not to give large buffers back after every step: faulting them in again costs more than the sums."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 25)  # the largest value glibc takes
        libc.mallopt(M_TRIM_THRESHOLD, -1)  # never
    except (OSError, AttributeError):
        log.debug("no glibc here; its allocator is left as it is")
