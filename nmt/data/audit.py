"""What may not pass into the training pairs, and what is counted on the way.

Pairs are judged as pairs: a reason drops both sides, so that no later line loses its partner. Duplicates, copies and
leaks are counted and reported only; whether they are a fault depends on the corpus. Sentences are remembered as 64-bit
hashes: 16 bytes a pair, and among ten million pairs a chance collision is expected in 1 of 370,000 corpora.
"""

import re
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy

NO_LETTER = re.compile(r"[\W_]+")
SLACK = 10  # characters added to both sides before their ratio is taken: "Ja." / "Yes, indeed." is a good pair


def reason(source: str, target: str, max_characters: int, max_ratio: float) -> str | None:
    """Why a pair may not be trained on, or None."""
    blank = (not source.strip()) + (not target.strip())
    if blank:
        return "both sides blank" if blank == 2 else "one side blank"
    shorter, longer = sorted((len(source), len(target)))
    if longer > max_characters:
        return "too long"
    if (longer + SLACK) / (shorter + SLACK) > max_ratio:
        return "lengths too unlike"
    return None


def fingerprint(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def loose(text: str) -> int:
    """64 bits of a sentence's letters and digits, blind to case and punctuation; 0 when it has none."""
    letters = NO_LETTER.sub("", text.casefold())
    return fingerprint(letters) if letters else 0


class HeldOut:
    """The sentences of the validation and test sets, to be recognised among the training pairs."""

    def __init__(self) -> None:
        self.source: set[int] = set()
        self.target: set[int] = set()

    def add(self, source: str, target: str) -> None:
        """Remember a pair."""
        self.source.add(loose(source))
        self.target.add(loose(target))

    def seen(self, source: str, target: str) -> bool:
        """Whether either side is a side of a remembered pair."""
        left, right = loose(source), loose(target)
        return bool(left and left in self.source) or bool(right and right in self.target)


@dataclass
class Tally:
    """How many pairs met which fate, with the place of the first of them."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    starts: list[tuple[int, Path]] = field(default_factory=list)  # pairs read before each file

    def start(self, path: Path) -> None:
        """The pairs that follow come from another file."""
        self.starts.append((self.read, path))

    def drop(self, why: str, number: int) -> None:
        """Count pair `number` (in the order read, from 1) as left out."""
        self.dropped[why] = self.dropped.get(why, 0) + 1
        self.example(why, number)

    def count(self, what: str, number: int, pairs: int = 1) -> None:
        """Count pairs that are remarkable, but kept; pair `number` is the first of them."""
        self.counted[what] = self.counted.get(what, 0) + pairs
        self.example(what, number)

    def example(self, why: str, number: int) -> None:
        """Keep the place of the first pair of its kind, as FILE:LINE."""
        if why not in self.examples:
            before, path = next(start for start in reversed(self.starts) if start[0] < number)
            self.examples[why] = f"{path}:{number - before}"

    def entry(self) -> dict[str, Any]:
        """What the report says of a set."""
        names = ("read", "kept", "dropped", "counted", "examples")
        return {"from": [str(path) for _, path in self.starts]} | {name: getattr(self, name) for name in names}


class Duplicates:
    """Recognises pairs that were there before, both sides to the letter."""

    def __init__(self) -> None:
        self.hashes = array("Q")
        self.numbers = array("Q")

    def add(self, source: str, target: str, number: int) -> None:
        """Remember a pair and its number."""
        self.hashes.append(fingerprint(f"{source}\n{target}"))
        self.numbers.append(number)

    def result(self) -> tuple[int, int]:
        """How many pairs repeat an earlier one, and the number of the first that does (0 when none does)."""
        _, first = numpy.unique(numpy.asarray(self.hashes), return_index=True)
        repeated = numpy.ones(len(self.hashes), dtype=bool)
        repeated[first] = False
        where = numpy.flatnonzero(repeated)
        return len(where), self.numbers[int(where[0])] if len(where) else 0
