"""Reading the pairs of an origin for the audit: what is damaged is read as far as possible, not refused."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from nmt.data.inspect.chunk import Pair
from nmt.data.inspect.misaligned_blocks import AROUND
from nmt.data.origin import Origin
from nmt.data.tables import Skipped

CHUNK = 20_000  # pairs that are looked at together


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


@dataclass
class Chunk:
    """Pairs that are looked at together, in their context."""

    pairs: list[Pair]
    core: slice  # of those that are not context
    first: int  # number of the first pair of the core, from 1

    @property
    def size(self) -> int:
        """The number of pairs without context."""
        return self.core.stop - self.core.start


def chunks(pairs: Iterator[Pair]) -> Iterator[Chunk]:
    """The pairs in chunks of CHUNK, with AROUND pairs of context before and after."""
    held, before, first = list(islice(pairs, CHUNK + AROUND)), 0, 1
    while len(held) > before:
        size = min(CHUNK, len(held) - before)
        yield Chunk(held, slice(before, before + size), first)
        first += size
        keep = max(0, before + size - AROUND)
        before = before + size - keep
        held = held[keep:]
        held += islice(pairs, before + CHUNK + AROUND - len(held))
