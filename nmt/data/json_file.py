"""JSON files that end with the SHA-256 hash of all bytes before it, so that a changed bit is noticed."""

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any

from nmt.data.files import write_atomic
from nmt.errors import UserError

log = logging.getLogger("nmt")
CHECKSUM = "sha256_of_the_above"
END = re.compile(rb',\n "' + CHECKSUM.encode() + rb'": "([0-9a-f]{64})"\n}\n\Z')


def refuse_links(*paths: Path) -> None:
    """Raise UserError where one of these is a link: a stranger's run folder could have others overwritten."""
    for path in paths:
        if path.is_symlink():
            raise UserError(f"{path} is a link; results are only read from and written to a run's own folder.")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with a checksum at its end, atomically. Raises OSError."""
    write_atomic(path, json_with_checksum(content))


def json_with_checksum(content: dict[str, Any]) -> bytes:
    """A dictionary as JSON whose last entry is the sha256 of all before it."""
    text = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}").encode()
    digest = hashlib.sha256(text).hexdigest()
    return text + f',\n "{CHECKSUM}": "{digest}"\n}}\n'.encode()


def read_json(path: Path) -> Any:
    """The content of a file of `write_json`; None where there is no file, and with a warning where it is damaged."""
    try:
        content = path.read_bytes()
        end = END.search(content)
        if end and end[1].decode() == hashlib.sha256(content[: end.start()]).hexdigest():
            entries = json.loads(content)
            entries.pop(CHECKSUM)
            return entries
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        pass
    log.warning("%s is damaged, or of an earlier version; it is not used.", path)
    return None
