"""Inline elements of HTML inside a block of text: as tags of a segment, as units, as line breaks."""

from __future__ import annotations

import html
from collections.abc import Sequence

from nmt.data.words import Span
from nmt.documents.markup_tokens import Token, escape_like
from nmt.documents.segment import Part, Segment, SegmentBuilder, TagKind

UNIT_ELEMENTS = {"code", "kbd", "samp", "var", "tt", "svg", "math"}  # their content is not translated
VOID_ELEMENTS = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
TRANSLATED_ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")


def is_kept(token: Token) -> bool:
    """Whether a tag says that its content must not be translated."""
    attributes = token.attributes
    kept = "translate" in attributes and attributes["translate"].value.lower() == "no"
    return kept or ("class" in attributes and "notranslate" in attributes["class"].value.split())


def tag_parts(text: str, token: Token, names: Sequence[str] = TRANSLATED_ATTRIBUTES) -> list[Part]:
    """A tag as it is written, its attributes of these names as segments."""
    parts: list[Part] = []
    position = token.start
    found = [] if token.kind != "open" or is_kept(token) else [token.attributes.get(name) for name in names]
    for value in sorted((value for value in found if value), key=lambda value: value.start):
        if value.quoted and any(character.isalpha() for character in value.value):
            raw, mark = text[value.start : value.end], text[value.start - 1]
            builder = SegmentBuilder()
            builder.add_text(value.value.strip())
            escape = escape_like(f"{raw}&#39;" if mark == "'" else raw, '"' if mark == '"' else "")
            parts += [text[position : value.start], builder.build(raw, escape)]
            position = value.end
    return [*parts, text[position : token.end]]


def inline_parts(text: str, run: Sequence[Token], entities: bool = True) -> list[Part]:
    """The parts of a block: what surrounds its text as it is, its text as one segment.

    `entities`: whether &amp; and the like stand for signs.
    """
    first, last = 0, len(run)
    while first < last and is_edge(text, run[first]):
        first += 1
    while last > first and is_edge(text, run[last - 1]):
        last -= 1
    middle = list(run[first:last])
    outside = [[part for token in tokens for part in tag_parts(text, token)] for tokens in (run[:first], run[last:])]
    if not middle:
        return outside[0]
    start, end = middle[0].start, middle[-1].end
    if middle[0].kind == "text":
        start += len(text[start : middle[0].end]) - len(text[start : middle[0].end].lstrip())
    if middle[-1].kind == "text":
        end -= len(text[middle[-1].start : end]) - len(text[middle[-1].start : end].rstrip())
    segment = inline_segment(text, middle, (start, end), entities)
    inner: list[Part] = [segment] if segment else [part for token in middle for part in tag_parts(text, token)]
    if segment:
        inner = [text[middle[0].start : start], segment, text[end : middle[-1].end]]
    return [*outside[0], *inner, *outside[1]]


def is_edge(text: str, token: Token) -> bool:
    """Whether a token at an edge of a block is outside of its text: space, a comment, an image, a line break."""
    if token.kind == "text":
        return not text[token.start : token.end].strip()
    return token.kind == "other" or (token.kind == "open" and token.name in VOID_ELEMENTS)


def inline_segment(text: str, run: Sequence[Token], span: Span, entities: bool) -> Segment | None:
    """The segment of a span of the text, which the tokens cover; None without words."""
    builder, index = SegmentBuilder(), 0
    start, end = span
    while index < len(run):
        token = run[index]
        raw = text[max(token.start, start) : min(token.end, end)]
        stop = unit_end(run, index)
        if token.kind == "text":
            builder.add_text(html.unescape(raw) if entities else raw)
        elif stop:
            builder.add_unit([text[token.start : run[stop - 1].end]])
        elif token.name == "br":
            builder.add_break(raw)
        elif token.kind == "close":
            builder.add_tag(TagKind.CLOSE, [raw], token.name)
        elif token.kind == "open" and token.name not in VOID_ELEMENTS and not token.closes_itself:
            builder.add_tag(TagKind.OPEN, tag_parts(text, token), token.name)
        else:
            builder.add_tag(TagKind.POINT, tag_parts(text, token))
        index = stop or index + 1
    raw = text[start:end]
    return builder.build(raw, escape_like(raw) if entities else str) if builder.has_words else None


def unit_end(run: Sequence[Token], index: int) -> int:
    """Where a unit that begins here ends; 0 where none begins, or it has no end in this block."""
    token, depth = run[index], 0
    if token.kind != "open" or token.closes_itself or not (token.name in UNIT_ELEMENTS or is_kept(token)):
        return 0
    for number in range(index, len(run)):
        if run[number].name == token.name and not run[number].closes_itself:
            depth += 1 if run[number].kind == "open" else -1
            if depth == 0:
                return number + 1
    return 0
