"""What a training warns of while its corpus is prepared.

It warns of damaged text, exchanged sides and shifted lines. What is usual is learnt from the first
pairs of a set; which language is which, from the validation set, so that swapped columns are seen
too. What the validation set has as well (the entities of a tokenized corpus) is taken for the way
the corpus is written. Nothing is left out. Other faults are found by `nmt audit`.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.entities import name2codepoint
from typing import NamedTuple

import numpy as np

from nmt.corpus.inspect.language import (
    Pair,
    describe_languages,
    in_other_language,
    log_likelihood_ratio,
)
from nmt.corpus.inspect.lines import SMALL, Lines, lines_of_pairs, table_of
from nmt.corpus.inspect.misaligned_blocks import (
    MIN_PAIRS,
    UNRELATED,
    Chunk,
    MisalignedBlock,
    chunks,
    find_misaligned_blocks,
    length_moments,
    merge,
)

SAMPLE = 4000  # pairs from which is learnt what is usual
MIN_SHARE = 0.001  # of the lines must have a fault of their text for a warning,
MIN_LINES = 3  # and at least so many,
TIMES_VALID = 3  # and so many times the share that the validation set has
MIN_SWAPPED_SHARE = 0.005
# C0 without tab, line feed and carriage return; DEL; C1; marks that turn the direction of text.
CONTROL = table_of(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# UTF-8 read as Latin-1 or Windows-1252: Ã or Â and a character that stands for a byte from 0x80 to
# 0xBF.
HIGH = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
BROKEN = re.compile(f"Ã[{HIGH}]|Â[\u00a0-\u00bf]|â€|[ÐÑ][{HIGH}][ÐÑ][{HIGH}]|ï»¿|ï¿½|\ufffd")
BROKEN_TABLE = table_of("[ÃÂâÐÑï\ufffd]")
LOST_LETTER = re.compile(r"(?<!\S)[^\W\d_]+\?[^\W\d_]+(?=[.,;:!?]?(?:\s|$))")  # M?ller
ENTITY = re.compile(
    rf"&(?:amp;)*(#[0-9]{{1,6}}|#[xX][0-9a-fA-F]{{1,6}}|apos|{'|'.join(name2codepoint)});"
)
# Subwords of subword-nmt (Haus@@ boot), SentencePiece (▁Haus boot) and WordPiece (Haus ##boot)
PIECES = re.compile(r"\w@@(?=\s|$)|(?:^|\s)▁\S|\w ##\w")
PIECE_TABLE = table_of("[@▁#]")
CONTROLS = "control characters"
SWAPPED = "swapped"
SUBWORDS = "subwords"
ENTITIES = "HTML entities"
EXAMPLES = {
    "characters of a wrong encoding": ", such as Ã¼ for ü",
    ENTITIES: ", such as &amp;",
    SUBWORDS: ", such as Haus@@ boot or ▁Haus boot; join them, as nmt divides words itself",
}


class Finding(NamedTuple):
    """A fault of a set."""

    text: str
    number: int  # of the first pair that has it, in the order read, from 1


@dataclass
class Count:
    pairs: int = 0  # that have a fault
    first: int = 0  # the number of the first


class ChunkFaults(NamedTuple):
    """What was found in a chunk of pairs."""

    size: int
    faults: dict[str, np.ndarray]  # the indices of the pairs of each kind
    misaligned: list[MisalignedBlock]  # numbered from 1 in the chunk


@dataclass
class PairChecks:
    """The checks of one set.

    `valid`: those of the validation set; `languages`: the codes if there are only two.
    """

    valid: "PairChecks | None" = None
    languages: Pair | None = None
    read: int = 0  # pairs that were looked at
    learnt: int = 0  # pairs from which is known what is usual
    moments: np.ndarray = field(default_factory=lambda: np.zeros((3, 2)))  # `length_moments`
    language: np.ndarray | None = None  # `log_likelihood_ratio`
    # `language` of each language pair
    known_languages: dict[Pair | None, np.ndarray] = field(default_factory=dict)
    other_languages: str | None = None  # what is wrong with the languages of the first pairs
    faults: dict[str, Count] = field(default_factory=dict)
    misaligned: list[MisalignedBlock] = field(default_factory=list)

    def prepare(self, pairs: list[Pair], codes: Pair | None = None) -> None:
        """Learn from the first pairs what is usual.

        The languages are those of the validation set if it has enough pairs. In a corpus of several
        language pairs this is called before each, with its codes.
        """
        sides = lines_of_pairs(without_entities(pairs))
        self.language = self.valid.known_languages.get(codes) if self.valid else None
        if self.language is None:
            self.language = log_likelihood_ratio(*sides)
        if len(pairs) >= MIN_PAIRS:
            self.known_languages[codes] = self.language
        self.learnt = len(pairs)
        self.moments = length_moments(*sides)
        if self.languages:
            self.other_languages = describe_languages(pairs, self.languages)

    def inspect(self, chunk: Chunk) -> ChunkFaults:
        """The faults of a chunk; `prepare` comes first."""
        as_written, as_read, lines_as_read = chunk_lines(chunk)
        found = text_faults(as_written[0])
        for kind, lines in text_faults(as_written[1]).items():
            found[kind] = found[kind] | lines
        if self.language is not None and self.learnt >= MIN_PAIRS:
            source, target = in_other_language(self.language, *lines_as_read)
            found["in the other language"] = source | target
            found[SWAPPED] = source & target
        indices = {kind: np.flatnonzero(lines) for kind, lines in found.items() if lines.any()}
        return ChunkFaults(chunk.size, indices, find_misaligned_blocks(self.moments, as_read))

    def watch(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """The same pairs, which are looked at a chunk at a time."""
        for chunk in chunks(pairs, SAMPLE):
            self.note(self.inspect(chunk))
            yield from chunk.pairs[chunk.core]

    def note(self, found: ChunkFaults) -> None:
        """Count the faults of the next chunk."""
        for kind, indices in found.faults.items():
            count = self.faults.setdefault(kind, Count(0, self.read + 1 + int(indices[0])))
            count.pairs += len(indices)
        self.misaligned = merge(
            [*self.misaligned, *(block.moved(self.read) for block in found.misaligned)]
        )
        self.read += found.size

    def findings(self) -> Iterator[Finding]:
        """The warnings about the set."""
        if self.other_languages:
            yield Finding(self.other_languages, 1)
        if self.misaligned:
            yield self.misalignment()
        for kind, count in self.faults.items():
            of_read = f"{count.pairs:,} of {self.read:,} pairs"
            if kind == SWAPPED:
                if count.pairs > max(MIN_LINES, MIN_SWAPPED_SHARE * self.read):
                    yield Finding(
                        f"{of_read} look swapped: each side in the other's language", count.first
                    )
            elif kind == CONTROLS or (kind in EXAMPLES and count.pairs >= self.fewest(kind)):
                yield Finding(f"{of_read} have {kind}{EXAMPLES.get(kind, '')}", count.first)

    def misalignment(self) -> Finding:
        first = self.misaligned[0]
        lines = "line" if abs(first.shift) == 1 else "lines"
        cause = f"one file is shifted by {abs(first.shift)} {lines}"
        if first.shift == UNRELATED:
            cause = "lines are shuffled or mixed up"
        pairs = sum(block.size for block in self.misaligned)
        blocks = f", in {len(self.misaligned)} blocks" if len(self.misaligned) > 1 else ""
        return Finding(
            f"the two sides of {pairs:,} pairs do not belong together, as if {cause} (from here "
            f"on for {first.size:,} pairs{blocks})",
            first.first,
        )

    def fewest(self, kind: str) -> float:
        """How many pairs must have a fault of their text for a warning."""
        in_valid = 0.0
        if self.valid and kind != SUBWORDS:  # which is told also of a whole corpus
            count = self.valid.faults.get(kind, Count())
            in_valid = count.pairs / max(1, self.valid.read)
        return max(MIN_LINES, MIN_SHARE * self.read, TIMES_VALID * in_valid * self.read)


def without_entities(pairs: list[Pair]) -> list[Pair]:
    """The pairs with the characters that entities stand for; the same list if there are none."""

    def read(text: str) -> str:
        return ENTITY.sub(lambda match: html.unescape(f"&{match[1]};"), text)

    if not any("&" in source or "&" in target for source, target in pairs):
        return pairs
    return [(read(source), read(target)) for source, target in pairs]


def chunk_lines(chunk: Chunk) -> tuple[tuple[Lines, Lines], Chunk, tuple[Lines, Lines]]:
    """The lines of a chunk; the chunk and its lines as a reader sees them, without entities.

    Thus `&#8217;` is no number.
    """
    lines = lines_of_pairs(chunk.pairs[chunk.core])
    pairs = without_entities(chunk.pairs)
    if pairs is chunk.pairs:
        return lines, chunk, lines
    return lines, replace(chunk, pairs=pairs), lines_of_pairs(pairs[chunk.core])


def text_faults(side: Lines) -> dict[str, np.ndarray]:
    """Which lines have damaged text, by the kind of damage."""
    # A question mark in the middle of a word was once a letter.
    letters = side.kinds >= SMALL
    inside = np.concatenate(
        ([False], (side.codes[1:-1] == ord("?")) & letters[:-2] & letters[2:], [False])
    )
    lost = side.matching(side.having(inside[: len(side.codes)]), LOST_LETTER)
    broken = side.matching(side.having(BROKEN_TABLE[side.codes]), BROKEN)
    return {
        CONTROLS: side.having(CONTROL[side.codes]) & ~side.blank,
        "characters of a wrong encoding": lost | broken,
        ENTITIES: side.matching(side.having(side.codes == ord("&")), ENTITY),
        SUBWORDS: side.matching(side.having(PIECE_TABLE[side.codes]), PIECES),
    }
