"""The device, the number format, the random seed, and the allocator's settings."""

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
ROWS, SIZE = 256, 512  # of the matrix product that is timed in both formats
MAX_TIME_RATIO = 0.8  # bf16 is used where it takes at most this fraction of float32's time


def select_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else the CPU; raises UserError for a device that this machine lacks."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(
            f"device={name} is not available here; choose auto, cpu or a device that torch can use."
        ) from None
    return device


def select_device_or_auto(name: str) -> torch.device:
    """The device a run was trained on where this machine has it, else that of `auto`."""
    try:
        return select_device(name)
    except UserError:
        return select_device("auto")


def select_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it faster (CUDA ≥ 8.0; a CPU is timed), else fp32."""
    if name != "auto":
        return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]
    if device.type == "cuda":
        faster = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        faster = device.type == "cpu" and multiplies_bf16() and bf16_is_faster()
    return torch.bfloat16 if faster else torch.float32


@functools.cache
def bf16_is_faster() -> bool:
    """Whether bf16 matrix products take at most MAX_TIME_RATIO of float32's time; timed once a process (20 to 50 ms).

    The instruction set is not enough to decide: AMX multiplies bf16 up to nine times as fast as float32, AVX512-BF16
    two to four times on an AMD Zen 4 or 5, but half as fast on an Intel Xeon whose hypervisor hides its AMX.
    """
    float32, bfloat16 = (
        (torch.ones(ROWS, SIZE, dtype=dtype), torch.ones(SIZE, SIZE, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    )
    seconds, bf16_seconds = least_seconds(lambda: functional.linear(*float32), lambda: functional.linear(*bfloat16))
    return bf16_seconds <= MAX_TIME_RATIO * seconds


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """A context in which matrix products are in bf16 if `dtype` is; parameters stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


def seed_everything(seed: int) -> None:
    """Seed torch's generators on every device; the data has generators of its own, seeded from the configuration."""
    torch.manual_seed(seed)


def retain_freed_memory() -> None:
    """Set glibc's malloc to keep large freed buffers: getting them from the system again at every step costs more."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 25)  # the largest value glibc takes
        libc.mallopt(M_TRIM_THRESHOLD, -1)  # never
    except (OSError, AttributeError):
        log.debug("This system has no glibc; its allocator keeps its settings.")
