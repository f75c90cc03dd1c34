"""Markdown (CommonMark with tables) and MDX: markdown-it says which lines are which block, and
every other byte stays.

A reader of our own, because translate-toolkit leaves out blocks of HTML, unescapes | in cells of
tables, and lays lines and tables out anew. To CommonMark it adds, in `BlockRules`, what MkDocs,
MyST, Docusaurus and GitHub have: boxes whose text is indented (!!! ??? ===) or between lines of
signs (::: ///), footnotes, definitions and abbreviations. Code, front matter, formulas and
templates are left, and counted; HTML is read as HTML.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial
from typing import Any

from nmt.documents.html import FORMULA, TOKEN, Token, add_markup, read_html, read_markup, tag_parts
from nmt.documents.plain_text import newline_of, wrap, wraps
from nmt.documents.segment import (
    AS_CODE,
    COMMENTS,
    KEPT_WITHOUT_BARS,
    PLACEHOLDER,
    STATEMENT,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    Tag,
    TagKind,
    left_if_letters,
)
from nmt.errors import UserError, install_extra

FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:\1|\.\.\.)"
    r"[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
TITLES = re.compile(  # values of front matter that a reader of the page sees
    r"(?m)^(?:title|subtitle|description|summary|excerpt|abstract)[ \t]*[:=][ \t]*"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s\"'\[\]{}>|&*!#%@`][^\n#]*?)[ \t]*\r?$"
)
# what a value of YAML without quotes has not
NOT_PLAIN = re.compile(r":(?:\s|$)|\s#|^[\s\"'\[\]{}>|&*!#%@`,?-]|\s$")
# What stands before the text of a block: of task lists and alerts.
PREFIX = re.compile(r"\[[ xX]\][ \t]+|\[!\w+\][+-]?[ \t]*\n?")
SUFFIX = re.compile(r"[ \t]*\{:?[ \t]*(?:[#.][^\s{}]|[\w-]+=)[^{}\n]*\}[ \t]*$")  # {#id .class}
TITLE = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)"
DESTINATION = (
    r"\(\s*(?:<[^<>\n]*>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))"
    r"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?"
    rf"(?:\s+(?P<title>{TITLE}))?\s*\)"
)
TARGET = re.compile(
    rf"(?:(?P<inline>{DESTINATION})|\[(?P<label>[^\[\]]*)\])(?:\{{[^{{}}\n]{{1,200}}\}})?"
)
DEFINITION = re.compile(
    rf"(?m)^[ \t>]*\[[^\[\]]+\]:\s*(?:<[^<>\n]*>|\S+)(?:\s+(?P<title>{TITLE}))?[ \t]*\r?$"
)
INLINE_PATTERN = (
    r"(?P<escape>\\[!-#%-/:-@\[-`{-~])|(?P<hard>(?: {2,}|\\)\n[ \t]*)|(?P<soft>[ \t]*\n[ \t]*)"
    r"|(?P<role>\{[\w:+.-]{1,40}\}(?=`))"
    r"|(?P<wiki>!?\[\[[^\[\]|\n]{1,200}(?:\|[^\[\]\n]{1,200})?\]\])"
    r"|(?P<ticks>`+)"
    r"|(?P<unit>\\\$|\$\$(?:(?!\$\$).){1,2000}\$\$|\$(?=\S)[^$\n]+?(?<=\S)\$(?!\d)"
    r"|<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>"
    rf"|EXPRESSION{PLACEHOLDER}|{FORMULA})"
    r"|(?P<point>\[\^[^\]\s]+\]:?)|(?P<link>!?\[)|(?P<run>\*+|_+|~~|==)|(?P<tag><)"
)
INLINE = re.compile(INLINE_PATTERN.replace("EXPRESSION", ""), re.DOTALL)
BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
MDX_INLINE = re.compile(INLINE_PATTERN.replace("EXPRESSION", f"{BRACES}|"), re.DOTALL)
VALUE = rf"""(?:"[^"]*"|'[^']*'|{BRACES}|[^\s"'=<>`{{}}]+)"""
HTML_TAG = re.compile(
    r"</?(?P<name>[A-Za-z][\w:.-]*)?"
    rf"""(?P<rest>(?:\s+(?:[A-Za-z_:@#*\[(][^\s=<>"'/{{}}]*(?:\s*=\s*{VALUE})?|{BRACES}))*)\s*/?>"""
)
CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)[^`\n]+(?<!`)\1(?!`)")
NO_BREAK = "\ufdd0"  # no character; for a space at which no line may end
BRACKETS = re.compile(r"\\.|(?P<ticks>`+)|(?P<open>\[)|(?P<close>\])", re.DOTALL)
LINE_START = re.compile(
    r"(?m)^([ \t]*)(?:(\d{1,9})(?=[.)](?:\s|$))"
    r"|(?=#{1,6}\s|[-+*](?:\s|$)|>|=+\s*$|-+\s*$|~~~|:::|:\s|///|\$\$"
    r"|!!!\s|\?\?\?\+?\s|===[!+]?\s))"
)
LITERAL = re.compile(
    r"[\\`]|(?<=\S)\*|\*(?=\S)|(?<!\w)_|_(?!\w)|==|~~"
    r"|\](?=[(\[:])|(?<=\[)\[|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
)
DEEPEST = 20  # images inside each other, and emphasis that is looked at


# --------------------------------------------------------------------------------------------------
# Blocks

# A box has a title, and its text is indented; the text of an item begins behind its sign.
BOX = r"(?:!!!|\?\?\?\+?|===[!+]?)[ \t]+\S"
ITEM = r"(?:\[\^[^\]\s]+\]:|\*\[[^\]\n]+\]:|:[ \t])[ \t]*(?=\S)"
INDENTED = re.compile(rf"(?P<box>{BOX})|(?P<item>{ITEM})")
# text is between two such lines, and may have others inside
FENCED = re.compile(r"(?::{3,}|/{3,})(?=$|[^:/])")
FENCE_TITLE = re.compile(
    r"[ \t]*(?:\{[^{}]*\}|[\w-]*)[ \t]*"
    r"(?:\|[ \t]*)?(?:\[(?P<bracket>[^\[\]]*)\]|(?P<rest>.*))"
)
BOX_TITLE = re.compile(r"\"(?P<title>(?:[^\"\\]|\\.)*)\"[ \t]*$")
# a line of a paragraph that is not indented
CONTINUES = re.compile(r"(?!\d+[.)]\s)(?:[*_](?=\S)|[\w\"'„“«(\[])")
ESM = re.compile(r"(?:import|export)\b")


def read_indented(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a box or an item with what is indented below it."""
    start = state.bMarks[first] + state.tShift[first]
    match = INDENTED.match(state.src, start, state.eMarks[first])
    if not match or state.is_code_block(first):
        return False
    if silent:
        return True
    width = 4 if match["box"] else 2
    after = indented_end(state, first, last, width, bool(match["item"]))
    token = state.push("box_open" if match["box"] else "item_open", "", 1)
    token.map = [first, after]
    begin = first
    saved = (
        state.bMarks[first],
        state.tShift[first],
        state.sCount[first],
        state.blkIndent,
        state.lineMax,
    )
    state.blkIndent += width
    state.lineMax = after
    if match["box"]:
        title = BOX_TITLE.search(state.src, start, state.eMarks[first])
        add_title(state, first, title["title"] if title else "")
        begin = first + 1
    else:
        state.bMarks[first] = match.end()
        state.tShift[first] = 0
        state.sCount[first] = state.blkIndent
    state.md.block.tokenize(state, begin, after)
    (
        state.bMarks[first],
        state.tShift[first],
        state.sCount[first],
        state.blkIndent,
        state.lineMax,
    ) = saved
    state.push("box_close" if match["box"] else "item_close", "", -1)
    state.line = after
    return True


def indented_end(state: Any, first: int, last: int, width: int, is_lazy: bool) -> int:
    """The line after what is indented by `width`.

    `is_lazy`: a paragraph goes on in lines that are not.
    """
    line = first + 1
    after = line
    while line < last:
        if state.isEmpty(line):
            is_lazy = False
        elif state.sCount[line] >= state.blkIndent + width:
            after = line + 1
        elif is_lazy and CONTINUES.match(state.src, state.bMarks[line] + state.tShift[line]):
            if INDENTED.match(state.src, state.bMarks[line] + state.tShift[line]):
                break
            after = line + 1
        else:
            break
        line += 1
    return after


def add_title(state: Any, line: int, title: str) -> None:
    if title.strip():
        token = state.push("inline", "", 0)
        token.content = title.strip()
        token.map = [line, line + 1]
        token.children = []


def read_fence_line(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a line of ::: or /// with a title; what follows is Markdown."""
    start = state.bMarks[first] + state.tShift[first]
    end = state.eMarks[first]
    match = FENCED.match(state.src, start, end)
    if not match or state.is_code_block(first):
        return False
    if not silent:
        token = state.push("box_line", "", 0)
        token.map = [first, first + 1]
        title = FENCE_TITLE.match(state.src, match.end(), end)
        add_title(state, first, (title["bracket"] or title["rest"] or "") if title else "")
        state.line = first + 1
    return True


def read_formula(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: $$ with lines up to the one that ends in $$."""
    start = state.bMarks[first] + state.tShift[first]
    if not state.src.startswith("$$", start) or state.is_code_block(first):
        return False
    end = state.src.find("$$", start + 2)
    line = first
    while 0 <= end and line < last and state.eMarks[line] < end:
        line += 1
    if end < 0 or line == last or state.src[end + 2 : state.eMarks[line]].strip():
        return False
    if not silent:
        token = state.push("math_block", "", 0)
        token.map = [first, line + 1]
        state.line = line + 1
    return True


def read_esm(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it for MDX: lines of import and export.

    They go on up to a blank line outside brackets.
    """
    if state.level or state.sCount[first] or not ESM.match(state.src, state.bMarks[first]):
        return False
    depth = 0
    line = first
    while line < last and not (state.isEmpty(line) and depth <= 0):
        source = state.src[state.bMarks[line] : state.eMarks[line]]
        depth += len(re.findall(r"[({\[]", source)) - len(re.findall(r"[)}\]]", source))
        line += 1
    if not silent:
        token = state.push("esm", "", 0)
        token.map = [first, line]
        state.line = line
    return True


def read_jsx(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it for MDX: lines that have tags and expressions alone."""
    start = state.bMarks[first] + state.tShift[first]
    stop = state.eMarks[last - 1]
    position = start
    while match := JSX.match(state.src, position, stop):
        position = match.end()
        end = state.src.find("\n", position)
        if not state.src[position : end if end >= 0 else stop].strip():
            break
    if position == start or not match:
        return False
    if not silent:
        token = state.push("jsx", "", 0)
        token.map = [first, first + 1 + state.src.count("\n", start, position)]
        state.line = token.map[1]
    return True


JSX = re.compile(rf"[ \t]*(?:{HTML_TAG.pattern}|{BRACES})")


def parse_blocks(text: str, environment: dict[str, Any], is_mdx: bool = False) -> list[Any]:
    """The tokens of markdown-it, inline ones as they are; raises UserError where it is missing."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise UserError(
            f"Markdown is read by markdown-it-py: {install_extra('documents')}."
        ) from None
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    # whether it ends a paragraph, and so on
    ends: Any = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    rules = [
        ("indented", read_indented),
        ("fence_line", read_fence_line),
        ("formula", read_formula),
    ]
    if is_mdx:
        parser.disable(["code", "html_block"])
        parser.block.ruler.before("table", "esm", read_esm)
        rules.append(("jsx", read_jsx))
    for name, rule in rules:
        parser.block.ruler.before("table", name, rule, ends)
    return parser.parse(text, environment)


def count_blocks(data: bytes, is_mdx: bool = False) -> Counter[str]:
    """Of Markdown: blocks by their kind."""
    text = data.decode("utf-8-sig")
    body = matter.end() if (matter := FRONT_MATTER.match(text)) else 0
    kinds = [token.type.removesuffix("_open") for token in parse_blocks(text[body:], {}, is_mdx)]
    return Counter(f"{kind} blocks" for kind in kinds if not kind.endswith("_close"))


# --------------------------------------------------------------------------------------------------
# Documents


def read_markdown(text: str, is_mdx: bool = False) -> Iterator[Part]:
    """The parts of a document; raises UserError where markdown-it is missing."""
    matter = FRONT_MATTER.match(text)
    body = position = matter.end() if matter else 0
    starts = [
        body,
        *(match.end() for match in re.compile(r"\r\n|\r|\n").finditer(text, body)),
        len(text),
    ]
    environment: dict[str, Any] = {}
    blocks = parse_blocks(text[body:], environment, is_mdx)
    labels = {normal_label(label) for label in environment.get("references", {})}
    reader = MdxReader if is_mdx else InlineReader
    is_cell = False
    quotes = 0
    yield from matter_parts(text[:body])
    for token in blocks:
        is_cell = token.type in ("th_open", "td_open") or (
            is_cell and token.type not in ("th_close", "td_close")
        )
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        first, last = token.map or (0, 0)
        start = max(starts[first], position)
        end = starts[min(last, len(starts) - 1)]
        parts: list[Part] = []
        if token.type == "html_block" and not quotes:
            parts = html_parts(text[start:end])
        elif token.type == "jsx":
            parts = jsx_parts(text, start, end)
        elif token.type in ("fence", "code_block", "math_block", "esm", "html_block"):
            parts = [left_if_letters(text[start:end], AS_CODE)]
        elif token.type == "inline":
            lines = find_lines(text, token.content, first, starts, position, is_cell)
            if lines:
                start = lines[0][0]
                end = lines[-1][1]
                parts = block_parts(text, lines, reader, labels, is_cell)
        if parts:
            yield from gap_parts(text[position:start])
            yield from parts
            position = end
    yield from gap_parts(text[position:])


def read_mdx(text: str) -> Iterator[Part]:
    return read_markdown(text, is_mdx=True)


def matter_parts(text: str) -> Iterator[Part]:
    """Of front matter: titles and descriptions in one line are text."""
    position = 0
    for match in TITLES.finditer(text):
        start, end = match.span("value")
        mark = text[start] if text[start] in "\"'" else ""
        if mark:
            start = start + 1
            end = end - 1
        builder = SegmentBuilder(
            {'"': escape_in_string, "'": lambda text: text.replace("'", "''")}.get(mark, str)
        )
        plain = (
            re.sub(r"\\(.)", r"\1", text[start:end])
            if mark == '"'
            else text[start:end].replace("''", "'")
        )
        builder.add_text(plain)
        yield left_if_letters(text[position:start], "front matter")
        yield builder.build(text[start:end], str if mark else quoted_if_needed)
        position = end
    yield left_if_letters(text[position:], "front matter")


def escape_in_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def quoted_if_needed(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if NOT_PLAIN.search(value) else value


def html_parts(text: str) -> list[Part]:
    """A block of HTML; as it is where it is no whole one."""
    try:
        return list(read_html(text))
    except Malformed:
        return [left_if_letters(text, AS_CODE)]


def jsx_parts(text: str, start: int, end: int) -> list[Part]:
    """Tags of MDX with the texts among their attributes."""
    parts: list[Part] = []
    for match in JSX.finditer(text, start, end):
        parts.append(left_if_letters(text[start : match.start()], AS_CODE))
        if match["rest"] is None:
            parts.append(left_if_letters(match[0], AS_CODE))
        else:
            parts += tag_parts(text, match, (match["name"] or "").lower(), {})
        start = match.end()
    return [*parts, left_if_letters(text[start:end], AS_CODE)]


def gap_parts(text: str) -> list[Part]:
    """What is between blocks: signs, definitions of references, and what was not understood.

    The titles of references are text.
    """
    parts: list[Part] = []
    position = 0
    for match in DEFINITION.finditer(text):
        parts.append(left_if_letters(text[position : match.start()], AS_CODE))
        position = match.end()
        if match["title"]:
            start, end = match.span("title")
            parts += [
                text[match.start() : start],
                *title_parts(text[start:end]),
                text[end:position],
            ]
        else:
            parts.append(match[0])
    rest = text[position:]
    return [*parts, left_if_letters(rest, AS_CODE) if re.search(r"[^\W\d_]{2}", rest) else rest]


def title_parts(raw: str) -> list[Part]:
    """The title of a link, in its quotation marks."""
    builder = SegmentBuilder(partial(escape_in_title, mark=raw[-1]))
    builder.add_text(html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw[1:-1])))
    return [raw[0], builder.build(raw[1:-1]), raw[-1]]


def escape_in_title(text: str, mark: str) -> str:
    return re.sub(rf"[\\{mark}]", r"\\\g<0>", text.replace("&", "&amp;"))


def find_lines(
    text: str, content: str, first: int, starts: list[int], position: int, is_cell: bool
) -> list[tuple[int, int]]:
    """The span of each line of a block's content in the text, spaces at its end included.

    None if one is not found.
    """
    if prefix := PREFIX.match(content):
        content = content[prefix.end() :]
        first = first + prefix[0].count("\n")
    if suffix := SUFFIX.search(content):
        content = content[: suffix.start()]
    spans = []
    for number, line in enumerate(content.rstrip().split("\n"), first):
        if number + 1 >= len(starts):
            return []
        low = max(starts[number], position)
        high = starts[number + 1]
        found = (text.find if is_cell else text.rfind)(line, low, high)
        if is_cell and found < 0:
            line = line.replace("|", "\\|")
            found = text.find(line, low, high)
        if found < 0:
            return []
        spans.append((found, found + len(line)))
    return spans if content.strip() else []


def block_parts(
    text: str,
    lines: list[tuple[int, int]],
    reader: type[InlineReader],
    labels: Collection[str],
    is_cell: bool,
) -> list[Part]:
    """The text of a block in these lines; the title of an alert is a text of its own."""
    first, last = lines[0]
    line_start = text.rfind("\n", 0, first) + 1
    if lines[1:] and re.search(r"\[!\w+\][+-]?[ \t]*$", text[line_start:first]):
        between = text[last : lines[1][0]]
        return [
            read_block(text, lines[:1], reader, labels, False),
            between,
            read_block(text, lines[1:], reader, labels, False),
        ]
    return [read_block(text, lines, reader, labels, is_cell)]


def read_block(
    text: str,
    lines: list[tuple[int, int]],
    make: type[InlineReader],
    labels: Collection[str],
    is_cell: bool,
) -> Part:
    """The text of a block in these lines.

    A full paragraph gets lines of the same width; any other block is one line.
    """
    raw = text[lines[0][0] : lines[-1][1]]
    contents = [text[first:last] for first, last in lines]
    reader = make("\n".join(contents), labels, escape_cell if is_cell else make.escape)
    reader.read(0, len(reader.text))
    if len(lines) == 1:
        return reader.build(raw, str if is_cell else make.escape_start)
    prefix = text[lines[0][1] : lines[1][0]].lstrip(" \\").lstrip("\r\n")
    longest = max(map(len, contents))
    is_full = any(
        wraps(line, following, longest)
        for line, following in zip(contents, contents[1:], strict=False)
    )
    separator = f"{newline_of(raw)}{prefix}"

    def layout(translation: str) -> str:
        # No line ends inside code, where a tag at the beginning of the next line would begin a
        # block of HTML.
        joined = CODE_SPAN.sub(lambda match: match[0].replace(" ", NO_BREAK), translation)
        wrapped = wrap(joined, longest if is_full else 1 << 30, "", "\n").replace(NO_BREAK, " ")
        return separator.join(map(make.escape_start, wrapped.split("\n")))

    return reader.build(raw, layout)


# --------------------------------------------------------------------------------------------------
# Inline


def escape(text: str) -> str:
    return LITERAL.sub(
        lambda match: f"\\{match[0]}" if match[0] not in "&<" else html.escape(match[0]), text
    )


def escape_cell(text: str) -> str:
    return escape(text).replace("|", "\\|")


def escape_line_start(text: str) -> str:
    return LINE_START.sub(r"\1\2\\", text)


def escape_mdx(text: str) -> str:
    return re.sub(r"[{}]", r"\\\g<0>", escape(text)).replace("<", "&lt;")


def escape_mdx_line_start(text: str) -> str:
    return re.sub(
        r"^([ie])(?=mport\b|xport\b)", lambda match: f"&#{ord(match[1])};", escape_line_start(text)
    )


class InlineEnds:
    """Where what begins in a text ends, found in one pass for each kind: code, brackets, tags."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def code(self) -> dict[int, int]:
        """The end of a span of code by the place of its first backtick."""
        ends = dict[int, int]()
        following = dict[int, int]()  # the end of the next run of so many backticks
        for match in reversed(list(re.finditer("`+", self.text))):
            length = match.end() - match.start()
            if length in following:
                ends[match.start()] = following[length]
            following[length] = match.end()
        return ends

    @cached_property
    def brackets(self) -> dict[int, int]:
        """The place of a closing bracket by that of its opening one, outside code."""
        ends = dict[int, int]()
        opened = list[int]()
        position = 0
        while match := BRACKETS.search(self.text, position):
            position = match.end()
            if match["ticks"]:
                position = self.code.get(match.start(), position)
            elif match["open"]:
                opened.append(match.start())
            elif match["close"] and opened:
                ends[opened.pop()] = match.start()
        return ends

    @cached_property
    def elements(self) -> dict[int, int]:
        """The end of an element by the place of its tag."""
        ends = dict[int, int]()
        opened: dict[str, list[int]] = {}
        for match in HTML_TAG.finditer(self.text):
            names = opened.setdefault((match["name"] or "").lower(), [])
            if not match[0].startswith("</"):
                names.append(match.start())
            elif names:
                ends[names.pop()] = match.end()
        return ends

    @cached_property
    def last_comment(self) -> int:
        """Where the last end of a comment is."""
        return self.text.rfind("-->")


class InlineReader:
    """Reads one block of inline Markdown into a SegmentBuilder."""

    PATTERN = INLINE
    NOT_IN_WORDS: Collection[str] = ("_", "__", "___")
    unescape: Callable[[str], str] = staticmethod(html.unescape)
    escape = staticmethod(escape)
    escape_start = staticmethod(escape_line_start)

    def __init__(
        self,
        text: str,
        labels: Collection[str] = (),
        escape: Callable[[str], str] = str,
        ends: InlineEnds | None = None,
        depth: int = 0,
    ) -> None:
        # labels that are defined, as `normal_label` writes them
        self.text = text
        self.labels = labels
        self.builder = SegmentBuilder(escape)
        self.ends = ends or InlineEnds(text)
        self.depth = depth  # of images
        self.is_link = False  # whether it reads the text of a link
        self.runs: list[Tag] = []  # of emphasis that is open
        self.unpaired: list[Tag] = []  # of emphasis that nothing closes

    def read(self, start: int, end: int) -> None:
        position = start
        while match := self.PATTERN.search(self.text, position, end):
            self.builder.add_text(
                self.unescape(self.text[position : match.start()]), KEPT_WITHOUT_BARS
            )
            position = self.read_markup(match, end)
        self.builder.add_text(self.unescape(self.text[position:end]), KEPT_WITHOUT_BARS)

    def build(self, raw: str, layout: Callable[[str], str] = str) -> Part:
        """The segment of what was read; emphasis without an end is text."""
        self.builder.tags_to_text([*self.unpaired, *self.runs])
        return self.builder.build(raw, layout)

    def read_markup(self, match: re.Match[str], end: int) -> int:
        """What PATTERN has found; the position after it."""
        kind = match.lastgroup
        raw = match[0]
        if kind in ("link", "tag", "ticks", "role"):
            return int(getattr(self, f"read_{kind}")(match, end))
        if kind == "unit" and STATEMENT.match(raw):
            self.builder.add_break(left_if_letters(raw, AS_CODE), separates=True)
        elif kind == "unit":
            self.builder.add_unit([raw])
        elif kind == "hard":
            self.builder.add_break(raw)
        elif kind in ("open", "close", "point"):
            self.builder.add_tag(TagKind[kind.upper()], [raw], "]")
        elif kind == "run":
            self.read_run(match)
        elif kind == "wiki":
            self.read_wiki_link(match)
        elif kind == "soft":
            self.builder.add_space(raw)
        else:
            self.builder.add_text(raw[1:])  # an escaped sign
        return match.end()

    def read_run(self, match: re.Match[str]) -> None:
        """Emphasis: signs that close what is open, or open what may be closed."""
        run = match[0]
        sign = run.rpartition("]")[2]  # AsciiDoc has [.role] before it
        before = self.text[max(match.start() - 1, 0) : match.start()]
        after = self.text[match.end() : match.end() + 1]
        is_bound = run in self.NOT_IN_WORDS
        closes = bool(before.strip()) and not (is_bound and after.isalnum())
        opens = bool(after.strip()) and not (is_bound and before.isalnum())
        while run and closes and self.drop_to_opener(run):
            self.split_run(len(run))
            name = self.runs.pop().name
            self.builder.add_tag(TagKind.CLOSE, [name], name)
            run = sign = run[len(name) :]
        if run and opens:
            self.builder.add_tag(TagKind.OPEN, [run], sign)
            self.runs.append(self.builder.tags[-1])
        else:
            self.builder.add_text(run)

    def drop_to_opener(self, run: str) -> bool:
        """Whether a run closes an open one, which is then the last.

        Those in between have no end.
        """
        for index in range(len(self.runs) - 1, max(len(self.runs) - 1 - DEEPEST, -1), -1):
            if run.startswith(self.runs[index].name[: len(run)]):
                self.unpaired += self.runs[index + 1 :]
                del self.runs[index + 1 :]
                return True
        return False

    def split_run(self, length: int) -> None:
        """Make two of the last signs of emphasis, where only `length` of them are closed.

        An example is ***a* b**.
        """
        whole = self.runs[-1]
        if len(whole.name) > length:
            inner = Tag(TagKind.OPEN, whole.position, [whole.name[:length]], whole.name[:length])
            whole.name = whole.name[length:]
            whole.parts = [whole.name]
            index = len(self.builder.tags)
            while self.builder.tags[index - 1] is not whole:
                index -= 1
            self.builder.tags.insert(index, inner)
            self.runs.append(inner)

    def read_ticks(self, match: re.Match[str], end: int) -> int:
        """Code, or backticks without a partner."""
        after = self.ends.code.get(match.start(), end + 1)
        if after > end:
            self.builder.add_text(match[0])
            return match.end()
        self.builder.add_unit([self.text[match.start() : after]])
        return after

    def read_role(self, match: re.Match[str], end: int) -> int:
        """A role of MyST: the text of {ref}`text <target>` is translated, of others nothing is."""
        after = self.ends.code.get(match.end(), end + 1)
        if after > end:
            self.builder.add_text(match[0])
            return match.end()
        shown = re.compile(
            r"(?P<ticks>`+)(?P<text>[^`<>]+?)(?P<target>\s*<[^<>`]*>(?P=ticks))"
        ).match(self.text, match.end(), after)
        if shown:
            self.builder.add_tag(TagKind.OPEN, [match[0] + shown["ticks"]], "role")
            self.builder.add_text(shown["text"])
            self.builder.add_tag(TagKind.CLOSE, [shown["target"]], "role")
        else:
            self.builder.add_unit([self.text[match.start() : after]])
        return after

    def read_wiki_link(self, match: re.Match[str]) -> None:
        """[[page|text]]; a page without a text is both, and stays."""
        target, bar, shown = match[0].partition("|")
        if bar and not match[0].startswith("!"):
            self.builder.add_tag(TagKind.OPEN, [target + bar], "wiki")
            self.builder.add_text(shown.removesuffix("]]"))
            self.builder.add_tag(TagKind.CLOSE, ["]]"], "wiki")
        else:
            self.builder.add_unit([match[0]])

    def read_link(self, match: re.Match[str], end: int) -> int:
        """A link or an image; its text and its title are translated, its target is not."""
        start = match.end()
        close = self.ends.brackets.get(start - 1, end)
        is_image = match[0] == "!["
        target = TARGET.match(self.text, close + 1, end)
        named = (
            close < end
            and normal_label((target and target["label"]) or self.text[start:close]) in self.labels
        )
        # a label may be defined elsewhere
        is_found = named or bool(target and (target["inline"] or target["label"]))
        if close >= end or not is_found or self.depth == DEEPEST or (self.is_link and not is_image):
            self.builder.add_text(match[0])
            return start
        after = target.end() if target else close + 1
        if is_image:
            image = type(self)(self.text, self.labels, type(self).escape, self.ends, self.depth + 1)
            image.read(start, close)
            inner = image.build(self.text[start:close])
            self.builder.add_tag(
                TagKind.POINT, ["![", inner, *self.target_parts(target, close, after)]
            )
        else:
            self.builder.add_tag(TagKind.OPEN, ["["], "link")
            self.is_link = True
            self.read(start, close)
            self.is_link = False
            parts = self.target_parts(target, close, after)
            if not (target and (target["inline"] or target["label"])):
                # the label is the text, which is translated
                parts = [f"][{self.text[start:close]}]"]
            self.builder.add_tag(TagKind.CLOSE, parts, "link")
        return after

    def target_parts(self, target: re.Match[str] | None, close: int, after: int) -> list[Part]:
        if not (target and target["title"]):
            return [self.text[close:after]]
        start, end = target.span("title")
        return [self.text[close:start], *title_parts(self.text[start:end]), self.text[end:after]]

    def read_tag(self, match: re.Match[str], end: int) -> int:
        start = match.start()
        if self.text.startswith("<!--", start) and start < self.ends.last_comment:
            after = self.text.index("-->", start) + 3
            self.builder.add_tag(TagKind.POINT, [left_if_letters(self.text[start:after], COMMENTS)])
            return after
        tag = HTML_TAG.match(self.text, start, end)
        if not tag:
            self.builder.add_text("<")
            return match.end()
        found = TOKEN.match(tag[0])
        try:
            token = read_markup(tag[0], found)[0] if found else Token("point", 0, 0, [tag[0]])
        except Malformed:  # a script, whose end is not in its tag
            token = Token("open", 0, 0, [tag[0]], (tag["name"] or "").lower(), reason=AS_CODE)
        after = self.ends.elements.get(start, 0)
        if token.reason and token.kind == "open" and after:
            self.builder.add_unit([Left(self.text[start:after], token.reason)])
            return after
        add_markup(self.builder, token)
        return tag.end()


class MdxReader(InlineReader):
    """Inline MDX: expressions in braces stay, and < and { are always escaped."""

    PATTERN = MDX_INLINE
    escape = staticmethod(escape_mdx)
    escape_start = staticmethod(escape_mdx_line_start)


def normal_label(label: str) -> str:
    return " ".join(label.split()).casefold()
