"""Plain text and subtitles: paragraphs, items and cues; every other byte stays."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from nmt.documents.segment import (
    AS_CODE,
    COMMENTS,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    TagKind,
    has_letters,
)

SHORTEST_WIDTH = 40  # of lines that are full
ITEM = re.compile(r"[ \t\ufeff]*(?:[-*+•–]+|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+")


def wraps(line: str, following: str, width: int) -> bool:
    """Whether a line ended because the first word of the next one found no room within `width`."""
    words = following.split(None, 1)
    return (
        width >= SHORTEST_WIDTH and bool(words) and len(line.rstrip()) + 1 + len(words[0]) > width
    )


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
    """The parts of a text: paragraphs are between blank lines.

    Lines that are full belong together.
    """
    for paragraph in re.split(r"((?:^[^\S\n]*\n)+)", text, flags=re.MULTILINE):
        lines = paragraph.splitlines(keepends=True)
        width = max((len(line.rstrip()) for line in lines), default=0)
        item: list[str] = []
        for line, following in zip_longest(lines, lines[1:], fillvalue=""):
            item.append(line)
            if not following or ITEM.match(following) or not wraps(line, following, width):
                yield from item_parts(item, width)
                item = []


def item_parts(lines: list[str], width: int) -> list[Part]:
    """The parts of an item: its indentation or bullet, its text, the space at its end."""
    raw = "".join(lines)
    bullet = ITEM.match(raw)
    begin = bullet.end() if bullet else len(raw) - len(raw.lstrip("\ufeff \t"))
    stop = max(begin, len(raw.rstrip()))
    builder = SegmentBuilder()
    builder.add_text(raw[begin:stop])
    layout: Callable[[str], str] = str
    if len(lines) > 1:
        prefix = lines[1][: len(lines[1]) - len(lines[1].lstrip())]
        layout = partial(wrap, width=width, prefix=prefix, newline=newline_of(raw))
    return [raw[:begin], builder.build(raw[begin:stop], layout), raw[stop:]]


CLOCK = r"(?:(\d{1,3}):)?(\d\d?):(\d\d)[,.](\d{1,3})"
# SRT and WebVTT
CUE = re.compile(rf"^[ \t]*{CLOCK}[ \t]*-->[ \t]*{CLOCK}[^\r\n]*(?:\r?\n|\Z)", re.MULTILINE)
# SSA, ASS
DIALOGUE = re.compile(
    rf"^Dialogue:[^,\r\n]*,\s*{CLOCK}\s*,\s*{CLOCK}\s*,(?:[^,\r\n]*,){{6}}", re.MULTILINE
)
# Where the text of a cue ends, by the kind of file; in SRT before the number of the next one.
CUE_END = {
    "srt": re.compile(r"^[ \t]*\d+[ \t]*\r?\n\Z", re.MULTILINE),
    "vtt": re.compile(r"^[ \t]*\r?$", re.MULTILINE),
    "ass": re.compile(r"\r?$", re.MULTILINE),
}
# A line of a cue, by the kind of file; in ASS, \N and \n divide lines.
LINE = {
    "srt": re.compile(r"(?P<line>[^\r\n]*\S)"),
    "vtt": re.compile(r"(?P<line>[^\r\n]*\S)"),
    "ass": re.compile(r"(?:\\[Nn])*(?P<line>(?:(?!\\[Nn])[^\r\n])+)"),
}
INLINE = re.compile(
    r"(?P<drawing>\{[^{}\r\n]*\\p[1-9][^{}\r\n]*\}[^{}\r\n]*)|(?P<space>\\h)"
    r"|<(?P<close>/?)(?P<name>[A-Za-z]+)(?:[ \t.][^<>\r\n]*)?>|\{[\\/][^{}\r\n]*\}|<[\d:.]+>"
)
DASH = re.compile(r"[ \t]*[-–—‐](?![-–—])[ \t]*")
SENTENCE_END = re.compile(r"[.!?…。！？♪#\])][\"'”“’»«)\]]*$")
LONGEST_GAP, MOST_LINES = 3.0, 12


class Line(NamedTuple):
    """A line of a subtitle, and when it is seen, in seconds."""

    start: int
    end: int
    begins: float
    ends: float


def read_subtitles(text: str) -> Iterator[Part]:
    """The parts of a file of SRT, WebVTT, SSA or ASS; times, numbers and styles stay.

    Raises Malformed. A reader of our own, because translate-toolkit drops styles, comments and
    places of WebVTT. A sentence over several lines or cues is translated as one, then divided.
    """
    groups: list[list[Line]] = []
    for line in subtitle_lines(text):
        if groups and joins(text, groups[-1], line):
            groups[-1].append(line)
        else:
            groups.append([line])
    position = 0
    for group in groups:
        dash = DASH.match(text, group[0].start, group[0].end)
        start = dash.end() if dash else group[0].start
        yield from between_cues(text[position:start])
        yield line_segment(text, group, start)
        position = group[-1].end
    yield from between_cues(text[position:])


def between_cues(text: str) -> Iterator[Part]:
    """What stands between cues.

    Times stay as they are. Headers, styles and names of cues are left as code, notes as comments.
    """
    waiting, reason = "", ""
    is_note = False
    for line in text.splitlines(keepends=True):
        is_note = line.startswith(("NOTE", "Comment:")) or (is_note and bool(line.strip()))
        is_cue = CUE.match(line) is not None or line.startswith("Dialogue:")
        is_markup = is_cue or not has_letters(line)
        new = "" if is_markup else COMMENTS if is_note else AS_CODE
        if new and reason and new != reason:
            yield Left(waiting, reason)
            waiting = ""
        if is_cue:
            yield Left(waiting, reason) if reason else waiting
            yield line
            waiting, new, reason = "", "", ""
            continue
        waiting += line
        reason = new or reason
    yield Left(waiting, reason) if reason else waiting


def subtitle_lines(text: str) -> Iterator[Line]:
    """The lines of all cues that are not blank; raises Malformed where there is no cue."""
    cues = list(CUE.finditer(text)) or list(DIALOGUE.finditer(text))
    if text.strip() and not cues:
        raise Malformed("there is no line of times such as 00:01:02,500 --> 00:01:04,000")
    kind = (
        "ass" if cues and cues[0].re is DIALOGUE else "vtt" if text.startswith("WEBVTT") else "srt"
    )
    for cue, following in zip_longest(cues, cues[1:]):
        begins, ends = (
            3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")
            for hours, minutes, seconds, fraction in (cue.groups()[:4], cue.groups()[4:])
        )
        stop = following.start() if following else len(text)
        if end := CUE_END[kind].search(text, cue.end(), stop):
            stop = end.start()
        for match in LINE[kind].finditer(text, cue.end(), stop):
            line = match["line"]
            if "-->" in line:
                raise Malformed(
                    "this time is no line such as 00:01:02,500 --> 00:01:04,000",
                    match.start("line"),
                )
            if line.strip():
                yield Line(match.end() - len(line.lstrip()), match.end(), begins, ends)


def joins(text: str, group: Sequence[Line], line: Line) -> bool:
    """Whether a line goes on with the sentence of those before it.

    It does not after the end of a sentence or more than LONGEST_GAP seconds, nor with a speaker's
    dash before it.
    """
    last, first = (
        INLINE.sub("", text[each.start : each.end]).strip() for each in (group[-1], line)
    )
    gap = line.begins - group[-1].ends if line.begins != group[-1].begins else 0
    return not (
        SENTENCE_END.search(last)
        or DASH.match(first)
        or gap > LONGEST_GAP
        or len(group) == MOST_LINES
    )


def line_segment(text: str, group: Sequence[Line], start: int) -> Part:
    builder = SegmentBuilder()
    position = start
    for line in group:
        if line is not group[0]:
            builder.add_break(text[position : line.start])
            position = line.start
        for match in INLINE.finditer(text, position, line.end):
            builder.add_text(text[position : match.start()])
            add_markup(builder, match)
            position = match.end()
        builder.add_text(text[position : line.end])
        position = line.end
    return builder.build(text[start:position], without_blank_lines)


def add_markup(builder: SegmentBuilder, match: re.Match[str]) -> None:
    """A tag, a code in braces, a space that does not break, or a drawing."""
    if match["space"]:
        builder.add_break(match[0])
    elif match["name"]:
        builder.add_tag(
            TagKind.CLOSE if match["close"] else TagKind.OPEN, [match[0]], match["name"].lower()
        )
    else:
        raw = Left(match[0], AS_CODE) if match["drawing"] else match[0]
        builder.add_tag(TagKind.POINT, [raw])


def without_blank_lines(text: str) -> str:
    """The text without blank lines inside a cue, which would end it.

    A translation with fewer words than the cue has lines leaves them.
    """
    next_cue = rf"[^\r\n]*-->|[ \t]*\d+[ \t]*\r?\n[ \t]*{CLOCK}"
    return re.sub(rf"(\r?\n)(?:[ \t]*\r?\n)+(?!{next_cue})", r"\1", text)
