"""Which kernels a device runs, and how long."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.tables import Figures
from benchmarks.training import synchronize

ATTENTION = ("flash", "fmha", "attention", "sdpa", "cudnn_generated_fort")  # in the names of attention's kernels
WIDTH = 70  # of a name in a table


def kernel_times(call: Callable[[], object], device: torch.device) -> list[tuple[str, float, int]]:
    """Name, milliseconds and number of runs of every kernel of `call`, slowest first; on a CPU of every operation."""
    on_cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU]) as profiler:
        call()
        synchronize(device)
    name = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    times = [(event.key, getattr(event, name) / 1000, event.count) for event in profiler.key_averages()]
    return sorted((row for row in times if row[1] > 0), key=lambda row: -row[1])


def slowest_kernels(call: Callable[[], object], device: torch.device, most: int) -> list[Figures]:
    """The `most` slowest kernels of `call`, and all together."""
    times = kernel_times(call, device)
    total = sum(row[1] for row in times)
    rows = [("all", total, sum(row[2] for row in times)), *times[:most]]
    return [{"kernel": name[:WIDTH], "ms": ms, "share": ms / total, "runs": runs} for name, ms, runs in rows]


def attention_kernels(call: Callable[[], object], device: torch.device) -> str:
    """The kernels of `call` that are attention's by their names, slowest first."""
    names = [name for name, _, _ in kernel_times(call, device) if any(word in name.lower() for word in ATTENTION)]
    return "; ".join(dict.fromkeys(name[:WIDTH] for name in names)) or "none by its name"
