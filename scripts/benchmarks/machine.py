"""What every benchmark notes beside its figures: the machine, how quiet it was, and how far the rounds differ."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PROCESSOR, SYSTEM, KERNEL = Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/proc/stat")
UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "bf16")  # that decide how fast a product is
TICKS = 100  # a second, in /proc/stat


class Spread(NamedTuple):
    """Some rounds in one figure."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return short(self.median)
        return f"{short(self.median)} ({short(self.least)}–{short(self.most)})"


def spread(values: Sequence[float]) -> Spread:
    """Median, least and most."""
    return Spread(statistics.median(values), min(values), max(values))


def short(value: float) -> str:
    """Three digits at least, none that means nothing."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Watch:
    """with Watch() as watch: …; then wall and CPU seconds, and cores that other processes kept busy (Linux)."""

    wall = cpu = 0.0
    others = 0.0

    def __enter__(self) -> "Watch":
        self.began = time.perf_counter(), time.process_time() + ended(), busy(), own()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu, machine, mine = self.began
        self.wall, self.cpu = time.perf_counter() - wall, time.process_time() + ended() - cpu
        now = busy()
        self.others = max(0.0, (now - machine - (own() - mine)) / self.wall)


def ended() -> float:
    """CPU seconds of the ended processes that this one started."""
    return sum(os.times()[2:4])


def busy() -> float:
    """CPU seconds that the whole machine has burnt; 0 where the system does not tell."""
    if not KERNEL.exists():
        return 0.0
    user, nice, system, _, _, interrupts, soft, steal = KERNEL.read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, interrupts, soft, steal))) / TICKS


def own() -> float:
    """CPU seconds of this process and the ended ones it started, in the grain of the system's clock."""
    return sum(os.times()[:4])


def about(device: str = "cpu") -> dict[str, Any]:
    """Machine, versions and commit, for the JSON."""
    import numpy
    import torch

    kernel = torch.cuda.get_device_properties(device) if device.startswith("cuda") else None
    return {
        "processor": line_of(PROCESSOR, "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "units": [
            unit for unit in UNITS if unit in (line_of(PROCESSOR, "flags") or line_of(PROCESSOR, "Features")).split()
        ],
        "memory_gib": round(int(line_of(SYSTEM, "MemTotal").split()[0]) / 2**20, 1) if SYSTEM.exists() else None,
        "gpu": f"{kernel.name}, {kernel.total_memory / 2**30:.0f} GiB" if kernel else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "commit": commit(),
        "at": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def line_of(file: Path, name: str) -> str:
    """The value after `name` in a file of NAME: VALUE, or nothing."""
    if not file.exists():
        return ""
    pairs = (line.partition(":") for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def commit() -> str | None:
    """What is checked out, with a + where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    try:
        return git("rev-parse", "--short=10", "HEAD").strip() + ("+" if git("status", "--porcelain").strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def headline(machine: dict[str, Any]) -> str:
    """The machine in a line."""
    memory = f", {machine['memory_gib']} GiB" if machine["memory_gib"] else ""
    units = f" ({' '.join(machine['units'])})" if machine["units"] else ""
    gpu = f"; {machine['gpu']}" if machine["gpu"] else ""
    return (
        f"{machine['processor']}{units}, {machine['cores']} cores{memory}{gpu}; torch {machine['torch']}, "
        f"Python {machine['python']}; nmt {machine['commit'] or 'without git'}; {machine['at']}"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first column is text, the others are figures."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])
