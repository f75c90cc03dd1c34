"""The sha256 of files, and a memory of them so that a second start does not read gigabytes again."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

from nmt.errors import UserError


class Digests:
    """The sha256 of files, remembered as long as path, size and time of change stay the same."""

    def __init__(self, path: Path) -> None:
        self.path, self.known = path, {}
        with contextlib.suppress(OSError, ValueError):  # no cache, or a broken one: hash again
            self.known = dict(json.loads(path.read_text(encoding="utf-8")))

    def of(self, path: Path) -> str:
        """The sha256 of a file's bytes."""
        status = path.stat()
        key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
        if key not in self.known:
            self.known[key] = file_digest(path)
        return self.known[key]

    def save(self) -> None:
        """Write the cache; where that is impossible the next start hashes again."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
            part.write_text(json.dumps(self.known, indent=1), encoding="utf-8")
            os.replace(part, self.path)


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    return digest.hexdigest()
