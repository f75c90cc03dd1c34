"""Downloads of large files over HTTP: what breaks off is continued, what is damaged is fetched again, a few times."""

import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from nmt.data.checksums import file_digest
from nmt.data.files import open_atomic
from nmt.data.packed import DamagedFile
from nmt.errors import UserError, is_printable

TIMEOUT = 20  # seconds without an answer
WAITS = (1.0, 2.0, 4.0, 8.0, None)  # seconds after each try that failed; None: after the last
BLOCK = 1 << 16
NETWORK = (OSError, http.client.HTTPException, ValueError)
PASSING = (408, 425, 429)  # HTTP errors that may pass, besides 5xx
logger = logging.getLogger("nmt")


class BrokenDownload(Exception):
    """A try that ended without the whole file; `restart` if what is there is of no use."""

    def __init__(self, reason: str, restart: bool = False) -> None:
        super().__init__(reason)
        self.restart = restart


def download(url: str, path: Path, check: Callable[[Path], None], sha256: str | None = None) -> dict[str, Any]:
    """Download a file and return where it came from: url, bytes, sha256, last_modified; raises UserError.

    The length that the server announces must come, and `sha256` if it is given; `check` raises DamagedFile for a file
    that is fetched again, UserError for one that cannot be used. The file gets its name only when all of this holds.
    Raises OSError where it cannot be written.
    """
    with open_atomic(path) as file:
        transfer = Transfer(url, file)
        for wait in WAITS:
            try:
                transfer.fetch()
                return transfer.verify(check, sha256)
            except BrokenDownload as error:
                if error.restart:
                    transfer.restart()
                if wait is None:
                    raise UserError(f"{url} cannot be downloaded: {error} ({len(WAITS)} tries).") from None
                logger.info("%s: %s; trying again.", url, error)
                time.sleep(wait)
    raise AssertionError("the last try returns or raises")


class Transfer:
    """A file that is on its way; `fetch` continues where the one before broke off."""

    def __init__(self, url: str, file: BinaryIO) -> None:
        self.url, self.file = url, file
        self.version: str | None = None  # of what has come so far: its strong ETag, or Last-Modified
        self.modified = ""

    def restart(self) -> None:
        """Forget what has come."""
        self.file.seek(0)
        self.file.truncate()

    def fetch(self) -> None:
        """Get the rest; raises BrokenDownload for what may pass, UserError for what will not."""
        start = self.file.tell()
        headers = {"User-Agent": "nmt"}
        if start and self.version:
            headers |= {"Range": f"bytes={start}-", "If-Range": self.version}
        try:
            answer = urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500 or error.code in (*PASSING, 416):  # 416: the rest that was asked for does not exist
                raise BrokenDownload(f"HTTP error {error.code}", restart=error.code == 416) from None
            reason = f"HTTP error {error.code} ({reason_of(error.reason)})"
            if error.code < 400:  # urllib follows redirects, up to ten
                reason = "it is redirected again and again"
            raise UserError(f"{self.url} cannot be downloaded: {reason}.") from None
        except NETWORK as error:
            raise BrokenDownload(reason_of(getattr(error, "reason", error))) from None
        with answer:
            self.receive(answer, start)

    def receive(self, answer: http.client.HTTPResponse, start: int) -> None:
        """Write what the server sends; raises BrokenDownload when it is not as much as announced."""
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            self.restart()
            if answer.status == 206:
                raise BrokenDownload("the server sends another part than was asked for", restart=True)
        etag = answer.headers.get("ETag", "")
        self.modified = answer.headers.get("Last-Modified", "")
        self.version = etag if etag.startswith('"') else self.modified or None
        announced, before = answer.headers.get("Content-Length"), self.file.tell()
        while block := read_block(answer):
            self.file.write(block)
        got = self.file.tell() - before
        if announced is not None and got != int(announced):
            raise BrokenDownload(f"{got:,} of {int(announced):,} bytes came")

    def verify(self, check: Callable[[Path], None], sha256: str | None) -> dict[str, Any]:
        """What is known about a file that has come; raises BrokenDownload if it is damaged."""
        self.file.flush()
        found = file_digest(Path(self.file.name))
        if sha256 is not None and found != sha256:
            raise BrokenDownload(f"its sha256 is {found} instead of {sha256}", restart=True)
        try:
            check(Path(self.file.name))
        except UserError as error:
            text = str(error).replace(self.file.name, "the file").rstrip(".")
            if isinstance(error, DamagedFile):
                raise BrokenDownload(text, restart=True) from None
            raise UserError(f"{self.url} cannot be used: {text}.") from None
        about = {"url": self.url, "bytes": self.file.tell(), "sha256": found}
        return about | ({"last_modified": self.modified} if self.modified else {})


def read_block(answer: http.client.HTTPResponse) -> bytes:
    """The next bytes of an answer, b"" at its end; raises BrokenDownload."""
    try:
        return answer.read(BLOCK)
    except NETWORK as error:
        raise BrokenDownload(reason_of(error)) from None


def reason_of(error: object) -> str:
    """An error of the network in a few words, without the characters that control a terminal."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())[:120].rstrip(".")
    return text if text and is_printable(text) else type(error).__name__
