"""AsciiDoc: titles, paragraphs, items, terms and cells are text, line by line; every other byte
stays.

A reader of our own, because the one of translate-toolkit leaves out the document's title and
tables, and stops at an item without text. Left and counted: attributes, macros, and blocks between
lines such as ----.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from nmt.documents.emphasis import asciidoc_emphasis
from nmt.documents.markdown import InlineReader
from nmt.documents.plain_text import newline_of
from nmt.documents.segment import AS_CODE, COMMENTS, PLACEHOLDER, Part, Segment, left_if_letters

VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}.*|[,:]={3,})[ \t]*$")
DELIMITER = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--|~{4,}|'{3,}|<{3,}|\+)[ \t]*$")
TABLE = re.compile(r"[|!]={3,}[ \t]*$")
# What a line begins with that is no text; the text is behind it.
LINE = re.compile(
    r"(?P<comment>//(?!/).*)"
    r"|(?P<attribute>:!?[\w-]+!?:(?:\s.*)?$)"
    r"|(?P<style>\[[^\n]*\][ \t]*$)"
    r"|(?P<macro>(?P<name>\w+)::(?P<target>[^\s\[\]]*)\[(?P<inside>.*)\][ \t]*$)"
    r"|(?P<title>(?:={1,6}|\#{1,6})[ \t]+(?=\S)|\.(?=[^\s.]))"
    r"|(?P<item>[ \t]*(?:\*{1,5}|-|\.{1,5}|\d+\.|[a-zA-Z]\.|<(?:\d+|\.)>)[ \t]+"
    r"(?:\[[ x*]\][ \t]+)?(?=\S))"
    r"|(?P<term>(?P<label>\S[^\n]{0,500}?)(?P<colons>:{2,4}|;;)(?:[ \t]+(?=\S)|[ \t]*$))"
)
PARAGRAPH_END = re.compile(
    rf"\s*$|{VERBATIM.pattern}|{DELIMITER.pattern}|{TABLE.pattern}|{LINE.pattern}"
)
ADMONITION = re.compile(r"(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+")
CODE_STYLE = re.compile(
    r"\[(?:source|listing|literal|stem|latexmath|asciimath|verse)\b|\[(?:[%.][\w-]+)*,\s*\w+\]"
)
CELL_STYLE = r"(?<![\\\w])(?:\d*(?:\.\d+)?[+*])?[<^>]?(?:\.[<^>])?[aehlmsd]?"
# What is between cells; ! is, in a table inside of a cell, which is between lines such as !===.
CELL = re.compile(
    rf"(?P<nested>(?:^|(?<=\|))[ \t]*!={{3,}}[ \t]*\r?$)|{CELL_STYLE}(?:\||(?P<inner>!))",
    re.MULTILINE,
)
# Behind the text of a macro, such as ,window=_blank
NAMED = r"(?:,(?:[ \t]*[\w-]+=(?:\"[^\"\n]*\"|[^\s,\]\"]+)|\d+%?))"
LINE_START = re.compile(
    r"(?m)^(?=(?:=+|\*+|\.+|-|\#+|\d+\.|[a-zA-Z]\.)\s|\.\S|//|:[\w-]+:|[|!]={3})"
)


class AsciiDocReader(InlineReader):
    """Inline AsciiDoc: text in brackets is translated, macros and references are not."""

    PATTERN = re.compile(
        r"(?P<open>(?:https?://|(?:link|xref|footnote|mailto|image)::?)[^\s\[\]]{0,500}\["
        r"|<<[^<>,\n]+,(?=[^<>\n]*>>)|[\"']`(?=\S))"
        rf"|(?P<close>{NAMED}{{0,9}}\^?\]|>>|(?<=\S)`[\"'])"
        r"|(?P<break>[ \t]\+\n[ \t]*)|(?P<soft>[ \t]*\n[ \t]*)"
        r"|(?P<unit>`[^`\n]+`|<<[^<>\n]+>>|\(\(\([^()\n]+\)\)\)|\[\[[^\[\]\n]+\]\]"
        rf"|(?<!\w)\w+::?[^\s\[\]]{{0,500}}\[[^\[\]\n]{{0,1000}}\]|(?!__)(?:{PLACEHOLDER}))"
        r"|(?P<run>(?:\[[.#%][^\[\]\n]*\])?(?:\*+|_+|#+))"
    )
    NOT_IN_WORDS = ("*", "_", "#")
    UNBROKEN = re.compile("(?!)")
    unescape: Callable[[str], str] = staticmethod(str)
    write_emphasis: Callable[[str], str] = staticmethod(asciidoc_emphasis)

    def escape(self, text: str) -> str:
        return text

    def escape_start(self, line: str) -> str:
        return LINE_START.sub("{empty}", line)


Piece = tuple[int, int, Part]  # what is text or left, with its place


class Line(NamedTuple):
    """A line without its end."""

    start: int
    end: int
    text: str


def read_asciidoc(text: str) -> Iterator[Part]:
    """The parts of a document."""
    position = 0
    for start, end, part in pieces(text):
        yield from (text[position:start], part)
        position = end
    yield text[position:]


def pieces(text: str) -> Iterator[Piece]:
    lines = [
        Line(match.start(), match.end(), match[0].rstrip("\r\n"))
        for match in re.finditer(r"[^\n]*(?:\n|\Z)", text)
    ]
    index = 0
    is_code = False  # the style before a block says so
    is_header = False  # the lines below the document's title: its author
    while index < len(lines):
        line = lines[index]
        match = LINE.match(line.text)
        kind = match.lastgroup if match else ""
        after = index + 1

        # Blocks between two lines
        if VERBATIM.match(line.text):
            after = block_end(lines, index)
            reason = COMMENTS if line.text.startswith("////") else AS_CODE
            yield left(text, line.start, lines[after - 1].end, reason)
            is_code = False
            is_header = False
        elif TABLE.match(line.text):
            after = block_end(lines, index)
            begin = lines[index + 1].start if after > index + 1 else line.end
            yield from cells(text, begin, lines[after - 1].start, line.text.startswith("!"))
            is_code = False
            is_header = False

        # Single lines without text
        elif not line.text.strip():
            is_code = False
            is_header = False
        elif is_code and DELIMITER.match(line.text):
            after = block_end(lines, index)
            yield left(text, line.start, lines[after - 1].end)
            is_code = False
            is_header = False
        elif DELIMITER.match(line.text):
            is_header = False
        elif kind == "style":
            is_code = bool(CODE_STYLE.match(line.text))
            yield left(text, line.start, line.end)
        elif match and kind in ("comment", "attribute", "macro"):
            yield from left_line(text, line, match)

        # Paragraphs
        elif is_code or (is_header and not match) or (line.text[0] in " \t" and kind != "item"):
            after = paragraph_end(lines, index)
            yield left(text, line.start, lines[after - 1].end)
            is_code = False
            is_header = False
        else:
            if kind != "title":
                after = paragraph_end(lines, index)
            yield from prose(text, lines[index:after], match)
            is_code = False
            is_header = index == 0 and line.text.startswith("= ")

        index = after


def left(text: str, start: int, end: int, reason: str = AS_CODE) -> Piece:
    return start, end, left_if_letters(text[start:end], reason)


def block_end(lines: Sequence[Line], index: int) -> int:
    """The index after the line that ends a block as it began.

    Without such a line the block has all that follows.
    """
    sign = lines[index].text.strip()
    sign = "```" if sign.startswith("```") else sign
    for after in range(index + 1, len(lines)):
        if lines[after].text.strip() == sign:
            return after + 1
    return len(lines)


def paragraph_end(lines: Sequence[Line], index: int) -> int:
    """The index after the lines that belong to one paragraph, item or term."""
    after = index + 1
    while after < len(lines) and not PARAGRAPH_END.match(lines[after].text):
        after += 1
    return after


def left_line(text: str, line: Line, match: re.Match[str]) -> Iterator[Piece]:
    """A comment, an attribute or a macro; the text of an image is translated."""
    start = line.start
    if match["macro"] and match["name"] in ("image", "video", "audio"):
        inside = match["inside"].partition(",")[0]
        begin = line.start + match.start("inside")
        if inside and "=" not in inside:
            yield left(text, start, begin)
            start = begin + len(inside)
            yield read_text(text, begin, start)
    yield left(text, start, line.end, COMMENTS if match["comment"] else AS_CODE)


def prose(text: str, lines: Sequence[Line], match: re.Match[str] | None) -> Iterator[Piece]:
    """A title, a paragraph, an item, or a term with its text."""
    start = lines[0].start
    end = lines[-1].start + len(lines[-1].text.rstrip())
    if match and match["term"]:
        label_end = start + match.end("label")
        yield read_text(text, start, label_end)
        start += match.end("term")
    elif match:
        start += match.end()
    if start >= end:
        return
    if (admonition := ADMONITION.match(text, start, end)) is not None:
        yield left(text, *admonition.span())
        start = admonition.end()
    start += len(text[start:end]) - len(text[start:end].lstrip())
    if start < end:
        yield read_text(text, start, end)


def cells(text: str, start: int, end: int, is_inner: bool) -> Iterator[Piece]:
    """The cells of a table between its two lines; paragraphs in a cell are texts of their own."""
    edges = [start]
    for match in CELL.finditer(text, start, end):
        if match["nested"]:
            is_inner = not is_inner
        if is_inner or not match["inner"]:
            edges += match.span()
    edges.append(end)
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        for match in re.compile(r"\S(?:[^\n]|\n(?![ \t]*\r?\n))*").finditer(text, first, last):
            yield read_text(text, match.start(), match.start() + len(match[0].rstrip()))


def read_text(text: str, start: int, end: int) -> Piece:
    """The text of a block."""
    raw = text[start:end]
    reader = AsciiDocReader("\n".join(raw.splitlines()))
    reader.read(0, len(reader.text))
    part = reader.build(raw, reader.layout(newline_of(raw)))
    if not isinstance(part, Segment):
        part = left_if_letters(raw, AS_CODE)
    return start, end, part


def count_lines(data: bytes) -> Counter[str]:
    """Of AsciiDoc: lines by what they begin with, and cells."""
    counts = Counter[str]()
    is_table = False
    for line in data.decode("utf-8-sig").splitlines():
        match = LINE.match(line)
        if TABLE.match(line):
            is_table = not is_table
        elif is_table:
            counts["cells"] += line.count("|")
        elif match and match.lastgroup:
            counts[f"lines of the kind {match.lastgroup}"] += 1
    return counts
