"""A glossary: a file with lines SOURCE<TAB>TARGET, and where its terms stand in a text.

A term matches as it is written in the file, from word boundary to word boundary; with a capital first letter at the
beginning of a sentence; and in any case in a line that has only capitals or only small letters. Of overlapping terms
the one that begins first is taken, of those the longest. Other forms of a source term are terms of their own.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nmt.data.text_filter import Protected, unprotected
from nmt.data.words import SENTENCE_END, SPACELESS
from nmt.errors import UserError

FORMAT = "a line is SOURCE<TAB>TARGET, or SOURCE<TAB>TARGET|TARGET where either may be used"
# Letters of a script without spaces begin and end a word anywhere.
NO_LETTER_BEFORE, NO_LETTER_AFTER = rf"(?<![^\W{SPACELESS.pattern[1:-1]}])", rf"(?![^\W{SPACELESS.pattern[1:-1]}])"
BEFORE, AFTER = re.compile(NO_LETTER_BEFORE), re.compile(NO_LETTER_AFTER)
SHORTEST_STEM, LONGEST_ENDING = 4, 3  # letters of a word that may have an ending, and of the ending


class Entry(NamedTuple):
    """A line of the file."""

    source: str
    targets: tuple[str, ...]
    line: int


class Match(NamedTuple):
    """Where a source term stands in a text."""

    start: int
    end: int
    entry: Entry


@dataclass(frozen=True)
class Glossary:
    """The terms of a file by their source; `ignore_case`: the tokenizer makes all letters small."""

    entries: dict[str, Entry]
    ignore_case: bool = False
    in_small_letters: dict[str, Entry] = field(init=False)
    lengths: list[int] = field(init=False)  # in characters, longest first

    def __post_init__(self) -> None:
        small = {source.lower(): entry for source, entry in reversed(self.entries.items())}  # the first line wins
        object.__setattr__(self, "in_small_letters", small)
        object.__setattr__(self, "lengths", sorted({len(key) for key in (*self.entries, *small)}, reverse=True))

    def find(self, text: str) -> list[Match]:
        """The terms of a text, from left to right."""
        matches, position = [], 0
        any_case = self.ignore_case or has_one_case(text)
        while position < len(text):
            match = self.match_at(text, position, any_case) if BEFORE.match(text, position) else None
            matches += [match] if match else []
            position = match.end if match else position + 1
        return matches

    def match_at(self, text: str, start: int, any_case: bool) -> Match | None:
        """The longest term that begins here."""
        for length in self.lengths:
            end = start + length
            if end <= len(text) and AFTER.match(text, end):
                found = text[start:end]
                entry = self.in_small_letters.get(found.lower()) if any_case else self.entries.get(found)
                if entry is None and found[:1].isupper() and SENTENCE_END.search(text, 0, start):
                    entry = self.entries.get(found[:1].lower() + found[1:])
                if entry:
                    return Match(start, end, entry)
        return None

    def digest(self) -> str:
        """A SHA-256 hash of the terms."""
        lines = sorted(f"{entry.source}\t{'|'.join(entry.targets)}" for entry in self.entries.values())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def unprotect(self, protected: Protected) -> Protected:
        """A source whose terms have no placeholders: the model reads them, and the glossary says what to write."""
        if not protected.spans:
            return protected
        text, origin = "", []
        for character in protected.text:
            shown = protected.spans.get(character, character)
            text += shown
            origin += [character] * len(shown)
        found = {each for match in self.find(text) for each in origin[match.start : match.end]}
        return unprotected(protected, found & protected.spans.keys())


def has_one_case(text: str) -> bool:
    """Whether a text has only capitals or only small letters, so that case says nothing."""
    return text in (text.upper(), text.lower())


def inflects(term: str) -> bool:
    """Whether the last word of a target term may have an ending."""
    last = re.split(r"\W", term)[-1]
    return len(last) >= SHORTEST_STEM and last.isalpha() and not SPACELESS.search(last)


@cache
def target_pattern(term: str) -> re.Pattern[str]:
    """What finds a target term in a translation, in any case, with or without a short ending of its last word."""
    ending = rf"(?:[^\W\d_]{{0,{LONGEST_ENDING}}})" if inflects(term) else ""
    return re.compile(f"{NO_LETTER_BEFORE}({re.escape(term)}){ending}{NO_LETTER_AFTER}", re.IGNORECASE)


def find_target(term: str, text: str, any_case: bool) -> Iterator[tuple[int, int]]:
    """The spans of a target term, or of a form with a short ending, in a translation."""
    for match in target_pattern(term).finditer(text):
        starts = match[1][:1].isupper() and SENTENCE_END.search(text, 0, match.start())
        if any_case or match[1] == term or (starts and match[1][1:] == term[1:]):
            yield match.span()


def read_glossary(path: Path, ignore_case: bool = False) -> Glossary:
    """Read a file of terms; raises UserError with the number of the first line that is wrong."""
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise UserError(f"The glossary {path} cannot be read: {error.strerror or error}.") from None
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines, 1):
        entry = read_entry(line, f"{path}, line {number},", number)
        if entry is None:
            continue
        before = entries.setdefault(entry.source, entry)
        if before.targets != entry.targets:
            raise UserError(
                f"{path}, line {number}, gives '{entry.source}' another target than line {before.line}; "
                f"if either may be used, write {'|'.join(dict.fromkeys(before.targets + entry.targets))} in one line."
            )
    if not entries:
        raise UserError(f"The glossary {path} has no terms; {FORMAT}.")
    return Glossary(entries, ignore_case)


def read_entry(line: bytes, where: str, number: int) -> Entry | None:
    """A line of the file, None if it is blank."""
    try:
        text = unicodedata.normalize("NFC", line.decode("utf-8")).rstrip("\r")
    except UnicodeDecodeError:
        raise UserError(f"{where} is not UTF-8.") from None
    if not text.strip():
        return None
    if text.count("\t") != 1:
        count = text.count("\t")
        raise UserError(f"{where} has {count or 'no'} tab{'s' * (count > 1)}; {FORMAT}.")
    source, target = text.split("\t")
    targets = tuple(" ".join(part.split()) for part in target.split("|"))
    source = " ".join(source.split())
    if not source or not all(targets):
        raise UserError(f"{where} has an empty {'target' if source else 'source'}; {FORMAT}.")
    return Entry(source, tuple(dict.fromkeys(targets)), number)
