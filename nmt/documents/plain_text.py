"""Plain text: paragraphs and items; every other byte stays."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise

from nmt.corpus.words import SPACELESS
from nmt.documents.segment import (
    Part,
    text_part,
)

SHORTEST_WIDTH = 40  # of lines that are full
UNLIMITED = 1 << 30
# What an item begins with: a bullet, a number or a letter
BULLET = re.compile(r"[ \t\ufeff]*[-*+•–]+[ \t]+")
ITEM = re.compile(rf"{BULLET.pattern}|[ \t\ufeff]*\(?(?:\d{{1,3}}|[a-zA-Z])[.)][ \t]+")


# The signs before a line of a mail that somebody answers
QUOTE = re.compile(r"[ \t\ufeff]*>[> \t]*")


def wraps(line: str, following: str, width: int) -> bool:
    """Whether a line ended because the first word of the next one found no room within `width`."""
    words = following.split(None, 1)
    if width < SHORTEST_WIDTH or not words:
        return False
    room = 1 + len(words[0])
    if SPACELESS.match(words[0]):  # a line may end after each character
        room = 1
    return len(line.rstrip()) + room > width


def common_width(lines: Sequence[str]) -> int:
    """The width at which a translation of these lines is wrapped: theirs, if one is full."""
    longest = max(map(len, lines), default=0)
    if any(wraps(line, following, longest) for line, following in pairwise(lines)):
        return longest
    return UNLIMITED


def wrap(text: str, width: int, prefix: str, newline: str) -> str:
    """The text in lines of at most `width` characters, each but the first behind `prefix`.

    Lines that it has stay.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        kept = line[len(line.rstrip()) :]  # two spaces are a line break in Markdown
        initial = prefix if lines else ""
        lines += textwrap.wrap(
            line.removeprefix(initial),
            max(width, SHORTEST_WIDTH),
            initial_indent=initial,
            subsequent_indent=prefix,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [initial]
        lines[-1] += kept
    return newline.join(lines)


def newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def read_text(text: str) -> Iterator[Part]:
    """The parts of a text: paragraphs are between blank lines, and in a quotation of their own.

    Lines that are full belong together, where most lines of a paragraph are.
    """
    for paragraph in re.split(r"((?:^[^\S\n]*\n)+)", text, flags=re.MULTILINE):
        lines = paragraph.splitlines(keepends=True)
        for _, quoted in groupby(lines, quotation):
            yield from paragraph_parts(list(quoted))


def quote_of(line: str) -> str:
    quote = QUOTE.match(line)
    return quote[0] if quote else ""


def quotation(line: str) -> tuple[int, bool]:
    """How deep in quotations a line is, and whether it has words or is a ruler (======).

    The lines of a paragraph are alike in both.
    """
    return quote_of(line).count(">"), any(map(str.isalnum, line))


def paragraph_parts(lines: list[str]) -> Iterator[Part]:
    width = max((len(line.rstrip()) for line in lines), default=0)
    bare = [line.removeprefix(quote_of(line)) for line in lines]
    # Of each line, whether it goes on with the one before; an item never does
    goes_on = [False]
    for line, following in zip(lines, bare[1:], strict=False):
        goes_on.append(not ITEM.match(following) and wraps(line, following, width))
    others = sum(not ITEM.match(line) for line in bare[1:])
    is_wrapped = 2 * sum(goes_on) > others
    item: list[str] = []
    for line, joins_last in zip(lines, goes_on, strict=False):
        if item and not (is_wrapped and joins_last):
            yield from item_parts(item, width)
            item = []
        item.append(line)
    if item:
        yield from item_parts(item, width)


def item_parts(lines: list[str], width: int) -> list[Part]:
    """The parts of an item: its indentation or bullet, its text, the space at its end."""
    raw = "".join(lines)
    quote = quote_of(raw)
    bullet = ITEM.match(raw, len(quote))
    begin = len(quote) or len(raw) - len(raw.lstrip("\ufeff \t"))
    if bullet:
        begin = bullet.end()
    stop = max(begin, len(raw.rstrip()))
    text = raw[begin:stop]
    if len(lines) == 1 and "\t" in text:  # cells of a table, which are no sentence together
        cells = re.split(r"(\s*\t\s*)", text)
        return [raw[:begin], *(text_part(cell, cell) for cell in cells), raw[stop:]]
    layout: Callable[[str], str] = str
    if len(lines) > 1:
        prefix = quote_of(lines[1])
        prefix = prefix or lines[1][: len(lines[1]) - len(lines[1].lstrip())]
        layout = partial(wrap, width=width, prefix=prefix, newline=newline_of(raw))
    words = re.sub(rf"(?m)^{QUOTE.pattern}", "", text) if quote else text
    return [raw[:begin], text_part(words, text, layout=layout), raw[stop:]]
