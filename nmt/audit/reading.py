"""Reading the pairs of an origin for the audit: what is damaged is read as far as possible, not refused."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from nmt.data.inspect.chunk import Pair
from nmt.data.origin import Origin
from nmt.data.tables import Skipped


@dataclass
class Reader:
    """The pairs of an origin, and what came with them."""

    origin: Origin
    lines: list[int] = field(default_factory=lambda: [0, 0])  # of both files
    skipped: Skipped = field(default_factory=Skipped)

    def pairs(self) -> Iterator[Pair]:
        """The pairs, up to the end of the shorter of two files. Bytes that are not UTF-8 become lone surrogates."""
        if self.origin.sides is None:
            yield from self.origin.pairs(self.skipped, "surrogateescape")
            return
        for source, target in zip_longest(*(map(decode, file.lines()) for file in self.origin.sides)):
            self.lines[0] += source is not None
            self.lines[1] += target is not None
            if source is not None and target is not None:
                yield source, target

    @property
    def unmatched(self) -> int:
        """How many lines of one file have no counterpart in the other."""
        return abs(self.lines[0] - self.lines[1])


def decode(line: bytes) -> str:
    """A line as text, without its end; a byte order mark stays."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")
