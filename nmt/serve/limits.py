"""How much a request may ask for. One that asks for more is refused with {"error": …}.

Each refusal has a reason, one word for metrics and logs: that of its status, or a closer one.

status  limit
400     texts, characters and pieces of a request; MOST_ALTERNATIVES; READ_SECONDS of a document
403     the key is missing or wrong
404     a translated document is gone: KEPT_BYTES, KEPT_SECONDS
408     the seconds between two parts of a body
413     text_bytes or document_bytes of a body
429     the requests of a client in a minute
503     the seconds until the answer; WAITING; DOCUMENTS; STOP_SECONDS. A later try may succeed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

MOST_ALTERNATIVES = 100  # of a text
WAITING = 20_000  # sentences in the queues of a model
DOCUMENTS = 8  # that are translated at the same time
MOST_WAITING_DOCUMENTS = 16  # that wait for one of these to end
READ_SECONDS = 20  # that a document's process may be busy at one go
STOP_SECONDS = 2  # that a document has after the service was asked to end
# Translated documents are kept in memory, so many bytes and so long.
KEPT_BYTES = 200 << 20
KEPT_SECONDS = 600


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


REASONS = {
    403: "key",
    404: "gone",
    408: "slow",
    413: "bytes",
    429: "rate",
    503: "busy",
}


class Refusal(HTTPException):
    """An answer {"error": …} with a status."""

    def __init__(
        self,
        status: int,
        text: str,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(status, text, headers)
        self.reason = reason or REASONS.get(status, "invalid")


def invalid(problem: str) -> Refusal:
    """A refusal of what is not as the API asks for it."""
    return Refusal(400, f"Invalid request: {problem}")


def busy(text: str, reason: str = "") -> Refusal:
    """A refusal of a request that may succeed a little later."""
    return Refusal(503, text, {"Retry-After": "5"}, reason)


def check_size(size: int, most: int, what: str) -> None:
    """Raise Refusal for a request that is too large, in LibreTranslate's words.

    Clients such as Dialect recognize them.
    """
    if size > most:
        text = f"Invalid request: request ({size}) exceeds text limit ({most}), counted in {what}"
        raise Refusal(400, text, reason="size")


class BoundedBody:
    """Receives a body that is no larger, and no slower, than it may be."""

    def __init__(self, receive: Receive, most_bytes: int, seconds: int) -> None:
        self.receive = receive
        self.most_bytes = most_bytes
        self.seconds = seconds
        self.size = 0
        self.is_complete = False

    def refusal(self) -> Refusal:
        return Refusal(413, f"Such a request has at most {self.most_bytes:,} bytes")

    async def __call__(self) -> Message:
        """The next part; raises Refusal. After the last part: that the client has left."""
        if self.is_complete:
            return await self.receive()
        try:
            message = await asyncio.wait_for(self.receive(), self.seconds)
        except asyncio.TimeoutError:
            raise Refusal(408, "The request did not come to its end") from None
        self.size += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        if self.size > self.most_bytes:
            raise self.refusal()
        return message
