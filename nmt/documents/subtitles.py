"""Subtitles: the sentences of cues; every other byte stays."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.corpus.words import SPACELESS, has_letters
from nmt.documents.segment import (
    AS_CODE,
    COMMENTS,
    RUBY,
    Kind,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    left_if_letters,
)

CLOCK = r"(?:(\d{1,3}):)?(\d\d?):(\d\d)[,.](\d{1,3})"


def markup_pattern(brace: str, style: str) -> re.Pattern[str]:
    """What is no text in a cue: `brace` begins a drawing, and `style` is what stands in braces."""
    return re.compile(
        rf"(?P<drawing>{brace}[^{{}}\r\n]*\\p[1-9][^{{}}\r\n]*\}}[^{{}}\r\n]*)"
        r"|(?P<space>\\h)"
        r"|(?P<reading><rt(?:\.[^<>\r\n]*)?>[^<>\r\n]*</rt>)"
        r"|<(?P<close>/?)(?P<name>[A-Za-z]+)(?:[ \t.][^<>\r\n]*)?>"
        r"|<[\d:.]+>"
        rf"|(?P<style>{style})"
    )


class CueFormat(NamedTuple):
    """How the cues of a kind of file are written."""

    begin: re.Pattern[str]  # what stands before the text of a cue, with its two times
    end: re.Pattern[str]  # where the text ends
    line: re.Pattern[str]  # of the text
    markup: re.Pattern[str]  # in a line


CUE = re.compile(rf"^[ \t]*{CLOCK}[ \t]*-->[ \t]*{CLOCK}[^\r\n]*(?:\r*\n|\Z)", re.MULTILINE)
LINE = re.compile(r"(?P<line>[^\r\n]*\S)")
MARKUP = markup_pattern(r"\{", r"\{[\\/][^{}\r\n]*\}")
# In ASS and SSA, all between braces is a style or a comment, and a backslash makes a brace a sign.
BRACE = r"(?<!\\)\{"
FORMATS = {
    # before the number of the next cue
    "srt": CueFormat(CUE, re.compile(r"^[ \t]*\d+[ \t]*\r*\n\Z", re.MULTILINE), LINE, MARKUP),
    "vtt": CueFormat(CUE, re.compile(r"^[ \t]*\r*$", re.MULTILINE), LINE, MARKUP),
    "ass": CueFormat(
        re.compile(
            rf"^Dialogue:[^,\r\n]*,\s*{CLOCK}\s*,\s*{CLOCK}\s*,(?:[^,\r\n]*,){{6}}", re.MULTILINE
        ),
        re.compile(r"\r?$", re.MULTILINE),
        re.compile(r"(?:\\[Nn])*(?P<line>(?:(?!\\[Nn])[^\r\n])+)"),  # \N and \n divide lines
        markup_pattern(BRACE, rf"{BRACE}[^}}\r\n]{{0,1000}}\}}"),
    ),
}
DASH = re.compile(r"[ \t]*[-–—‐](?![-–—])[ \t]*")
# What begins a line of another speaker, or of a sound: a name in capitals, [, ( in capitals, a note
SPEAKER = re.compile(r"[\[♪♫]|#\s|(?P<label>\(?[^\W\d_][^:()\r\n]{0,30}[:)])")
QUOTES = r"[\"'”“’»«」』)\]]*$"
SENTENCE_END = re.compile(rf"[.!?…。！？♪#\])]{QUOTES}")
FULL_STOP = re.compile(rf"[.。]{QUOTES}")
LONGEST_GAP = 3.0  # seconds between two lines of one sentence
MOST_LINES = 12  # of one sentence


class Line(NamedTuple):
    """A line of a subtitle, where it is in the text, and when it is seen, in seconds."""

    start: int
    end: int
    seen_from: float
    seen_until: float
    seen: str  # its text without styles


def read_subtitles(text: str) -> Iterator[Part]:
    """The parts of a file of SRT, WebVTT, SSA or ASS; times, numbers and styles stay.

    Raises Malformed. A reader of our own, because translate-toolkit drops styles, comments and
    places of WebVTT. A sentence over several lines or cues is translated as one, then divided.
    """
    kind = kind_of(text)
    lines = list(subtitle_lines(text, kind))
    stops = sum(bool(FULL_STOP.search(line.seen)) for line in lines)
    has_stops = stops * MOST_LINES >= len(lines)
    groups: list[list[Line]] = []
    for line in lines:
        if groups and joins(groups[-1], line, has_stops):
            groups[-1].append(line)
        else:
            groups.append([line])
    position = 0
    for group in groups:
        dash = DASH.match(text, group[0].start, group[0].end)
        start = dash.end() if dash else group[0].start
        yield from between_cues(text[position:start])
        yield line_segment(text, kind, group, start)
        position = group[-1].end
    yield from between_cues(text[position:])


def between_cues(text: str) -> Iterator[Part]:
    """What stands between cues.

    Times stay as they are. Headers, styles and names of cues are left as code, notes as comments.
    """
    lines: list[str] = []  # that are left for the same reason
    reason = AS_CODE
    is_note = False
    for line in text.splitlines(keepends=True):
        is_note = line.startswith(("NOTE", "Comment:")) or (is_note and bool(line.strip()))
        line_reason = COMMENTS if is_note else AS_CODE
        is_cue = CUE.match(line) or line.startswith("Dialogue:")
        if is_cue or (line_reason != reason and has_letters(line)):
            yield left_if_letters("".join(lines), reason)
            lines = []
        if is_cue:
            yield line
            continue
        if has_letters(line):
            reason = line_reason
        lines.append(line)
    yield left_if_letters("".join(lines), reason)


def kind_of(text: str) -> str:
    if text.startswith("WEBVTT"):
        return "vtt"
    return "srt" if CUE.search(text) else "ass"


def subtitle_lines(text: str, kind: str) -> Iterator[Line]:
    """The lines of all cues that are not blank; raises Malformed where there is no cue."""
    cue_format = FORMATS[kind]
    cues = list(cue_format.begin.finditer(text))
    if text.strip() and not cues:
        raise Malformed("there is no line of times such as 00:01:02,500 --> 00:01:04,000")
    starts_of_following = [*(cue.start() for cue in cues[1:]), len(text)]
    for cue, stop in zip(cues, starts_of_following, strict=False):
        seen_from = seconds(*cue.groups()[:4])
        seen_until = seconds(*cue.groups()[4:])
        if end := cue_format.end.search(text, cue.end(), stop):
            stop = end.start()
        for match in cue_format.line.finditer(text, cue.end(), stop):
            line = match["line"]
            if "-->" in line:
                raise Malformed(
                    "this is not a line of times such as 00:01:02,500 --> 00:01:04,000",
                    match.start("line"),
                )
            if line.strip():
                start = match.end() - len(line.lstrip())
                seen = cue_format.markup.sub("", line).strip()
                yield Line(start, match.end(), seen_from, seen_until, seen)


def seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")


def joins(group: Sequence[Line], line: Line, has_stops: bool) -> bool:
    """Whether a line goes on with the sentence of those before it.

    It does not after the end of a sentence or more than LONGEST_GAP seconds, nor with a speaker's
    dash or name before it. Without `has_stops` it does not in another cue where words have no
    spaces.
    """
    if len(group) == MOST_LINES:
        return False
    last = group[-1]
    if line.seen_from < last.seen_from:  # a file of ASS may be sorted by style
        return False
    is_same_cue = line.seen_from == last.seen_from
    if not is_same_cue and line.seen_from - last.seen_until > LONGEST_GAP:
        return False
    if not is_same_cue and not has_stops and SPACELESS.match(last.seen[-1:]):
        return False
    return not SENTENCE_END.search(last.seen) and not begins_speech(line.seen)


def begins_speech(line: str) -> bool:
    speaker = SPEAKER.match(line)
    is_named = speaker is not None and (speaker["label"] is None or speaker["label"].isupper())
    return is_named or DASH.match(line) is not None


def line_segment(text: str, kind: str, group: Sequence[Line], start: int) -> Part:
    escape: Callable[[str], str] = str
    unescape: Callable[[str], str] = str
    if kind == "vtt":
        escape = partial(html.escape, quote=False)
        unescape = html.unescape
    elif kind == "ass":
        has_escaped = "\\}" in text[start : group[-1].end]
        escape = partial(re.sub, "[{}]" if has_escaped else "{", r"\\\g<0>")
        unescape = partial(re.sub, r"\\([{}])", r"\1")
    builder = SegmentBuilder(escape)
    position = start
    for line in group:
        if line is not group[0]:
            builder.add(Kind.BREAK, [text[position : line.start]])
            position = line.start
        for match in FORMATS[kind].markup.finditer(text, position, line.end):
            builder.add_text(unescape(text[position : match.start()]))
            name = match["name"] or ""
            tag_kind = Kind.POINT
            if match["space"]:
                tag_kind = Kind.BREAK
            elif name:
                tag_kind = Kind.CLOSE if match["close"] else Kind.OPEN
            raw = match[0]
            if match["drawing"]:
                raw = Left(raw, AS_CODE)
            elif match["reading"]:
                raw = left_if_letters(raw, RUBY)
            elif match["style"] and "\\" not in raw:
                raw = left_if_letters(raw, COMMENTS)
            builder.add(tag_kind, [raw], name.lower())
            position = match.end()
        builder.add_text(unescape(text[position : line.end]))
        position = line.end
    return builder.build(text[start:position], without_blank_lines)


def without_blank_lines(text: str) -> str:
    """The text without blank lines inside a cue, which would end it.

    A translation with fewer words than the cue has lines leaves them. Those before a note and
    before the next cue, whose times a line with its name or number may precede, stay.
    """
    next_block = r"(?:NOTE\b|(?:[^\r\n]+\r?\n)?[^\r\n]*-->)"
    return re.sub(rf"(\r?\n)(?:[ \t]*\r?\n)+(?!{next_block})", r"\1", text)
