"""What is wrong with the pairs of a chunk: for each kind of fault the pairs and their sides."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nmt.audit.profile import (
    MIN_CASED_WORDS,
    Profile,
    has_spaced_punctuation,
    has_tags,
    in_capitals,
    learn_profile,
    letters_of,
    without_capitals,
)
from nmt.config.schema import DataConfig
from nmt.data.checks import SAMPLE, Pair, text_faults
from nmt.data.filtering import SLACK
from nmt.data.inspect.language import evidence
from nmt.data.inspect.lines import SMALL, Lines, Words, is_in, mix, powers, scripts, table_of
from nmt.data.inspect.misaligned_blocks import (
    MIN_PAIRS,
    Chunk,
    MisalignedBlock,
    chunks,
    find_misaligned_blocks,
)

BOTH = 2  # stands for both sides, where 0 is the source and 1 the target
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f -]?\d+)*")
DIGITS = re.compile(r"\d+")
QUOTED = re.compile(r'^".*"".*"$')
# Faults of single characters; surrogates are bytes that are not UTF-8, as surrogateescape reads
# them.
CHARACTERS = {
    "not UTF-8": table_of(range(0xDC80, 0xDD00)),
    "byte order mark": table_of([0xFEFF]),
    # Tab, carriage return, soft hyphen, zero-width space, marks of direction, ends of lines and
    # paragraphs, joiner.
    "invisible characters": table_of([9, 13, 0xAD, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060]),
    # No-break, ogham, typographic and ideographic spaces.
    "unusual spaces": table_of([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]),
}
QUOTES = table_of(map(ord, '"“”„‟«»'))  # which come in pairs
MIN_LETTERS = 5  # of a line whose script is judged
WORD_BASE = np.uint64(0xD1B54A32D192ED03)  # odd: powers do not vanish
# words from three letters on that a side has from the other
COPIED_WORDS = 2
COPIED_SHARE = 0.5
COPIED_EVIDENCE = 8.0  # nats by which these words must fit the other side's language better
CHUNK = 20_000  # pairs that are looked at together
# What is said of pairs with these faults in the list of `unlike_pairs`. What damages one side alone
# is no reason.
UNLIKE = {
    "both sides equal": "are not translated",
    "partly untranslated": "are not translated",
    "lengths too unlike": "have lengths too unlike",
    "unusual difference of lengths": "have lengths too unlike",
    "number not on both sides": "have other numbers",
}
Sides = tuple[np.ndarray, np.ndarray]


@dataclass
class HeldOutHashes:
    """The sentences of validation and test sets: hashes of their words, and of both sides
    together."""

    sides: list[np.ndarray] = field(default_factory=lambda: [np.zeros(0, np.uint64)] * 2)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, hashes: Sides) -> None:
        """Add the `sequences` of a set's lines; those without words are left out."""
        self.pairs = np.union1d(self.pairs, pair_hashes(*hashes)[(hashes[0] > 0) & (hashes[1] > 0)])
        self.sides = [
            np.union1d(old, new[new > 0]) for old, new in zip(self.sides, hashes, strict=True)
        ]

    def faults(self, hashes: Sides) -> dict[str, np.ndarray]:
        """Which pairs of the training set are held out, and of which one side is; by the
        `sequences` of both sides."""
        leaked = is_in(pair_hashes(*hashes), self.pairs)
        one_side = is_in(hashes[0], self.sides[0]) | is_in(hashes[1], self.sides[1])
        return {"in valid or test": leaked, "a side in valid or test": one_side & ~leaked}


def bags(words: Words) -> np.ndarray:
    """A hash of the words of each line whatever their order; 0 for a line without words."""
    return line_sums(words, words.hash)


def sequences(words: Words) -> np.ndarray:
    """A hash of the words of each line in their order; 0 for a line without words."""
    position = np.arange(len(words.line)) - (np.cumsum(words.count) - words.count)[words.line]
    return line_sums(
        words, words.hash * powers(WORD_BASE, int(words.count.max(initial=0)) + 1)[position]
    )


def pair_hashes(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    return mix(mix(source) + target)


def line_sums(words: Words, values: np.ndarray) -> np.ndarray:
    running = np.concatenate(([np.uint64(0)], np.cumsum(values, dtype=np.uint64)))
    ends = np.cumsum(words.count)
    return running[ends] - running[ends - words.count]


class AuditedChunk(NamedTuple):
    """The faults of a chunk, and what whole sets need."""

    faults: dict[str, list[tuple[int, int]]]  # by kind: numbers of pairs in the set's origin, sides
    misaligned: list[MisalignedBlock]
    exact: np.ndarray  # hash of each pair, to the letter
    # hash of each pair without case, punctuation and order; 0 where a side has no word
    near: np.ndarray
    sequences: Sides  # of the words of both sides
    texts: dict[int, Pair]  # of the first pairs of each fault, by their numbers


def inspect_chunk(
    profile: Profile, data: DataConfig, held_out: HeldOutHashes | None, chunk: Chunk
) -> AuditedChunk:
    """Look at the pairs of a chunk; those around it are context for misaligned blocks."""
    pairs = chunk.pairs[chunk.core]
    source, target = (Lines([pair[side] for pair in pairs]) for side in (0, 1))
    in_order = sequences(source.words), sequences(target.words)
    equal = (in_order[0] == in_order[1]) & (source.words.count >= MIN_CASED_WORDS)
    found = pair_faults(profile, data, source, target, equal & (source.small + source.capitals > 0))
    found |= held_out.faults(in_order) if held_out is not None else {}
    # of each pair; -1: no fault
    sides = {kind: np.where(mask, BOTH, -1) for kind, mask in found.items()}
    languages = profile.other_languages(source, target) if profile.pairs >= MIN_PAIRS else [{}, {}]
    for number, side in enumerate((source, target)):
        for kind, mask in (side_faults(profile, number, side) | languages[number]).items():
            before = sides.get(kind, np.full(len(pairs), -1))
            sides[kind] = np.where(mask, np.where(before < 0, number, BOTH), before)
    faults = {
        kind: [
            (chunk.first + index, int(of_kind[index]))
            for index in np.flatnonzero(of_kind >= 0).tolist()
        ]
        for kind, of_kind in sides.items()
    }
    near = pair_hashes(bags(source.words), bags(target.words))
    shown = (number for places in faults.values() for number, _ in places[: data.audit_examples])
    return AuditedChunk(
        {kind: places for kind, places in faults.items() if places},
        [block.moved(chunk.first - 1) for block in find_misaligned_blocks(profile.moments, chunk)],
        pair_hashes(source.hashes, target.hashes),
        np.where((source.words.count > 0) & (target.words.count > 0), near, np.uint64(0)),
        in_order,
        {number: pairs[number - chunk.first] for number in shown},
    )


def unlike_pairs(pairs: Sequence[Pair], data: DataConfig) -> dict[int, str]:
    """Which pairs are no translations of each other, by their places in the list, and why."""
    faults: dict[int, str] = {}
    if not pairs:
        return faults
    source, target = (Lines([pair[side] for pair in pairs[:SAMPLE]]) for side in (0, 1))
    profile = learn_profile(source, target)
    for chunk in chunks(iter(pairs), CHUNK):
        found = inspect_chunk(profile, data, None, chunk)
        for block in found.misaligned:
            faults |= dict.fromkeys(range(block.first - 1, block.last), "do not belong together")
        for kind, reason in UNLIKE.items():
            for number, _ in found.faults.get(kind, []):
                faults.setdefault(number - 1, reason)
    return faults


def side_faults(profile: Profile, number: int, side: Lines) -> dict[str, np.ndarray]:
    """The faults of one side (0 or 1): for each kind, which lines have it."""
    found = {
        kind: side.having(table[side.codes]) & ~side.blank for kind, table in CHARACTERS.items()
    }
    found |= text_faults(side)
    found["quoted as in a table"] = side.matching(side.codes[side.starts] == ord('"'), QUOTED)
    if profile.pairs < MIN_PAIRS:
        return found
    found["another script"] = other_script(side, profile.scripts[number])
    if not profile.tagged:
        found["tags"] = has_tags(side)
    if not profile.shouted[number]:
        found["all in capitals"] = in_capitals(side)
    if not profile.spaced[number]:
        found["looks tokenized"] = has_spaced_punctuation(side)
    if profile.capitals[number]:
        found["no capital letters"] = without_capitals(side)
    return found


def pair_faults(
    profile: Profile, data: DataConfig, source: Lines, target: Lines, equal: np.ndarray
) -> dict[str, np.ndarray]:
    """The faults of both sides together, of which `equal` pairs are one: for each kind, which pairs
    have it."""
    found = {
        "both sides blank": source.blank & target.blank,
        "one side blank": source.blank ^ target.blank,
        "both sides equal": equal,
    }
    blank = source.blank | target.blank
    quotes = source.sums(QUOTES[source.codes]), target.sums(QUOTES[target.codes])
    found["unpaired quote"] = ~blank & (quotes[0] % 2 != quotes[1] % 2)
    shorter = np.minimum(source.lengths, target.lengths)
    longer = np.maximum(source.lengths, target.lengths)
    found["too long"] = ~blank & (longer > data.max_characters)
    found["lengths too unlike"] = ~blank & (
        (longer + SLACK) / (shorter + SLACK) > data.max_length_ratio
    )
    if profile.pairs >= MIN_PAIRS:
        found["unusual difference of lengths"] = ~blank & (
            profile.far(source, target) > data.audit_deviation
        )
        found["partly untranslated"] = (
            partly_untranslated(source, target, profile.language) & ~found["both sides equal"]
        )
        found["number not on both sides"] = ~blank & unlike_numbers(source, target)
    return found


def other_script(side: Lines, usual: np.ndarray) -> np.ndarray:
    """Which lines have a third of their letters in a script that is not usual, or a word of Latin
    and Cyrillic ones."""
    if not usual.any():
        return np.zeros(side.count, bool)
    table, names = scripts()
    letters = letters_of(side, np.arange(256) > 0)
    latin, cyrillic = (table[side.codes] == names.index(name) for name in ("LATIN", "CYRILLIC"))
    # perhaps they look the same
    mixed = np.append((latin[:-1] & cyrillic[1:]) | (cyrillic[:-1] & latin[1:]), False)
    return ((letters >= MIN_LETTERS) & (3 * letters_of(side, usual) < 2 * letters)) | side.having(
        mixed
    )


def partly_untranslated(source: Lines, target: Lines, ratio: np.ndarray) -> np.ndarray:
    """Which pairs share at least COPIED_WORDS words of small letters, COPIED_SHARE of those of the
    target.

    Together these words must fit the source's language better by `log_likelihood_ratio`: names of
    code do not.
    """
    chosen, others = (
        np.flatnonzero((words.length >= 3) & (words.kind == SMALL))
        for words in (target.words, source.words)
    )
    shared = chosen[target.words.in_other(source.words, chosen, among=others)]
    total = target.words.lines_with(chosen)
    common = target.words.lines_with(shared)
    copied = np.zeros(len(target.words.line), bool)
    copied[shared] = True
    is_of_source = evidence(ratio, target, target.characters_of(copied)) > COPIED_EVIDENCE
    return (common >= COPIED_WORDS) & (common >= COPIED_SHARE * total) & is_of_source


def unlike_numbers(source: Lines, target: Lines) -> np.ndarray:
    """Which pairs have a number from three digits on that one side lacks, or numbers on both sides
    and none in common.

    As words they differ in many pairs; only these are compared by their values.
    """
    found = np.zeros(source.count, bool)
    shared = np.zeros(source.count, bool)
    for side, other in ((source, target), (target, source)):
        numbers = np.flatnonzero(side.words.digit)
        is_there = side.words.in_other(other.words, numbers)
        shared |= side.words.lines_with(numbers[is_there]) > 0
        lost = numbers[~is_there]
        for line in np.unique(side.words.line[lost[side.words.length[lost] > 2]]).tolist():
            found[line] |= not same_numbers(side.texts[line], other.texts[line])
    both = (source.words.lines_with(source.words.digit) > 0) & (
        target.words.lines_with(target.words.digit) > 0
    )
    for line in np.flatnonzero(both & ~shared).tolist():
        sides = source.texts[line], target.texts[line]
        found[line] |= not any(has_near(text, other) for text, other in (sides, sides[::-1]))
    return found


def has_near(text: str, other: str) -> bool:
    """Whether one of the numbers of a text is on the other side, by its value or nearly."""
    groups, others = (NUMBER.findall(unicodedata.normalize("NFKC", each)) for each in (text, other))
    known = {value for group in others for value in readings(group)}
    return any(is_near(value, known) for group in groups for value in readings(group) if value)


def same_numbers(text: str, other: str) -> bool:
    """Whether each number of a text from two digits on is on the other side, with other separators
    perhaps.

    15:30 may be 3:30, 1960 may be 60, and 05 may be 5.
    """
    text, other = (
        unicodedata.normalize("NFKC", each) for each in (text, other)
    )  # ２０００ is 2000
    known = {value for group in NUMBER.findall(other) for value in readings(group)}
    for group in NUMBER.findall(text):
        if len(group) > 1 and known.isdisjoint(readings(group)):
            parts = [part.lstrip("0") for part in DIGITS.findall(group)]
            if not all(len(part) < 2 or is_near(part, known) for part in parts):
                return False
    return True


def readings(group: str) -> set[str]:
    """The values that a group of digits with separators may stand for: the whole of it, and each of
    its parts."""
    parts = DIGITS.findall(group)
    return {"".join(parts).lstrip("0"), *(part.lstrip("0") for part in parts)}


def is_near(part: str, known: set[str]) -> bool:
    """Whether a number is known itself, by twelve hours less or more, or by the last digits of a
    year."""
    hours = (
        {str(int(part) - 12), str(int(part) + 12)} if len(part) == 2 and int(part) <= 24 else set()
    )
    return (
        part in known
        or not known.isdisjoint(hours)
        or any(len(each) == 4 and each.endswith(part) for each in known)
    )
