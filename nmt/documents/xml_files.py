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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain
from typing import Any

from nmt.corpus.words import has_letters
from nmt.documents.html import LONGEST_BLOCK
from nmt.documents.segment import (
    UTF_8,
    WITHOUT_WORDS,
    Field,
    Kind,
    Left,
    Malformed,
    Part,
    Segment,
    SegmentBuilder,
    Tag,
    find_partners,
    message_part,
    message_spans,
    text_part,
    written,
)
from nmt.errors import needs_extra

SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# Characters that XML cannot have, not even as a reference.
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What stands before the root element.
PROLOG = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>)*",
    re.DOTALL,
)
MARK = re.compile(r"</?[gsx]\d+/?>")  # it stands for an element
# Elements with text that may be inside each other in a paragraph; a deeper one is not taken apart.
DEEPEST_PAIR = 25
# Things with a beginning and an end that may be open at a time. Both numbers together stay below
# the limit for placing tags.
MOST_SIDES = 15


def etree() -> Any:
    with needs_extra("documents"):
        from lxml import etree
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


def serialize(root: Any, data: bytes) -> bytes:
    """A changed tree as bytes.

    If `data`, from which it was read, is UTF-8, what stands around the root element stays.
    """
    tree = root.getroottree()
    encoding = declared_encoding(root)
    if encoding not in UTF_8:
        standalone = tree.docinfo.standalone or None
        return bytes(
            etree().tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=standalone)
        )
    written_as = "ASCII" if "ascii" in encoding else "UTF-8"
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


def has_characters(items: Sequence[Item]) -> bool:
    """Whether a pair has any text; a space is one, as in a tracked change."""
    return any(item.text or item.kind == Kind.PAIR for item in items)


class InlineBuilder(SegmentBuilder):
    """A shortcode, such as [b], is a point: its two sides may be in different elements."""

    def __init__(self) -> None:
        super().__init__(escape_text)
        self.raw: list[str] = []  # how what it has read is written

    def add_kept(self, text: str, match: re.Match[str]) -> int:
        if match["opens"] or match["opens_alone"] or match["closes"]:
            self.add(Kind.POINT, [self.escape(match[0])])
            return match.end()
        return super().add_kept(text, match)

    def add_markup(
        self, kind: Kind, parts: Sequence[Part], name: str = "", shown: str = ""
    ) -> None:
        self.raw.append(written(parts))
        self.add(kind, parts, name, shown)


@dataclass
class Inline:
    """Makes a field of items, and keeps their things by number."""

    things: list[Any] = field(default_factory=list, init=False)
    # The numbers of what begins a range, by its name, and of both sides of each range
    opened: dict[str, int] = field(default_factory=dict, init=False)
    ranges: list[tuple[int, int]] = field(default_factory=list, init=False)

    def make_field(self, items: Sequence[Item], fill: Callable[[Any], object]) -> Field:
        """These items as a field; `fill` gets an element with their translation."""
        first = len(self.ranges)
        parts = self.paragraph_parts(items)
        ranges = self.ranges[first:]

        def save(text: str) -> None:
            new = parse(f"<text>{text}</text>".encode())
            order_sides(new, ranges)
            fill(new)

        return Field(parts, save)

    def paragraph_parts(self, items: Sequence[Item]) -> list[Part]:
        parts: list[Part] = []
        for block in divide(items):
            parts += self.block_parts(block)
        return parts

    def thing(self, child: Any) -> Any:
        """The thing that an element of the translation stands for."""
        return self.things[int(child.tag[1:])]

    def block_parts(self, items: list[Item]) -> list[Part]:
        """The parts of some items: one segment, and what is at its edges."""
        # What stands at the edges need not be placed among the words.
        partners = find_partners(items)
        paired = {*partners, *partners.values()}
        first = 0
        last = len(items)
        while first < last and is_edge(items[first], first in paired):
            first += 1
        while first < last and is_edge(items[last - 1], last - 1 in paired):
            last -= 1
        before = list(chain.from_iterable(map(self.parts_of, items[:first])))
        after_items = items[last:]
        items = items[first:last]

        # The spaces around the words stay outside of the segment too.
        lead = ""
        if items and items[0].kind == Kind.TEXT:
            text = items[0].text
            lead = text[: len(text) - len(text.lstrip())]
            items[0] = Item(Kind.TEXT, text=text.lstrip())
        if part := self.message_part(items):
            return [*before, escape_text(lead), part, *chain(*map(self.parts_of, after_items))]
        trail, depth = take_end_space(items)

        builder = InlineBuilder()
        self.add(builder, items)
        if depth:  # the space stays in the pair that it ends
            builder.raw.insert(len(builder.raw) - depth, escape_text(trail))
            builder.tags[-depth].parts.insert(0, escape_text(trail))
            trail = ""
        segment = counted(builder.build("".join(builder.raw)), plain_text(items))
        after = chain.from_iterable(map(self.parts_of, after_items))
        return [*before, escape_text(lead), segment, escape_text(trail), *after]

    def message_part(self, items: Sequence[Item]) -> Part | None:
        """These items as one segment, if they are a message of ICU with elements inside."""
        text = plain_text(items)
        if len(items) == 1 or not any(message_spans(text)):
            return None
        part = message_part(list(self.tags_and_texts(items)), InlineBuilder())
        return part and counted(part, text)

    def tags_and_texts(self, items: Sequence[Item]) -> Iterator[str | Tag]:
        """What the items consist of, with the tags of pairs apart from what is inside."""
        for item in items:
            if item.kind == Kind.TEXT:
                yield item.text
            elif item.kind == Kind.PAIR:
                number = self.number(item.thing)
                yield Tag(Kind.OPEN, 0, [f"<g{number}>"], f"pair {number}")
                yield from self.tags_and_texts(item.items)
                yield Tag(Kind.CLOSE, 0, [f"</g{number}>"], f"pair {number}")
            else:
                kind = item.kind
                if kind in (Kind.OPEN, Kind.CLOSE):
                    kind = Kind.POINT
                yield Tag(kind, 0, self.parts_of(item))

    def add(self, builder: InlineBuilder, items: Sequence[Item], sides: int = 0) -> None:
        """Hand items to the builder; `sides`: how many OPENs around them have no CLOSE yet."""
        partners = find_partners(items)
        names: dict[int, str] = {}  # the names of tags that are open here, by their CLOSE
        for index, item in enumerate(items):
            kind = item.kind
            if kind == Kind.TEXT:
                builder.raw.append(escape_text(item.text))
                builder.add_text(item.text)
                continue
            if kind == Kind.PAIR:
                number = self.number(item.thing)
                builder.add_markup(Kind.OPEN, [f"<g{number}>"], f"pair {number}")
                self.add(builder, item.items, sides)
                builder.add_markup(Kind.CLOSE, [f"</g{number}>"], f"pair {number}")
                continue
            name = ""
            parts = self.parts_of(item)
            if kind == Kind.OPEN and index in partners and sides < MOST_SIDES:
                name = f"sides {len(builder.tags)}"
                names[partners[index]] = name
                sides += 1
            elif index in names:
                name = names[index]
                sides -= 1
            elif kind in (Kind.OPEN, Kind.CLOSE):
                kind = Kind.POINT
            builder.add_markup(kind, parts, name, item.shown)

    def parts_of(self, item: Item) -> list[Part]:
        """How an item other than a pair of the sentence is written."""
        if item.kind == Kind.TEXT:
            return [escape_text(item.text)]
        if item.parts is not None:
            return list(item.parts)
        number = self.number(item.thing)
        if item.kind == Kind.OPEN:
            self.opened[item.name] = number
        elif item.kind == Kind.CLOSE and item.name in self.opened:
            self.ranges.append((self.opened.pop(item.name), number))
        if not item.items:
            return [f"<x{number}/>"]
        parts: list[Part] = [f"<x{number}>"]
        for text in item.items:
            text_number = self.number(text.thing)
            inside = self.paragraph_parts(text.items)
            parts += [f"<s{text_number}>", *inside, f"</s{text_number}>"]
        return [*parts, f"</x{number}>"]

    def number(self, thing: Any) -> int:
        self.things.append(thing)
        return len(self.things) - 1


def order_sides(new: Any, ranges: Sequence[tuple[int, int]]) -> None:
    """Let the two sides of a range change places where its end has come before its beginning.

    The sides of ranges that cross are placed one by one.
    """
    if not ranges:
        return
    elements = list(new.iter())
    places = {element.tag: place for place, element in enumerate(elements)}
    for numbers in ranges:
        begin, end = (places.get(f"x{number}", -1) for number in numbers)
        if 0 <= end < begin:
            swap(elements[begin], elements[end])


def swap(one: Any, other: Any) -> None:
    """Let two elements change places, but not what is behind them."""
    one.tag, other.tag = other.tag, one.tag
    one[:], other[:] = list(other), list(one)


def plain_text(items: Sequence[Item]) -> str:
    return "".join(item.text + plain_text(item.items) for item in items)


def counted(part: Part, text: str) -> Part:
    """The part of a text; counted as left if nothing of it is translated, such as a link alone.

    Elements alone, such as a date, do not count here: the readers count what is in them.
    """
    if isinstance(part, Left) and not has_letters(MARK.sub("", part)):
        return str(part)
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
    return item.kind in (Kind.BREAK, Kind.SEPARATOR, Kind.POINT, Kind.END)


def divide(items: Sequence[Item]) -> list[list[Item]]:
    """The items of each paragraph; of one that is too long, of each of its parts."""
    blocks: list[list[Item]] = [[]]
    length = 0
    for item in items:
        for part in divide_text(item):
            blocks[-1].append(part)
            length += 1 + len(plain_text([part]))
            if part.kind == Kind.END or length > LONGEST_BLOCK:
                blocks.append([])
                length = 0
    return blocks


def divide_text(item: Item) -> list[Item]:
    """A text that is too long as several, each of whole sentences if there are any."""
    parts = []
    while len(item.text) > LONGEST_BLOCK:
        text = item.text
        ends = [text.rfind(mark, 1, LONGEST_BLOCK) + 1 for mark in (". ", "! ", "? ", "。")]
        end = max(ends) or text.rfind(" ", 1, LONGEST_BLOCK) + 1 or LONGEST_BLOCK
        parts.append(Item(Kind.TEXT, text=text[:end]))
        item.text = text[end:]
    return [*parts, item]


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


def plain_field(value: str, save: Callable[[str], object], is_line: bool = True) -> Field:
    """A text without elements as a field; it is one line, or (`is_line` false) its lines stay."""
    parts: list[Part] = []
    for line in [value] if is_line else re.split(r"(\n)", value):
        text = line.strip()
        start = line.find(text)
        part = counted(text_part(text, text, without_illegal), text)
        parts += [line[:start], part, line[start + len(text) :]]
    return Field(parts, save)


def escaped_part(part: Part) -> Part:
    """A part of another reader, as it is written inside of XML."""
    if isinstance(part, Segment):
        escape = part.escape
        part.raw = escape_text(part.raw)
        part.escape = lambda text: escape_text(escape(text))
        return part
    text = escape_text(part)
    return Left(text, part.reason) if isinstance(part, Left) else text
