"""Which training pairs are left out, and which are sentences of a validation or test set.

A pair is judged as a whole: both sides are dropped together, so that no later line loses its
translation. Sentences are stored as 64-bit hashes: among ten million pairs a chance collision is
expected in 1 of 370,000 corpora.
"""

import re
from hashlib import blake2b

NO_LETTER = re.compile(r"[\W_]+")
# characters added to both sides before their ratio is taken: "Ja." / "Yes, indeed." is a good pair
SLACK = 10


def rejection_reason(
    source: str, target: str, max_characters: int, max_length_ratio: float
) -> str | None:
    """Why a pair is left out of training: blank, too long, or of too different lengths. None for a
    good pair."""
    blank = (not source.strip()) + (not target.strip())
    if blank:
        return "both sides blank" if blank == 2 else "one side blank"
    shorter, longer = sorted((len(source), len(target)))
    if longer > max_characters:
        return "too long"
    if (longer + SLACK) / (shorter + SLACK) > max_length_ratio:
        return "lengths too unlike"
    return None


def hash_text(text: str) -> int:
    """A 64-bit hash, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hash_letters(text: str) -> int:
    """A 64-bit hash of a sentence's letters and digits, without case and punctuation; 0 when it has
    none."""
    letters = NO_LETTER.sub("", text.casefold())
    return hash_text(letters) if letters else 0


class HeldOutSentences:
    """The sentences of the validation and test sets, by which such pairs are recognised in the
    training data."""

    def __init__(self) -> None:
        self.sides: tuple[set[int], set[int]] = (set(), set())
        self.found: set[int] = set()  # those that training pairs have
        self.pairs: dict[str, list[tuple[int, int]]] = {}  # of each set, line by line

    def add(self, name: str, source: str, target: str) -> None:
        """Add the next pair of a validation or test set."""
        pair = hash_letters(source), hash_letters(target)
        for side, value in zip(self.sides, pair, strict=True):
            side.add(value)
        self.pairs.setdefault(name, []).append(pair)

    def find(self, source: str, target: str) -> set[int]:
        """Which of its sentences the two are, apart from case and punctuation."""
        found = zip(self.sides, (hash_letters(source), hash_letters(target)), strict=True)
        return {value for side, value in found if value and value in side}

    def found_lines(self, name: str) -> list[int]:
        """The lines of a set, from 1, of which both sides are `found`."""
        return [
            line
            for line, pair in enumerate(self.pairs.get(name, []), 1)
            if self.found.issuperset(pair)
        ]
