"""AsciiDoc: titles, paragraphs, items, terms and cells are text, line by line; every other byte
stays.

A reader of our own, because the one of translate-toolkit leaves out the document's title and
tables, and stops at an item without text. Left and counted: attributes, macros, and blocks between
lines such as ----.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from nmt.documents.emphasis import asciidoc_emphasis
from nmt.documents.markdown_inline import InlineReader, markup_pattern
from nmt.documents.plain_text import newline_of
from nmt.documents.segment import (
    AS_CODE,
    COMMENTS,
    PLACEHOLDER,
    Kind,
    Part,
    Segment,
    left_if_letters,
    text_part,
)

VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}.*)[ \t]*$")
DELIMITER = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--|~{4,}|'{3,}|<{3,}|\+)[ \t]*$")
TABLE = re.compile(r"(?P<sign>[|!,:])={3,}[ \t]*$")
# What a line begins with that is no text; the text is behind it.
LINE = re.compile(
    r"(?P<comment>//(?!/).*)"
    r"|(?P<attribute>:!?[\w-]+!?:(?:\s.*)?$)"
    r"|(?P<style>\[[^\n]*\][ \t]*$)"
    r"|(?P<macro>(?P<name>\w+)::(?P<target>[^\s\[\]]*)\[(?P<inside>.*)\][ \t]*$)"
    r"|(?P<title>(?:={1,6}|\#{1,6})[ \t]+(?=\S)|\.(?=\.?[^\s.]))"
    r"|(?P<item>[ \t]*(?:\*{1,5}|-|\.{1,5}|\d+\.|[a-zA-Z]\.|<(?:\d+|\.)>)[ \t]+"
    r"(?:\[[ x*]\][ \t]+)?(?=\S))"
    r"|(?P<term>(?P<label>\S[^\n]{0,500}?)(?P<colons>:{2,4}|;;)(?:[ \t]+(?=\S)|[ \t]*$))"
)
PARAGRAPH_END = re.compile(
    rf"\s*$|{VERBATIM.pattern}|{DELIMITER.pattern}|{TABLE.pattern}|{LINE.pattern}"
)
ADMONITION = re.compile(r"(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+|>[ \t]+")
CODE_STYLE = re.compile(
    r"\[(?:source|listing|literal|stem|latexmath|asciimath|verse)\b|\[(?:[%.][\w-]+)*,\s*\w+\]"
)
# What a table's style says about it: [separator=¦], [%header,format="csv"]
TABLE_ATTRIBUTE = re.compile(r"\b(format|separator)[ \t]*=[ \t]*(\"[^\"\n]*\"|[^\s,\]]*)")
# Of a paragraph, by its style or by an attribute of the document: each of its lines stays one
HARD_BREAKS = re.compile(r"%hardbreaks\b|\bopt(?:ion)?s=[\"\w,]*\bhardbreaks\b")
ALL_HARD_BREAKS = re.compile(r"^:hardbreaks(?:-option)?:[ \t]*\r?$", re.MULTILINE)
SEPARATORS = {"psv": "|", "csv": ",", "tsv": "\t", "dsv": ":"}
FORMAT_OF_SIGN = {",": "csv", ":": "dsv"}
CELL_STYLE = r"(?:\d*(?:\.\d+)?[+*])?[<^>]?(?:\.[<^>])?[aehlmsd]?"
PARAGRAPH = re.compile(r"\S(?:[^\n]|\n(?![ \t]*\r?\n))*")
# A line of a cell that is an item or delimits a block
BLOCK_IN_CELL = re.compile(
    rf"^(?:(?:\*{{1,5}}|-|\.{{1,5}}|\d+\.)[ \t]+\S|{VERBATIM.pattern}|{DELIMITER.pattern})",
    re.MULTILINE,
)
# Behind the text of a macro, such as ,window=_blank
NAMED = r"(?:,[ \t]*(?:[\w-]+=(?:\"[^\"\n]*\"|[^\s,\]\"]+)|\d+%?))"
BLOCK_SIGN = (
    r"(?=(?:=+|\*+|\.+|-|•|\#+|\d+\.|[a-zA-Z]\.|<(?:\d+|\.)>)\s|\.\.?[^\s.]|//|:[\w-]+:"
    rf"|[|!,:]={{3}}|\[[^\n]*\][ \t]*$|{ADMONITION.pattern}|{VERBATIM.pattern}|{DELIMITER.pattern})"
)
LINE_START = re.compile(f"^{BLOCK_SIGN}", re.MULTILINE)
# No character; it stands before signs that may be those of formatted text, until all of a block is
# known.
PERHAPS = "\ufdd0"
SIGN = re.compile(rf"{PERHAPS}(?P<sign>([*_`#+^~])\2?)")
# What is markup, or may be, if it stands in a text.
LITERAL = re.compile(
    r"(?P<sign>\*\*|__|``|##|\+\+|[\^~]|(?<![\w&;:}])[*_`#+](?=\S)|(?<=\S)[*_`#+](?!\w))"
    r"|(?P<macro>(?<!\w)[a-z]\w*:[^\s\[\]]*)\[+|(?P<attribute>[],=])"  # and what ends its text
    # entities, references, terms of the index, anchors, attributes
    r"|&(?=#?\w+;)|<(?=<)|\((?=\()|\[(?=\[)|\{(?=[\w-]+[:}])"
    # a term, an escape, the end of a line
    r"|(?:::|;;)(?=:{0,2}(?:\s|\Z))|\\(?=\W|\Z)|(?<=\s)\+\Z"
)
ROLE = r"\[[.#%\w][^\[\]\n]*\]"  # of formatted text
LINE_PREFIX = r"[ \t]*(?:>[ \t]+)?"  # of a further line, as in a quotation of Markdown
# An address may have an attribute or a passthrough in it
ADDRESS = r"(?:pass:\w*\[[^\[\]\n]{0,500}\]|[^\s\[\]]){0,500}"

# The markup of a sentence, by what it becomes. Of the patterns that match, the first one counts.
MARKUP = {
    "index": (  # (((terms))), which are not shown, and ((a term)) of the text
        r"(?:\(\(\(|indexterm:\[)(?P<terms>[^()\[\]=\n]+)(?:\)\)\)|\])",
        r"\(\((?!\()[^()\n]+\)\)(?!\))",
    ),
    "note": (r"footnote:[\w-]*\[", r"footnoteref:\[[\w-]+,"),
    "open": (  # links with a text, and quotation marks
        rf"(?:https?://|(?:link|xref|mailto|image|indexterm2)::?){ADDRESS}\[",
        r"\{[\w-]+\}[^\s\[\]{}]{0,500}\[(?![.#%])",  # an address that begins with an attribute
        r"<<[^<>,\n]+,(?=[^<>\n]*>>)",
        r"(?<!\w)[\"']`(?=\S)",
    ),
    "close": (rf"{NAMED}{{0,9}}\^?\]", ">>", r"(?<=\S)`[\"'](?!\w)"),
    "break": (rf"[ \t]\+\n{LINE_PREFIX}",),
    "soft": (rf"[ \t]*\n{LINE_PREFIX}",),
    "unit": (
        r"\\(?=[^\w\s]|\w+:)",  # an escape
        r"&(?:#x?)?\w+;",
        rf"(?:{ROLE})?(?:``[^`]+``|`[^`\n]+`|(?<!\w)`(?=\S)[^`]+(?<=\S)`(?!\w))",
        r"<<[^<>\n]+>>",  # references without a text, anchors
        r"\[\[[^\[\]\n]+\]\]",
        # passthroughs
        r"\+{3}(?:(?!\+{3})[^\n])+\+{3}",
        r"(?<![\w+])\+(?=\S)[^+\n]*(?<=[^\s+])\+(?![\w+])",
        r"(?<!\+)\+\+(?=\S)(?:(?!\+\+)[^\n])+(?<=\S)\+\+(?!\+)",
        rf"(?:{ROLE})?(?:\^\S+?\^|~\S+?~)",  # raised and lowered characters
        r"\{[\w-]+\}/(?:[\w./?&=%~+-]*\w)?",  # a path that begins with an attribute
        r"(?<!\w)\w+::?[^\s\[\]]{0,500}\[[^\[\]\n]{0,1000}\]",  # a macro
        rf"(?!__)(?:{PLACEHOLDER})",
    ),
    "run": (rf"(?:{ROLE}(?=[*_#]+[^\s.,;:!?)\]]))?(?:\*+|_+|#+)",),
}


class AsciiDocReader(InlineReader):
    """Inline AsciiDoc: text in brackets is translated, macros and references are not."""

    PATTERN = markup_pattern(MARKUP)
    NOT_IN_WORDS = ("*", "_", "#")
    # No line ends before what would begin a block, nor with a plus, which would break it
    UNBROKEN = re.compile(rf" {BLOCK_SIGN}|(?<=\s)\+ +| (?=\+\n)")
    unescape: Callable[[str], str] = staticmethod(str)
    write_emphasis: Callable[[str], str] = staticmethod(
        lambda text: asciidoc_emphasis(settled(text))
    )

    def escape(self, text: str) -> str:
        """Plain text as the document has it: what would be markup is written as &#42; and so on."""
        tags = self.builder.tags
        is_inside = self.depth > 0 or any(tag.name == "]" for tag in tags)
        has_image = any(str(tag.parts[0]).startswith("image:") for tag in tags)

        def literal(match: re.Match[str]) -> str:
            if match["sign"]:
                return PERHAPS + match[0]
            if match["macro"]:
                return match["macro"] + reference(match[0].removeprefix(match["macro"]))
            stays = match["attribute"] and not (has_image if match[0] == "," else is_inside)
            return match[0] if stays else reference(match[0])

        return LITERAL.sub(literal, text)

    def read_match(self, markup: re.Match[str], end: int) -> int:
        """As of Markdown; ((a term)) for the index is text, and so is each of (((its, levels))).

        The text of a footnote is apart from its sentence.
        """
        start, stop = markup.span()
        if markup.lastgroup == "note":
            close = self.ends.brackets.get(self.text.index("[", start), end)
            if close >= end:
                self.builder.add_text(markup[0])
                return stop
            self.builder.add(Kind.POINT, [markup[0], self.part_apart(stop, close), "]"])
            return close + 1
        if markup.lastgroup != "index":
            return super().read_match(markup, end)
        if markup["terms"]:
            first, last = markup.span("terms")
            parts: list[Part] = [self.text[start:first]]
            for index, term in enumerate(re.split(r"(\s*,\s*)", markup["terms"])):
                parts.append(term if index % 2 else text_part(term, term, layout=quoted_term))
            self.builder.add(Kind.POINT, [*parts, self.text[last:stop]])
        else:
            self.builder.add(Kind.OPEN, ["(("], "((")
            self.read(start + 2, stop - 2)
            self.builder.add(Kind.CLOSE, ["))"], "((")
        return stop

    def escape_start(self, line: str) -> str:
        return LINE_START.sub("{empty}", line)


def quoted_term(term: str) -> str:
    """A term of the index, in quotation marks if it has a comma, which would divide it."""
    return f'"{term}"' if "," in term and '"' not in term else term


def settled(text: str) -> str:
    """A block whose signs behind PERHAPS are text: those that are not alone by their numbers."""

    def sign(match: re.Match[str]) -> str:
        is_alone = text.count(match["sign"][0]) == len(match["sign"])
        return match["sign"] if is_alone else reference(match["sign"])

    return SIGN.sub(sign, text)


def reference(signs: str) -> str:
    """Signs by their numbers, which nothing takes for markup."""
    return "".join(f"&#{ord(sign)};" for sign in signs)


Piece = tuple[int, int, Part]  # what is text or left, with its place


class Escapes(NamedTuple):
    """How the text of a cell, or of a paragraph, is read and written."""

    read: Callable[[str], str]
    write: Callable[[str], str]
    keeps_lines: bool = False


NO_ESCAPES = Escapes(str, str)


def referring(escapes: Escapes, pattern: str) -> Escapes:
    """These escapes, which also write what matches by its number."""

    def write(text: str) -> str:
        return escapes.write(re.sub(pattern, lambda match: reference(match[0]), text))

    return escapes._replace(write=write)


def with_style(escapes: Escapes, style: str) -> Escapes:
    """These escapes, for a paragraph below lines with its style."""
    return escapes._replace(keeps_lines=escapes.keeps_lines or bool(HARD_BREAKS.search(style)))


IN_LABEL = r":\Z"  # before its ::
# The first of the attributes of a macro, between its brackets; in quotation marks, it has commas
ALTERNATIVE = re.compile(
    r"(?P<quote>\")?(?P<text>(?(quote)[^\"\n]+(?=\"[ \t]*(?:,|$))|[^,=]+(?=,|$)))"
)
IN_ATTRIBUTE = r"[\],=]|^[\"']"
IN_QUOTES = r"[\]\"]"


class Line(NamedTuple):
    """A line without its end."""

    start: int
    end: int
    text: str


def read_asciidoc(text: str) -> Iterator[Part]:
    """The parts of a document."""
    position = 0
    escapes = NO_ESCAPES._replace(keeps_lines=bool(ALL_HARD_BREAKS.search(text)))
    for start, end, part in pieces(text, 0, len(text), escapes):
        yield from (text[position:start], part)
        position = end
    yield text[position:]


def pieces(text: str, start: int, end: int, escapes: Escapes) -> Iterator[Piece]:
    """The pieces of a document, or of a cell with blocks."""
    lines = [
        Line(match.start(), match.end(), match[0].rstrip("\r\n"))
        for match in re.compile(r"[^\n]*(?:\n|\Z)").finditer(text, start, end)
    ]
    index = 0
    style = ""  # the lines before a block that say what it is
    is_header = False  # the lines below the document's title: its author
    while index < len(lines):
        line = lines[index]
        match = LINE.match(line.text)
        kind = match.lastgroup if match else ""
        after = index + 1

        # Blocks between two lines
        if is_verbatim(line, style):
            after = block_end(lines, index)
            reason = COMMENTS if line.text.startswith("////") else AS_CODE
            yield left(text, line.start, lines[after - 1].end, reason)
            style = ""
            is_header = False
        elif TABLE.match(line.text):
            after = block_end(lines, index)
            begin = lines[index + 1].start if after > index + 1 else line.end
            yield from table_of(line.text, style).pieces(text, begin, lines[after - 1].start)
            style = ""
            is_header = False

        # Single lines
        elif not line.text.strip():
            style = ""
            is_header = False
        elif DELIMITER.match(line.text):
            is_header = False
        elif kind == "style":
            style += f"{line.text}\n"
            yield left(text, line.start, line.end)
        elif match and kind in ("comment", "attribute", "macro"):
            yield from left_line(text, line, match, escapes)
        elif kind == "title":  # the style before the title of a block is that of the block
            yield from prose(text, [line], match, escapes)
            style = style if line.text.startswith(".") else ""
            is_header = index == 0 and line.text.startswith("= ")

        # Paragraphs
        else:
            after = paragraph_end(lines, index)
            is_indented = line.text[0] in " \t" and kind != "item"
            if is_code(style) or (is_header and not match) or is_indented:
                yield left(text, line.start, lines[after - 1].end)
            else:
                yield from prose(text, lines[index:after], match, with_style(escapes, style))
            style = ""
            is_header = False

        index = after


def is_verbatim(line: Line, style: str) -> bool:
    """Whether what follows, up to another such line, is left: by its sign, or by its style."""
    begins_code = is_code(style) and DELIMITER.match(line.text)
    return bool(VERBATIM.match(line.text) or begins_code)


def is_code(style: str) -> bool:
    return any(CODE_STYLE.match(line) for line in style.splitlines())


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


def left_line(text: str, line: Line, match: re.Match[str], escapes: Escapes) -> Iterator[Piece]:
    """A comment, an attribute or a macro; the text of an image is translated."""
    start = line.start
    if match["macro"] and match["name"] in ("image", "video", "audio"):
        alternative = ALTERNATIVE.match(match["inside"])
        if alternative:
            begin, end = alternative.span("text")
            begin += line.start + match.start("inside")
            end += line.start + match.start("inside")
            signs = IN_QUOTES if alternative["quote"] else IN_ATTRIBUTE
            yield left(text, start, begin)
            yield read_text(text, begin, end, referring(escapes, signs))
            start = end
    yield left(text, start, line.end, COMMENTS if match["comment"] else AS_CODE)


def prose(
    text: str, lines: Sequence[Line], match: re.Match[str] | None, escapes: Escapes
) -> Iterator[Piece]:
    """A title, a paragraph, an item, or a term with its text."""
    start = lines[0].start
    last = lines[-1].text.rstrip()
    sign = match["title"] if match else None
    if sign and last.endswith(f" {sign.strip()}"):  # == It may end as it begins ==
        last = last.removesuffix(sign.strip()).rstrip()
    end = lines[-1].start + len(last)
    if match and match["term"]:
        label_end = start + match.end("label")
        yield read_text(text, start, label_end, referring(escapes, IN_LABEL))
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
        yield read_text(text, start, end, escapes)


def read_text(text: str, start: int, end: int, escapes: Escapes) -> Piece:
    """The text of a block, or of a cell whose signs have escapes of their own."""
    raw = text[start:end]
    reader = AsciiDocReader(escapes.read(raw).replace("\r\n", "\n"))
    reader.keeps_lines = escapes.keeps_lines
    reader.read(0, len(reader.text))
    prefix = re.search(rf"\n({LINE_PREFIX})", raw)
    separator = newline_of(raw) + (prefix[1] if prefix else "")
    is_behind_sign = start > 0 and text[start - 1] != "\n"
    lay_out = reader.layout(separator, is_behind_sign)
    part = reader.build(raw, lambda translation: escapes.write(lay_out(translation)))
    if not isinstance(part, Segment):
        part = left_if_letters(raw, AS_CODE)
    return start, end, part


# --------------------------------------------------------------------------------------------------
# Tables


class Table(NamedTuple):
    """How a table divides its cells."""

    format: str  # a key of SEPARATORS
    separator: str

    def pieces(self, text: str, start: int, end: int) -> Iterator[Piece]:
        """The texts of its cells, which stand between its two lines."""
        if self.format == "psv":
            return self.cells(text, start, end)
        if self.format == "dsv":
            return self.cells_of_dsv(text, start, end)
        return self.cells_of_csv(text, start, end)

    def cells(self, text: str, start: int, end: int) -> Iterator[Piece]:
        """Each cell is behind a separator.

        In a table inside of a cell, between lines such as !===, it is behind an exclamation mark.
        """
        sign = re.escape(self.separator)
        separator = re.compile(
            rf"(?P<nested>(?:^|(?<={sign}))[ \t]*!={{3,}}[ \t]*\r?$)"
            rf"|(?:(?:^|(?<=[ \t])){CELL_STYLE})?(?<!\\)(?:(?P<outer>{sign})|!)",
            re.MULTILINE,
        )
        is_inner = False
        first = start
        for match in separator.finditer(text, start, end):
            if not (is_inner or match["outer"] or match["nested"]):
                continue
            yield from cell_texts(text, first, match.start(), self.escapes(is_inner))
            first = match.end()
            if match["nested"]:
                is_inner = not is_inner
        yield from cell_texts(text, first, end, self.escapes(is_inner))

    def cells_of_dsv(self, text: str, start: int, end: int) -> Iterator[Piece]:
        """A row is a line, and separators are between its cells."""
        cell = re.compile(rf"(?:\\.|(?!{re.escape(self.separator)})[^\r\n])+")
        for match in cell.finditer(text, start, end):
            yield from cell_texts(text, *match.span(), self.escapes())

    def cells_of_csv(self, text: str, start: int, end: int) -> Iterator[Piece]:
        """As in CSV: a cell in quotation marks may have separators, lines and doubled marks."""
        sign = re.escape(self.separator)
        quoted = rf"\"(?P<quoted>(?:[^\"]|\"\")*)\" *(?={sign}|\r?\n|\Z)"
        bare = rf"(?P<bare>(?:(?!{sign})[^\r\n])*)"
        cell = re.compile(rf" *(?:{quoted}|{bare})(?:{sign}|\r?\n|\Z)")
        in_quotes = Escapes(lambda raw: raw.replace('""', '"'), lambda new: new.replace('"', '""'))
        without_quotes = Escapes(str, self.quoted_if_needed)
        for match in cell.finditer(text, start, end):
            if match["quoted"] is None:
                yield from cell_texts(text, *match.span("bare"), without_quotes)
            else:
                yield from cell_texts(text, *match.span("quoted"), in_quotes)

    def quoted_if_needed(self, cell: str) -> str:
        if self.separator in cell or '"' in cell:
            cell = '"' + cell.replace('"', '""') + '"'
        return cell

    def escapes(self, is_inner: bool = False) -> Escapes:
        """Separators in a text have a backslash before them."""
        signs = re.escape(self.separator)
        if is_inner:
            signs += "|!"
        return Escapes(
            lambda raw: re.sub(rf"\\({signs})", r"\1", raw),
            lambda new: re.sub(signs, r"\\\g<0>", new),
        )


def table_of(line: str, style: str) -> Table:
    """The table that begins with a line such as |===, below lines with its style."""
    sign = line[0]
    attributes = {name: value.strip('"') for name, value in TABLE_ATTRIBUTE.findall(style)}
    table_format = attributes.get("format", "")
    if table_format not in SEPARATORS:
        table_format = FORMAT_OF_SIGN.get(sign, "psv")
    separator = attributes.get("separator", "").replace("\\t", "\t")
    if not separator:
        separator = "!" if sign == "!" else SEPARATORS[table_format]
    return Table(table_format, separator)


def cell_texts(text: str, start: int, end: int, escapes: Escapes) -> Iterator[Piece]:
    """The paragraphs of a cell, which are texts of their own, or its blocks."""
    cell = text[start:end].lstrip(" \t")
    if BLOCK_IN_CELL.search(cell):
        yield from pieces(text, end - len(cell), end, escapes)
        return
    for match in PARAGRAPH.finditer(text, start, end):
        yield read_text(text, match.start(), match.start() + len(match[0].rstrip()), escapes)


def count_lines(data: bytes) -> Counter[str]:
    """Of AsciiDoc: lines by what they begin with, and separators of cells."""
    counts = Counter[str]()
    table: Table | None = None
    end = ""  # the line that ends the table
    style = ""
    for line in re.split(r"\r?\n", data.decode("utf-8-sig")):
        match = LINE.match(line)
        if table and line.strip() == end:
            table = None
        elif TABLE.match(line) and not table:
            table = table_of(line, style)
            end = line.strip()
            style = ""
        elif table and table.format == "psv":
            counts["cells"] += len(re.findall(rf"(?<!\\){re.escape(table.separator)}", line))
        elif match and match.lastgroup and not table:
            counts[f"lines of the kind {match.lastgroup}"] += 1
            style += f"{line}\n" if match["style"] else ""
    return counts
