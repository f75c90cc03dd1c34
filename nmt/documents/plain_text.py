"""Plain text and subtitles: paragraphs, items and cues; every other byte stays."""

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
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


# --------------------------------------------------------------------------------------------------
# Subtitles

CLOCK = r"(?:(\d{1,3}):)?(\d\d?):(\d\d)[,.](\d{1,3})"
# SRT and WebVTT
CUE = re.compile(rf"^[ \t]*{CLOCK}[ \t]*-->[ \t]*{CLOCK}[^\r\n]*(?:\r*\n|\Z)", re.MULTILINE)
# SSA, ASS
DIALOGUE = re.compile(
    rf"^Dialogue:[^,\r\n]*,\s*{CLOCK}\s*,\s*{CLOCK}\s*,(?:[^,\r\n]*,){{6}}", re.MULTILINE
)
# Where the text of a cue ends, by the kind of file; in SRT before the number of the next one.
CUE_END = {
    "srt": re.compile(r"^[ \t]*\d+[ \t]*\r*\n\Z", re.MULTILINE),
    "vtt": re.compile(r"^[ \t]*\r*$", re.MULTILINE),
    "ass": re.compile(r"\r?$", re.MULTILINE),
}
# A line of a cue, by the kind of file; in ASS, \N and \n divide lines.
LINE = {
    **dict.fromkeys(("srt", "vtt"), re.compile(r"(?P<line>[^\r\n]*\S)")),
    "ass": re.compile(r"(?:\\[Nn])*(?P<line>(?:(?!\\[Nn])[^\r\n])+)"),
}
INLINE_PATTERN = (
    r"(?P<drawing>BRACE[^{}\r\n]*\\p[1-9][^{}\r\n]*\}[^{}\r\n]*)|(?P<space>\\h)"
    r"|(?P<reading><rt(?:\.[^<>\r\n]*)?>[^<>\r\n]*</rt>)"
    r"|<(?P<close>/?)(?P<name>[A-Za-z]+)(?:[ \t.][^<>\r\n]*)?>|<[\d:.]+>|(?P<block>BLOCK)"
)
INLINE = re.compile(INLINE_PATTERN.replace("BRACE", r"\{").replace("BLOCK", r"\{[\\/][^{}\r\n]*\}"))
# In ASS, all between braces is a style or a comment, and a backslash makes a brace a sign.
BRACE = r"(?<!\\)\{"
INLINE_OF_ASS = re.compile(
    INLINE_PATTERN.replace("BRACE", BRACE).replace("BLOCK", rf"{BRACE}[^}}\r\n]{{0,1000}}\}}")
)
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
    cues = list((DIALOGUE if kind == "ass" else CUE).finditer(text))
    inline = INLINE_OF_ASS if kind == "ass" else INLINE
    if text.strip() and not cues:
        raise Malformed("there is no line of times such as 00:01:02,500 --> 00:01:04,000")
    starts_of_following = [*(cue.start() for cue in cues[1:]), len(text)]
    for cue, stop in zip(cues, starts_of_following, strict=False):
        seen_from = seconds(*cue.groups()[:4])
        seen_until = seconds(*cue.groups()[4:])
        if end := CUE_END[kind].search(text, cue.end(), stop):
            stop = end.start()
        for match in LINE[kind].finditer(text, cue.end(), stop):
            line = match["line"]
            if "-->" in line:
                raise Malformed(
                    "this is not a line of times such as 00:01:02,500 --> 00:01:04,000",
                    match.start("line"),
                )
            if line.strip():
                start = match.end() - len(line.lstrip())
                seen = inline.sub("", line).strip()
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
    inline = INLINE_OF_ASS if kind == "ass" else INLINE
    builder = SegmentBuilder(escape)
    position = start
    for line in group:
        if line is not group[0]:
            builder.add(Kind.BREAK, [text[position : line.start]])
            position = line.start
        for match in inline.finditer(text, position, line.end):
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
            elif match["block"] and "\\" not in raw:
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
