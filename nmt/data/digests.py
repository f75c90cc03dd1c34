"""The sha256 of files, with a cache on disk so that a second start does not read gigabytes again."""

import contextlib
import hashlib
import json
from pathlib import Path

from nmt.data.files import write_atomic
from nmt.errors import UserError


class DigestCache:
    """The sha256 of files; a file is hashed again only when its path, size or times of change are others."""

    def __init__(self, path: Path) -> None:
        self.path, self.digests, self.changed = path, {}, False
        with contextlib.suppress(OSError, ValueError):  # no cache, or a broken one: hash again
            self.digests = dict(json.loads(path.read_text(encoding="utf-8")))

    def digest(self, path: Path) -> str:
        """The sha256 of a file's bytes, from the cache if possible."""
        status = path.stat()
        key = f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        if key not in self.digests:
            self.digests[key], self.changed = file_digest(path), True
        return self.digests[key]

    def save(self) -> None:
        """Write the cache if it has changed; where that is impossible the next start hashes again."""
        if not self.changed:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, json.dumps(self.digests, indent=1))


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes, read in blocks; raises UserError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    return digest.hexdigest()
