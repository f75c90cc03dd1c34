"""The versions of a run, and which of them is current.

Version 1 is the run's folder itself. Version N > 1 is an ordinary run folder, RUN/versions/N, that
`nmt learn` made. The file RUN/current holds the number of the current version; without the file,
that is 1. It is replaced atomically, and no version is ever deleted.
"""

import os
import re
import time
from pathlib import Path
from typing import Any

from nmt.corpus.checksums import read_json, write_json
from nmt.corpus.files import refuse_links, report_write_errors, write_atomic
from nmt.errors import UserError

VERSIONS = "versions"  # a folder in that of the run
CURRENT = "current"  # a file in it
RECORD = "version.json"  # in the folder of a version after the first
ACCEPTED = "better"  # the decision after which a version becomes current
NUMBER = re.compile(r"[1-9][0-9]{0,8}")
NAMED = re.compile(rf"(.+)@({NUMBER.pattern})", re.DOTALL)  # RUN@N


def version_folder(run_folder: Path, number: int) -> Path:
    """The folder of a version, which need not exist."""
    return run_folder if number == 1 else run_folder / VERSIONS / str(number)


def version_of(folder: Path) -> tuple[Path, int]:
    """The folder of the run, and the number of the version, that a folder belongs to."""
    if folder.parent.name in ("", ".."):  # as of . and ../2: the full path has the names
        absolute = Path(os.path.abspath(folder))
        if absolute.parent.name == VERSIONS:
            folder = absolute
    if folder.parent.name == VERSIONS and NUMBER.fullmatch(folder.name):
        return folder.parent.parent, int(folder.name)
    return folder, 1


def version_name(folder: Path) -> str:
    """The name by which a version can be opened: that of its run, and @N after the first."""
    run_folder, number = version_of(folder)
    return run_folder.name if number == 1 else f"{run_folder.name}@{number}"


def version_numbers(run_folder: Path) -> list[int]:
    """The numbers of all folders of versions, in order; one may be unfinished, or was refused."""
    names = [path.name for path in (run_folder / VERSIONS).glob("*/")]
    return [1, *sorted(int(name) for name in names if NUMBER.fullmatch(name) and name != "1")]


def current_number(run_folder: Path) -> int:
    """The number of the current version; raises UserError where RUN/current is not a number."""
    path = run_folder / CURRENT
    if not os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
        return 1
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        text = ""
    if not NUMBER.fullmatch(text):
        raise UserError(
            f"{path} must hold the number of the current version, such as 2; delete it to return "
            "to version 1."
        )
    return int(text)


def current_folder(run_folder: Path) -> Path:
    """The folder of the current version; raises UserError where RUN/current names none."""
    number = current_number(run_folder)
    folder = version_folder(run_folder, number)
    if number > 1 and not (folder / "best.safetensors").is_file():
        raise UserError(
            f"{run_folder / CURRENT} names version {number}, and {folder} has no "
            "best.safetensors; `nmt rollback` returns to the version before."
        )
    return folder


def check_complete(run_folder: Path, number: int) -> None:
    folder = version_folder(run_folder, number)
    if not (folder / "best.safetensors").is_file():
        raise UserError(f"{folder} has no best.safetensors, so it cannot be the current version.")


def set_current(run_folder: Path, number: int) -> None:
    """Make a version the current one, atomically. Raises UserError if it is not complete."""
    check_complete(run_folder, number)
    path = run_folder / CURRENT
    refuse_links(path)
    with report_write_errors(run_folder):
        write_atomic(path, f"{number}\n")


def named_version(run: Path) -> tuple[Path, int | None]:
    """The folder of a run, and the number of the version that RUN@N or RUN/versions/N names.

    The number is None where RUN names no version.
    """
    match = NAMED.fullmatch(run.name)
    if match and not os.path.exists(run):
        return run.with_name(match[1]), int(match[2])
    run_folder, number = version_of(run)
    return run_folder, None if run_folder == run else number


def opened_folder(run: Path) -> Path:
    """The folder of the version that RUN names, otherwise that of the current one.

    Raises UserError as `current_folder` does.
    """
    run_folder, number = named_version(run)
    return current_folder(run_folder) if number is None else version_folder(run_folder, number)


def read_record(folder: Path) -> dict[str, Any] | None:
    """What is known about how a version was made; None for a first version.

    It has the version that it starts from (`base`), the corrections, the `decision` and the scores
    before and after. `left` is the time at which a rollback has left it.
    """
    record = read_json(folder / RECORD)
    return record if isinstance(record, dict) and isinstance(record.get("base"), int) else None


def write_record(folder: Path, record: dict[str, Any]) -> None:
    with report_write_errors(folder):
        write_json(folder / RECORD, record)


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())


def leave_current(run_folder: Path, number: int | None) -> int:
    """Make another version current, and note in the record of the old one that it was left.

    By default it is the one that the current one was made from. Returns its number. Raises
    UserError where there is none, or where it is not complete.
    """
    left = current_number(run_folder)
    folder = version_folder(run_folder, left)
    record = read_record(folder)
    if number is None and left == 1:
        raise UserError(f"Version 1 of {run_folder.name} is current; there is none before it.")
    if number is None:
        number = record["base"] if record else 1
    check_complete(run_folder, number)  # before anything is written
    if record and number != left:
        write_record(folder, record | {"left": now()})
    set_current(run_folder, number)
    folder = version_folder(run_folder, number)
    record = read_record(folder)
    if record and record.pop("left", None):  # it was left earlier
        write_record(folder, record)
    return number
