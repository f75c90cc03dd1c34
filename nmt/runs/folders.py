"""The folders of runs, and the checkpoints in them, found by name, folder or file."""

import logging
import os
from pathlib import Path

from nmt.config.schema import Config
from nmt.errors import UserError

log = logging.getLogger("nmt")


def run_folder(config: Config) -> Path:
    """The folder of a run; there is no time in its name, so that the same command continues its own run."""
    return Path(config.run_folder) / config.name


def find_checkpoint(run: str, root: Path = Path("runs")) -> Path:
    """The checkpoint of RUN: a file, a folder, a name under `root`, or the word `latest`; raises UserError."""
    if run == "latest":
        checkpoints = sorted(root.glob("*/best.safetensors"), key=lambda path: path.stat().st_mtime)
        if not checkpoints:
            raise UserError(f"There is no trained run in {root}; train one with `nmt train`.")
        log.info("The latest run is %s.", checkpoints[-1].parent)
        return checkpoints[-1]
    for folder in (Path(run), root / run):
        if os.path.isfile(folder):  # unlike Path.is_file, False for a sentence too long to be a name
            return folder
        if os.path.isfile(folder / "best.safetensors"):
            return folder / "best.safetensors"
        if os.path.isfile(folder / "best.pt"):
            return folder / "best.pt"  # of an earlier version, which is refused with a sentence
        if os.path.isdir(folder) and (folder / "config.yaml").exists():
            raise UserError(f"The run {folder} has no best.safetensors yet; it is written at the first validation.")
    names = sorted(path.parent.name for path in root.glob("*/best.safetensors"))
    hint = f"trained runs in {root}: {', '.join(names)}" if names else f"there is no trained run in {root}"
    shortened = run if len(run) <= 60 else f"{run[:60]} …"
    raise UserError(f"'{shortened}' is no run name, folder or checkpoint file; {hint}.")


def find_checkpoints(runs: str, root: Path) -> list[Path]:
    """The checkpoints of RUN or of RUN,RUN,…"""
    return [find_checkpoint(run, root) for run in ([runs] if os.path.exists(runs) else runs.split(","))]
