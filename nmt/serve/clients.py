"""Who may ask, how often and how much: the limits of the service, its keys, and the rate of each
client."""

import hashlib
import hmac
import os
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from nmt.errors import UserError, is_printable


@dataclass
class Limits:
    """What one request, and one client, may ask for."""

    characters: int = 20_000  # of all texts of a request, and pieces of the tokenizer
    texts: int = 500
    megabytes: int = 10  # of a document
    seconds: int = 60  # until an answer, and between two parts of a request
    requests: int = 0  # a minute, of a key or an address; 0 = any number

    @property
    def document_bytes(self) -> int:
        return self.megabytes << 20

    @property
    def text_bytes(self) -> int:
        """Of a request without a document: JSON and forms write a character in 12 bytes at most."""
        return min(self.document_bytes, 12 * self.characters + 16 * self.texts + 8192)


class Refusal(HTTPException):
    """An answer {"error": …} with a status."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, text, headers)


def busy(text: str) -> Refusal:
    """A refusal that another try, a little later, may not meet."""
    return Refusal(503, text, {"Retry-After": "5"})


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
        self.count(f"key {owner}" if owner else f"address {address_of(request)}")
        if key and self.keys is not None and owner is None:
            raise wrong_key()
        return self.keys is not None and owner is None

    def admit_body(self, request: Request, key: Any) -> None:
        """Take the key that came in a body: the request is one of its owner, no longer one of the
        address.

        Raises Refusal for a wrong or missing key and for too many requests.
        """
        owner = self.owner(key)
        if owner is None:
            raise wrong_key()
        self.counts[f"address {address_of(request)}"] -= 1
        self.count(f"key {owner}")

    def count(self, client: str) -> None:
        minute = int(time.monotonic() // 60)
        if minute != self.minute:
            self.minute = minute
            self.counts.clear()
        self.counts[client] += 1
        if self.requests and self.counts[client] > self.requests:
            text = f"Slow down: {self.requests} requests a minute are allowed"
            raise Refusal(429, text, {"Retry-After": "60"})

    def owner(self, key: Any) -> str | None:
        """Whose key this is; None for a wrong one."""
        if not key or self.keys is None:
            return None
        given = hashlib.sha256(str(key).encode("utf-8", "surrogatepass")).hexdigest()
        names = [name for stored, name in self.keys.items() if hmac.compare_digest(stored, given)]
        return names[0] if names else None


def wrong_key() -> Refusal:
    return Refusal(403, "This service needs an API key; yours is missing or wrong")


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def key_of(request: Request) -> str:
    """The key in the head of a request, as `Authorization: Bearer KEY` or ?api_key=KEY; empty
    without one."""
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
                f"{path}:{number} is no line of a key: its SHA-256, a space and a name."
            )
        keys[hashed] = name
    return keys


def make_key(path: Path, name: str) -> str:
    """A new key, of which the file gets the hash; raises UserError."""
    if not name.strip() or not is_printable(name):
        raise UserError("A key needs the name of its owner.")
    key = secrets.token_urlsafe(32)

    def for_owner_alone(path: str, flags: int) -> int:
        return os.open(path, flags, 0o600)

    try:
        with open(path, "a", encoding="utf-8", opener=for_owner_alone) as file:
            file.write(f"{hashlib.sha256(key.encode()).hexdigest()} {name}\n")
    except OSError as error:
        raise UserError(f"--keys {path} cannot be written: {error.strerror or error}.") from None
    return key
