"""The files of a stage's folder with their sizes and sha256, written with the stage and checked when it is used.

A damaged folder is refused, not rebuilt: it may hold hours of work or somebody's changes, and a disk that loses bits
should be known about.
"""

import hashlib
import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from nmt.data.digests import file_digest
from nmt.errors import UserError

NAME = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Write manifest.json about all other files of a folder that is complete. Raises OSError."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != NAME)
    files = {path.name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for path in paths}
    text = json.dumps(files, indent=1)
    content = {"files": files, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (folder / NAME).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


class Manifest:
    """The manifest of a folder. Raises UserError if it is missing or damaged, or if a file has not the right size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            content = json.loads((folder / NAME).read_text(encoding="utf-8"))
            self.files = content["files"]
            if content["sha256"] != hashlib.sha256(json.dumps(self.files, indent=1).encode()).hexdigest():
                raise ValueError
        except FileNotFoundError:
            raise self.error(f"{folder / NAME} is missing") from None
        except OSError as error:
            raise UserError(f"{folder / NAME} cannot be read: {error.strerror or error}.") from None
        except (ValueError, KeyError, TypeError):
            raise self.error(f"{folder / NAME} is damaged") from None
        for name, expected in self.files.items():
            self.check_size(name, expected["bytes"])

    def check_size(self, name: str, expected: int) -> None:
        """Raise UserError unless the file exists with this size."""
        try:
            actual = (self.folder / name).stat().st_size
        except FileNotFoundError:
            raise self.error(f"{self.folder / name} is missing") from None
        except OSError as error:
            raise UserError(f"{self.folder / name} cannot be read: {error.strerror or error}.") from None
        if actual != expected:
            raise self.error(f"{self.folder / name} has {actual:,} bytes instead of {expected:,}")

    def check(self, names: Iterable[str]) -> None:
        """Raise UserError unless these files have the sha256 that they were written with."""
        for name in names:
            if name not in self.files:
                raise self.error(f"{self.folder / name} is missing in {NAME}")
            if file_digest(self.folder / name) != self.files[name]["sha256"]:
                raise self.error(f"{self.folder / name} is damaged: its sha256 is not that in {NAME}")

    def error(self, fault: str) -> UserError:
        """The error for a fault of a file, with the remedy."""
        return UserError(f"{fault}; delete the folder {self.folder}, which the next training builds anew.")


def check_folder(folder: Path, unread: str = "") -> None:
    """Check the sizes of all files, and the sha256 of all but those like the pattern `unread`; raises UserError."""
    manifest = Manifest(folder)
    manifest.check(name for name in manifest.files if not fnmatchcase(name, unread))
