"""Inline Markdown: emphasis, links and images as tags of a segment, code as units, line breaks."""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from nmt.documents.inline_markup import UNIT_ELEMENTS, VOID_ELEMENTS
from nmt.documents.markup_tokens import next_token
from nmt.documents.segment import Malformed, Segment, SegmentBuilder, TagKind

DESTINATION = (
    r"\(\s*(?:<[^<>\n]*>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?"
    r"(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)"
)
TARGET = re.compile(rf"(?P<inline>{DESTINATION})|\[(?P<label>[^\[\]]*)\]")
SPECIAL = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])|(?P<hard>(?: {2,}|\\)\n[ \t]*)|(?P<soft>[ \t]*\n[ \t]*)"
    r"|(?P<code>(?P<fence>`+)(?!`).+?(?<!`)(?P=fence)(?!`))|(?P<ticks>`+)"
    r"|(?P<autolink><[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>)|(?P<template>\{\{.*?\}\}|\{%.*?%\})"
    r"|(?P<footnote>\[\^[^\]\s]+\]:?)|(?P<link>!?\[)|(?P<run>\*+|_+|~~)|(?P<tag><)",
    re.DOTALL,
)
BRACKETS = re.compile(r"\\.|(?P<fence>`+)(?!`).+?(?<!`)(?P=fence)(?!`)|[\[\]]", re.DOTALL)
LINE_START = re.compile(r"(?m)^([ \t]*)(#{1,6}(?=\s)|[-+*](?=\s|$)|\d{1,9}(?=[.)](?:\s|$))|>|=+\s*$|-+\s*$|~~~|:::)")
LITERAL = re.compile(r"[\\`]|(?<=\S)\*|\*(?=\S)|(?<!\w)_|_(?!\w)|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?\w+;)")


@dataclass
class InlineReader:
    """Reads one block of inline Markdown into a SegmentBuilder."""

    text: str
    references: Collection[str]  # the labels that are defined, as `normal_label` writes them
    builder: SegmentBuilder = field(default_factory=SegmentBuilder)
    runs: list[str] = field(default_factory=list)  # of emphasis that is open

    def read(self, start: int, end: int) -> None:
        """Read text[start:end]."""
        position = start
        while match := SPECIAL.search(self.text, position, end):
            self.builder.add_text(html.unescape(self.text[position : match.start()]))
            position = getattr(self, f"read_{match.lastgroup}")(match, end)
        self.builder.add_text(html.unescape(self.text[position:end]))

    def read_escape(self, match: re.Match[str], end: int) -> int:
        """A sign that stands for itself."""
        self.builder.add_text(match[0][1:])
        return match.end()

    def read_hard(self, match: re.Match[str], end: int) -> int:
        """A line break that is kept."""
        self.builder.add_break(match[0])
        return match.end()

    def read_soft(self, match: re.Match[str], end: int) -> int:
        """The end of a line, which is a space."""
        self.builder.add_text(" ")
        return match.end()

    def read_unit(self, match: re.Match[str], end: int) -> int:
        """What is not translated."""
        self.builder.add_unit([match[0]])
        return match.end()

    read_code = read_autolink = read_template = read_unit

    def read_ticks(self, match: re.Match[str], end: int) -> int:
        """Backticks without a partner."""
        self.builder.add_text(match[0])
        return match.end()

    def read_footnote(self, match: re.Match[str], end: int) -> int:
        """The mark of a footnote."""
        self.builder.add_tag(TagKind.POINT, [match[0]])
        return match.end()

    def read_run(self, match: re.Match[str], end: int) -> int:
        """Emphasis: signs that close what is open, or open what may be closed."""
        run, before, after = match[0], self.text[match.start() - 1 : match.start()], self.text[match.end() :][:1]
        inside_word = run[0] == "_" and before.isalnum() and after.isalnum()
        if inside_word or not (before.strip() or after.strip()):
            self.builder.add_text(run)
            return match.end()
        rest = run
        while before.strip() and self.runs and rest.startswith(self.runs[-1]):
            name = self.runs.pop()
            self.builder.add_tag(TagKind.CLOSE, [name], name)
            rest = rest[len(name) :]
        if rest and after.strip():
            self.builder.add_tag(TagKind.OPEN, [rest], rest)
            self.runs.append(rest)
        elif rest:
            self.builder.add_text(rest)
        return match.end()

    def read_link(self, match: re.Match[str], end: int) -> int:
        """A link or an image; its text is translated, its target is not."""
        close = closing_bracket(self.text, match.end(), end)
        target = TARGET.match(self.text, close + 1, end) if close else None
        label = target["label"] if target else None
        if not close or not (target and target["inline"]) and not self.is_reference(label, match.end(), close):
            self.builder.add_text(match[0])
            return match.end()
        written, after = (target[0], target.end()) if target else ("[]", close + 1)
        if written == "[]":
            written = f"[{self.text[match.end() : close]}]"
        if match[0] == "![":
            inner = self.nested(match.end(), close)
            self.builder.add_tag(TagKind.POINT, ["![", inner, f"]{self.text[close + 1 : after]}"])
        else:
            self.builder.add_tag(TagKind.OPEN, ["["], "link")
            self.read(match.end(), close)
            self.builder.add_tag(TagKind.CLOSE, [f"]{written}"], "link")
        return after

    def is_reference(self, label: str | None, start: int, close: int) -> bool:
        """Whether [text][label], [text][] or [text] names a definition."""
        return normal_label(label or self.text[start:close]) in self.references

    def nested(self, start: int, end: int) -> Segment | str:
        """The text of an image."""
        raw = self.text[start:end]
        reader = InlineReader(self.text, self.references)
        reader.read(start, end)
        return reader.builder.build(raw, escape) if reader.builder.has_words else raw

    def read_tag(self, match: re.Match[str], end: int) -> int:
        """An element of HTML, or the sign < as text."""
        try:
            token = next_token(self.text, match.start(), end, xml=False)
        except Malformed:
            token = None
        if token is None or token.kind == "text":
            self.builder.add_text("<")
            return match.end()
        raw = self.text[token.start : token.end]
        close = self.text.find(f"</{token.name}>", token.end, end) if token.name in UNIT_ELEMENTS else -1
        if token.kind == "open" and close >= 0:
            self.builder.add_unit([self.text[token.start : close + len(token.name) + 3]])
            return close + len(token.name) + 3
        if token.name == "br":
            self.builder.add_break(raw)
        elif token.kind == "close":
            self.builder.add_tag(TagKind.CLOSE, [raw], token.name)
        elif token.kind == "open" and token.name not in VOID_ELEMENTS and not token.closes_itself:
            self.builder.add_tag(TagKind.OPEN, [raw], token.name)
        else:
            self.builder.add_tag(TagKind.POINT, [raw])
        return token.end


def closing_bracket(text: str, start: int, end: int) -> int:
    """Where the bracket ends that is open at `start`; 0 where it does not."""
    depth = 1
    for match in BRACKETS.finditer(text, start, end):
        depth += {"[": 1, "]": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return 0


def normal_label(label: str) -> str:
    """A label of a reference as labels are compared."""
    return " ".join(label.split()).casefold()


def escape(text: str) -> str:
    """Text with a backslash before what would be markup."""
    return LITERAL.sub(lambda match: f"\\{match[0]}" if match[0] not in "&<" else html.escape(match[0]), text)


def escape_line_starts(text: str) -> str:
    """A backslash before what would make a heading, a list or a quotation of a line."""
    return LINE_START.sub(
        lambda match: f"{match[1]}{match[2]}\\" if match[2].isdecimal() else f"{match[1]}\\{match[2]}", text
    )
