"""What a format hands over for translation: plain text, and the tags that were taken out of it.

A document is a sequence of parts: a string is written as it is, a `Segment` is translated. The strings and the `raw`
of the segments, joined, are the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from nmt.data.text_filter import PATTERNS

FIRST_UNIT, MOST_UNITS = 0xF2A0, 64  # characters of the private use area that stand for units
UNITS = re.compile(f"[{chr(FIRST_UNIT)}-{chr(FIRST_UNIT + MOST_UNITS - 1)}]")
SPACES = re.compile(r"[ \t\r\n\f]+")
BLANK = " \t\r\n\f"
KEPT = re.compile(f"{PATTERNS['link']}|{PATTERNS['variable']}|{UNITS.pattern}|&(?:#\\d+|\\w+);")


class TagKind(Enum):
    """What a tag does."""

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


Part = str | Segment


class Malformed(Exception):
    """Text is not what its format says; `position` is that of a character."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem, self.position = problem, position


def nested_segments(segment: Segment) -> Iterator[Segment]:
    """The segment, and those in its tags and units."""
    yield segment
    for parts in [*(tag.parts for tag in segment.tags), *segment.units.values()]:
        for part in parts:
            if isinstance(part, Segment):
                yield from nested_segments(part)


class SegmentBuilder:
    """Collects plain text and tags from left to right."""

    def __init__(self) -> None:
        self.text = ""
        self.tags: list[Tag] = []
        self.units: dict[str, list[Part]] = {}
        self.plain_units: set[str] = set()
        self.space = ""  # as it was written, of the space that the text ends with

    def add_text(self, text: str) -> None:
        """Plain text, entities decoded; what must not be translated in it, such as %s or a URL, becomes a unit."""
        end = 0
        for match in KEPT.finditer(text):
            self.add_plain(text[end : match.start()])
            length = len(match[0])
            self.add_unit([match[0][:length]], is_plain=True)
            end = match.start() + length
        self.add_plain(text[end:])

    def add_plain(self, text: str) -> None:
        """Text that is translated."""
        words = text.lstrip(BLANK)
        if len(words) < len(text):
            self.add_space(text[: len(text) - len(words)])
        if words:
            self.text += SPACES.sub(" ", words)
            self.space = words[len(words.rstrip(BLANK)) :]

    def add_space(self, space: str) -> None:
        """One space in the text, or none where it has one; then the last tag keeps the spaces."""
        if self.text and self.text[-1] != " ":
            self.text, self.space = f"{self.text} ", space
        elif self.tags and self.tags[-1].position == len(self.text) and self.tags[-1].kind != TagKind.CLOSE:
            self.tags[-1].parts.append(space)

    def add_tag(self, kind: TagKind, parts: list[Part], name: str = "") -> None:
        """A tag at the end of the text so far."""
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

    def add_unit(self, parts: list[Part], is_plain: bool = False) -> None:
        """What is not translated but has a place in the sentence, such as code; `is_plain`: to be escaped."""
        if len(self.units) == MOST_UNITS:
            self.add_tag(TagKind.POINT, parts)
            return
        character = chr(FIRST_UNIT + len(self.units))
        self.plain_units |= {character} if is_plain else set()
        self.units[character] = parts
        self.text += character

    @property
    def has_words(self) -> bool:
        """Whether there is something to translate."""
        return has_letters(self.text)

    def build(self, raw: str, escape: Callable[[str], str] = str, layout: Callable[[str], str] = str) -> Segment:
        """The segment, without space at its end."""
        text = self.text.rstrip(" ")
        last = [tag for tag in self.tags if tag.position > len(text)]
        if last and last[0].kind in (TagKind.OPEN, TagKind.POINT):
            last[0].parts.insert(0, self.space)
        for tag in self.tags:
            tag.position = min(tag.position, len(text))
        for character in self.plain_units:
            self.units[character] = [escape(str(part)) for part in self.units[character]]
        self.enclose_units(text)
        return Segment(raw, text, self.tags, self.units, escape, layout)

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


def has_letters(text: str) -> bool:
    """Whether a text has letters outside its units."""
    return any(character.isalpha() for character in UNITS.sub("", text))


def units_to_points(segment: Segment) -> None:
    """Make a point of each unit, for a model that would not copy it."""
    builder, start = SegmentBuilder(), 0
    found = [(tag.position, 0, tag) for tag in segment.tags]
    for match in UNITS.finditer(segment.text):
        found.append((match.start(), 1, Tag(TagKind.POINT, match.start(), segment.units[match[0]])))
    for position, width, tag in sorted(found, key=lambda each: each[:2]):
        builder.add_text(segment.text[start:position])
        builder.add_tag(tag.kind, tag.parts, tag.name)
        start = position + width
    builder.add_text(segment.text[start:])
    plain = builder.build(segment.raw)
    segment.text, segment.tags, segment.units = plain.text, plain.tags, {}
