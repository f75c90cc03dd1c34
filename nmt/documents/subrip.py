"""SubRip subtitles: numbers and times stay; a sentence over several lines or cues is translated as one, then divided.

A line joins the one before it unless that ends a sentence, or this one begins with the dash of another speaker, or more
than LONGEST_GAP seconds lie between them. Cues that overlap by more than TOLERANCE are refused:
their order is not that of the speech.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nmt.documents.segment import Malformed, Part, Segment, SegmentBuilder, TagKind

TIME = r"(\d{1,3}):(\d\d):(\d\d)[,.](\d{1,3})"
HEADER = re.compile(rf"^[ \t]*(\d+)[ \t]*\r?\n[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}[^\r\n]*(?:\r?\n|\Z)", re.MULTILINE)
INLINE = re.compile(r"<(/?)([A-Za-z]+)(?:[ \t][^<>\r\n]*)?>|\{[\\/][^{}\r\n]*\}")
DASH = re.compile(r"[ \t]*[-–—‐](?![-–—])[ \t]*")
SENTENCE_END = re.compile(r"[.!?…。！？♪#\])][\"'”“’»«)\]]*$")
LONGEST_GAP, MOST_LINES = 3.0, 12
TOLERANCE = 0.1  # seconds that a cue may begin early, as rounded times do
EMPTY_LINE = re.compile(rf"(\r?\n)(?:[ \t]*\r?\n)+(?![ \t]*\d+[ \t]*\r?\n[ \t]*{TIME})")


class Cue(NamedTuple):
    """One subtitle: its number, its times in seconds, and where its header and its text begin."""

    number: str
    begins: float
    ends: float
    header: int
    text: int


class Line(NamedTuple):
    """A line of text, and the cue that it is in."""

    start: int
    end: int
    cue: Cue


def read_subrip(text: str) -> Iterator[Part]:
    """The parts of a file; raises Malformed for what is no cue and for times that overlap."""
    cues = list(find_cues(text))
    lines = find_lines(text, cues)
    position = 0
    for group in group_lines(text, lines):
        dash = DASH.match(text, group[0].start, group[0].end)
        start, end = (dash.end() if dash else group[0].start), group[-1].end
        segment = line_segment(text, group, start, end)
        if segment:
            yield from (text[position:start], segment)
            position = end
    yield text[position:]


def find_cues(text: str) -> Iterator[Cue]:
    """The cues in order."""
    previous, end = None, 0
    for match in HEADER.finditer(text):
        check_between(text, end, match.start(), previous)
        hours = [int(part) for part in match.groups()[1:]]
        begins, ends = (
            3600 * h + 60 * m + s + float(f"0.{match[number]}")
            for (h, m, s), number in ((hours[:3], 5), (hours[4:7], 9))
        )
        cue = Cue(match[1], begins, ends, match.start(), match.end())
        if ends < begins:
            raise Malformed(f"cue {cue.number} ends before it begins", cue.header)
        if previous and begins < previous.ends - TOLERANCE:
            raise Malformed(f"cue {cue.number} begins before cue {previous.number} ends", cue.header)
        yield cue
        previous, end = cue, match.end()
    check_between(text, end, len(text), previous)


def check_between(text: str, start: int, end: int, cue: Cue | None) -> None:
    """Raise Malformed for text before the first cue, and for a time that belongs to no cue."""
    arrow = text.find("-->", start, end)
    if arrow >= 0:
        raise Malformed("this time is no line such as 00:01:02,500 --> 00:01:04,000 after the number of a cue", arrow)
    if cue is None and text[start:end].strip("\ufeff \t\r\n"):
        raise Malformed("a file of subtitles begins with the number and the times of its first cue", start)


def find_lines(text: str, cues: Sequence[Cue]) -> list[Line]:
    """The lines of all cues that are not blank."""
    lines = []
    for index, cue in enumerate(cues):
        end = cues[index + 1].header if index + 1 < len(cues) else len(text)
        for match in re.compile(r"[^\r\n]*\S").finditer(text, cue.text, end):
            lines.append(Line(match.start() + len(match[0]) - len(match[0].lstrip()), match.end(), cue))
    return lines


def group_lines(text: str, lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines that are translated together."""
    group: list[Line] = []
    for line in lines:
        if group and not joins(text, group[-1], line, len(group)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def joins(text: str, before: Line, line: Line, count: int) -> bool:
    """Whether a line goes on with the sentence of the one before it, which is number `count` of its group."""
    last, first = (INLINE.sub("", text[each.start : each.end]).strip() for each in (before, line))
    gap = line.cue.begins - before.cue.ends if line.cue != before.cue else 0
    return not (SENTENCE_END.search(last) or DASH.match(first) or gap > LONGEST_GAP or count == MOST_LINES)


def line_segment(text: str, group: Sequence[Line], start: int, end: int) -> Segment | None:
    """The lines as one segment with breaks between them; None without words."""
    builder = SegmentBuilder()
    for index, line in enumerate(group):
        position = line.start if index else start
        if index:
            builder.add_break(text[group[index - 1].end : position])
        for match in INLINE.finditer(text, position, line.end):
            builder.add_text(text[position : match.start()])
            kind = (TagKind.CLOSE if match[1] else TagKind.OPEN) if match[2] else TagKind.POINT
            builder.add_tag(kind, [match[0]], (match[2] or "").lower())
            position = match.end()
        builder.add_text(text[position : line.end])
    return builder.build(text[start:end], layout=without_empty_lines) if builder.has_words else None


def without_empty_lines(text: str) -> str:
    """A translation of fewer words than lines leaves no empty line inside a cue, which would end it."""
    return EMPTY_LINE.sub(r"\1", text)
