"""Android's resources: the strings that may be translated; every other byte stays."""

import re
from collections.abc import Callable
from functools import partial

from nmt.corpus.words import has_letters
from nmt.documents.html import LONGEST_BLOCK
from nmt.documents.messages import BLOCKS, ESCAPE, message_parts, unescaped
from nmt.documents.segment import (
    BLANK,
    MARKED,
    PROTECTED,
    Document,
    Field,
    Kind,
    Malformed,
    Part,
    SegmentBuilder,
    closing,
)
from nmt.documents.xml_content import (
    Element,
    Replace,
    XmlFile,
    add_sections,
    parse,
    text_of,
    unescape,
)

TEXTS = {("string", "resources"), ("item", "string-array"), ("item", "array"), ("item", "plurals")}
LINE_BREAK = re.compile(r"([ \t\r\n]*(?<!\\)\\n[ \t\r\n]*)")
QUOTED = re.compile(r'(?P<before>\s*")(?P<text>(?:[^"\\]|\\.)*)(?P<after>"\s*)', re.DOTALL)
CONTROLS = {"n": "\n", "t": "\t"}
MARKUP = re.compile(
    r"""(?P<comment><!--.*?-->|<\?.*?\?>)|<(?P<close>/?)(?P<name>[^\s/>"'=]+)"""
    r"""(?:"[^"]*"|'[^']*'|[^>"'])*?(?P<empty>/?)>""",
    re.DOTALL,
)


def read_android(data: bytes) -> Document:
    file = parse(data)
    root = file.elements[0].name  # a file without elements is no XML
    if root != "resources":
        raise Malformed(f"its root is <{root}>; of XML, only Android's <resources> can be read")
    end_of_string = 0  # the elements in a string are its markup
    for element in file.elements:
        if element.start < end_of_string:
            continue
        is_string = (element.name, element.parent_name) in TEXTS
        if not is_string and element.attributes.get("type") != "string":
            file.leave_content(element, MARKED)
            continue
        end_of_string = element.end
        if is_translatable(element):
            add_sections(file, element, android_field)
        elif has_letters(file.content(element)):
            file.leave(file.content(element), PROTECTED)
    return file


def is_translatable(element: Element | None) -> bool:
    while element:
        if element.attributes.get("translatable") == "false":
            return False
        element = element.parent
    return True


def android_field(file: XmlFile, raw: str, is_cdata: bool, replace: Replace) -> Field:
    """The field of a text as it is written."""
    codes = {chr(int(match["code"], 16)) for match in re.finditer(ESCAPE, raw) if match["code"]}
    write = partial(android_escaped, codes=codes)
    if "<" in raw and not is_cdata:
        parts = tagged_parts(raw, lambda text: file.escape(write(text)))
        return Field(parts, lambda new: replace(with_first_escaped(new)))

    # In quotation marks spaces stay as they are.
    quoted = QUOTED.fullmatch(raw)
    content = quoted["text"] if quoted else raw.strip()
    before, after = raw.split(content, 1) if content else (raw, "")
    text = content if is_cdata else unescape(content)
    if not quoted:
        text = re.sub(f"[{BLANK}]+", " ", text)

    def save(new: str) -> None:
        written = file.escape(write(new), is_cdata)
        if not quoted:
            written = with_first_escaped(written)
        replace(f"{before}{written}{after}")

    return Field(message_parts(android_plain(text)), save)


def tagged_parts(raw: str, escape: Callable[[str], str]) -> list[Part]:
    """The parts of a text with elements inside; an <xliff:g> stays with what is in it."""
    content = raw.strip()
    before, after = raw.split(content, 1)
    parts: list[Part] = [before]
    builder = SegmentBuilder(escape)
    start = 0  # of the block that is built
    position = 0
    for match in MARKUP.finditer(content):
        if match.start() < position:
            continue
        add_android_text(builder, content[position : match.start()])
        if match.start() - start > LONGEST_BLOCK:
            block = content[start : match.start()]
            parts += [builder.build(block.rstrip()), block[len(block.rstrip()) :]]
            builder = SegmentBuilder(escape)
            start = match.start()
        position = match.end()
        name = match["name"] or ""
        kind = Kind.CLOSE if match["close"] else Kind.OPEN
        shown = ""
        if name == "br":
            kind = Kind.BREAK
        elif name.lower() in BLOCKS:
            kind = Kind.SEPARATOR
        elif match["comment"] or match["empty"]:
            kind = Kind.POINT
        elif name.startswith("xliff:") and kind == Kind.OPEN:
            kind = Kind.UNIT
            position = element_end(content, name, match.end())
            shown = android_plain(text_of(content[match.start() : position]))
        builder.add(kind, [content[match.start() : position]], name, shown)
    add_android_text(builder, content[position:])
    return [*parts, builder.build(content[start:]), after]


def element_end(content: str, name: str, start: int) -> int:
    tag = re.compile(
        rf"(?P<open><{re.escape(name)}\b[^<>]*(?<!/)>)|(?P<close></{re.escape(name)}\s*>)"
    )
    match = closing(tag, content, start)
    return match.end() if match else len(content)


def add_android_text(builder: SegmentBuilder, raw: str) -> None:
    for index, piece in enumerate(LINE_BREAK.split(raw)):
        if index % 2:
            builder.add(Kind.BREAK, [piece])
        else:
            builder.add_text(android_plain(unescape(piece)))


def android_plain(text: str) -> str:
    """A text without its escapes, and without quotation marks that are not escaped.

    These only keep spaces, and are not shown.
    """
    return unescaped(f'{ESCAPE}|"', CONTROLS, text)


def android_escaped(text: str, codes: set[str]) -> str:
    """A text with escapes; `codes` are the characters that are written as \\uXXXX."""
    written = {sign: f"\\{sign}" for sign in "\\'\""}
    written |= {sign: f"\\{letter}" for letter, sign in CONTROLS.items()}
    written |= {character: f"\\u{ord(character):04X}" for character in codes}
    return "".join(written.get(character, character) for character in text)


def with_first_escaped(written: str) -> str:
    """A text without @ or ? at its beginning, which would be a reference."""
    return re.sub(r"\A(\s*)([@?])", r"\1\\\2", written)
