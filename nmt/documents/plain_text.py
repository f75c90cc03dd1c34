"""Plain text and subtitles: paragraphs, items and cues; every other byte stays."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.documents.segment import Malformed, Part, SegmentBuilder, TagKind

SHORTEST_WIDTH = 40  # of lines that are full
ITEM = re.compile(r"[ \t\ufeff]*(?:[-*+•–]+|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+")


def wraps(line: str, following: str, width: int) -> bool:
    """Whether a line ended because the first word of the next one found no room within `width`."""
    words = following.split(None, 1)
    return width >= SHORTEST_WIDTH and bool(words) and len(line.rstrip()) + 1 + len(words[0]) > width


def wrap(text: str, width: int, prefix: str, newline: str) -> str:
    """The text in lines of at most `width` characters, each but the first behind `prefix`; lines that it has stay."""
    written: list[str] = []
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        kept = line[len(line.rstrip()) :]  # two spaces are a line break in Markdown
        initial = prefix if written else ""
        written += textwrap.wrap(
            line.removeprefix(initial), max(width, SHORTEST_WIDTH), initial_indent=initial, subsequent_indent=prefix,
            expand_tabs=False, replace_whitespace=False, break_long_words=False, break_on_hyphens=False,
        ) or [initial]  # fmt: skip
        written[-1] += kept
    return newline.join(written)


def newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def read_text(text: str) -> Iterator[Part]:
    """The parts of a text: paragraphs are between blank lines; lines that are full belong together."""
    paragraph: list[str] = []
    for line in [*text.splitlines(keepends=True), ""]:
        if line.strip():
            paragraph.append(line)
            continue
        width = max((len(each.rstrip()) for each in paragraph), default=0)
        item: list[str] = []
        for each, following in zip(paragraph, [*paragraph[1:], ""], strict=True):
            item.append(each)
            if not following or ITEM.match(following) or not wraps(each, following, width):
                yield from item_parts(item, width)
                item = []
        paragraph = []
        yield line


def item_parts(lines: list[str], width: int) -> list[Part]:
    """The parts of an item: its indentation or bullet, its text, the space at its end."""
    raw = "".join(lines)
    bullet = ITEM.match(raw)
    begin = bullet.end() if bullet else len(raw) - len(raw.lstrip("\ufeff \t"))
    stop = len(raw.rstrip())
    builder = SegmentBuilder()
    builder.add_text(raw[begin:stop])
    layout: Callable[[str], str] = str
    if len(lines) > 1:
        prefix = lines[1][: len(lines[1]) - len(lines[1].lstrip())]
        layout = partial(wrap, width=width, prefix=prefix, newline=newline_of(raw))
    return [raw[:begin], builder.build(raw[begin:stop], layout=layout), raw[stop:]]


CLOCK = r"(?:(\d{1,3}):)?(\d\d?):(\d\d)[,.](\d{1,3})"
CUE = re.compile(rf"^[ \t]*{CLOCK}[ \t]*-->[ \t]*{CLOCK}[^\r\n]*(?:\r?\n|\Z)", re.MULTILINE)  # SRT and WebVTT
DIALOGUE = re.compile(rf"^Dialogue:[^,\r\n]*,\s*{CLOCK}\s*,\s*{CLOCK}\s*,(?:[^,\r\n]*,){{6}}", re.MULTILINE)  # SSA, ASS
BLANK_LINE = re.compile(r"^[ \t]*$", re.MULTILINE)
NUMBER = re.compile(r"^[ \t]*\d+[ \t]*\r?\n\Z", re.MULTILINE)  # before a cue of SRT without a blank line
INLINE = re.compile(r"<(/?)([A-Za-z]+)(?:[ \t.][^<>\r\n]*)?>|\{[\\/][^{}\r\n]*\}|<[\d:.]+>|\\h")
DASH = re.compile(r"[ \t]*[-–—‐](?![-–—])[ \t]*")
SENTENCE_END = re.compile(r"[.!?…。！？♪#\])][\"'”“’»«)\]]*$")
LONGEST_GAP, MOST_LINES = 3.0, 12
TOLERANCE = 0.1  # seconds that a cue may begin early, as rounded times do


class Line(NamedTuple):
    """A line of a subtitle, and when it is seen, in seconds."""

    start: int
    end: int
    begins: float
    ends: float


def read_subtitles(text: str) -> Iterator[Part]:
    """The parts of a file of SRT, WebVTT, SSA or ASS: times, numbers and styles stay; raises Malformed.

    A reader of our own, because translate-toolkit drops styles, comments and places of WebVTT. A sentence over
    several lines or cues is translated as one, then divided. A line joins the one before it unless that ends a
    sentence, or this one begins with a speaker's dash, or more than LONGEST_GAP seconds lie between them.
    """
    position, group = 0, list[Line]()
    for line in [*subtitle_lines(text), None]:
        if group and (line is None or not joins(text, group[-1], line, len(group))):
            dash = DASH.match(text, group[0].start, group[0].end)
            start = dash.end() if dash else group[0].start
            yield from (text[position:start], line_segment(text, group, start))
            position, group = group[-1].end, []
        if line:
            group.append(line)
    yield text[position:]


def subtitle_lines(text: str) -> Iterator[Line]:
    """The lines of all cues that are not blank; raises Malformed where there is no cue, and for times that overlap."""
    cues = list(CUE.finditer(text)) or list(DIALOGUE.finditer(text))
    is_srt = bool(cues) and cues[0].re is CUE and not text.startswith("WEBVTT")
    if text.strip() and not cues:
        raise Malformed("there is no line of times such as 00:01:02,500 --> 00:01:04,000")
    before = 0.0
    for number, cue in enumerate(cues, 1):
        begins, ends = (
            3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")
            for hours, minutes, seconds, fraction in (cue.groups()[:4], cue.groups()[4:])
        )
        if ends < begins:
            raise Malformed(f"cue {number} ends before it begins", cue.start())
        if is_srt and begins < before - TOLERANCE:
            raise Malformed(f"cue {number} begins before cue {number - 1} ends", cue.start())
        before = ends
        stop = cues[number].start() if number < len(cues) else len(text)
        if is_srt and (head := NUMBER.search(text, cue.end(), stop)):
            stop = head.start()
        if not is_srt and cue.re is CUE and (blank := BLANK_LINE.search(text, cue.end(), stop)):
            stop = blank.start()
        if cue.re is DIALOGUE:
            stop = next(re.compile(r"\r?$", re.MULTILINE).finditer(text, cue.end())).start()
        pattern = r"[^\r\n]*\S" if cue.re is CUE else r"(?:(?!\\[Nn])[^\r\n])+"
        for match in re.compile(pattern).finditer(text, cue.end(), stop):
            if "-->" in match[0]:
                raise Malformed("this time is no line such as 00:01:02,500 --> 00:01:04,000", match.start())
            if match[0].strip():
                yield Line(match.end() - len(match[0].lstrip()), match.end(), begins, ends)


def joins(text: str, before: Line, line: Line, count: int) -> bool:
    """Whether a line goes on with the sentence of the one before it, which is number `count` of its group."""
    last, first = (INLINE.sub("", text[each.start : each.end]).strip() for each in (before, line))
    gap = line.begins - before.ends if line.begins != before.begins else 0
    return not (SENTENCE_END.search(last) or DASH.match(first) or gap > LONGEST_GAP or count == MOST_LINES)


def line_segment(text: str, group: Sequence[Line], start: int) -> Part:
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
    return builder.build(text[start : group[-1].end], layout=without_blank_lines)


def without_blank_lines(text: str) -> str:
    """A translation of fewer words than lines leaves no blank line inside a cue, which would end it."""
    return re.sub(rf"(\r?\n)(?:[ \t]*\r?\n)+(?![^\r\n]*-->|[ \t]*\d+[ \t]*\r?\n[ \t]*{CLOCK})", r"\1", text)
