"""The sha256 of files: with a cache, at the end of JSON files, and as the manifest of a folder.

A damaged stage is refused, not rebuilt: it may hold hours of work or somebody's changes, and a disk
that loses bits should be known about. Damaged results are computed again, with a warning.
"""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from nmt.corpus.files import write_atomic
from nmt.errors import UserError, report_os_error

log = logging.getLogger("nmt")
CHECKSUM = "sha256_of_the_above"
END = re.compile(rb',\n "' + CHECKSUM.encode() + rb'": "([0-9a-f]{64})"\n}\n\Z')
MANIFEST = "manifest.json"


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes, read in blocks; raises UserError if it cannot be read."""
    digest = hashlib.sha256()
    with report_os_error(f"{path} cannot be read"), open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """The sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_digest(content: Any) -> str:
    """The sha256 of plain data, as JSON."""
    return text_digest(json.dumps(content, sort_keys=True))


def has_digest(path: Path, expected: object) -> bool:
    """Whether a file can be read and has this sha256."""
    try:
        return file_digest(path) == expected
    except UserError:
        return False


def cached_digests(paths: Iterable[Path], cache: Path) -> list[str]:
    """The sha256 of files.

    A file is hashed again only if its path, size or times of change are not those in `cache`.
    """
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):  # no cache, or a broken one: hash again
        known = dict(json.loads(cache.read_text(encoding="utf-8")))
    digests = []
    before = len(known)
    for path in paths:
        status = path.stat()
        key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        if not known.get(key):
            known[key] = file_digest(path)
        digests.append(known[key])
    if len(known) > before:
        with contextlib.suppress(OSError):  # where that is impossible the next start hashes again
            cache.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(cache, json.dumps(known, indent=1))
    return digests


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, atomically; its last entry is the sha256 of all bytes before it.

    Raises OSError.
    """
    text = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}").encode()
    digest = hashlib.sha256(text).hexdigest()
    write_atomic(path, text + f',\n "{CHECKSUM}": "{digest}"\n}}\n'.encode())


def read_json(path: Path) -> Any:
    """The content of a file of `write_json`; None for no file, and with a warning for damage."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = path.read_bytes()
        end = END.search(content)
        if end and end[1].decode() == hashlib.sha256(content[: end.start()]).hexdigest():
            entries = json.loads(content)
            entries.pop(CHECKSUM)
            return entries
    if path.exists():
        log.warning("%s is damaged, or of an earlier version; it is not used.", path)
    return None


def write_manifest(folder: Path, **about: Any) -> None:
    """Write manifest.json, with `about` and all other files of a folder that is complete.

    Raises OSError.
    """
    files = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != MANIFEST:
            files[path.name] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    write_json(folder / MANIFEST, about | {"files": files})


class Manifest:
    """The files of a folder, as they were written.

    Raises UserError if one is missing or has another size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}  # name → sha256
        sizes: dict[str, int] = {}
        try:
            for name, entry in (read_json(folder / MANIFEST) or {})["files"].items():
                sizes[Path(name).name] = entry["bytes"]
                self.files[Path(name).name] = entry["sha256"]
        except (KeyError, TypeError, AttributeError):
            raise self.error(
                f"{folder / MANIFEST} is missing, damaged, or of an earlier version"
            ) from None
        for name, size in sizes.items():
            path = folder / name
            if not path.is_file():
                raise self.error(f"{path} is missing")
            if path.stat().st_size != size:
                raise self.error(f"{path} has {path.stat().st_size:,} bytes instead of {size:,}")

    def check(self, names: Iterable[str]) -> None:
        """Raise UserError unless these files have the sha256 that they were written with."""
        for name in names:
            if name not in self.files:
                raise self.error(f"{self.folder / name} is missing in {MANIFEST}")
            if file_digest(self.folder / name) != self.files[name]:
                raise self.error(
                    f"{self.folder / name} is damaged: its sha256 is not that in {MANIFEST}"
                )

    def error(self, fault: str) -> UserError:
        return UserError(
            f"{fault}; delete the folder {self.folder}, which the next training builds anew."
        )


def check_folder(folder: Path, unread: str = "") -> None:
    """Check the sizes of all files and the sha256 of all but those like the pattern `unread`.

    Raises UserError.
    """
    manifest = Manifest(folder)
    manifest.check(name for name in manifest.files if not fnmatchcase(name, unread))


def damaged_files(folder: Path) -> list[str]:
    """The files of a folder that are not as `write_manifest` saw them, or manifest.json itself."""
    content = read_json(folder / MANIFEST)
    if content is None:
        return [MANIFEST]
    files = content["files"].items()
    return [name for name, entry in files if not has_digest(folder / name, entry["sha256"])]
