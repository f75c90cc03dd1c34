"""What must not be translated: e-mails, URLs, paths, numbers, times, codes, variables, emoji, bullets of lists."""

import re
from collections.abc import Collection
from typing import NamedTuple

from nmt.data.span_patterns import CODE_SIGNS, POSSIBLE, SPANS, TEXT_SPANS

TRAILING = ".,;:!?)]'’"  # at the end of a URL it belongs to the sentence
JOINED = (
    "number",
    "emoji",
    "code",
    "coordinate",
    "handle",
)  # kinds of which neighbours are one span, such as 12.5.2024, 14:30
BETWEEN = re.compile(r"[ ,;/·–-]{0,3}| (?:[+*/×÷=<>-]|==|-->|->|→) ")  # of neighbours
TOUCHING = (
    "latex",
    "entity",
    "variable",
    "identifier",
    "hexadecimal",
    "version",
    "release",
    "file",
    "handle",
)  # of neighbours too


class Span(NamedTuple):
    """A part of a text that is copied."""

    start: int
    end: int
    text: str

    @property
    def is_number(self) -> bool:
        """Whether it is a number, so that a plural may follow it."""
        return self.text[0].isdigit()


def find_spans(text: str, tags: Collection[str] = ()) -> list[Span]:
    """The spans of a text that must not be translated, from left to right; `tags` are pieces and stay text."""
    if not POSSIBLE.search(text):
        return []
    spans: list[Span] = []
    before = None  # the kind of the last span
    for match in (SPANS if CODE_SIGNS.search(text) else TEXT_SPANS).finditer(text):
        start, end = match.span()
        if match[0] in tags:
            continue
        kind = match.lastgroup
        if kind in ("url", "domain"):
            while end > start + 1 and text[end - 1] in TRAILING:
                if text[end - 1] == ")" and "(" in text[start:end]:
                    break
                end -= 1
        joins = kind == before and kind in JOINED and BETWEEN.fullmatch(text, spans[-1].end, start)
        if joins or (kind in TOUCHING and before in TOUCHING and spans[-1].end == start):
            start = spans.pop().start
        before = kind
        spans.append(Span(start, end, text[start:end]))
    return spans
