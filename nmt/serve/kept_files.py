"""Translated documents, which their clients fetch by a token; the newest ones, for a while."""

import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

from nmt.serve.limits import KEPT_BYTES, KEPT_SECONDS


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
        size = len(content) + sum(len(file.content) for file in self.files.values())
        while self.files:
            oldest = next(iter(self.files.values()))
            if size <= KEPT_BYTES and oldest.since >= now - KEPT_SECONDS:
                break
            self.files.popitem(last=False)
            size -= len(oldest.content)
        token = secrets.token_urlsafe(24)
        self.files[token] = KeptFile(now, name, content)
        return token

    def get(self, token: str) -> KeptFile | None:
        """The file of a token; None if there is none, or no longer."""
        file = self.files.get(token)
        if file is None or file.since < time.monotonic() - KEPT_SECONDS:
            return None
        return file
