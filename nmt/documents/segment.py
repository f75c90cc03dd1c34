"""What a format hands over for translation: plain text, and the tags that were taken out of it.

A field of a document is a list of parts: a string is written as it is, a `Segment` is translated. The strings and the
`raw` of the segments, joined, are the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice, takewhile
from typing import Any

from nmt.data.text_filter import PATTERNS

FIRST_UNIT, MOST_UNITS = 0xF2A0, 64  # characters of the private use area that stand for units
UNITS = re.compile(f"[{chr(FIRST_UNIT)}-{chr(FIRST_UNIT + MOST_UNITS - 1)}]")
SPACES = re.compile(r"[ \t\r\n\f]+")
BLANK = " \t\r\n\f"
PLACEHOLDER = f"{PATTERNS['link']}|{PATTERNS['variable']}|%n(?!\\w)|%L?\\d+"  # %n and %1: of Qt
ICU = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,")  # {n, plural, one {# dog} other {# dogs}}
BRANCH = re.compile(r"\s*(?:offset:\d+\s*)?(?:=\d+|[\w-]+)\s*\{")
BRACES = re.compile(r"'[{}#|][^']*'|[{}]")
KEPT = re.compile(rf"{ICU.pattern}|{PLACEHOLDER}|&(?:#\d+|\w+);|{UNITS.pattern}")  # in plain text


class TagKind(Enum):
    OPEN = auto()
    CLOSE = auto()
    POINT = auto()  # it contains nothing: an image, an empty element
    BREAK = auto()  # it ends a line and stands instead of a space


@dataclass
class Tag:
    """Markup at a position of the plain text."""

    kind: TagKind
    position: int
    parts: list[Part]  # as it is written; an attribute that is translated is a segment
    name: str = ""  # OPEN and CLOSE of one name belong together


@dataclass
class Segment:
    """A block of text with its markup: a paragraph, a heading, a cell, a subtitle."""

    raw: str  # as it is in the document
    text: str  # plain, each run of spaces and line breaks as one space; a unit is one private character
    tags: list[Tag] = field(default_factory=list)
    units: dict[str, list[Part]] = field(default_factory=dict)  # what is not translated, by its character
    escape: Callable[[str], str] = str  # from plain text to how the format writes it
    layout: Callable[[str], str] = str  # from the written translation to its lines
    translation: str | None = None  # as it is written


Part = str | Segment


class Malformed(Exception):
    """Text is not what its format says, at the character `position` or in `line`."""

    def __init__(self, problem: str, position: int | None = None, line: int | None = None) -> None:
        super().__init__(problem)
        self.position, self.line = position, line


def segments(parts: Sequence[Part]) -> Iterator[Segment]:
    """The segments among these parts; those inside the tags and units of another one before it."""
    for part in parts:
        if isinstance(part, Segment):
            for inner in (*(tag.parts for tag in part.tags), *part.units.values()):
                yield from segments(inner)
            yield part


def written(parts: Sequence[Part]) -> str:
    return "".join(
        part if isinstance(part, str) else part.raw if part.translation is None else part.translation for part in parts
    )


def has_letters(text: str) -> bool:
    return any(character.isalpha() and not UNITS.match(character) for character in text)


class SegmentBuilder:
    """Collects plain text and tags from left to right."""

    def __init__(self) -> None:
        self.text = ""
        self.tags: list[Tag] = []
        self.units: dict[str, list[Any]] = {}
        self.plain_units: set[str] = set()
        self.space = ""  # as it was written, of the space that the text ends with
        self.formula = ""  # the unit that the letters after it belong to

    def add_text(self, text: str) -> None:
        """Plain text, entities decoded; what must not be translated in it, such as %s or a URL, becomes a unit."""
        rest = re.match(r"\w+", text)
        if rest and self.text and self.text[-1] == self.formula:
            self.units[self.formula].append(rest[0])
            text = text[rest.end() :]
        end = 0
        for match in KEPT.finditer(text):
            if match.start() < end:  # inside an ICU message
                continue
            self.add_plain(text[end : match.start()])
            parts, end = icu_parts(text, match.start()) if ICU.match(match[0]) else ([match[0]], match.end())
            self.add_unit(parts, is_plain=True)
        self.add_plain(text[end:])

    def add_plain(self, text: str) -> None:
        words = text.lstrip(BLANK)
        if len(words) < len(text):
            self.add_space(text[: len(text) - len(words)])
        if words:
            self.text += SPACES.sub(" ", words)
            self.space = words[len(words.rstrip(BLANK)) :]

    def add_space(self, space: str) -> None:
        """One space in the text; where it has one, the last tag keeps these, but not the end of a pair with words."""
        if self.text and self.text[-1] != " ":
            self.text, self.space = f"{self.text} ", space
        elif self.tags and (last := self.tags[-1]).position == len(self.text):
            here = takewhile(lambda tag: tag.position == len(self.text), islice(reversed(self.tags), 1, None))
            if last.kind != TagKind.CLOSE or any(tag.name == last.name for tag in here):
                last.parts.append(space)

    def add_tag(self, kind: TagKind, parts: Sequence[Part], name: str = "") -> None:
        self.tags.append(Tag(kind, len(self.text), list(parts), name))

    def add_break(self, raw: str) -> None:
        """A line break; the spaces on both sides belong to it. Before any text it is a point."""
        last = self.tags[-1] if self.tags else None
        if not self.text:
            self.add_tag(TagKind.POINT, [raw])
        elif last and last.kind == TagKind.BREAK and last.position == len(self.text):
            last.parts.append(raw)
        else:
            before = self.space if self.text[-1] == " " else ""
            self.text = f"{self.text.removesuffix(' ')} "
            self.add_tag(TagKind.BREAK, [before, raw])

    def add_unit(self, parts: Sequence[Any], is_plain: bool = False) -> None:
        """What is not translated but has a place in the sentence, such as code; `is_plain`: to be escaped."""
        if len(self.units) == MOST_UNITS:
            self.add_tag(TagKind.POINT, parts)
            return
        character = chr(FIRST_UNIT + len(self.units))
        self.plain_units |= {character} if is_plain else set()
        self.units[character] = list(parts)
        self.text += character

    def add_mark(self, raw: str, before_word: bool) -> None:
        """A footnote mark or an index stays behind its word; inside a word or a number all is one unit (H₂O)."""
        word = re.search(r"\w+$", self.text)
        if word and any(tag.position > word.start() for tag in self.tags):
            word = None
        if self.text and self.text[-1] == self.formula:
            self.units[self.formula].append(raw)
        elif word and (before_word or word[0].isdecimal()):
            self.text = self.text[: word.start()]
            self.add_unit([word[0], raw])
            self.formula = self.text[-1]
        else:
            self.add_tag(TagKind.POINT, [raw])

    def build(self, raw: str, escape: Callable[[str], str] = str, layout: Callable[[str], str] = str) -> Part:
        """The segment, without space at its end; `raw` where there is nothing to translate."""
        text = self.text.rstrip(" ")
        last = [tag for tag in self.tags if tag.position > len(text)]
        if last and last[0].kind in (TagKind.OPEN, TagKind.POINT):
            last[0].parts.insert(0, self.space)
        for tag in self.tags:
            tag.position = min(tag.position, len(text))
        for character in self.plain_units:
            self.units[character] = [
                escape(part) if isinstance(part, str) else part[0].build(escape(part[1]), escape)
                for part in self.units[character]
            ]
        segment = Segment(raw, text, self.tags, self.units, escape, layout)
        if not has_letters(text) and next(segments([segment])) is segment:
            return raw
        self.enclose_units(text)
        return segment

    def enclose_units(self, text: str) -> None:
        """Make tags around nothing but a unit a part of it, such as a link around a URL."""
        index = 0
        while index + 1 < len(self.tags):
            tag, following = self.tags[index : index + 2]
            unit = text[tag.position : following.position]
            pair = tag.kind == TagKind.OPEN and following.kind == TagKind.CLOSE and tag.name == following.name
            if pair and unit in self.units:
                self.units[unit] = [*tag.parts, *self.units[unit], *following.parts]
                del self.tags[index : index + 2]
                index = max(index - 1, 0)
            else:
                index += 1


def icu_parts(text: str, start: int) -> tuple[list[Any], int]:
    """The parts of an ICU message, branches as (SegmentBuilder, text), and its end; a broken one is one part."""
    header = ICU.match(text, start)
    assert header is not None
    parts: list[Any] = [header[0]]
    position = header.end()
    while branch := BRANCH.match(text, position):
        depth = 1
        for brace in BRACES.finditer(text, branch.end()):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                break
        if depth:
            break
        builder = SegmentBuilder()
        raw = text[branch.end() : brace.start()]
        for piece in re.split("(#)", raw) if "plural" in header[0] or "ordinal" in header[0] else [raw]:
            if piece == "#":
                builder.add_unit(["#"])
            else:
                builder.add_text(piece)
        lead = raw[: len(raw) - len(raw.lstrip())]
        parts += [branch[0] + lead, (builder, raw.strip()), raw[len(raw.rstrip()) :] if raw.strip() else "", "}"]
        position = brace.end()
    last = re.compile(r"\s*\}").match(text, position)
    return ([*parts, last[0]], last.end()) if last and len(parts) > 1 else ([text[start:]], len(text))
