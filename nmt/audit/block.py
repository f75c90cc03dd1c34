"""The faults of one block of pairs, as one of several processes finds them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.audit.characters import ALNUM, DIGIT, LOWER, UPPER, Characters
from nmt.audit.language import SideModel
from nmt.audit.line_faults import (
    ADDRESS,
    ADDRESS_SIGNS,
    MARK,
    MARK_SIGNS,
    SEPARATED,
    SEPARATED_SIGNS,
    addresses_differ,
    is_mostly_copied,
    numbers_differ,
)
from nmt.audit.stretches import Evidence, LineSummaries
from nmt.data.audit import rejection_reason
from nmt.data.checks import FAULTS, has_sign

Pair = tuple[str, str]
PAIRS = 4096  # in a block
DEVIATIONS = 7.0  # robust standard deviations of the log ratio of lengths, for an outlier
MIN_LENGTH = 12  # characters of the longer side of such an outlier
SLACK = 10  # characters added to both lengths before the ratio is taken
USUAL = 0.7  # the share of lines with a capital letter, on a side where a line without one is remarkable
MIN_LETTERS = 8  # of a line that is judged by its capital letters
SIDES = ("source", "target")


@dataclass
class Limits:
    """data.max_characters and data.max_length_ratio."""

    max_characters: int
    max_length_ratio: float


class Side:
    """One side of a block, in the forms in which it is looked at."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.characters = Characters.of(lines)
        self.lower = Characters.of([line.lower() for line in lines])
        self.flags = self.characters.flags()
        self.summaries = LineSummaries.of(self.lower)

    def count(self, flag: int) -> np.ndarray:
        """How many characters of each line have a flag."""
        return self.characters.count(self.flags, flag)

    def hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """The hash of each line to the letter, and that of its letters and digits without case."""
        everything = np.ones(len(self.characters.codes), bool)
        return self.characters.hashes(everything), self.lower.hashes(self.lower.flags() & ALNUM > 0)

    def matches(self, pattern: re.Pattern[str], signs: tuple[str, ...]) -> np.ndarray:
        """Whether each line matches a pattern, every match of which contains one of the signs (none: a control)."""
        found = np.zeros(len(self.lines), bool)
        text = "\n".join(self.lines)
        for row in self.rows_with(text, signs) if signs else range(len(self.lines)) if has_sign(text, signs) else ():
            found[row] = pattern.search(self.lines[row]) is not None
        return found

    def rows_with(self, text: str, signs: Sequence[str]) -> set[int]:
        """The lines that contain one of the signs."""
        positions = []
        for sign in signs:
            position = text.find(sign)
            while position >= 0:
                positions.append(position)
                position = text.find(sign, position + 1)
        return set((np.searchsorted(self.characters.starts, positions, side="right") - 1).tolist())

    def looks_tokenized(self) -> np.ndarray:
        """Whether a comma, a full stop or the parts of contractions stand apart in each line, as tokenizers write."""
        codes = np.append(self.characters.codes, np.uint32(ord("\n")))
        is_mark, is_space = (codes == ord(",")) | (codes == ord(".")), (codes == ord(" ")) | (codes == ord("\n"))
        is_word = self.flags & ALNUM > 0
        is_apart = np.zeros(len(self.flags), np.int32)
        is_apart[2:] = is_word[:-2] & (codes[1:-2] == ord(" ")) & is_mark[2:-1] & is_space[3:]
        return (self.characters.line_sums(is_apart) > 0) | self.matches(SEPARATED, SEPARATED_SIGNS)

    def one_case(self, flag: int) -> np.ndarray:
        """The lines whose letters are all small (UPPER is the flag that none has) or all capital (LOWER)."""
        letters = self.count(UPPER) + self.count(LOWER)
        begins_with_digit = self.flags[self.characters.starts] & DIGIT > 0
        return np.flatnonzero((self.count(flag) == 0) & (letters >= MIN_LETTERS) & ~begins_with_digit)


class Sample:
    """What the first pairs of training tell about all."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        sides = [Side([pair[side] for pair in pairs]) for side in (0, 1)]
        self.models = [SideModel(side.lower) for side in sides]
        self.evidence = Evidence(*(side.summaries for side in sides))
        self.has_capitals = [np.mean(side.count(UPPER) > 0) >= USUAL for side in sides]
        ratios = log_ratios(*sides)
        self.ratio = float(np.median(ratios))
        self.spread = max(0.05, float(1.4826 * np.median(np.abs(ratios - self.ratio))))


@dataclass
class BlockFaults:
    """What one block tells: the pairs with each fault, from 0, and what is compared over all blocks."""

    faults: dict[str, np.ndarray]
    hashes: np.ndarray  # uint64 [pairs, 4]: the pair to the letter, its letters, the source's letters, the target's
    summaries: tuple[LineSummaries, LineSummaries]


def log_ratios(source: Side, target: Side) -> np.ndarray:
    """log((target characters + SLACK) / (source characters + SLACK)) of each pair."""
    return np.log((target.characters.lengths + SLACK) / (source.characters.lengths + SLACK))


def find_faults(pairs: Sequence[Pair], limits: Limits, sample: Sample | None) -> BlockFaults:
    """The faults of a block of pairs; without a sample only those that need none."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    source, target = Side(sources), Side(targets)
    found = {name: np.flatnonzero(source.matches(*fault) | target.matches(*fault)) for name, fault in FAULTS.items()}
    found |= find_rejected(source, target, limits)
    found |= find_by_words(source, target)
    if sample is not None:
        found |= compare_with_sample(source, target, sample)
    exact, letters = zip(source.hashes(), target.hashes(), strict=True)
    columns = (combine(*exact), combine(*letters), *letters)
    faults = {name: rows for name, rows in found.items() if len(rows)}
    return BlockFaults(faults, np.stack(columns, axis=1), (source.summaries, target.summaries))


def combine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One hash of two, in this order."""
    mixed = (left ^ (left >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + right
    return (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)


def find_rejected(source: Side, target: Side, limits: Limits) -> dict[str, np.ndarray]:
    """The pairs that training leaves out, by reason."""
    lengths = np.stack([source.characters.lengths, target.characters.lengths])
    blank = np.minimum(source.count(ALNUM), target.count(ALNUM)) == 0
    ratio = (lengths.max(0) + SLACK) / (lengths.min(0) + SLACK)
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(
        blank | (lengths.max(0) > limits.max_characters) | (ratio > limits.max_length_ratio)
    ).tolist():
        pair = source.lines[row], target.lines[row]
        if reason := rejection_reason(*pair, limits.max_characters, limits.max_length_ratio):
            found.setdefault(reason, []).append(row)
    return {name: np.array(rows) for name, rows in found.items()}


def find_by_words(source: Side, target: Side) -> dict[str, np.ndarray]:
    """The pairs whose words, numbers or addresses are a fault; few pairs are looked at one by one."""
    pairs = list(zip(source.lines, target.lines, strict=True))
    has_digits = source.count(DIGIT) + target.count(DIGIT) > 0
    shared = ((source.summaries.words & target.summaries.words) != 0).sum(1)
    is_equal = np.array([left == right for left, right in pairs]) & (source.count(ALNUM) > 0)
    has_address = source.matches(ADDRESS, ADDRESS_SIGNS) | target.matches(ADDRESS, ADDRESS_SIGNS)

    def search(rows: np.ndarray, has_fault: Callable[[str, str], bool]) -> np.ndarray:
        return np.array([row for row in np.flatnonzero(rows) if has_fault(*pairs[row])])

    return {
        "both sides equal": np.flatnonzero(is_equal),
        "mostly copied": search((shared >= 2) & ~is_equal, is_mostly_copied),
        "numbers differ": search(has_digits, numbers_differ),
        "addresses or codes differ": search(has_digits | has_address, addresses_differ),
        "byte order mark inside": np.flatnonzero(source.matches(MARK, MARK_SIGNS) | target.matches(MARK, MARK_SIGNS)),
        "source looks tokenized": np.flatnonzero(source.looks_tokenized()),
        "target looks tokenized": np.flatnonzero(target.looks_tokenized()),
    }


def compare_with_sample(source: Side, target: Side, sample: Sample) -> dict[str, np.ndarray]:
    """The pairs that are written otherwise than the sample, by fault."""
    found = {}
    blank = np.minimum(source.count(ALNUM), target.count(ALNUM)) == 0
    deviations = np.abs(log_ratios(source, target) - sample.ratio) / sample.spread
    longer = np.maximum(source.characters.lengths, target.characters.lengths)
    found["lengths are unusual"] = np.flatnonzero((deviations > DEVIATIONS) & (longer >= MIN_LENGTH) & ~blank)
    for number, side in enumerate((source, target)):
        own, other = sample.models[number], sample.models[1 - number]
        wrong_script = own.has_wrong_script(side.lower)
        wrong_language = own.has_wrong_language(side.lower, other) & ~wrong_script
        found[f"{SIDES[number]} in another script"] = np.flatnonzero(wrong_script)
        found[f"{SIDES[number]} in another language"] = np.flatnonzero(wrong_language)
        if sample.has_capitals[number]:
            found[f"{SIDES[number]} in small letters"] = side.one_case(UPPER)
            found[f"{SIDES[number]} in capitals"] = side.one_case(LOWER)
    return found
