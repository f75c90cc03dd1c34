"""XML in which only the content of some elements changes; every other byte stays.

Expat says where the content of each element is; a new text is written there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from xml.parsers import expat

from nmt.corpus.words import Span, has_letters
from nmt.documents.counting import count_xml
from nmt.documents.limits import DEEPEST
from nmt.documents.segment import (
    ASCII,
    NOT_ASCII,
    Document,
    Field,
    Malformed,
    as_references,
    check_encoding,
    spliced,
)
from nmt.documents.xml_files import etree, without_illegal

START_TAG = re.compile(rb"""<[^>"'/]*(?:"[^"]*"|'[^']*'|/(?!>)|[^>"'/])*(?P<empty>/)?>""")
ENTITY = re.compile(r"&(?:#(?P<x>x?)(?P<code>[0-9a-fA-F]+)|(?P<name>lt|gt|amp|quot|apos));")
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

    def child(self, name: str) -> Element | None:
        """The first child with a name."""
        return next((child for child in self.children if child.name == name), None)


class XmlFile(Document):
    """A file in UTF-8 of which some places are replaced, with its elements in order."""

    def __init__(self, data: bytes) -> None:
        super().__init__([], lambda: spliced(data, self.new))
        self.bytes = data
        self.elements: list[Element] = []
        self.entities: list[str] = []  # that it declares
        self.is_ascii = False  # by its declaration
        self.new: dict[Span, bytes] = {}

    def content(self, element: Element) -> str:
        return self.bytes[element.start : element.end].decode()

    def line(self, element: Element) -> int:
        return self.bytes.count(b"\n", 0, element.tag) + 1

    def leave_content(self, element: Element, reason: str) -> None:
        """Count the text of an element without others inside."""
        text = CDATA.sub(r"\g<text>", self.content(element))
        if not element.children and has_letters(text):
            self.leave(text, reason)

    def replace(self, start: int, end: int, text: str) -> None:
        self.new[start, end] = text.encode()

    def escape(self, text: str, is_cdata: bool = False) -> str:
        """A text as it is written between tags; references to the file's own entities stay."""
        text = without_illegal(text)
        if is_cdata:
            text = text.replace("]]>", "]]]]><![CDATA[>")
            if self.is_ascii:  # no reference may stand in it
                text = NOT_ASCII.sub(r"]]>\g<0><![CDATA[", text)
            return as_references(text) if self.is_ascii else text
        names = "|".join(map(re.escape, self.entities)) or "(?!)"
        text = re.sub(rf"&(?!(?:{names});)", "&amp;", text)
        text = text.replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")
        text = as_references(text) if self.is_ascii else text
        return text.replace("\n", "\r\n") if self.has_windows_ends else text

    @cached_property
    def has_windows_ends(self) -> bool:
        return b"\r\n" in self.bytes


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
        if encoding:
            check_encoding(encoding, line=1)
            file.is_ascii = encoding.lower() in ASCII

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


def with_plain_ends(raw: str) -> str:
    """The end of each line as readers of XML see it; a carriage return is there by reference."""
    return re.sub(r"\r\n?", "\n", raw)


def unescape(raw: str) -> str:
    """What is between tags as plain text."""
    return ENTITY.sub(character_of, with_plain_ends(raw))


def text_of(raw: str) -> str:
    """What is between tags as plain text, without comments and other tags inside."""
    pieces = MARKUP.split(with_plain_ends(raw))  # every other one is the text of a CDATA
    pieces[::2] = map(unescape, pieces[::2])
    return "".join(piece or "" for piece in pieces)


def character_of(match: re.Match[str]) -> str:
    if match["name"]:
        return CHARACTERS[match["name"]]
    return chr(int(match["code"], 16 if match["x"] else 10))


# Puts a new text in the place of another one.
Replace = Callable[[str], None]


def add_sections(
    file: XmlFile, element: Element, make: Callable[[XmlFile, str, bool, Replace], Field]
) -> None:
    """Add a field for each section of CDATA in an element, and for each text between them."""
    start = element.start
    is_cdata = False
    for piece in SECTION_MARKS.split(file.content(element)):
        end = start + len(piece.encode())
        if piece == "<![CDATA[":
            is_cdata = True
        elif piece == "]]>" and is_cdata:
            is_cdata = False
        elif piece.strip():
            file.fields.append(make(file, piece, is_cdata, partial(file.replace, start, end)))
        start = end


def count_content(
    data: bytes, texts: Collection[str], remade: Collection[str] = ()
) -> Counter[str]:
    """What `count_xml` counts, read by lxml."""
    # Expat has found it to be well-formed; a namespace may be missing.
    parser = etree().XMLParser(resolve_entities=False, huge_tree=True, recover=True)
    return count_xml(etree().fromstring(data, parser), texts, remade)
