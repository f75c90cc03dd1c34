"""What is wrong with single pairs of a block: one boolean for each pair and kind of fault."""

import re
import unicodedata
from dataclasses import dataclass
from html.entities import name2codepoint

import numpy as np

from nmt.data.inspect.language import bigram_codes, other_language
from nmt.data.inspect.lines import SMALL, Lines, is_in, scripts, table_of
from nmt.data.inspect.profile import (
    MIN_CASED_WORDS,
    MIN_PAIRS,
    Profile,
    has_spaced_punctuation,
    has_tags,
    in_capitals,
    name_like,
    without_capitals,
)

# UTF-8 read as Latin-1 or Windows-1252: Ã or Â and a character that stands for a byte from 0x80 to 0xBF.
HIGH = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
BROKEN = re.compile(f"Ã[{HIGH}]|Â[\u00a0-\u00bf]|â€|[ÐÑ][{HIGH}][ÐÑ][{HIGH}]|ï»¿|ï¿½|\ufffd")
LOST_LETTER = re.compile(r"(?<!\S)[^\W\d_]+\?[^\W\d_]+(?=[.,;:!?]?(?:\s|$))")  # M?ller
ENTITY = re.compile(rf"&(?:amp;)*(?:#[0-9]{{1,6}}|#[xX][0-9a-fA-F]{{1,6}}|apos|{'|'.join(name2codepoint)});")
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f -]?\d+)*")
DIGITS = re.compile(r"\d+")
QUOTED = re.compile(r'^".*"".*"$')
# Faults of single characters; surrogates are bytes that are not UTF-8, as surrogateescape reads them.
CHARACTERS = {
    "not UTF-8": table_of(range(0xDC80, 0xDD00)),
    "byte order mark": table_of([0xFEFF]),
    # C0 without tab, line feed and carriage return; DEL; C1; marks that turn the direction of text.
    "control characters": table_of(
        [*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    ),
    # Tab, carriage return, soft hyphen, zero-width space, marks of direction, ends of lines and paragraphs, joiner.
    "invisible characters": table_of([9, 13, 0xAD, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060]),
    # No-break, ogham, typographic and ideographic spaces.
    "unusual spaces": table_of([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]),
}
BROKEN_TABLE = table_of(map(ord, "ÃÂâÐÑï\ufffd"))
MIN_LETTERS = 5  # of a line whose script is judged
LANGUAGE_MARGIN = 12.0  # nats by which the other side's language fits better
LANGUAGE_MARGIN_PER_CHARACTER = 0.3
COPIED_WORDS, COPIED_SHARE = 3, 0.5  # words from three letters on that a side has from the other


@dataclass
class Limits:
    max_characters: int
    max_length_ratio: float
    deviation: float
    identified: tuple[str, str] | None = None  # language codes, where lines are given to an identifier


def side_faults(profile: Profile, limits: Limits, number: int, side: Lines) -> dict[str, np.ndarray]:
    """The faults of one side (0 or 1): for each kind, which lines have it."""
    found = {kind: side.having(table[side.codes]) & ~side.blank for kind, table in CHARACTERS.items()}
    found["characters of a wrong encoding"] = has_broken_characters(side)
    found["HTML entities"] = side.matching(side.having(side.codes == ord("&")), ENTITY)
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
    if (profile.scripts[0] & profile.scripts[1]).any():
        values = profile.language[bigram_codes(side)] * (1 if number else -1)
        margin = np.maximum(LANGUAGE_MARGIN, LANGUAGE_MARGIN_PER_CHARACTER * side.lengths)
        exchanged = side.sums(values) > margin
        found["in the other language"] = exchanged
        if limits.identified:
            found["another language"] = other_language(profile.languages[number], limits.identified[number], side)
        found["unlike the rest"] = profile.languages[number].foreign(side) & ~exchanged
    return found


def pair_faults(profile: Profile, limits: Limits, source: Lines, target: Lines) -> dict[str, np.ndarray]:
    words = source.words, target.words
    found = {
        "both sides blank": source.blank & target.blank,
        "one side blank": source.blank ^ target.blank,
        "both sides equal": (words[0].sequences == words[1].sequences)
        & (words[0].count >= MIN_CASED_WORDS)
        & (source.small + source.capitals > 0),
    }
    blank = source.blank | target.blank
    shorter, longer = np.minimum(source.lengths, target.lengths), np.maximum(source.lengths, target.lengths)
    found["too long"] = ~blank & (longer > limits.max_characters)
    found["lengths too unlike"] = ~blank & ((longer + 10) / (shorter + 10) > limits.max_length_ratio)
    if profile.pairs >= MIN_PAIRS:
        found["unusual difference of lengths"] = ~blank & (profile.far(source, target) > limits.deviation)
        found["partly untranslated"] = partly_untranslated(source, target) & ~found["both sides equal"]
        found["number or name not on both sides"] = ~blank & (
            not_copied(profile, source, target) | not_copied(profile, target, source) | other_numbers(source, target)
        )
    return found


def has_broken_characters(side: Lines) -> np.ndarray:
    """Which lines have characters of a wrong encoding, or a question mark in the middle of a word."""
    letters = side.kinds >= SMALL
    inside = np.concatenate(([False], (side.codes[1:-1] == ord("?")) & letters[:-2] & letters[2:], [False]))
    lost = side.matching(side.having(inside[: len(side.codes)]), LOST_LETTER)
    return lost | side.matching(side.having(BROKEN_TABLE[side.codes]), BROKEN)


def other_script(side: Lines, usual: np.ndarray) -> np.ndarray:
    """Which lines have a third of their letters in a script that is not usual, or a word of Latin and Cyrillic ones."""
    if not usual.any():
        return np.zeros(side.count, bool)
    table, names = scripts()
    letters = side.letters_by_script(np.arange(256) > 0)
    latin, cyrillic = (table[side.codes] == names.index(name) for name in ("LATIN", "CYRILLIC"))
    mixed = np.append((latin[:-1] & cyrillic[1:]) | (cyrillic[:-1] & latin[1:]), False)  # perhaps they look the same
    return ((letters >= MIN_LETTERS) & (3 * side.letters_by_script(usual) < 2 * letters)) | side.having(mixed)


def partly_untranslated(source: Lines, target: Lines) -> np.ndarray:
    """Which pairs share at least COPIED_WORDS words of small letters, COPIED_SHARE of those of the target."""
    chosen, others = (
        np.flatnonzero((words.length >= 3) & (words.kind == SMALL)) for words in (target.words, source.words)
    )
    shared = target.words.in_other(source.words, chosen, among=others)
    total = target.words.lines_with(chosen)
    common = target.words.lines_with(chosen[shared])
    return (common >= COPIED_WORDS) & (common >= COPIED_SHARE * total)


def not_copied(profile: Profile, side: Lines, other: Lines) -> np.ndarray:
    """Which lines have a number or a name that is usually copied, and is not on the other side."""
    words = side.words
    numbers = words.digit & profile.number_lengths[np.minimum(words.length, 19)]
    names = np.flatnonzero(name_like(words) & is_in(words.hash, profile.copied))
    names = names[~words.in_other(other.words, names, by="stem")]
    numbers = np.flatnonzero(numbers)
    numbers = numbers[~words.in_other(other.words, numbers)]
    lost = words.lines_with(names) > 0
    for line in np.unique(words.line[numbers]).tolist():
        lost[line] |= not same_numbers(side.texts[line], other.texts[line])
    return lost


def other_numbers(source: Lines, target: Lines) -> np.ndarray:
    """Which pairs have numbers on both sides, and none of one side is on the other; such as 6 and 5."""
    numbers = np.flatnonzero(source.words.digit)
    shared = numbers[source.words.in_other(target.words, numbers)]
    found = (source.words.lines_with(numbers) > 0) & (target.words.lines_with(target.words.digit) > 0)
    found &= source.words.lines_with(shared) == 0
    for line in np.flatnonzero(found).tolist():
        sides = source.texts[line], target.texts[line]
        found[line] = not any(has_near(text, other) for text, other in (sides, sides[::-1]))
    return found


def has_near(text: str, other: str) -> bool:
    """Whether one of the numbers of a text is on the other side, by its value or nearly."""
    groups, others = (NUMBER.findall(unicodedata.normalize("NFKC", each)) for each in (text, other))
    known = {value for group in others for value in readings(group)}
    return any(is_near(value, known) for group in groups for value in readings(group) if value)


def same_numbers(text: str, other: str) -> bool:
    """Whether each number of a text from two digits on is on the other side, with other separators perhaps.

    15:30 may be 3:30, 1960 may be 60, and 05 may be 5.
    """
    text, other = (unicodedata.normalize("NFKC", each) for each in (text, other))  # ２０００ is 2000
    known = {value for group in NUMBER.findall(other) for value in readings(group)}
    for group in NUMBER.findall(text):
        if len(group) > 1 and known.isdisjoint(readings(group)):
            parts = [part.lstrip("0") for part in DIGITS.findall(group)]
            if not all(len(part) < 2 or is_near(part, known) for part in parts):
                return False
    return True


def readings(group: str) -> set[str]:
    """The values that a group of digits with separators may stand for: the whole of it, and each of its parts."""
    parts = DIGITS.findall(group)
    return {"".join(parts).lstrip("0"), *(part.lstrip("0") for part in parts)}


def is_near(part: str, known: set[str]) -> bool:
    """Whether a number is known itself, by twelve hours less or more, or by the last digits of a year."""
    hours = {str(int(part) - 12), str(int(part) + 12)} if len(part) == 2 and int(part) <= 24 else set()
    return part in known or not known.isdisjoint(hours) or any(len(each) == 4 and each.endswith(part) for each in known)
