"""Markdown (CommonMark with tables): markdown-it says which lines are which block, and every other byte stays.

Code, front matter, definitions of references, formulas and templates are not translated; HTML is read as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from nmt.documents.html_document import read_html
from nmt.documents.lines import newline_of, wrap, wraps
from nmt.documents.markdown_inline import InlineReader, escape, escape_line_starts, normal_label
from nmt.documents.segment import Malformed, Part
from nmt.errors import UserError, install_extra

FRONT_MATTER = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
KEPT = re.compile(r"\$\$|:::|\{%|\{\{|<!--|!!!")  # a block that begins so is no text
TASK = re.compile(r"\[[ xX]\][ \t]+|\[\^[^\]\s]+\]:[ \t]*|\[!\w+\][^\n]*\n?")  # task lists, footnotes, alerts


class Block(NamedTuple):
    """Text of a block: what markdown-it says it contains, its lines, and whether it is a cell of a table."""

    content: str
    first: int
    last: int
    is_cell: bool
    is_html: bool


def read_markdown(text: str) -> Iterator[Part]:
    """The parts of a document; raises UserError where markdown-it is missing."""
    matter = FRONT_MATTER.match(text)
    body = matter.end() if matter else 0
    environment: dict[str, Any] = {}
    blocks = find_blocks(text[body:], environment)
    references = {normal_label(label) for label in environment.get("references", {})}
    starts = line_starts(text, body)
    position = 0
    for block in blocks:
        found = read_block(text, block, starts, max(position, body), references)
        if found:
            start, parts, end = found
            yield text[position:start]
            yield from parts
            position = end
    yield text[position:]


def find_blocks(body: str, environment: dict[str, Any]) -> list[Block]:
    """The blocks that have text, in order; `environment` gets the references."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise UserError(f"Markdown is read by markdown-it-py: {install_extra('documents')}.") from None
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    blocks, cell = [], False
    for token in parser.parse(body, environment):
        cell = token.type in ("th_open", "td_open") or (cell and token.type not in ("th_close", "td_close"))
        if token.map and token.type in ("inline", "html_block") and not (token.type == "html_block" and token.level):
            blocks.append(Block(token.content, token.map[0], token.map[1], cell, token.type == "html_block"))
    return blocks


def line_starts(text: str, body: int) -> list[int]:
    """Where the lines of the body begin, and its end."""
    return [body, *(match.end() for match in re.compile(r"\r\n|\r|\n").finditer(text, body)), len(text)]


def read_block(
    text: str, block: Block, starts: list[int], position: int, references: set[str]
) -> tuple[int, list[Part], int] | None:
    """Where a block begins and ends, and its parts; None for one that stays as it is."""
    if block.is_html:
        start, end = starts[block.first], starts[min(block.last, len(starts) - 1)]
        try:
            return start, list(read_html(text[start:end])), end
        except Malformed:
            return None
    kept = TASK.match(block.content)
    content = block.content[kept.end() :] if kept else block.content
    block = block._replace(first=block.first + (kept[0].count("\n") if kept else 0))
    spans = find_lines(text, content.rstrip().split("\n"), block, starts, position)
    if not spans or KEPT.match(content):
        return None
    start, end = spans[0][0], spans[-1][1]
    flat = "\n".join(text[first:last] for first, last in spans)
    reader = InlineReader(flat, references)
    reader.read(0, len(flat))
    if not reader.builder.has_words:
        return None
    write = (lambda plain: escape(plain).replace("|", "\\|")) if block.is_cell else escape
    segment = reader.builder.build(text[start:end], write, layout_of(text, block, spans))
    return start, [segment], end


def find_lines(text: str, contents: list[str], block: Block, starts: list[int], position: int) -> list[tuple[int, int]]:
    """The span of each line of a block's content in the text, spaces at its end included; none if one is not found."""
    spans = []
    for number, content in enumerate(contents, block.first):
        if number + 1 >= len(starts):
            return []
        low, high = max(starts[number], position), starts[number + 1]
        line = content.rstrip() if number == block.first + len(contents) - 1 else content
        at = text.find(line, low, high) if block.is_cell else text.rfind(line, low, high)
        if at < 0:
            return []
        spans.append((at, at + len(line)))
    return spans


def layout_of(text: str, block: Block, spans: list[tuple[int, int]]) -> Callable[[str], str]:
    """How a translated block is divided into lines: those of a full paragraph as before, others as one line."""
    if block.is_cell:
        return str
    if len(spans) == 1:
        return escape_line_starts
    lines = [text[start:end] for start, end in spans]
    prefix = text[spans[0][1] : spans[1][0]].lstrip(" \\").lstrip("\r\n")
    width = max(map(len, lines))
    full = any(wraps(line, following, width) for line, following in zip(lines, lines[1:], strict=False))
    newline = newline_of(text[spans[0][0] : spans[-1][1]])
    return partial(write_lines, width=width if full else 1 << 30, prefix=prefix, newline=newline)


def write_lines(text: str, width: int, prefix: str, newline: str) -> str:
    """The lines of a translated paragraph, each behind the signs of its quotation or list."""
    lines = wrap(text, width, "", "\n").split("\n")
    return f"{newline}{prefix}".join(escape_line_starts(line) for line in lines)
