"""What every benchmark notes with its figures: the machine, the seconds, the memory, and what else
was running."""

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CPU_INFO = Path("/proc/cpuinfo")
MEMORY_INFO = Path("/proc/meminfo")
CPU_TIMES = Path("/proc/stat")
# decide how fast a product is
UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "bf16")
TICKS = 100  # a second, in /proc/stat


class Stopwatch:
    """`with Stopwatch() as timer:` sets timer.wall and timer.cpu (seconds) and timer.others.

    `cpu` counts all threads and the child processes that ended meanwhile; `others` is the number of
    cores that other processes kept busy (Linux only; otherwise 0). Where it stays near 0, the
    machine was quiet.
    """

    wall = cpu = others = 0.0

    def __enter__(self) -> "Stopwatch":
        self.start = time.perf_counter(), cpu_seconds(), machine_cpu_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu, machine = self.start
        self.wall = time.perf_counter() - wall
        self.cpu = cpu_seconds() - cpu
        self.others = max(0.0, (machine_cpu_seconds() - machine - self.cpu) / self.wall)


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def machine_cpu_seconds() -> float:
    """CPU seconds of all processes since the machine was started; 0 without /proc."""
    if not CPU_TIMES.exists():
        return 0.0
    user, nice, system, _, _, interrupts, soft, steal = (
        CPU_TIMES.read_text().split("\n", 1)[0].split()[1:9]
    )
    return sum(map(int, (user, nice, system, interrupts, soft, steal))) / TICKS


def peak_memory_gib() -> float:
    """Peak resident memory of this process or of its largest child that has ended, in GiB; 0 on
    Windows."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    # macOS counts bytes, Linux KiB
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


def describe_machine() -> dict[str, Any]:
    """Processor, memory, GPU, versions and commit, for the JSON file."""
    units = (proc_value(CPU_INFO, "flags") or proc_value(CPU_INFO, "Features")).split()
    memory = proc_value(MEMORY_INFO, "MemTotal").split()
    return {
        "processor": proc_value(CPU_INFO, "model name")
        or platform.processor()
        or platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "units": [unit for unit in UNITS if unit in units],
        "memory_gib": round(int(memory[0]) / 2**20, 1) if memory else None,
        "gpu": describe_gpu(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
        "commit": git_commit(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def proc_value(file: Path, name: str) -> str:
    """The value of the first line `name: value` of a file in /proc; empty where there is none."""
    if not file.exists():
        return ""
    pairs = (
        line.partition(":")
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def describe_gpu() -> str | None:
    """Name and memory of the CUDA device that torch would use, if there is one."""
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties("cuda")
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"


def git_commit() -> str | None:
    """The commit that is checked out, followed by + where files differ from it; None without
    git."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
        ).stdout

    try:
        return git("rev-parse", "--short=10", "HEAD").strip() + (
            "+" if git("status", "--porcelain").strip() else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return None


def machine_line(machine: dict[str, Any]) -> str:
    memory = f", {machine['memory_gib']} GiB" if machine["memory_gib"] else ""
    units = f" ({' '.join(machine['units'])})" if machine["units"] else ""
    gpu = f"; {machine['gpu']}" if machine["gpu"] else ""
    return (
        f"{machine['processor']}{units}, {machine['cores']} cores{memory}{gpu}; torch "
        f"{machine['torch']}, Python {machine['python']}; nmt "
        f"{machine['commit'] or 'without git'}; {machine['time']}"
    )
