"""The folders of runs, the checkpoints in them by name, folder or file, and the corpora that they
were trained on."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nmt.config.keys import GROUPS
from nmt.config.schema import Config
from nmt.corpus.checksums import check_folder
from nmt.corpus.corpus_folder import read_report
from nmt.errors import UserError, is_printable
from nmt.runs.versions import current_folder, opened_folder

log = logging.getLogger("nmt")
# in the folder of an imported run: what else its model had; runs that start from it have it too
PRETRAINED = "pretrained"


def run_folder(config: Config) -> Path:
    """The folder of a run.

    There is no time in its name, so that the same command continues its own run.
    """
    return Path(config.run_folder) / config.name


def read_config(folder: Path) -> dict[str, Any]:
    """The stored configuration of a run, groups of values; empty where it cannot be read."""
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(config, dict):
        return {}
    are_groups = all(isinstance(config.get(group, {}), dict) for group in GROUPS)
    return config if are_groups else {}


def by_time(paths: Iterable[Path]) -> list[Path]:
    """The paths, the oldest first, without what is deleted meanwhile and links to nothing."""
    times = {}
    for path in paths:
        with suppress(OSError):
            times[path] = path.stat().st_mtime
    return sorted(times, key=lambda path: (times[path], path))


def trained_runs(root: Path) -> list[Path]:
    """The folders of the runs that have a checkpoint, the newest last."""
    return [path.parent for path in by_time(root.glob("*/best.safetensors"))]


def find_checkpoint(run: str, root: Path = Path("runs")) -> Path:
    """The checkpoint of RUN; raises UserError.

    RUN is a file, a folder, a name under `root`, or the word `latest`. Of a run that has several
    versions it is that of the current one, unless RUN names another (nmt/runs/versions.py).
    """
    if run == "latest":
        runs = trained_runs(root)
        if not runs:
            raise UserError(f"There is no trained run in {root}; train one with `nmt train`.")
        folder = current_folder(runs[-1])
        log.info("The latest run is %s.", folder)
        return find_checkpoint(str(folder), root)
    for named in (Path(run), root / run):
        # unlike Path.is_file, False for a sentence too long to be a name
        if os.path.isfile(named):
            return named
        folder = opened_folder(named)
        # the last is refused with a sentence
        for path in (folder / "best.safetensors", folder / "best.pt"):
            if os.path.isfile(path):
                return path
        if os.path.isfile(folder / "config.yaml"):
            raise UserError(
                f"The run {folder} has no best.safetensors yet; it is written at the first "
                "validation."
            )
    names = sorted(folder.name for folder in trained_runs(root))
    hint = f"there is no trained run in {root}"
    if names:
        hint = f"trained runs in {root}: {', '.join(names)}"
    shortened = run if len(run) <= 60 else f"{run[:60]} …"
    raise UserError(f"'{shortened}' is not a run name, folder or checkpoint file; {hint}.")


def find_checkpoints(runs: str, root: Path) -> list[Path]:
    """The checkpoints of RUN or of RUN,RUN,…"""
    names = [runs] if os.path.exists(runs) else runs.split(",")
    return [find_checkpoint(name, root) for name in names]


def existing_corpus(
    config: Config, hashes: set[str], run_folder: Path, data_folder: str | None = None
) -> Path | None:
    """The corpus that a run was trained on if it is still in its data_folder, otherwise None.

    data_folder: another one, in which it may be as well.
    It is identified by the hash of its text: the files it was made from may have changed since. Of
    several with the same text it is the oldest; a student's may be a copy of its teacher's. A
    folder with links or names that lead out of it is none: the checkpoint that points to it may be
    a stranger's.
    """
    folders = [*data_folders(config, run_folder)]
    if data_folder is not None:
        folders.append(Path(data_folder))
    for folder in folders:
        for path in by_time(folder.glob("corpus-*/")):
            try:
                report = read_report(path)
                is_same = {report["corpus_hash"]} == hashes
                has_links = any(map(Path.is_symlink, path.iterdir()))
                if is_same and not has_links and all(map(is_plain_name, report["sets"])):
                    check_folder(path, unread="train.*")
                    return path
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
    return None


def is_plain_name(name: str) -> bool:
    return name not in ("", ".", "..") and not set("/\\") & set(name) and is_printable(name)


def data_folders(config: Config, run_folder: Path) -> Iterator[Path]:
    """The folders that data_folder may mean.

    It is relative to the current folder, or to that of the training.
    """
    yield Path(config.data_folder)
    runs = run_folder.resolve().parent
    relative = Path(config.run_folder)
    if not relative.is_absolute() and runs.parts[-len(relative.parts) :] == relative.parts:
        yield Path(*runs.parts[: -len(relative.parts)], config.data_folder)
