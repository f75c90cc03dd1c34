"""Plain text: paragraphs between blank lines; lines that are full belong together, others are items of their own."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from nmt.documents.lines import newline_of, wrap, wraps
from nmt.documents.segment import Part, SegmentBuilder

LINE = re.compile(r"[^\n]*(?:\n|$)")
ITEM = re.compile(r"[ \t\ufeff]*(?:[-*+•–]+|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+")


def read_text(text: str) -> Iterator[Part]:
    """The parts of a text."""
    paragraph: list[tuple[int, int]] = []
    for match in LINE.finditer(text):
        start, end = match.span()
        if match[0].strip():
            paragraph.append((start, end))
            continue
        yield from write_paragraph(text, paragraph)
        paragraph = []
        yield match[0]
    yield from write_paragraph(text, paragraph)


def write_paragraph(text: str, lines: list[tuple[int, int]]) -> Iterator[Part]:
    """The parts of consecutive lines, those together that are one item."""
    width = max((len(text[start:end].rstrip()) for start, end in lines), default=0)
    first = 0
    for index in range(len(lines)):
        line, following = (text[slice(*lines[at])] if at < len(lines) else "" for at in (index, index + 1))
        if following and not ITEM.match(following) and wraps(line, following, width):
            continue
        yield from write_item(text, lines[first : index + 1], width)
        first = index + 1


def write_item(text: str, lines: list[tuple[int, int]], width: int) -> Iterator[Part]:
    """The parts of an item: its indentation or bullet, its text, the space at its end."""
    start, end = lines[0][0], lines[-1][1]
    raw = text[start:end]
    bullet = ITEM.match(raw)
    begin = bullet.end() if bullet else len(raw) - len(raw.lstrip("\ufeff \t"))
    stop = len(raw.rstrip())
    builder = SegmentBuilder()
    builder.add_text(raw[begin:stop])
    if not builder.has_words:
        yield raw
        return
    layout: Callable[[str], str] = str
    if len(lines) > 1:
        second = text[slice(*lines[1])]
        prefix = second[: len(second) - len(second.lstrip())]
        layout = partial(wrap, width=width, prefix=prefix, newline=newline_of(raw))
    yield from (raw[:begin], builder.build(raw[begin:stop], layout=layout), raw[stop:])
