"""The corpus folder that a run was trained on, found by the hash of its text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.data.checksums import MANIFEST, check_folder
from nmt.data.corpus import read_report
from nmt.errors import is_printable


def existing_corpus(config: Config, hashes: set[str], run_folder: Path) -> Path | None:
    """The corpus that a run was trained on if it is still in its data_folder, otherwise None.

    It is identified by the hash of its text: the files it was made from may have changed since. A folder with links or
    names that lead out of it is none: the checkpoint that points to it may be a stranger's.
    """
    for folder in data_folders(config, run_folder):
        for report in sorted(folder.glob("corpus-*/report.json")):
            try:
                content = read_report(report.parent)
                if {content["corpus_hash"]} == hashes and is_closed(report.parent, content["sets"]):
                    if (report.parent / MANIFEST).exists():  # corpora of earlier versions have none
                        check_folder(report.parent, unread="train.*")
                    return report.parent
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
    return None


def is_closed(corpus: Path, sets: list[Any]) -> bool:
    """Whether a corpus names its sets by plain names, and no file in it is a link."""
    named = isinstance(sets, list) and all(isinstance(name, str) and is_plain_name(name) for name in sets)
    return named and not any(path.is_symlink() for path in corpus.iterdir())


def is_plain_name(name: str) -> bool:
    """Whether this names a file in a folder, and none elsewhere."""
    return name not in ("", ".", "..") and not set("/\\") & set(name) and is_printable(name)


def data_folders(config: Config, run_folder: Path) -> Iterator[Path]:
    """The folders that data_folder may mean: relative to the current folder, and to that of the training."""
    yield Path(config.data_folder)
    runs, relative = run_folder.resolve().parent, Path(config.run_folder)
    if not relative.is_absolute() and runs.parts[-len(relative.parts) :] == relative.parts:
        yield Path(*runs.parts[: -len(relative.parts)], config.data_folder)
