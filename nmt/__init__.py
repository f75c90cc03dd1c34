"""nmt: train neural machine translation models on your own sentence pairs, and look at their
attention.

    run = nmt.load("phrasebook-transformer")
    run.translate(["Wo ist der Bahnhof?"])[0].text

docs/guides/python.md explains the interface. `import nmt` is fast, because PyTorch is imported only
by the first call.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.commands.interface import load, train
    from nmt.decode.translation import Translation
    from nmt.errors import Stopped, UserError
    from nmt.evaluate.alignment import Alignment
    from nmt.runs.results import Result
    from nmt.runs.run import Run

# OpenMP threads that always spin slow each other down on shared cores; those that sleep at once
# wake up late and cost a quarter of the speed. So: spin for a short while, then sleep. This must be
# set before torch is imported, and a setting of the environment wins.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")  # turns; GNU's OpenMP
    os.environ.setdefault("KMP_BLOCKTIME", "1")  # milliseconds; LLVM's and Intel's
# Kernels that oneDNN keeps for the shapes it has met. Where every batch and every step of a search
# has another shape, its default of 1,024 costs gigabytes and saves no time: 300 updates with the
# defaults took 109 s and 2.4 GB, with 64 kernels 104 s and 1.0 GB (Zen 4, one thread).
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "64")


def _first_processor() -> str:
    """What the system says of its first processor; on Linux its maker, its model and its flags."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return file.read(10_000)
    except OSError:
        import platform

        return platform.processor()  # Intel64 Family 6 …, GenuineIntel; arm


# Decides what is faster (nmt/attention/cpu.py)
IS_INTEL = "GenuineIntel" in _first_processor()
# Intel's MKL adds up in another order with one thread than with two, unless it is told not to. Only
# with the same bits may a training choose its number of threads (nmt/training/threads.py). Updates
# and translations take as long as before; with the value AUTO,STRICT, translations take 15 % more.
if IS_INTEL and " avx512f " in _first_processor():
    os.environ.setdefault("MKL_CBWR", "AVX512,STRICT")

__version__ = "0.1.0"
__all__ = ["Alignment", "Result", "Run", "Stopped", "Translation", "UserError", "load", "train"]
MODULES = {
    "Alignment": "nmt.evaluate.alignment",
    "Result": "nmt.runs.results",
    "Run": "nmt.runs.run",
    "Stopped": "nmt.errors",
    "Translation": "nmt.decode.translation",
    "UserError": "nmt.errors",
    "load": "nmt.commands.interface",
    "train": "nmt.commands.interface",
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used (PEP 562)."""
    if name not in MODULES:
        raise AttributeError(f"module 'nmt' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names too, before their first use."""
    return sorted({*globals(), *__all__})
