"""What the readers of XML share: parsing, writing, and elements inside a sentence.

They read with lxml. translate-toolkit does not keep the segments and the inline elements of XLIFF,
and cannot read Word.

A reader makes items of what is inside a paragraph. `Inline` makes a field of the items: an element
becomes <g3>…</g3>, <x4/> or <s5>…</s5>, and its number says which of the field's things stands
there. The translation has the same tags among its words. It is parsed again, and the reader puts
the things where their numbers are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from html import escape
from typing import Any

from nmt.documents.html import LONGEST_BLOCK
from nmt.documents.segment import (
    WITHOUT_WORDS,
    Field,
    Left,
    Malformed,
    Part,
    Segment,
    SegmentBuilder,
    TagKind,
    has_letters,
    written,
)
from nmt.errors import UserError, install_extra

SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# Characters that XML cannot have, not even as a reference.
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ASCII = ("ascii", "us-ascii")
# What stands before the root element.
PROLOG = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>)*",
    re.DOTALL,
)
# Elements with text that may be inside each other in a paragraph; a deeper one is not taken apart.
DEEPEST_PAIR = 25
# Things with a beginning and an end that may be open at a time. Both numbers together stay below
# the limit for placing tags.
MOST_SIDES = 15


def etree() -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise UserError(f"XML is read by lxml: {install_extra('documents')}.") from None
    return etree


# --------------------------------------------------------------------------------------------------
# Files


def parse(data: bytes, name: str = "the file") -> Any:
    """The root element; raises Malformed, and UserError without lxml."""
    parser = etree().XMLParser(resolve_entities=False, no_network=True, strip_cdata=False)
    try:
        root = etree().fromstring(data, parser)
    except etree().XMLSyntaxError as error:
        raise Malformed(
            f"{name} is not well-formed XML ({problem_of(error)})", line=error.lineno
        ) from None
    except (ValueError, LookupError) as error:
        raise Malformed(f"{name} is not well-formed XML ({error})") from None
    document_type = root.getroottree().docinfo.internalDTD
    if document_type is not None and list(document_type.iterentities()):
        raise Malformed(f"{name} has entities of its own, which is refused")
    return root


def problem_of(error: Any) -> str:
    """What lxml says of a malformed file; in plain words, if the file is only too deep or long."""
    message = str(error.msg)
    if "Excessive depth" in message:
        return "more than 256 elements are inside each other"
    if "XML_PARSE_HUGE" in message:
        return "one text or name in it is longer than 10 million characters"
    return message


def declared_encoding(root: Any) -> str:
    return (root.getroottree().docinfo.encoding or "utf-8").lower()


def is_utf8(root: Any) -> bool:
    """Whether a file says that it is UTF-8, or a part of it."""
    return declared_encoding(root) in ("utf-8", "utf8", *ASCII)


def serialize(root: Any, data: bytes) -> bytes:
    """A changed tree as bytes.

    If `data`, from which it was read, is UTF-8, what stands around the root element stays.
    """
    tree = root.getroottree()
    encoding = declared_encoding(root)
    if not is_utf8(root):
        standalone = tree.docinfo.standalone or None
        return bytes(
            etree().tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=standalone)
        )
    written_as = "ASCII" if encoding in ASCII else "UTF-8"
    new = bytes(etree().tostring(tree, encoding=written_as, xml_declaration=False))
    start = prolog_end(data)
    body = new[prolog_end(new) : new.rindex(b">") + 1]
    if b"\r\n" in data[start:]:
        body = body.replace(b"\n", b"\r\n")
    return data[:start] + body + data[data.rindex(b">") + 1 :]


def prolog_end(data: bytes) -> int:
    match = PROLOG.match(data)
    return match.end() if match else 0


def local(element: Any) -> str:
    """The name of an element without its namespace; empty for a comment, and for None."""
    tag = getattr(element, "tag", None)
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attributes(element: Any) -> dict[str, str]:
    """The attributes by their names without namespaces."""
    return {name.rpartition("}")[2]: value for name, value in element.attrib.items()}


def without_illegal(text: str) -> str:
    return ILLEGAL.sub("", text)


def escape_text(text: str) -> str:
    """A text as XML writes it, without the characters that XML cannot have."""
    return escape(without_illegal(text), quote=False)


# --------------------------------------------------------------------------------------------------
# Inside a paragraph


class Kind(Enum):
    """What an item is in the sentence."""

    TEXT = auto()
    PAIR = auto()  # an element with text of the sentence inside
    UNIT = auto()  # not translated, with a place in the sentence
    POINT = auto()
    BREAK = auto()
    SEPARATOR = auto()  # between two texts of one paragraph
    OPEN = auto()  # one of two elements that are the sides of something
    CLOSE = auto()
    END = auto()  # between two paragraphs


@dataclass
class Item:
    """A text or an element inside a paragraph."""

    kind: Kind
    thing: Any = None  # what the reader puts into the translation
    text: str = ""  # of TEXT
    shown: str = ""  # what a reader sees of a UNIT
    name: str = ""  # OPEN and CLOSE of one name belong together
    # What is inside a PAIR. In a UNIT or POINT: PAIRs, which are texts of their own.
    items: list[Item] = field(default_factory=list)
    parts: Sequence[Part] | None = None  # how an item without a thing is written


def has_text(items: Sequence[Item]) -> bool:
    """Whether the sentence has words among these items."""
    for item in items:
        if item.text.strip():
            return True
        if item.kind == Kind.PAIR and has_text(item.items):
            return True
    return False


class InlineBuilder(SegmentBuilder):
    """A shortcode, such as [b], is a point: its two sides may be in different elements."""

    def add_kept(self, text: str, match: re.Match[str]) -> int:
        if match["opens"] or match["opens_alone"] or match["closes"]:
            self.add_tag(TagKind.POINT, [self.escape(match[0])])
            return match.end()
        return super().add_kept(text, match)


class Inline:
    """Makes a field of items, and keeps their things by number."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self.builder: SegmentBuilder = InlineBuilder(escape_text)
        self.raw: list[str] = []  # how what the builder has read is written

    def field(self, items: Sequence[Item], fill: Callable[[Any], object]) -> Field:
        """These items as a field; `fill` gets an element with their translation."""
        parts: list[Part] = []
        for block in divide(items):
            parts += self.block(block)
        return Field(parts, lambda text: fill(parse(f"<text>{text}</text>".encode())))

    def thing(self, child: Any) -> Any:
        """The thing that an element of the translation stands for."""
        return self.things[int(child.tag[1:])]

    def block(self, items: list[Item]) -> list[Part]:
        """The parts of some items: one segment, and what is at its edges."""
        # What stands at the edges need not be placed among the words.
        partners = find_partners(items)
        first = 0
        last = len(items)
        while first < last and is_edge(items[first], first in partners):
            first += 1
        while first < last and is_edge(items[last - 1], last - 1 in partners):
            last -= 1
        before = self.edges(items[:first])
        after_items = items[last:]
        items = items[first:last]

        # The spaces around the words stay outside of the segment too.
        lead = ""
        if items and items[0].kind == Kind.TEXT:
            text = items[0].text
            lead = text[: len(text) - len(text.lstrip())]
            items[0] = Item(Kind.TEXT, text=text.lstrip())
        trail, depth = take_end_space(items)

        self.builder = InlineBuilder(escape_text)
        self.raw = []
        self.add(items)
        if depth:  # the space stays in the pair that it ends
            self.raw.insert(len(self.raw) - depth, escape_text(trail))
            self.builder.tags[-depth].parts.insert(0, escape_text(trail))
            trail = ""
        segment = counted(self.builder.build("".join(self.raw)), plain_text(items))
        after = self.edges(after_items)
        return [*before, escape_text(lead), segment, escape_text(trail), *after]

    def edges(self, items: Sequence[Item]) -> list[Part]:
        """The parts of what stands before or behind the words of a paragraph."""
        parts: list[Part] = []
        for item in items:
            if item.kind == Kind.TEXT:
                parts.append(escape_text(item.text))
            else:
                parts += self.parts_of(item)
        return parts

    def add(self, items: Sequence[Item], sides: int = 0) -> None:
        """Hand items to the builder; `sides`: how many OPENs around them have no CLOSE yet."""
        partners = find_partners(items)
        names: dict[int, str] = {}  # the names of tags that are open here, by their CLOSE
        for index, item in enumerate(items):
            if item.kind == Kind.TEXT:
                self.raw.append(escape_text(item.text))
                self.builder.add_text(item.text)
                continue
            if item.kind == Kind.PAIR:
                self.add_pair(item, sides)
                continue
            parts = self.parts_of(item)
            self.raw.append(written(parts))
            kind = item.kind
            if kind == Kind.UNIT:
                self.builder.add_unit(parts, item.shown)
            elif kind == Kind.BREAK:
                self.builder.add_break(written(parts))
            elif kind == Kind.SEPARATOR and isinstance(parts[0], str):
                self.builder.add_break(parts[0], separates=True)
            elif kind == Kind.OPEN and index in partners and sides < MOST_SIDES:
                name = f"sides {len(self.builder.tags)}"
                names[partners[index]] = name
                self.builder.add_tag(TagKind.OPEN, parts, name)
                sides += 1
            elif kind == Kind.CLOSE and index in names:
                self.builder.add_tag(TagKind.CLOSE, parts, names[index])
                sides -= 1
            else:
                self.builder.add_tag(TagKind.POINT, parts)

    def add_pair(self, item: Item, sides: int) -> None:
        number = self.number(item.thing)
        self.raw.append(f"<g{number}>")
        self.builder.add_tag(TagKind.OPEN, [f"<g{number}>"], f"pair {number}")
        self.add(item.items, sides)
        self.builder.add_tag(TagKind.CLOSE, [f"</g{number}>"], f"pair {number}")
        self.raw.append(f"</g{number}>")

    def parts_of(self, item: Item) -> list[Part]:
        """How an item other than a text or a pair of the sentence is written."""
        if item.parts is not None:
            return list(item.parts)
        number = self.number(item.thing)
        if not item.items:
            return [f"<x{number}/>"]
        parts: list[Part] = [f"<x{number}>"]
        for text in item.items:
            text_number = self.number(text.thing)
            inline = Inline()
            inline.things = self.things
            parts.append(f"<s{text_number}>")
            for block in divide(text.items):
                parts += inline.block(block)
            parts.append(f"</s{text_number}>")
        return [*parts, f"</x{number}>"]

    def number(self, thing: Any) -> int:
        self.things.append(thing)
        return len(self.things) - 1


def plain_text(items: Sequence[Item]) -> str:
    return "".join(item.text + plain_text(item.items) for item in items)


def counted(part: Part, text: str) -> Part:
    """The part of a text; counted as left if nothing of it is translated, such as a link alone."""
    is_translated = isinstance(part, Segment)
    if is_translated or isinstance(part, Left) or not has_letters(text):
        return part
    return Left(str(part), WITHOUT_WORDS)


def take_end_space(items: Sequence[Item], depth: int = 0) -> tuple[str, int]:
    """Remove the space at the end of items; the space, and how many pairs it is in."""
    if not items:
        return "", 0
    last = items[-1]
    if last.kind == Kind.PAIR:
        return take_end_space(last.items, depth + 1)
    space = last.text[len(last.text.rstrip()) :]
    last.text = last.text.rstrip()
    return space, depth if space else 0


def is_edge(item: Item, is_paired: bool) -> bool:
    """Whether an item at the edge of a paragraph need not be placed among its words."""
    if item.kind in (Kind.OPEN, Kind.CLOSE):
        return not is_paired
    if item.kind == Kind.TEXT:
        return not item.text.strip()
    return item.kind in (Kind.BREAK, Kind.POINT, Kind.END)


def divide(items: Sequence[Item]) -> list[list[Item]]:
    """The items of each paragraph; of one that is too long, of each of its parts."""
    blocks: list[list[Item]] = [[]]
    length = 0
    for item in items:
        for part in divide_text(item):
            blocks[-1].append(part)
            length += 1 + size(part)
            if part.kind == Kind.END or length > LONGEST_BLOCK:
                blocks.append([])
                length = 0
    return blocks


def divide_text(item: Item) -> list[Item]:
    """A text that is too long as several, each of whole sentences if there are any."""
    text = item.text
    if item.kind != Kind.TEXT or len(text) <= LONGEST_BLOCK:
        return [item]
    parts = []
    while len(text) > LONGEST_BLOCK:
        ends = [text.rfind(mark, 1, LONGEST_BLOCK) + 1 for mark in (". ", "! ", "? ", "。")]
        end = max(ends) or text.rfind(" ", 1, LONGEST_BLOCK) + 1 or LONGEST_BLOCK
        parts.append(Item(Kind.TEXT, text=text[:end]))
        text = text[end:]
    parts.append(Item(Kind.TEXT, text=text))
    return parts


def size(item: Item) -> int:
    """The characters of the sentence in an item."""
    return len(item.text) + sum(map(size, item.items))


def find_partners(items: Sequence[Item]) -> dict[int, int]:
    """For each OPEN and CLOSE the index of its partner; those that cross others have none."""
    opened: list[int] = []
    names = Counter[str]()  # of what is opened
    partners: dict[int, int] = {}
    for index, item in enumerate(items):
        if item.kind == Kind.OPEN:
            opened.append(index)
            names[item.name] += 1
        elif item.kind == Kind.CLOSE and names[item.name]:
            # What was opened since then crosses this pair.
            while items[opened[-1]].name != item.name:
                names[items[opened.pop()].name] -= 1
            partner = opened.pop()
            names[item.name] -= 1
            partners[partner] = index
            partners[index] = partner
    return partners


class TreeInline(Inline):
    """Items of an element whose texts stand among its children, as in XLIFF and OpenDocument."""

    def fill(self, element: Any, new: Any) -> None:
        """Give an element the content of a translation."""
        element[:] = []
        element.text = new.text
        for child in new:
            thing = self.thing(child)
            things = thing if isinstance(thing, list) else [thing]
            element.extend(things)
            if child.tag.startswith("x"):
                for text in child:
                    self.fill(self.thing(text), text)
            else:
                self.fill(self.holder(things[0]), child)
            things[-1].tail = child.tail

    def holder(self, element: Any) -> Any:
        """The element with the text of a pair."""
        return element


def attribute_field(element: Any, name: str) -> Field:
    """The value of an attribute as a field."""
    return plain_field(element.get(name, ""), lambda text: element.set(name, text))


def plain_field(value: str, save: Callable[[str], object], is_line: bool = True) -> Field:
    """A text without elements as a field; it is one line, or (`is_line` false) its lines stay."""
    parts: list[Part] = []
    for line in [value] if is_line else re.split(r"(\n)", value):
        text = line.strip()
        start = line.find(text)
        builder = SegmentBuilder(without_illegal)
        builder.add_text(text)
        parts += [line[:start], counted(builder.build(text), text), line[start + len(text) :]]
    return Field(parts, save)


def rewritten(part: Part, write: Callable[[str], str]) -> Part:
    """A part of another reader, as it is written inside of XML."""
    if isinstance(part, Left):
        return Left(write(part), part.reason)
    if isinstance(part, Segment):
        escape = part.escape
        part.raw = write(part.raw)
        part.escape = lambda text: write(escape(text))
        return part
    return write(part)
