"""Who may ask, and how often: the keys of the service, and the rate of each client."""

import hashlib
import math
import os
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request

from nmt.errors import UserError, is_printable, report_os_error
from nmt.serve.limits import Refusal


@dataclass
class Clients:
    """The keys and the rate of clients. A client is the owner of a key, or else an address."""

    keys: dict[str, str] | None = None  # sha256 of a key → its owner; None: no key is needed
    requests: int = 0  # a minute, of each client; 0 = any number
    minute: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # requests of this minute, by client

    def admit(self, request: Request) -> bool:
        """Count a request before its body is read; whether its key must still come in the body.

        Raises Refusal for a wrong key and for too many requests.
        """
        key = key_of(request)
        owner = self.owner(key)
        request.scope["nmt.key"] = owner or ""
        self.count(f"key {owner}" if owner else f"address {address_of(request)}")
        if key and self.keys is not None and owner is None:
            raise wrong_key(key)
        return self.keys is not None and owner is None

    def admit_body(self, request: Request, key: Any) -> None:
        """Count a request whose key came in its body for the owner of the key, not for the address.

        Raises Refusal for a wrong or missing key and for too many requests.
        """
        owner = self.owner(key)
        if owner is None:
            raise wrong_key(key)
        request.scope["nmt.key"] = owner
        address = f"address {address_of(request)}"
        if self.counts[address] > 0:  # it is 0 in a minute that began while the body was read
            self.counts[address] -= 1
        self.count(f"key {owner}")

    def count(self, client: str) -> None:
        now = time.monotonic()
        minute = int(now // 60)
        if minute != self.minute:
            self.minute = minute
            self.counts.clear()
        self.counts[client] += 1
        if self.requests and self.counts[client] > self.requests:
            seconds = math.ceil(60 * (minute + 1) - now)
            kind, _, _ = client.partition(" ")
            text = (
                f"Too many requests: {self.requests} a minute are allowed for this {kind}, and the "
                f"next one is taken in {seconds} seconds"
            )
            raise Refusal(429, text, {"Retry-After": str(seconds)})

    def owner(self, key: Any) -> str | None:
        """Whose key this is; None for a wrong one."""
        if not key or self.keys is None:
            return None
        given = hashlib.sha256(str(key).encode("utf-8", "surrogatepass")).hexdigest()
        return self.keys.get(given)  # how long that takes says nothing of a key, only of its hash


def wrong_key(key: Any) -> Refusal:
    """In LibreTranslate's words, which clients recognize."""
    if key:
        return Refusal(403, "Invalid API key")
    return Refusal(403, "Please contact the server operator to get an API key")


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def key_of(request: Request) -> str:
    """The key in the head of a request, `Authorization: Bearer KEY` or ?api_key=KEY, or ""."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.query_params.get("api_key", "")


def read_keys(path: Path) -> dict[str, str]:
    """The hashes of a file of keys, with the names of their owners; raises UserError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"--keys {path} cannot be read: {reason}.") from None
    keys = {}
    for number, line in enumerate(lines, 1):
        hashed, _, name = line.partition(" ")
        if len(hashed) != 64 or not name or not is_printable(name):
            raise UserError(
                f"{path}:{number} is not the line of a key: its SHA-256, a space and a name."
            )
        keys[hashed] = name
    return keys


def make_key(path: Path, name: str) -> str:
    """A new key; its hash is added to the file. Raises UserError."""
    if not name.strip() or not is_printable(name):
        raise UserError("A key needs the name of its owner.")
    key = secrets.token_urlsafe(32)

    line = f"{hashlib.sha256(key.encode()).hexdigest()} {name}\n".encode()
    for_owner_alone = partial(os.open, mode=0o600)
    with (
        report_os_error(f"--keys {path} cannot be written"),
        open(path, "ab+", opener=for_owner_alone) as file,
    ):
        file.seek(0)
        before = file.read()
        if before and not before.endswith(b"\n"):  # as some editors leave it
            line = b"\n" + line
        file.write(line)
    return key
