"""Environments for the toolkits of scripts/bench_peers.py, made once, and commands run in them.

A toolkit is installed above the torch of this project's own environment, without its requirements,
which pin an older torch, and then with those that it needs here.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame import note, read_json, run_process
from benchmarks.machine import ROOT

from nmt.errors import UserError
from peers.toolkits import ENVIRONMENTS

TIMEOUT = 1800  # seconds until a command is given up
SHARED = {  # the OpenMP settings that nmt makes for itself: idle threads sleep after a short while
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "30000",
    "KMP_BLOCKTIME": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",  # all systems run on the CPU
}


class Environments:
    """The virtual environments below a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def python(self, name: str) -> Path:
        return self.folder / name / "bin" / "python"

    def install(self, name: str) -> None:
        """Make an environment where it is missing; raises UserError where that fails, and leaves
        nothing behind."""
        if self.python(name).exists():
            return
        folder = self.folder / name
        environment = ENVIRONMENTS[name]
        note(f"installing {name} into {folder}; this takes a minute or two …")
        pip = [str(self.python(name)), "-m", "pip", "install", "-q"]
        run_quietly = partial(subprocess.run, check=True, capture_output=True, text=True)
        try:
            run_quietly([sys.executable, "-m", "venv", str(folder)])
            packages = Path(
                sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
            )
            (packages / "zz_below.pth").write_text(
                sysconfig.get_path("purelib") + "\n", encoding="utf-8"
            )
            if environment.toolkit:
                run_quietly([*pip, "--no-deps", *environment.toolkit])
            run_quietly([*pip, *environment.requirements])
            if environment.stub:
                (packages / f"{environment.stub}.py").write_text("", encoding="utf-8")
        except BaseException as error:  # an incomplete environment would pass for a complete one
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, (OSError, subprocess.CalledProcessError)):
                raise
            message = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise UserError(f"{name} cannot be installed: {message[-1]}") from None

    def measure(self, name: str, arguments: Sequence[Any], threads: int) -> dict[str, Any]:
        """The figures in the last line that `python -m` with these arguments writes; raises
        UserError."""
        environment = SHARED | {
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": str(ROOT / "scripts"),
        }
        command = [self.python(name), "-m", *arguments]
        log = self.folder / f"{name}.log"
        return read_json(run_process(command, environment, self.folder, log, TIMEOUT))
