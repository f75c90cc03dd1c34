"""Downloads of large files over HTTP.

What breaks off is continued, and what is damaged is fetched again, a few times.
"""

import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nmt.corpus.checksums import file_digest
from nmt.corpus.files import open_atomic
from nmt.corpus.packed import DamagedFile
from nmt.errors import UserError, printable

TIMEOUT = 20  # seconds without an answer
WAITS = (1.0, 2.0, 4.0, 8.0, None)  # seconds after each try that failed; None: after the last
BLOCK = 1 << 16
PASSING = (408, 425, 429)  # HTTP errors that may pass, besides 5xx
logger = logging.getLogger("nmt")
Value = TypeVar("Value")


class BrokenDownload(UserError):
    """A try that ended without the whole file."""


def download(
    url: str, path: Path, check: Callable[[Path], None], sha256: str | None = None
) -> dict[str, str]:
    """Download a file and return where it came from: url and sha256.

    The length that the server announces must come, and `sha256` if it is given. `check` raises
    DamagedFile for a file that is to be fetched again, UserError for one that cannot be used. The
    file gets its name only if all of this holds. Raises UserError, and OSError if the file cannot
    be written.
    """
    with open_atomic(path) as file:
        version = ""  # of what has come so far: its strong ETag, or the time of its last change
        for wait in WAITS:
            try:
                with request_rest(url, file.tell(), version) as answer:
                    if answer.status != 206:  # not the rest, but all of it
                        file.seek(0)
                        file.truncate()
                    etag = answer.headers.get("ETag", "")
                    modified = answer.headers.get("Last-Modified", "")
                    length = answer.headers.get("Content-Length", "")
                    version = etag if etag.startswith('"') else modified
                    end = file.tell() + int(length or 0)
                    while block := ask(partial(answer.read, BLOCK)):
                        file.write(block)
                if length and file.tell() != end:
                    raise BrokenDownload(f"{file.tell():,} of {end:,} bytes came")
                version = ""  # all of it has come: if it is damaged, it is of no use
                file.flush()
                digest = file_digest(Path(file.name))
                if sha256 not in (None, digest):
                    raise BrokenDownload(f"its sha256 is {digest} instead of {sha256}")
                check(Path(file.name))
                return {"url": url, "sha256": digest}
            except UserError as error:
                reason = str(error).replace(file.name, "the file").rstrip(".")
                if wait is None or not isinstance(error, BrokenDownload | DamagedFile):
                    tries = "" if wait else f" ({len(WAITS)} tries)"
                    raise UserError(f"{url} cannot be downloaded: {reason}{tries}.") from None
                logger.info("%s: %s; trying again.", url, reason)
                time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def request_rest(url: str, size: int, version: str) -> Any:
    """The server's answer: what follows the first `size` bytes if they are of `version`, or all."""
    headers = {"User-Agent": "nmt"}
    if version and size:
        headers |= {"Range": f"bytes={size}-", "If-Range": version}
    request = urllib.request.Request(url, headers=headers)
    return ask(partial(urllib.request.urlopen, request, timeout=TIMEOUT))


def ask(call: Callable[[], Value]) -> Value:
    """What the server gives; raises BrokenDownload for a fault that may pass, else UserError."""
    try:
        return call()
    except urllib.error.HTTPError as error:
        error.close()
        may_pass = error.code >= 500 or error.code in PASSING
        kind = BrokenDownload if may_pass else UserError
        raise kind(f"HTTP error {error.code} ({printable(error.reason, 120)})") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise BrokenDownload(printable(getattr(cause, "strerror", None) or cause, 120)) from None
