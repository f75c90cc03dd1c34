"""Markdown (CommonMark with tables) and MDX: markdown-it says which lines are which block, and
every other byte stays.

A reader of our own, because translate-toolkit leaves out blocks of HTML, unescapes | in cells of
tables, and lays lines and tables out anew. To CommonMark it adds (markdown_blocks.py) what
MkDocs, MyST, Docusaurus and GitHub have: boxes whose text is indented (!!! ??? ===) or between
lines of signs (::: ///), footnotes, definitions and abbreviations. Code, front matter, formulas
and templates are left, and counted; HTML is read as HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from nmt.documents.html import read_html, tag_parts
from nmt.documents.markdown_blocks import JSX, body_start, parse_blocks
from nmt.documents.markdown_inline import TITLE, InlineReader, MdxReader, normal_label, title_parts
from nmt.documents.plain_text import newline_of
from nmt.documents.segment import AS_CODE, COMMENTS, Malformed, Part, left_if_letters, text_part

TITLES = re.compile(  # values of front matter that a reader of the page sees
    r"(?m)^(?:title|subtitle|description|summary|excerpt|abstract)[ \t]*[:=][ \t]*"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\n]|'')*'|[^\s\"'\[\]{}>|&*!#%@`][^\n#]*?)[ \t]*\r?$"
)
# what a value of YAML without quotes has not
NOT_PLAIN = re.compile(r":(?:\s|$)|\s#|^[\s\"'\[\]{}>|&*!#%@`,?-]|\s$")
# What stands before the text of a block: of task lists, alerts, and blocks of lines.
PREFIX = re.compile(r"\[[ xX]\][ \t]+|\[!\w+\][+-]?[ \t]*\n?|\|[ \t]+")
HEADING_SIGN = re.compile(r"#[ \t]+$")
SUFFIX = re.compile(  # {#id .class}, and ^id of Obsidian
    r"[ \t]*\{:?[ \t]*(?:[#.][^\s{}]|[\w-]+=)[^{}\n]*\}[ \t]*$|[ \t]+\^[A-Za-z0-9-]+[ \t]*$"
)
DEFINITION = re.compile(
    rf"(?m)^[ \t>]*\[[^\[\]]+\]:\s*(?:<[^<>\n]*>|\S+)(?:\s+(?P<title>{TITLE}))?[ \t]*\r?$"
)
CODE_BLOCKS = ("fence", "code_block", "math_block", "liquid", "template", "esm", "html_block")
LEFT_BLOCKS = dict.fromkeys(CODE_BLOCKS, AS_CODE)
LEFT_BLOCKS |= {"grid_table": "tables drawn with + and |", "comment": COMMENTS}


def read_markdown(text: str, is_mdx: bool = False) -> Iterator[Part]:
    """The parts of a document; raises UserError where markdown-it is missing."""
    body = body_start(text)
    ends_of_lines = re.compile(r"\r\n|\r|\n").finditer(text, body)
    starts = [body, *(match.end() for match in ends_of_lines), len(text)]
    environment: dict[str, Any] = {}
    tokens = parse_blocks(text[body:], environment, is_mdx)
    labels = {normal_label(label) for label in environment.get("references", {})}
    page = Page(text, starts, MdxReader if is_mdx else InlineReader, labels)
    yield from matter_parts(text[:body])
    position = body
    before = ""  # the type of the token before
    quotes = 0  # inside each other
    for token in tokens:
        is_cell = before in ("th_open", "td_open")
        before = token.type
        if before in ("blockquote_open", "blockquote_close"):
            quotes += token.nesting
        first, last = token.map or (0, 0)
        start = max(starts[first], position)
        end = starts[min(last, len(starts) - 1)]
        parts: list[Part] = []
        if token.type == "inline":
            lines = page.find_lines(token.content, first, position, is_cell)
            if lines:
                start = lines[0][0]
                end = lines[-1][1]
                parts = page.block_parts(lines, is_cell)
        elif token.type == "html_block" and not quotes:
            # Behind the sign of an item
            start = max(text.find(token.content.split("\n")[0], start, end), start)
            parts = html_parts(text[start:end])
        elif token.type == "jsx":
            parts = jsx_parts(text, start, end)
        elif token.type in LEFT_BLOCKS:
            parts = [left_if_letters(text[start:end], LEFT_BLOCKS[token.type])]
        if parts:
            yield from gap_parts(text[position:start])
            yield from parts
            position = end
    yield from gap_parts(text[position:])


def matter_parts(text: str) -> Iterator[Part]:
    """Of front matter: titles and descriptions in one line are text."""
    position = 0
    for match in TITLES.finditer(text):
        start, end = match.span("value")
        quote = text[start]
        if quote in "\"'":
            start += 1
            end -= 1
        if quote == "'" and text.startswith("+++"):
            # TOML: such a text cannot have an apostrophe, so the quotation marks may change
            plain = text[start:end]
            start -= 1
            end += 1
            yield left_if_letters(text[position:start], "front matter")
            yield text_part(plain, text[start:end], layout=toml_string)
            position = end
            continue
        raw = text[start:end]
        yield left_if_letters(text[position:start], "front matter")
        if quote == '"':
            plain = re.sub(r"\\(.)", r"\1", raw)
            yield text_part(plain, raw, lambda text: json.dumps(text, ensure_ascii=False)[1:-1])
        elif quote == "'":
            yield text_part(raw.replace("''", "'"), raw, lambda text: text.replace("'", "''"))
        else:
            yield text_part(raw, raw, layout=quoted_if_needed)
        position = end
    yield left_if_letters(text[position:], "front matter")


def toml_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if "'" in value else f"'{value}'"


def quoted_if_needed(value: str) -> str:
    """A value of YAML, in quotes where it would not be read as the same text without."""
    if NOT_PLAIN.search(value) or yaml_value(value) != value:
        return json.dumps(value, ensure_ascii=False)
    return value


def yaml_value(value: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(f"title: {value}")["title"]
    except (yaml.YAMLError, ValueError):
        return None


def html_parts(text: str) -> list[Part]:
    """A block of HTML; what the reader of HTML refuses stays as it is."""
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
            parts.append(text[match.start() : start])
            parts += title_parts(text[start:end])
            parts.append(text[end:position])
        else:
            parts.append(match[0])
    rest = text[position:]
    has_word = re.search(r"[^\W\d_]{2}", rest)
    return [*parts, left_if_letters(rest, AS_CODE) if has_word else rest]


@dataclass
class Page:
    """A document: where its lines begin, and how the text of its blocks is read."""

    text: str
    starts: list[int]
    reader: type[InlineReader]
    labels: Collection[str]  # that are defined, as `normal_label` writes them

    def find_lines(
        self, content: str, first: int, position: int, is_cell: bool
    ) -> list[tuple[int, int]]:
        """The span of each line of a block's content, spaces at its end included.

        None if one is not found. The block begins in line `first`, and not before `position`.
        """
        if prefix := PREFIX.match(content):
            content = content[prefix.end() :]
            first += prefix[0].count("\n")
        suffix = SUFFIX.search(content)
        shown = content[: suffix.start()] if suffix else content
        ends = list(map(len, shown.rstrip().split("\n")))  # of each line, without the suffix
        spans = []
        for number, line in enumerate(content.rstrip().split("\n")[: len(ends)], first):
            end = ends[number - first]
            if number + 1 >= len(self.starts):
                return []
            low = max(self.starts[number], position)
            high = self.starts[number + 1]
            if is_cell:
                start = self.text.find(line, low, high)
                if start < 0:
                    line = line.replace("|", "\\|")
                    end = len(line)
                    start = self.text.find(line, low, high)
            else:
                # markdown-it writes spaces for a tab that is in part an indentation
                indentation = len(line) - len(line.lstrip(" \t"))
                end -= indentation
                start = self.text.rfind(line[indentation:], low, high)
            if start < 0:
                return []
            spans.append((start, start + end))
        return spans if shown.strip() else []

    def block_parts(self, lines: list[tuple[int, int]], is_cell: bool) -> list[Part]:
        """The text of a block in these lines; the title of an alert is a text of its own."""
        first, last = lines[0]
        line_start = self.text.rfind("\n", 0, first) + 1
        is_alert = re.search(r"\[!\w+\][+-]?[ \t]*$", self.text[line_start:first])
        if is_alert and len(lines) > 1:
            between = self.text[last : lines[1][0]]
            return [self.read_block(lines[:1]), between, self.read_block(lines[1:])]
        contents = [self.text[first:last] for first, last in lines]
        reader = self.reader("\n".join(contents), self.labels, is_cell)
        return self.menu_parts(lines, reader) or [self.read_block(lines, is_cell)]

    def menu_parts(self, lines: list[tuple[int, int]], reader: InlineReader) -> list[Part]:
        """The links of a menu, each a text of its own, and what is between; none of a sentence."""
        parts: list[Part] = []
        position = lines[0][0]
        number = 0
        before = 0  # characters of the reader's text before this line
        for start, end in reader.menu_spans():
            while start > before + lines[number][1] - lines[number][0]:
                before += lines[number][1] - lines[number][0] + 1
                number += 1
            shift = lines[number][0] - before
            span = start + shift, end + shift
            if span[1] > lines[number][1]:  # a link in two lines
                return []
            parts += [self.text[position : span[0]], self.read_block([span], reader.is_cell)]
            position = span[1]
        return [*parts, self.text[position : lines[-1][1]]] if parts else []

    def read_block(self, lines: list[tuple[int, int]], is_cell: bool = False) -> Part:
        """The text of a block in these lines.

        A full paragraph gets lines of the same width; any other block is one line.
        """
        raw = self.text[lines[0][0] : lines[-1][1]]
        contents = [self.text[first:last] for first, last in lines]
        reader = self.reader("\n".join(contents), self.labels, is_cell)
        reader.read(0, len(reader.text))
        if len(lines) == 1:
            line_start = self.text.rfind("\n", 0, lines[0][0]) + 1
            is_heading = HEADING_SIGN.search(self.text, line_start, lines[0][0])
            return reader.build(raw, str if is_cell or is_heading else reader.escape_start)
        prefix = self.text[lines[0][1] : lines[1][0]].lstrip(" \\").lstrip("\r\n")
        return reader.build(raw, reader.layout(newline_of(raw) + prefix))
