"""Resources of .NET (RESX) and of Android: the texts that are no other type of value; every other byte stays.

Expat says where the content of each element is; a new text is written there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from xml.parsers import expat

from nmt.documents.counting import count_xml
from nmt.documents.limits import DEEPEST
from nmt.documents.segment import (
    MARKED,
    NOTES,
    Document,
    Field,
    Malformed,
    Part,
    SegmentBuilder,
    TagKind,
    closing,
    has_letters,
)
from nmt.documents.stores import import_library, message_parts

START_TAG = re.compile(rb"""<[^>"'/]*(?:"[^"]*"|'[^']*'|/(?!>)|[^>"'/])*(?P<empty>/)?>""")
ENTITY = re.compile(r"&(?:#(?P<decimal>\d+)|#x(?P<hexadecimal>[0-9a-fA-F]+)|(?P<name>lt|gt|amp|quot|apos));")
CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
CDATA = re.compile(r"<!\[CDATA\[(?P<text>.*?)\]\]>", re.DOTALL)
MARKUP = re.compile(
    r"""(?P<comment><!--.*?-->|<\?.*?\?>)|<(?P<close>/?)(?P<name>[^\s/>"'=]+)(?:"[^"]*"|'[^']*'|[^>"'])*?(?P<empty>/?)>""",
    re.DOTALL,
)


@dataclass
class Element:
    """An element, and where its content is in the file."""

    name: str
    attributes: dict[str, str]
    parent: Element | None
    start: int
    end: int = 0
    has_children: bool = False

    @property
    def parent_name(self) -> str:
        return self.parent.name if self.parent else ""


@dataclass
class XmlFile:
    """A file in UTF-8, its elements with a content, in order, and the new contents of some of them."""

    data: bytes
    elements: list[Element] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)  # that it declares
    new: dict[int, tuple[int, str]] = field(default_factory=dict)  # by where they begin: where they end, and the text

    def content(self, element: Element) -> str:
        return self.data[element.start : element.end].decode()

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
        """A text as it is written between tags; references to entities that the file declares stay."""
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
        if parent:
            parent.has_children = True
        path.append(Element(name, attributes, parent, position))
        if tag and not tag["empty"]:
            file.elements.append(path[-1])
        if len(path) > DEEPEST:
            raise Malformed(f"more than {DEEPEST} elements are inside each other", line=parser.CurrentLineNumber)

    def end(name: str) -> None:
        path.pop().end = parser.CurrentByteIndex

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
        raise Malformed(f"this is no XML ({expat.ErrorString(error.code)})", line=error.lineno) from None
    return file


def unescape(raw: str) -> str:
    """What is between tags as plain text."""
    return ENTITY.sub(referred, raw)


def referred(match: re.Match[str]) -> str:
    if match["name"]:
        return CHARACTERS[match["name"]]
    return chr(int(match["decimal"])) if match["decimal"] else chr(int(match["hexadecimal"], 16))


def leave_content(file: XmlFile, document: Document, element: Element, reason: str) -> None:
    """Count the text of an element without others inside."""
    text = CDATA.sub(r"\g<text>", file.content(element))
    if not element.has_children and has_letters(text):
        document.leave(text, reason)


# ----------------------------------------------------------------------------------------------------------------------
# .NET


def read_resx(data: bytes, _: bool) -> Document:
    file = parse(data)
    document = Document([], file.serialize)
    for element in file.elements:
        if element.parent and element.parent_name == "data" and element.name == "value" and is_text(element.parent):
            add_value(file, document, element)
        else:
            leave_content(file, document, element, NOTES if element.name == "comment" else MARKED)
    return document


def is_text(entry: Element) -> bool:
    """Whether a <data> of RESX is text: of no other type, and not about a part of a window (>>button.Type)."""
    is_string = entry.attributes.get("type", "System.String").startswith("System.String")
    return is_string and "mimetype" not in entry.attributes and not entry.attributes.get("name", "").startswith(">>")


def add_value(file: XmlFile, document: Document, element: Element) -> None:
    raw = file.content(element)
    if CDATA.search(raw) or element.has_children:
        add_sections(file, document, element, partial(message_field, file=file))
    else:
        document.fields.append(message_field(raw, element.start, False, file))


def message_field(raw: str, start: int, is_cdata: bool, file: XmlFile) -> Field:
    """The field of a text as it is written at `start`."""
    end = start + len(raw.encode())

    def save(new: str) -> None:
        file.replace(start, end, in_cdata(new) if is_cdata else file.escape(new))

    return Field(message_parts(raw if is_cdata else unescape(raw)), save)


def in_cdata(text: str) -> str:
    """A text inside CDATA, which it must not end."""
    return text.replace("]]>", "]]]]><![CDATA[>")


def add_sections(file: XmlFile, document: Document, element: Element, make: Callable[[str, int, bool], Field]) -> None:
    """Add a field for each section of CDATA in an element, and for each text between them."""
    raw = file.content(element)
    position = 0
    for match in [*CDATA.finditer(raw), None]:
        end = match.start() if match else len(raw)
        if raw[position:end].strip():
            document.fields.append(make(raw[position:end], byte_at(raw, position, element), False))
        if match:
            document.fields.append(make(match["text"], byte_at(raw, match.start("text"), element), True))
            position = match.end()


def byte_at(raw: str, position: int, element: Element) -> int:
    """Where a character of an element's content is in the file."""
    return element.start + len(raw[:position].encode())


# ----------------------------------------------------------------------------------------------------------------------
# Android


TEXTS = {("string", "resources"), ("item", "string-array"), ("item", "array"), ("item", "plurals")}
ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<sign>.))", re.DOTALL)
LINE_BREAK = re.compile(r"([ \t\r\n]*(?<!\\)\\n[ \t\r\n]*)")
QUOTED = re.compile(r'(?P<before>\s*")(?P<text>(?:[^"\\]|\\.)*)(?P<after>"\s*)', re.DOTALL)
CONTROLS = {"n": "\n", "t": "\t"}


def read_android(data: bytes, _: bool) -> Document:
    file = parse(data)
    root = file.elements[0] if file.elements else Element("", {}, None, 0)
    if root.name != "resources":
        raise Malformed(f"its root is <{root.name}>; of XML, only Android's <resources> can be read")
    document = Document([], file.serialize)
    inside = Element("", {}, None, 0)  # the last string, whose elements are markup
    for element in file.elements:
        if element.start < inside.end:
            continue
        is_string = (element.name, element.parent_name) in TEXTS or element.attributes.get("type") == "string"
        if is_string:
            inside = element
        if is_string and is_translatable(element):
            add_sections(file, document, element, partial(android_field, file=file))
        elif is_string and has_letters(file.content(element)):
            document.leave(file.content(element), MARKED)
        elif not is_string:
            leave_content(file, document, element, MARKED)
    return document


def is_translatable(element: Element | None) -> bool:
    while element:
        if element.attributes.get("translatable") == "false":
            return False
        element = element.parent
    return True


def android_field(raw: str, start: int, is_cdata: bool, file: XmlFile) -> Field:
    """The field of a text of Android as it is written at `start`."""
    end = start + len(raw.encode())
    codes = {chr(int(match["code"], 16)) for match in ESCAPE.finditer(raw) if match["code"]}
    write = partial(android_escaped, codes=codes)
    if "<" in raw and not is_cdata:
        parts = tagged_parts(raw, lambda text: file.escape(write(text)))
        return Field(parts, lambda new: file.replace(start, end, with_first_escaped(new)))
    quoted = QUOTED.fullmatch(raw)
    content = quoted["text"] if quoted else raw.strip()
    before, after = raw.split(content, 1) if content else (raw, "")
    text = content if is_cdata else unescape(content)
    if not quoted:
        text = re.sub(r"\s+", " ", text)

    def save(new: str) -> None:
        written = write(new)
        written = in_cdata(written) if is_cdata else file.escape(written)
        file.replace(start, end, f"{before}{written if quoted else with_first_escaped(written)}{after}")

    return Field(message_parts(android_plain(text)), save)


def tagged_parts(raw: str, escape: Callable[[str], str]) -> list[Part]:
    """The parts of a text with elements inside; those of xliff:g stay as they are, with what is in them."""
    content = raw.strip()
    before = raw[: len(raw) - len(raw.lstrip())]
    builder = SegmentBuilder(escape)
    position = 0
    for match in MARKUP.finditer(content):
        if match.start() < position:
            continue
        add_android_text(builder, content[position : match.start()])
        position = match.end()
        name = match["name"] or ""
        if name.startswith("xliff:") and not match["close"] and not match["empty"]:
            position = element_end(content, name, match.end())
            builder.add_unit([content[match.start() : position]])
        elif match["comment"] or match["empty"]:
            builder.add_tag(TagKind.POINT, [match[0]])
        else:
            builder.add_tag(TagKind.CLOSE if match["close"] else TagKind.OPEN, [match[0]], name)
    add_android_text(builder, content[position:])
    return [before, builder.build(content), raw[len(before) + len(content) :]]


def element_end(content: str, name: str, start: int) -> int:
    tag = re.compile(rf"(?P<open><{re.escape(name)}\b[^<>]*(?<!/)>)|(?P<close></{re.escape(name)}\s*>)")
    found = closing(tag, content, start)
    return found.end() if found else len(content)


def add_android_text(builder: SegmentBuilder, raw: str) -> None:
    for index, piece in enumerate(LINE_BREAK.split(raw)):
        if index % 2:
            builder.add_break(piece)
        else:
            builder.add_text(android_plain(unescape(piece)))


def android_plain(text: str) -> str:
    """A text without its escapes; quotation marks that are none only keep spaces, and are not seen."""
    parts = []
    end = 0
    for match in ESCAPE.finditer(text):
        parts.append(text[end : match.start()].replace('"', ""))
        character = chr(int(match["code"], 16)) if match["code"] else CONTROLS.get(match["sign"], match["sign"])
        parts.append(character)
        end = match.end()
    plain = "".join([*parts, text[end:].replace('"', "")])
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def android_escaped(text: str, codes: set[str]) -> str:
    """A text with escapes; `codes` are the characters that are written as \\uXXXX."""
    for sign in ("\\", "'", '"'):
        text = text.replace(sign, f"\\{sign}")
    for letter, sign in CONTROLS.items():
        text = text.replace(sign, f"\\{letter}")
    return "".join(f"\\u{ord(character):04X}" if character in codes else character for character in text)


def with_first_escaped(written: str) -> str:
    """@ and ? at the beginning would be a reference."""
    return re.sub(r"\A(\s*)([@?])", r"\1\\\2", written)


def count_resources(data: bytes) -> Counter[str]:
    etree = import_library("lxml.etree")
    # Expat has found it to be well-formed; a namespace may be missing.
    parser = etree.XMLParser(resolve_entities=False, huge_tree=True, recover=True)
    return count_xml(etree.fromstring(data, parser))
