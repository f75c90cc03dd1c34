"""Downloads of large files over HTTP: what breaks off is continued, what is damaged is fetched again, a few times."""

import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nmt.data.checksums import file_digest
from nmt.data.files import open_atomic
from nmt.data.packed import DamagedFile
from nmt.errors import UserError, printable

TIMEOUT = 20  # seconds without an answer
WAITS = (1.0, 2.0, 4.0, 8.0, None)  # seconds after each try that failed; None: after the last
BLOCK = 1 << 16
PASSING = (408, 425, 429)  # HTTP errors that may pass, besides 5xx
logger = logging.getLogger("nmt")
Value = TypeVar("Value")


class BrokenDownload(Exception):
    """A try that ended without the whole file."""


def download(url: str, path: Path, check: Callable[[Path], None], sha256: str | None = None) -> dict[str, Any]:
    """Download a file and return where it came from: url, bytes, sha256, last_modified; raises UserError.

    The length that the server announces must come, and `sha256` if it is given; `check` raises DamagedFile for a file
    that is fetched again, UserError for one that cannot be used. The file gets its name only when all of this holds.
    Raises OSError where it cannot be written.
    """
    with open_atomic(path) as file:
        version = ""  # of what has come so far: its strong ETag, or the time of its last change
        for wait in WAITS:
            try:
                with request(url, file.tell(), version) as answer:
                    if answer.status != 206:  # not the rest, but all of it
                        file.seek(0)
                        file.truncate()
                    etag, modified, length = (
                        answer.headers.get(name, "") for name in ("ETag", "Last-Modified", "Content-Length")
                    )
                    version = etag if etag.startswith('"') else modified
                    end = file.tell() + int(length or 0)
                    while block := unless_broken(lambda: answer.read(BLOCK)):
                        file.write(block)
                if length and file.tell() != end:
                    raise BrokenDownload(f"{file.tell():,} of {end:,} bytes came")
                version = ""  # of no use if it is damaged
                file.flush()
                about = {"url": url, "bytes": file.tell(), "sha256": verified(url, Path(file.name), check, sha256)}
                return about | ({"last_modified": modified} if modified else {})
            except BrokenDownload as error:
                if wait is None:
                    raise UserError(f"{url} cannot be downloaded: {error} ({len(WAITS)} tries).") from None
                logger.info("%s: %s; trying again.", url, error)
                time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def request(url: str, start: int, version: str) -> Any:
    """The answer of the server, of a known version the rest from `start` on.

    Raises BrokenDownload for what may pass, UserError for what will not.
    """
    headers = {"User-Agent": "nmt"}
    if start and version:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    try:
        return unless_broken(
            lambda: urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
        )
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"HTTP error {error.code} ({printable(error.reason, 120)})"
        if error.code >= 500 or error.code in PASSING:
            raise BrokenDownload(reason) from None
        raise UserError(f"{url} cannot be downloaded: {reason}.") from None


def unless_broken(ask: Callable[[], Value]) -> Value:
    """What `ask` gives; raises BrokenDownload where the network fails."""
    try:
        return ask()
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise BrokenDownload(printable(getattr(cause, "strerror", None) or cause, 120)) from None


def verified(url: str, path: Path, check: Callable[[Path], None], sha256: str | None) -> str:
    """The sha256 of a file that has come; raises BrokenDownload if it is damaged, UserError if it is of no use."""
    found = file_digest(path)
    if sha256 not in (None, found):
        raise BrokenDownload(f"its sha256 is {found} instead of {sha256}")
    try:
        check(path)
    except UserError as error:
        text = str(error).replace(str(path), "the file").rstrip(".")
        if isinstance(error, DamagedFile):
            raise BrokenDownload(text) from None
        raise UserError(f"{url} cannot be used: {text}.") from None
    return found
