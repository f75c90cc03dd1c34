"""What is wrong with the pairs of a chunk: for each kind of fault the pairs and their sides."""

import operator
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nmt.audit.profile import (
    MIN_CASED_WORDS,
    TOKENIZED,
    Profile,
    has_spaced_punctuation,
    has_tags,
    in_capitals,
    learn_profile,
    letters_of,
    without_capitals,
)
from nmt.config.schema import DataConfig
from nmt.corpus.checks import SAMPLE, Pair, chunk_lines, text_faults
from nmt.corpus.filtering import SLACK
from nmt.corpus.inspect.language import evidence
from nmt.corpus.inspect.lines import (
    SMALL,
    Lines,
    Words,
    is_in,
    mix,
    powers,
    scripts,
    table_of,
)
from nmt.corpus.inspect.misaligned_blocks import (
    MIN_PAIRS,
    Chunk,
    MisalignedBlock,
    chunks,
    find_misaligned_blocks,
)
from nmt.corpus.normalization import SPACES

BOTH = 2  # stands for both sides, where 0 is the source and 1 the target
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f -]?\d+)*")
DIGITS = re.compile(r"\d+")
QUOTED = re.compile(r'^"(?=.*"$).*"".*"$')  # the lookahead keeps it from trying every division
# Faults of single characters
CHARACTERS = {
    # Surrogates, which stand for bytes that are not UTF-8
    "not UTF-8": table_of(r"[\udc80-\udcff]"),
    "byte order mark": table_of("\ufeff"),
    # Tab, carriage return, soft hyphen, zero-width space, marks of direction, ends of lines and
    # paragraphs, joiner.
    "invisible characters": table_of("[\t\r\xad\u200b\u200e\u200f\u2028\u2029\u2060]"),
    "unusual spaces": table_of(SPACES.pattern),
}
QUOTES = table_of('["“”„‟«»]')  # which come in pairs
MIN_LETTERS = 5  # of a line whose script is judged

# A line is partly untranslated with so many words of three letters or more from the other side,
COPIED_WORDS = 2
COPIED_SHARE = 0.5  # such a share of its words,
COPIED_EVIDENCE = 8.0  # and so many nats by which these words fit the other language better.
CHUNK = 20_000  # pairs that are looked at together
# What `unlike_pairs` says of pairs with these faults. Damage of one side alone is no reason.
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
    """The sentences of validation and test sets: hashes of sides, and of both sides together."""

    sides: list[np.ndarray] = field(default_factory=lambda: [np.zeros(0, np.uint64)] * 2)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, hashes: Sides) -> None:
        """Add the `sequences` of a set's lines; those without words are left out."""
        has_words = (hashes[0] > 0) & (hashes[1] > 0)
        self.pairs = np.union1d(self.pairs, pair_hashes(*hashes)[has_words])
        for side, new in enumerate(hashes):
            self.sides[side] = np.union1d(self.sides[side], new[new > 0])

    def faults(self, hashes: Sides) -> dict[str, np.ndarray]:
        """Which training pairs are held out, or one side of them, by their `sequences`."""
        leaked = is_in(pair_hashes(*hashes), self.pairs)
        one_side = is_in(hashes[0], self.sides[0]) | is_in(hashes[1], self.sides[1])
        return {"in valid or test": leaked, "a side in valid or test": one_side & ~leaked}


def bags(words: Words) -> np.ndarray:
    """A hash of the words of each line whatever their order; 0 for a line without words."""
    return line_sums(words, words.hash)


def sequences(words: Words) -> np.ndarray:
    """A hash of the words of each line in their order; 0 for a line without words."""
    position = np.arange(len(words.line)) - words.starts[words.line]
    factors = powers(int(words.count.max(initial=0)))
    return line_sums(words, words.hash * factors[position])


def pair_hashes(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    return mix(mix(source) + target)


def line_sums(words: Words, values: np.ndarray) -> np.ndarray:
    running = np.concatenate(([np.uint64(0)], np.cumsum(values, dtype=np.uint64)))
    return running[words.starts + words.count] - running[words.starts]


class AuditedChunk(NamedTuple):
    """The faults of a chunk, and what whole sets need."""

    faults: dict[str, list[tuple[int, int]]]  # by kind: numbers of pairs in the set's origin, sides
    misaligned: list[MisalignedBlock]
    exact: np.ndarray  # hash of each pair, to the letter; 0 where a side is blank
    near: np.ndarray  # likewise without case, punctuation and order; 0 where a side has no word
    sequences: Sides  # of the words of both sides
    texts: dict[str, list[Pair]]  # of the first pairs of each kind


def inspect_chunk(
    profile: Profile, data: DataConfig, held_out: HeldOutHashes | None, chunk: Chunk
) -> AuditedChunk:
    """Look at the pairs of a chunk; those around it are context for misaligned blocks.

    Whether the sides translate each other is judged by the characters that entities stand for.
    """
    pairs = chunk.pairs[chunk.core]
    (source, target), as_read, lines_as_read = chunk_lines(chunk)
    hashes = sequences(source.words), sequences(target.words)
    has_words = (source.words.count > 0) & (target.words.count > 0)
    # The same in all processes, as these are forked
    to_the_letter = np.array([hash(pair) for pair in pairs], np.int64).view(np.uint64)
    near = pair_hashes(bags(source.words), bags(target.words))
    is_blank = source.blank | target.blank

    # Faults of pairs: for each kind whether each pair has it
    has_letters = source.small + source.capitals > 0
    equal = (hashes[0] == hashes[1]) & (source.words.count >= MIN_CASED_WORDS) & has_letters
    of_pairs = dropped_pairs(data, source, target)
    of_pairs |= pair_faults(profile, data, *lines_as_read, equal)
    if held_out is not None:
        of_pairs |= held_out.faults(hashes)

    # Their sides, with the faults of one side: for each kind the side of each pair; -1: no fault
    sides = {kind: np.where(mask, BOTH, -1) for kind, mask in of_pairs.items()}
    of_sides = [side_faults(profile, 0, source), side_faults(profile, 1, target)]
    if profile.pairs >= MIN_PAIRS:
        languages = profile.other_languages(*lines_as_read)
        of_sides = list(map(operator.or_, of_sides, languages))
    for number, faults in enumerate(of_sides):
        for kind, mask in faults.items():
            before = sides.get(kind, np.full(len(pairs), -1))
            sides[kind] = np.where(mask, np.where(before < 0, number, BOTH), before)

    # The numbers of the pairs in the origin, and the texts of those that are shown
    places: dict[str, list[tuple[int, int]]] = {}
    texts: dict[str, list[Pair]] = {}
    for kind, side_of_pair in sides.items():
        faulty = np.flatnonzero(side_of_pair >= 0)
        if len(faulty):
            numbers = (faulty + chunk.first).tolist()
            places[kind] = list(zip(numbers, side_of_pair[faulty].tolist(), strict=True))
            texts[kind] = [pairs[row] for row in faulty[: data.audit_examples].tolist()]
    misaligned = find_misaligned_blocks(profile.moments, as_read)
    return AuditedChunk(
        places,
        [block.moved(chunk.first - 1) for block in misaligned],
        np.where(is_blank, np.uint64(0), to_the_letter),
        np.where(has_words, near, np.uint64(0)),
        hashes,
        texts,
    )


def unlike_pairs(pairs: Sequence[Pair], data: DataConfig) -> dict[int, str]:
    """Which pairs are no translations of each other, by their places in the list, and why."""
    reasons: dict[int, str] = {}
    if not pairs:
        return reasons
    profile = learn_profile(pairs[:SAMPLE])
    for chunk in chunks(iter(pairs), CHUNK):
        audited = inspect_chunk(profile, data, None, chunk)
        for block in audited.misaligned:
            reasons |= dict.fromkeys(range(block.first - 1, block.last), "do not belong together")
        for kind, reason in UNLIKE.items():
            for number, _ in audited.faults.get(kind, []):
                reasons.setdefault(number - 1, reason)
    return reasons


def side_faults(profile: Profile, number: int, side: Lines) -> dict[str, np.ndarray]:
    """The faults of one side (0 or 1): for each kind, which lines have it."""
    faults = {}
    for kind, table in CHARACTERS.items():
        faults[kind] = side.having(table[side.codes]) & ~side.blank
    faults |= text_faults(side)
    faults["quoted as in a table"] = side.matching(side.codes[side.starts] == ord('"'), QUOTED)
    if profile.pairs < MIN_PAIRS:
        return faults
    usual = profile.sides[number]
    for kind in usual.habits & faults.keys():
        del faults[kind]
    faults["another script"] = other_script(side, usual.scripts)
    if not profile.tagged:
        faults["tags"] = has_tags(side)
    if not usual.shouted:
        faults["all in capitals"] = in_capitals(side)
    if TOKENIZED not in usual.habits:
        faults["looks tokenized"] = has_spaced_punctuation(side)
    if usual.capitals:
        faults["no capital letters"] = without_capitals(side)
    return faults


def pair_faults(
    profile: Profile, data: DataConfig, source: Lines, target: Lines, equal: np.ndarray
) -> dict[str, np.ndarray]:
    """The faults of both sides together: for each kind, which pairs have it.

    `equal` says which pairs have equal sides.
    """
    blank = source.blank | target.blank
    odd_quotes = source.sums(QUOTES[source.codes]) % 2 != target.sums(QUOTES[target.codes]) % 2
    faults = {
        "both sides equal": equal,
        "unpaired quote": ~blank & odd_quotes,
    }
    if profile.pairs >= MIN_PAIRS:
        is_far = profile.far(source, target) > data.audit_deviation
        faults["unusual difference of lengths"] = ~blank & is_far
        is_copied = partly_untranslated(source, target, profile.language)
        faults["partly untranslated"] = is_copied & ~equal
        faults["number not on both sides"] = ~blank & unlike_numbers(source, target)
    return faults


def dropped_pairs(data: DataConfig, source: Lines, target: Lines) -> dict[str, np.ndarray]:
    """Which pairs a training drops, and why; it looks at the text as it is written."""
    blank = source.blank | target.blank
    shorter = np.minimum(source.lengths, target.lengths) + SLACK
    longer = np.maximum(source.lengths, target.lengths) + SLACK
    return {
        "both sides blank": source.blank & target.blank,
        "one side blank": source.blank ^ target.blank,
        "too long": ~blank & (longer - SLACK > data.max_characters),
        "lengths too unlike": ~blank & (longer / shorter > data.max_length_ratio),
    }


def other_script(side: Lines, usual: np.ndarray) -> np.ndarray:
    """Which lines have a third of their letters in an unusual script, or a word of mixed letters.

    The letters of a mixed word are Latin and Cyrillic ones, which may look the same.
    """
    if not usual.any():
        return np.zeros(side.count, bool)
    table, names = scripts()
    letters = letters_of(side, np.arange(256) > 0)
    is_unusual = (letters >= MIN_LETTERS) & (3 * letters_of(side, usual) < 2 * letters)
    latin = table[side.codes] == names.index("LATIN")
    cyrillic = table[side.codes] == names.index("CYRILLIC")
    mixed = np.append((latin[:-1] & cyrillic[1:]) | (cyrillic[:-1] & latin[1:]), False)
    return is_unusual | side.having(mixed)


def partly_untranslated(source: Lines, target: Lines, ratio: np.ndarray) -> np.ndarray:
    """Which targets have at least COPIED_WORDS and COPIED_SHARE of their words from the source.

    These words are in small letters. Together they must fit the source's language better by
    `log_likelihood_ratio`, which names in code do not.
    """

    def small_words(words: Words) -> np.ndarray:
        return np.flatnonzero((words.length >= 3) & (words.kind == SMALL))

    chosen = small_words(target.words)
    others = small_words(source.words)
    shared = chosen[target.words.in_other(source.words, chosen, among=others)]
    total = target.words.lines_with(chosen)
    common = target.words.lines_with(shared)
    copied = np.zeros(len(target.words.line), bool)
    copied[shared] = True
    is_of_source = evidence(ratio, target, target.characters_of(copied)) > COPIED_EVIDENCE
    return (common >= COPIED_WORDS) & (common >= COPIED_SHARE * total) & is_of_source


def unlike_numbers(source: Lines, target: Lines) -> np.ndarray:
    """Which pairs lack a number of one side on the other side, or have no number in common.

    Only numbers of three digits or more must be on both sides. As words they differ in many pairs;
    only these pairs are compared by the values of their numbers.
    """
    unlike = np.zeros(source.count, bool)
    shared = np.zeros(source.count, bool)
    for side, other in ((source, target), (target, source)):
        words = side.words
        numbers = np.flatnonzero(words.digit)
        is_shared = words.in_other(other.words, numbers)
        shared |= words.lines_with(numbers[is_shared]) > 0
        lost = numbers[~is_shared]
        lost = lost[words.length[lost] > 2]
        for line in np.unique(words.line[lost]).tolist():
            unlike[line] |= not same_numbers(side.texts[line], other.texts[line])
    in_source = source.words.lines_with(source.words.digit) > 0
    in_target = target.words.lines_with(target.words.digit) > 0
    for line in np.flatnonzero(in_source & in_target & ~shared).tolist():
        texts = source.texts[line], target.texts[line]
        unlike[line] |= not (has_near(*texts) or has_near(*texts[::-1]))
    return unlike


def has_near(text: str, other: str) -> bool:
    """Whether one of the numbers of a text is on the other side, by its value or nearly."""
    known = values(other)
    return any(is_near(value, known) for value in values(text) if value)


def same_numbers(text: str, other: str) -> bool:
    """Whether each number of a text from two digits on is on the other side.

    Its separators may be others, 15:30 may be 3:30, 1960 may be 60, and 05 may be 5.
    """
    known = values(other)
    for group in NUMBER.findall(unicodedata.normalize("NFKC", text)):
        if len(group) > 1 and known.isdisjoint(readings(group)):
            for part in DIGITS.findall(group):
                number = part.lstrip("0")
                if len(number) > 1 and not is_near(number, known):
                    return False
    return True


def values(text: str) -> set[str]:
    """The values that the numbers of a text may stand for; ２０００ is 2000."""
    groups = NUMBER.findall(unicodedata.normalize("NFKC", text))
    return set[str]().union(*map(readings, groups))


def readings(group: str) -> set[str]:
    """The values that digits with separators may stand for: all together, and each part."""
    parts = DIGITS.findall(group)
    return {part.lstrip("0") for part in ("".join(parts), *parts)}


def is_near(part: str, known: set[str]) -> bool:
    """Whether a number is known, or by twelve hours less or more, or as a year without century."""
    if part in known:
        return True
    is_hour = len(part) == 2 and int(part) <= 24
    if is_hour and not known.isdisjoint((str(int(part) - 12), str(int(part) + 12))):
        return True
    is_year = len(part) == 4 and part[2:] in known
    return is_year or any(len(value) == 4 and value.endswith(part) for value in known)
