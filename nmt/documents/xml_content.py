"""XML in which only the content of some elements changes; every other byte stays.

Expat says where the content of each element is; a new text is written there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from nmt.documents.counting import elements
from nmt.documents.limits import DEEPEST
from nmt.documents.segment import Document, Field, Malformed, has_letters
from nmt.documents.stores import import_library

START_TAG = re.compile(rb"""<[^>"'/]*(?:"[^"]*"|'[^']*'|/(?!>)|[^>"'/])*(?P<empty>/)?>""")
ENTITY = re.compile(
    r"&(?:#(?P<decimal>\d+)|#x(?P<hexadecimal>[0-9a-fA-F]+)|(?P<name>lt|gt|amp|quot|apos));"
)
CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
CDATA = re.compile(r"<!\[CDATA\[(?P<text>.*?)\]\]>", re.DOTALL)
SECTION_MARKS = re.compile(r"(<!\[CDATA\[|\]\]>)")
MARKUP = re.compile(rf"{CDATA.pattern}|<!--.*?-->|<\?.*?\?>|<[^<>]*>", re.DOTALL)


@dataclass
class Element:
    """An element, and where its content is in the file."""

    name: str
    attributes: dict[str, str]
    parent: Element | None
    tag: int  # where its tag begins
    start: int  # of the content
    end: int = 0
    children: list[Element] = field(default_factory=list)

    @property
    def parent_name(self) -> str:
        return self.parent.name if self.parent else ""


@dataclass
class XmlFile:
    """A file in UTF-8, its elements in order, and what is written instead of some parts of it."""

    data: bytes
    elements: list[Element] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)  # that it declares
    # Where each replaced part ends and its new text, by where it begins.
    new: dict[int, tuple[int, str]] = field(default_factory=dict)

    def content(self, element: Element) -> str:
        return self.data[element.start : element.end].decode()

    def line(self, element: Element) -> int:
        return self.data.count(b"\n", 0, element.tag) + 1

    def replace(self, start: int, end: int, text: str) -> None:
        self.new[start] = end, text

    def serialize(self) -> bytes:
        parts = []
        position = 0
        for start in sorted(self.new):
            end, text = self.new[start]
            parts += [self.data[position:start], text.encode()]
            position = end
        return b"".join([*parts, self.data[position:]])

    def escape(self, text: str) -> str:
        """A text as it is written between tags; references to the file's own entities stay."""
        names = "|".join(map(re.escape, self.entities)) or "(?!)"
        text = re.sub(rf"&(?!(?:{names});)", "&amp;", text)
        return text.replace("<", "&lt;").replace(">", "&gt;")


def parse(data: bytes) -> XmlFile:
    """Raises Malformed for what is no XML, and UnicodeDecodeError for what is not UTF-8."""
    data.decode()
    parser: Any = expat.ParserCreate("utf-8")
    file = XmlFile(data)
    path: list[Element] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        tag = START_TAG.match(data, parser.CurrentByteIndex)
        position = tag.end() if tag else parser.CurrentByteIndex
        parent = path[-1] if path else None
        element = Element(name, attributes, parent, parser.CurrentByteIndex, position)
        if parent:
            parent.children.append(element)
        file.elements.append(element)
        path.append(element)
        if len(path) > DEEPEST:
            raise Malformed(
                f"more than {DEEPEST} elements are inside each other", line=parser.CurrentLineNumber
            )

    def end(name: str) -> None:
        element = path.pop()
        # an empty tag ends where it begins
        element.end = max(element.start, parser.CurrentByteIndex)

    def declaration(version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
            raise Malformed(f"it says that its encoding is {encoding}; convert it to UTF-8", line=1)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.XmlDeclHandler = declaration
    parser.EntityDeclHandler = lambda name, *_: file.entities.append(name)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise Malformed(
            f"this is not XML ({expat.ErrorString(error.code)})", line=error.lineno
        ) from None
    return file


def unescape(raw: str) -> str:
    """What is between tags as plain text."""
    return ENTITY.sub(character_of, raw)


def text_of(raw: str) -> str:
    """What is between tags as plain text, without comments and other tags inside."""
    parts = []
    position = 0
    for match in MARKUP.finditer(raw):
        parts += [unescape(raw[position : match.start()]), match["text"] or ""]
        position = match.end()
    return "".join([*parts, unescape(raw[position:])])


def character_of(match: re.Match[str]) -> str:
    if match["name"]:
        return CHARACTERS[match["name"]]
    if match["decimal"]:
        return chr(int(match["decimal"]))
    return chr(int(match["hexadecimal"], 16))


def leave_content(file: XmlFile, document: Document, element: Element, reason: str) -> None:
    """Count the text of an element without others inside."""
    text = CDATA.sub(r"\g<text>", file.content(element))
    if not element.children and has_letters(text):
        document.leave(text, reason)


def in_cdata(text: str) -> str:
    """A text as it is written in CDATA, so that it does not end it."""
    return text.replace("]]>", "]]]]><![CDATA[>")


def add_sections(
    file: XmlFile, document: Document, element: Element, make: Callable[[str, int, bool], Field]
) -> None:
    """Add a field for each section of CDATA in an element, and for each text between them."""
    raw = file.content(element)
    start = element.start
    is_cdata = False
    for piece in SECTION_MARKS.split(raw):
        if piece == "<![CDATA[":
            is_cdata = True
        elif piece == "]]>" and is_cdata:
            is_cdata = False
        elif piece.strip():
            document.fields.append(make(piece, start, is_cdata))
        start += len(piece.encode())


def count_content(
    data: bytes, texts: Collection[str], remade: Collection[str] = ()
) -> Counter[str]:
    """Elements by their names, and how many of those called `texts` have a text, read by lxml.

    Elements called `remade` do not count: a translation may have less of them.
    """
    etree = import_library("lxml.etree")
    # Expat has found it to be well-formed; a namespace may be missing.
    parser = etree.XMLParser(resolve_entities=False, huge_tree=True, recover=True)
    counts = Counter[str]()
    for element in elements(etree.fromstring(data, parser)):
        name = element.tag.rpartition("}")[2]
        if name in remade:
            continue
        counts[f"<{name}> elements"] += 1
        if name in texts:
            # Also inside of other elements: a translation with few words may leave one empty.
            counts[f"<{name}> elements with a text"] += bool("".join(element.itertext()).strip())
    return counts
