"""Markdown (CommonMark with tables): markdown-it says which lines are which block, and every other byte stays.

A reader of our own, because translate-toolkit leaves out blocks of HTML, unescapes | in cells of tables, and lays lines
and tables out anew. Code, front matter, definitions of references, formulas and templates are not translated; HTML is
read as HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from nmt.documents.html import FORMULA, TOKEN, add_markup, read_html, read_markup
from nmt.documents.plain_text import newline_of, wrap, wraps
from nmt.documents.segment import PLACEHOLDER, Malformed, Part, SegmentBuilder, TagKind, closing
from nmt.errors import UserError, install_extra

FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
KEPT = re.compile(r"\$\$|:::|\{%|\{\{|<!--|!!!")  # a block that begins so is no text
PREFIX = re.compile(r"\[[ xX]\][ \t]+|\[\^[^\]\s]+\]:[ \t]*|\[!\w+\][^\n]*\n?")  # task lists, footnotes, alerts
DESTINATION = (
    r"\(\s*(?:<[^<>\n]*>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?"
    r"(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"
)
TARGET = re.compile(rf"(?P<inline>{DESTINATION})|\[(?P<label>[^\[\]]*)\]")
CODE = r"(?P<fence>`+)(?!`).+?(?<!`)(?P=fence)(?!`)"
INLINE = re.compile(
    r"(?P<escape>\\[!-#%-/:-@\[-`{-~])|(?P<hard>(?: {2,}|\\)\n[ \t]*)|(?P<soft>[ \t]*\n[ \t]*)"
    rf"|(?P<unit>{CODE}|\\\$|\$\$.+?\$\$|\$(?=\S)[^$\n]+?(?<=\S)\$(?!\d)|<[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*>"
    rf"|<[^\s<>@]+@[^\s<>]+>|\{{\{{.*?\}}\}}|\{{%.*?%\}}|{PLACEHOLDER}|{FORMULA})|(?P<ticks>`+)"
    r"|(?P<point>\[\^[^\]\s]+\]:?)|(?P<link>!?\[)|(?P<run>\*+|_+|~~)|(?P<tag><)",
    re.DOTALL,
)
BRACKETS = re.compile(rf"\\.|{CODE}|(?P<open>\[)|(?P<close>\])", re.DOTALL)
LINE_START = re.compile(
    r"(?m)^([ \t]*)(?:(\d{1,9})(?=[.)](?:\s|$))|(?=#{1,6}\s|[-+*](?:\s|$)|>|=+\s*$|-+\s*$|~~~|:::))"
)
LITERAL = re.compile(r"[\\`]|(?<=\S)\*|\*(?=\S)|(?<!\w)_|_(?!\w)|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def read_markdown(text: str) -> Iterator[Part]:
    """The parts of a document; raises UserError where markdown-it is missing."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise UserError(f"Markdown is read by markdown-it-py: {install_extra('documents')}.") from None
    matter = FRONT_MATTER.match(text)
    body = position = matter.end() if matter else 0
    starts = [body, *(match.end() for match in re.compile(r"\r\n|\r|\n").finditer(text, body)), len(text)]
    environment: dict[str, Any] = {}
    is_cell = False
    yield text[:body]
    for token in MarkdownIt("commonmark").enable("table").disable("inline").parse(text[body:], environment):
        is_cell = token.type in ("th_open", "td_open") or (is_cell and token.type not in ("th_close", "td_close"))
        first, last = token.map or (0, 0)
        start, end = max(starts[first], position), starts[min(last, len(starts) - 1)]
        parts: list[Part] = []
        if token.type == "html_block" and not token.level:
            parts = html_parts(text[start:end])
        elif token.type == "inline":
            lines = find_lines(text, token.content, first, starts, position, is_cell)
            if lines and not KEPT.match(text, lines[0][0]):
                labels = {normal_label(label) for label in environment.get("references", {})}
                start, end = lines[0][0], lines[-1][1]
                parts = [read_block(text, lines, labels, is_cell)]
        if parts:
            yield from (text[position:start], *parts)
            position = end
    yield text[position:]


def html_parts(text: str) -> list[Part]:
    """A block of HTML; as it is where it is no whole one."""
    try:
        return list(read_html(text))
    except Malformed:
        return [text]


def find_lines(
    text: str, content: str, first: int, starts: list[int], position: int, is_cell: bool
) -> list[tuple[int, int]]:
    """The span of each line of a block's content in the text, spaces at its end included; none if one is not found."""
    if prefix := PREFIX.match(content):
        content, first = content[prefix.end() :], first + prefix[0].count("\n")
    spans = []
    for number, line in enumerate(content.rstrip().split("\n"), first):
        if number + 1 >= len(starts):
            return []
        low, high = max(starts[number], position), starts[number + 1]
        found = (text.find if is_cell else text.rfind)(line, low, high)
        if is_cell and found < 0:
            line = line.replace("|", "\\|")
            found = text.find(line, low, high)
        if found < 0:
            return []
        spans.append((found, found + len(line)))
    return spans if content.strip() else []


def read_block(text: str, lines: list[tuple[int, int]], labels: Collection[str], is_cell: bool) -> Part:
    """The text of a block in these lines. A full paragraph gets lines of the same width, any other one is one line."""
    raw, contents = text[lines[0][0] : lines[-1][1]], [text[first:last] for first, last in lines]
    reader = InlineReader("\n".join(contents), labels, escape_cell if is_cell else escape)
    reader.read(0, len(reader.text))
    if len(lines) == 1:
        return reader.builder.build(raw, str if is_cell else escape_line_start)
    prefix = text[lines[0][1] : lines[1][0]].lstrip(" \\").lstrip("\r\n")
    longest = max(map(len, contents))
    is_full = any(wraps(line, following, longest) for line, following in zip(contents, contents[1:], strict=False))
    separator = f"{newline_of(raw)}{prefix}"

    def layout(translation: str) -> str:
        wrapped = wrap(translation, longest if is_full else 1 << 30, "", "\n")
        return separator.join(map(escape_line_start, wrapped.split("\n")))

    return reader.builder.build(raw, layout)


class InlineReader:
    """Reads one block of inline Markdown into a SegmentBuilder."""

    PATTERN = INLINE

    def __init__(self, text: str, labels: Collection[str] = (), escape: Callable[[str], str] = str) -> None:
        self.text, self.labels = text, labels  # labels that are defined, as `normal_label` writes them
        self.builder = SegmentBuilder(escape)
        self.runs: list[str] = []  # of emphasis that is open

    def read(self, start: int, end: int) -> None:
        position = start
        while match := self.PATTERN.search(self.text, position, end):
            self.builder.add_text(html.unescape(self.text[position : match.start()]))
            kind, raw, position = match.lastgroup, match[0], match.end()
            if kind == "unit":
                self.builder.add_unit([raw])
            elif kind == "hard":
                self.builder.add_break(raw)
            elif kind in ("open", "close", "point"):
                self.builder.add_tag(TagKind[kind.upper()], [raw], "]")
            elif kind == "run":
                self.read_run(match)
            elif kind == "link":
                position = self.read_link(match, end)
            elif kind == "tag":
                position = self.read_tag(match, end)
            else:  # an escaped sign, the end of a line, backticks without a partner
                self.builder.add_text({"escape": raw[1:], "soft": " "}.get(kind or "", raw))
        self.builder.add_text(html.unescape(self.text[position:end]))

    def read_run(self, match: re.Match[str]) -> None:
        """Emphasis: signs that close what is open, or open what may be closed."""
        run, before, after = match[0], self.text[match.start() - 1 : match.start()], self.text[match.end() :][:1]
        inside_word = run[0] == "_" and before.isalnum() and after.isalnum()
        while not inside_word and before.strip() and self.runs and run.startswith(self.runs[-1]):
            name = self.runs.pop()
            self.builder.add_tag(TagKind.CLOSE, [name], name)
            run = run[len(name) :]
        if run and after.strip() and not inside_word:
            self.builder.add_tag(TagKind.OPEN, [run], run)
            self.runs.append(run)
        else:
            self.builder.add_text(run)

    def read_link(self, match: re.Match[str], end: int) -> int:
        """A link or an image; its text is translated, its target is not."""
        start, bracket = match.end(), closing(BRACKETS, self.text, match.end(), end)
        if not bracket:
            self.builder.add_text(match[0])
            return start
        close, after = bracket.span()
        target = TARGET.match(self.text, after, end)
        named = normal_label((target and target["label"]) or self.text[start:close]) in self.labels
        if not named and not (target and target["inline"]):
            self.builder.add_text(match[0])
            return start
        written = target[0] if target else "[]"
        after = target.end() if target else after
        if match[0] == "![":
            image = InlineReader(self.text, self.labels, escape)
            image.read(start, close)
            inner = image.builder.build(self.text[start:close])
            self.builder.add_tag(TagKind.POINT, ["![", inner, self.text[close:after]])
        else:
            self.builder.add_tag(TagKind.OPEN, ["["], "link")
            self.read(start, close)
            label = f"[{self.text[start:close]}]" if written == "[]" else written
            self.builder.add_tag(TagKind.CLOSE, [f"]{label}"], "link")
        return after

    def read_tag(self, match: re.Match[str], end: int) -> int:
        opening = TOKEN.match(self.text, match.start(), end)
        try:
            if opening:
                token = read_markup(self.text, opening)[0]
                add_markup(self.builder, token)
                return token.end
        except Malformed:
            pass
        self.builder.add_text("<")
        return match.end()


def normal_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def escape(text: str) -> str:
    return LITERAL.sub(lambda match: f"\\{match[0]}" if match[0] not in "&<" else html.escape(match[0]), text)


def escape_cell(text: str) -> str:
    return escape(text).replace("|", "\\|")


def escape_line_start(text: str) -> str:
    return LINE_START.sub(r"\1\2\\", text)
