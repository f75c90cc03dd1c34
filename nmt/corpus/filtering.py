"""Which training pairs are left out, and which are sentences of a validation or test set.

A pair is judged as a whole: both sides are dropped together, so that no later line loses its
translation. Sentences are stored as 64-bit hashes: among ten million pairs a chance collision is
expected in 1 of 370,000 corpora.
"""

import unicodedata
from hashlib import blake2b

import regex

from nmt.config.schema import DataConfig

NO_LETTER = regex.compile(r"[\W_]+")  # vowel signs of Indic scripts are letters
# Characters added to both sides before their ratio is taken: "Ja." / "Yes, indeed." is a good pair.
SLACK = 10


def rejection_reason(source: str, target: str, data: DataConfig) -> str | None:
    """Why a pair is left out of training; None for a good pair."""
    has_source = bool(source.strip())
    has_target = bool(target.strip())
    if not (has_source and has_target):
        return "one side blank" if has_source or has_target else "both sides blank"
    shorter, longer = sorted((len(source), len(target)))
    if longer > data.max_characters:
        return "too long"
    if (longer + SLACK) / (shorter + SLACK) > data.max_length_ratio:
        return "lengths too unlike"
    return None


def hash_text(text: str) -> int:
    """A 64-bit hash, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hash_letters(text: str) -> int:
    """A 64-bit hash of a sentence's letters and digits, without case; 0 if it has none."""
    letters = NO_LETTER.sub("", unicodedata.normalize("NFC", text.casefold()))
    return hash_text(letters) if letters else 0


class HeldOutSentences:
    """The sentences of the validation and test sets, to find them in the training data."""

    def __init__(self) -> None:
        self.sources: set[int] = set()
        self.targets: set[int] = set()
        self.found: set[int] = set()  # those that training pairs have
        self.pairs: dict[str, list[tuple[int, int]]] = {}  # of each set, line by line

    def add(self, name: str, source: str, target: str) -> None:
        """Add the next pair of a validation or test set."""
        pair = hash_letters(source), hash_letters(target)
        self.sources.add(pair[0])
        self.targets.add(pair[1])
        self.pairs.setdefault(name, []).append(pair)

    def find(self, source: str, target: str) -> set[int]:
        """Those of its sentences that the two are, apart from case and punctuation."""
        found = {hash_letters(source)} & self.sources | {hash_letters(target)} & self.targets
        return found - {0}

    def found_lines(self, name: str) -> list[int]:
        """The lines of a set, from 1, with both sides in `found`."""
        pairs = self.pairs.get(name, [])
        return [line for line, pair in enumerate(pairs, 1) if self.found.issuperset(pair)]
