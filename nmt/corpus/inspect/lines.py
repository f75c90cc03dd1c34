"""Lines of text as arrays: characters, words, and hashes of both, without a loop over lines.

All hashes are 64 bits, the same in every process. A word is a run of letters, marks and digits in
small letters.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from nmt.corpus.words import SPACELESS

SIZE = 0x20000  # characters beyond this are OTHER: emoji, rare Chinese characters
CHARACTERS = "".join(map(chr, range(SIZE)))
# kinds; from SMALL on they are parts of words
OTHER, SPACE, SMALL, CAPITAL, UNCASED, DIGIT, MARK = range(7)
KINDS = {
    "Ll": SMALL,
    "Lu": CAPITAL,
    "Lt": CAPITAL,
    "Lo": UNCASED,
    "Lm": UNCASED,
    "Mn": MARK,
    "Mc": MARK,
    "Nd": DIGIT,
}
# A script goes by the first word of a letter's name in Unicode; these are written together in one
# language.
TOGETHER = dict.fromkeys(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"), "CJK") | {
    "FULLWIDTH": "LATIN"
}
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: powers do not vanish
NEWLINE = 10


@lru_cache
def kinds() -> np.ndarray:
    """The kind of each character [SIZE]."""
    table = np.empty(SIZE, np.uint8)
    for code, character in enumerate(CHARACTERS):
        table[code] = KINDS.get(unicodedata.category(character), OTHER)
        if character.isspace():
            table[code] = SPACE
    return table


@lru_cache
def letter_hashes() -> np.ndarray:
    """The hash of the small letter of each character [SIZE], of itself where it has none."""
    table = np.arange(SIZE, dtype=np.uint32)
    for code in np.flatnonzero(kinds() == CAPITAL).tolist():
        small = chr(code).lower()
        if len(small) == 1:
            table[code] = ord(small)
    return mix(table)


@lru_cache
def scripts() -> tuple[np.ndarray, list[str]]:
    """The script of each character [SIZE], and the names of the scripts.

    The script is 0 for what is not a letter.
    """
    table = np.zeros(SIZE, np.uint8)
    numbers = {"": 0}
    for code in np.flatnonzero(np.isin(kinds(), (SMALL, CAPITAL, UNCASED))).tolist():
        name = unicodedata.name(chr(code), "OTHER").split(" ")[0]
        table[code] = numbers.setdefault(TOGETHER.get(name, name), min(len(numbers), 255))
    return table, list(numbers)


@lru_cache
def single_words() -> np.ndarray:
    """Whether each character [SIZE] is a word by itself.

    Its script has no spaces between words.
    """
    return table_of(SPACELESS.pattern)


def table_of(pattern: str) -> np.ndarray:
    """Whether each character [SIZE] matches a pattern."""
    table = np.zeros(SIZE, bool)
    for match in re.finditer(pattern, CHARACTERS):
        table[match.start()] = True
    return table


def mix(values: np.ndarray) -> np.ndarray:
    """Hashes of 64-bit numbers (splitmix64)."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def powers(count: int) -> np.ndarray:
    """BASE⁰, BASE¹, BASE² … modulo 2⁶⁴."""
    return np.power(BASE, np.arange(count, dtype=np.uint64))


def is_in(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Whether each key is among the values.

    numpy.isin sorts and counts both, which takes three times as long here.
    """
    if not len(values):
        return np.zeros(len(keys), bool)
    values = np.sort(values)
    return values[np.minimum(np.searchsorted(values, keys), len(values) - 1)] == keys


class Lines:
    """The lines of one side of a block of pairs; arrays are over characters, words or lines."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.count = len(texts)
        joined = "".join(text.replace("\n", " ") + "\n" for text in texts)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        self.codes = np.minimum(codes, np.uint32(SIZE - 1))
        self.ends = np.flatnonzero(codes == NEWLINE)
        self.starts = np.concatenate(([0], self.ends[:-1] + 1))
        self.lengths = self.ends - self.starts
        self.kinds = kinds()[self.codes]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of values of characters for each line."""
        dtype = np.int32 if values.dtype in (np.bool_, np.uint8) else values.dtype
        return np.add.reduceat(values, self.starts, dtype=dtype)

    def having(self, characters: np.ndarray) -> np.ndarray:
        """Which lines have one of these characters (a boolean for each)."""
        found = np.zeros(self.count, bool)
        found[np.searchsorted(self.ends, np.flatnonzero(characters))] = True
        return found

    def matching(self, candidates: np.ndarray, pattern: re.Pattern[str]) -> np.ndarray:
        """Which of the candidate lines match a pattern."""
        found = candidates.copy()
        for line in np.flatnonzero(candidates).tolist():
            found[line] = pattern.search(self.texts[line]) is not None
        return found

    @cached_property
    def blank(self) -> np.ndarray:
        """Which lines have no character but spaces."""
        return ~self.having(self.kinds != SPACE)

    @cached_property
    def words(self) -> "Words":
        return Words(self)

    def own_words(self, other: "Lines") -> np.ndarray:
        """Which words, apart from numbers, the other side's line does not have.

        Names and code are on both sides.
        """
        plain = np.flatnonzero(~self.words.digit)
        own = np.zeros(len(self.words.line), bool)
        own[plain] = ~self.words.in_other(other.words, plain)
        return own

    def characters_of(self, words: np.ndarray) -> np.ndarray:
        """Which characters are in the chosen words, or directly behind one."""
        places = np.flatnonzero(self.kinds >= SMALL)
        chosen = np.zeros(len(self.codes), bool)
        chosen[places[np.repeat(words, self.words.length)]] = True
        chosen[1:] |= chosen[:-1].copy()
        return chosen

    @cached_property
    def capitals(self) -> np.ndarray:
        return self.sums(self.kinds == CAPITAL)

    @cached_property
    def small(self) -> np.ndarray:
        return self.sums(self.kinds == SMALL)


def lines_of_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[Lines, Lines]:
    """The lines of both sides."""
    return Lines([source for source, _ in pairs]), Lines([target for _, target in pairs])


class Words:
    """The words of lines: the line, the length, the hash and the first character's kind of each."""

    def __init__(self, lines: Lines) -> None:
        inside = lines.kinds >= SMALL
        alone = single_words()[lines.codes] & inside
        digits = lines.kinds == DIGIT  # "25th" is two words
        joined = np.concatenate(([False], inside[:-1] & ~alone[:-1] & (digits[:-1] == digits[1:])))
        firsts = inside & (alone | ~joined)
        where = np.flatnonzero(inside)
        begins = np.flatnonzero(firsts[where])
        self.length = np.diff(np.append(begins, len(where)))
        self.line = np.searchsorted(lines.ends, np.flatnonzero(firsts))
        position = np.arange(len(where)) - np.repeat(begins, self.length)
        factors = powers(int(self.length.max(initial=0)))
        letters = letter_hashes()[lines.codes[where]] * factors[position]
        self.hash = mix(np.add.reduceat(letters, begins)) if len(begins) else np.zeros(0, np.uint64)
        self.kind = lines.kinds[firsts]
        self.digit = self.kind == DIGIT
        self.lines = lines.count
        self.count = np.bincount(self.line, minlength=lines.count)
        self.starts = np.cumsum(self.count) - self.count  # the number of each line's first word

    def lines_with(self, chosen: np.ndarray) -> np.ndarray:
        """How many of the chosen words each line has."""
        return np.bincount(self.line[chosen], minlength=self.lines)

    def in_other(
        self, other: "Words", chosen: np.ndarray, offset: int = 0, among: np.ndarray | None = None
    ) -> np.ndarray:
        """Whether each chosen word is also in the other side's line, `offset` lines further on.

        `among`: the words of that side.
        """
        keys = mix(self.hash[chosen] ^ mix(self.line[chosen] + offset))
        hashes = other.hash ^ mix(other.line)
        return is_in(keys, mix(hashes if among is None else hashes[among]))
