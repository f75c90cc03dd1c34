"""Translated documents, which their clients fetch by a token; the newest ones, for a while."""

import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

from nmt.serve.limits import KEPT_FILES, KEPT_SECONDS


class KeptFile(NamedTuple):
    since: float
    name: str
    content: bytes


class KeptFiles:
    def __init__(self) -> None:
        self.files: OrderedDict[str, KeptFile] = OrderedDict()  # by their tokens, oldest first

    def keep(self, name: str, content: bytes) -> str:
        """Keep a file, and remove what is too old or too much; the token of the file."""
        now = time.monotonic()
        while self.files:
            oldest = next(iter(self.files.values()))
            if len(self.files) < KEPT_FILES and oldest.since >= now - KEPT_SECONDS:
                break
            self.files.popitem(last=False)
        token = secrets.token_urlsafe(24)
        self.files[token] = KeptFile(now, name, content)
        return token

    def get(self, token: str) -> KeptFile | None:
        """The file of a token; None if there is none, or no longer."""
        file = self.files.get(token)
        if file is None or file.since < time.monotonic() - KEPT_SECONDS:
            return None
        return file
