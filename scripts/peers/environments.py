"""Environments for the toolkits of scripts/bench_peers.py, made once, and commands run in them.

A toolkit is installed above the torch of this project's own environment, without its requirements, which pin an older
torch, and then with those that it needs here.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_machine import ROOT
from bench_toolkits import ENVIRONMENTS

from nmt.errors import UserError

PATIENCE = 1800  # seconds until a command is given up
QUIET = {  # what nmt sets for itself: threads that wait do not spin for ever
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "30000",
    "KMP_BLOCKTIME": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",  # everybody on the CPU
}


def install(name: str, folder: Path) -> str:
    """Make FOLDER/NAME where it is missing; returns the sentence to say where that fails, else nothing."""
    place = folder / name
    if name == "nmt" or (place / "bin" / "python").exists():
        return ""
    print(f"bench-peers: installing {name} into {place}; this takes a minute or two …", file=sys.stderr, flush=True)
    environment, pip = ENVIRONMENTS[name], [str(place / "bin" / "python"), "-m", "pip", "install", "-q"]
    try:
        quietly([sys.executable, "-m", "venv", str(place)])
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
        (packages / "zz_below.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        if environment.toolkit:
            quietly([*pip, "--no-deps", *environment.toolkit])
        quietly([*pip, *environment.others])
        if environment.stub:
            (packages / f"{environment.stub}.py").write_text("", encoding="utf-8")
    except BaseException as error:  # half an environment would count as one
        shutil.rmtree(place, ignore_errors=True)
        if not isinstance(error, (OSError, subprocess.CalledProcessError)):
            raise
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return f"{name} cannot be installed and is left out: {said[-1]}"
    return ""


def quietly(command: list[str]) -> None:
    """Run; raises CalledProcessError with what it said."""
    subprocess.run(command, check=True, capture_output=True, text=True)


def call(environment: str, words: Sequence[Any], threads: int, options: argparse.Namespace) -> str:
    """Stdout of a script of this folder, or of -m MODULE, in an environment; raises UserError where it fails."""
    python = sys.executable if environment == "nmt" else str(options.folder / environment / "bin" / "python")
    first, *rest = map(str, words)
    ours = environment == "nmt" or first == "-m"  # the toolkits' environments lie above our own and know what nmt needs
    command = [python, first if first == "-m" else str(ROOT / "scripts" / first), *rest]
    settings = QUIET | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT) if ours else ""}
    if environment == "onmt":
        settings["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its own checkpoint of a minute ago holds its options
    log = options.folder / f"{environment}.log"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "encoding": "utf-8", "timeout": PATIENCE}
    try:
        with open(log, "w", encoding="utf-8") as said:
            ran = subprocess.run(command, env=os.environ | settings, stderr=said, cwd=options.folder, **pipes)
    except (subprocess.TimeoutExpired, OSError) as error:
        raise UserError(f"{environment}: {' '.join(command[1:4])} … cannot be run: {error}") from None
    if ran.returncode:
        last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise UserError(f"{environment}: {' '.join(command[1:4])} … failed, see {log}; it said last: {last}")
    return ran.stdout


def figures(environment: str, words: Sequence[Any], threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """The same, its last line as JSON."""
    try:
        return json.loads(call(environment, words, threads, options).splitlines()[-1])
    except (IndexError, ValueError):
        raise UserError(f"{environment}: {words[0]} gave no figures; see {options.folder / environment}.log.") from None
