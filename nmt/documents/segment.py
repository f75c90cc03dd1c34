"""What a format hands over for translation: plain text, and the tags that were taken out of it.

A document has fields, and a field is a list of parts: a string is written as it is, a `Segment` is
translated. The strings and the `raw` of the segments, joined, are the field.

Every letter of a document that is no markup is in a segment or in a `Left`, which says why it is
not translated. What is text is decided in this order: the format's own mark, such as
translate="no"; then whether it has words of a language at all (`has_words`), which
`SegmentBuilder.build` asks for every format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain, pairwise
from typing import Any, AnyStr, NamedTuple

from nmt.corpus.words import Span, has_letters
from nmt.data.text_filter import PATTERNS, PHRASE, has_words

# characters of the private use area that stand for units
FIRST_UNIT = 0xF2A0
MOST_UNITS = 64
# Behind an unsure word, until its translation is written; that of a document becomes a unit
MARK = chr(FIRST_UNIT + MOST_UNITS)
DEEPEST = 50  # pairs of tags inside each other; those of further ones are points
UNITS = re.compile(f"[{chr(FIRST_UNIT)}-{chr(FIRST_UNIT + MOST_UNITS - 1)}]")
BLANK = " \t\r\n\f"
# No characters; they stand for markup inside a message of ICU.
STAND_INS = "".join(map(chr, range(0xFDD1, 0xFDF0)))
SEPARATOR = "\n"  # between two texts of one segment, which are different sentences
LABEL = re.compile(r"\W*[^\W\d_][^:.!?\n]{0,40}:(?![\w/])")
NAME = r"_*[A-Za-z]\w*(?:[.-]\w+)*"
# What a program puts in its place, by its shape: anything between doubled or signed brackets, a
# name with a sign before it or around it. None looks further than some hundred characters, so that
# many without an end take no time.
WITHIN = r"(?s:.){0,500}?"
TEMPLATE = (
    rf"\{{\{{(?:(?!\{{\{{)(?s:.)){{0,500}}?\}}\}}\}}?|\{{%{WITHIN}%\}}|\{{#{WITHIN}#\}}"
    rf"|<%{WITHIN}%>|<\?{WITHIN}\?>|\*\|[^|\n]{{1,40}}\|\*"
)
CALL = r"\$(?!\d)\w+\((?:[^()]|\([^()]*\)){0,200}\)"
SIGNED = (
    rf"@(?:\.\w+)?:(?:\({NAME}\)|{NAME})|{CALL}|\$[A-Za-z_]\w*\$"
    r"|%(?:\d+\$)?#@\w+@|%arg(?!\w)"  # of Xcode's plurals
    rf"|##{NAME}##|%%{NAME}%%|@@{NAME}@@|\+\+{NAME}(?:\+{NAME})*\+\+"
    rf"|(?<![\w:.)/]):{NAME}(?::|(?![\w:]))"
    rf"|(?!{PHRASE})[$#%@]?\{{\w+\s*[,:!.|\[][^{{}}\n]{{1,200}}\}}"
)
# '{' and '{x}' in a message of ICU: signs, and not what begins or names an argument
QUOTED = r"'[{}#|]+'|(?<!\w)'\{[^\s{}']{1,100}\}'(?!\w)"
# %n and %1: of Qt
PLACEHOLDER = (
    f"{QUOTED}|{PATTERNS['link']}|{TEMPLATE}|{SIGNED}|{PATTERNS['variable']}|%n(?!\\w)|%L?\\d+"
)
# A statement of a template, which stands between texts: {% if x %}, {{#each y}}, <% end %>, <?php
# else: ?>
KEYWORDS = (
    r"end\w*|else|elif|else?if|if|unless|for|foreach|each|range|while|with|switch|case|when"
    r"|block|macro"
)
KEYWORD = rf"(?:[#/^}}]|(?:{KEYWORDS})\b)"
STATEMENT = re.compile(rf"(?:\{{%[-+~]?|\{{\{{[-~]?|<\?(?:php)?)\s*{KEYWORD}|<%(?![=#-])")
# [box a=1]text[/box] of WordPress, [url=https://x.de]text[/url] of a forum, [b]text[/b]
VALUE = r"""=(?:"[^"\]]*"|'[^'\]]*'|[^\s\[\]"']+)"""
ATTRIBUTE = rf"\s+[\w-]+{VALUE}"
SHORTCODE = (
    rf"\[(?P<opens>[A-Za-z][\w-]*)(?:{VALUE}|{ATTRIBUTE})(?:{ATTRIBUTE})*\s*/?\]"
    r"|\[/(?P<closes>[A-Za-z][\w-]*)\]"
    r"|\[(?P<opens_alone>[A-Za-z][\w-]*)\](?=[^\[\]]{0,1000}\[/(?P=opens_alone)\])"
)
# [text](target) of Markdown, which messages and other texts may have too
TARGET = r"\]\([^()\s]{1,500}\)"
LINK = rf"(?P<link_start>\[(?=[^\[\]\n]{{1,300}}{TARGET}))|(?P<link_end>{TARGET})"
# of ICU: {n, plural, one {# dog} other {# dogs}}; and Java's {0,choice,0#no dogs|1#one dog}
# And {{PLURAL:$1|one dog|many dogs}} of MediaWiki.
MESSAGE = (
    r"(?:\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal|(?P<choice>choice))\s*,"
    r"|(?<!\w)\{\{(?P<wiki>(?i:plural|gender)):[^{}|\n]{0,100}\|)"
)
# In a message of ICU, two apostrophes are one; a single one quotes what begins with a brace
SINGLE = r"(?<!')(?:'')*'(?!')"
BEFORE_UNIT = re.compile(rf"{SINGLE}(?=({UNITS.pattern}))")
AT_END = re.compile(rf"(?:{QUOTED}|(?P<single>{SINGLE}))\Z")
BRANCH = re.compile(r"\s*(?:offset:\d+\s*)?(?:=\d+|[\w-]+)\s*\{\s*")
LIMIT = re.compile(r"\s*-?[\d.∞]+\s*[#<≤]\s*")
COUNT = re.compile(r"\s*(?:\d+=)?\s*")
BRACES_AND_BARS = re.compile(r"'[{}#|][^']*'|(?P<open>\{|\[\[)|(?P<close>\}|\]\])|(?P<bar>\|)")
BRACES = re.compile(r"'[{}#|][^']*'|(?P<open>\{)|(?P<close>\})")
# between the forms of a plural (|||| of Polyglot), or the parts of a title
BAR = r"(?<=\s)\|(?:\|\|\|)?(?=\s)"
KEPT = re.compile(  # in plain text
    rf"(?P<message>{MESSAGE})|{SHORTCODE}|{LINK}|(?P<bar>{BAR})|{PLACEHOLDER}"
    rf"|&(?:#\d+|\w+);|{UNITS.pattern}|{MARK}|[{STAND_INS}]"
)
# emphasis of Markdown may not end before a space
KEPT_WITHOUT_BARS = re.compile(KEPT.pattern.replace(BAR, "(?!)"))
KEPT_IN_BRANCH = re.compile(f"{KEPT.pattern}|#")


class Kind(Enum):
    """What a reader finds in a text."""

    TEXT = auto()
    OPEN = auto()  # it begins something
    CLOSE = auto()
    POINT = auto()  # it contains nothing: an image, an empty element
    BREAK = auto()  # it ends a line and stands instead of a space
    SEPARATOR = auto()  # it stands between two texts
    UNIT = auto()  # it is not translated, and has a place in the sentence
    PAIR = auto()  # an element with text of the sentence inside
    END = auto()  # it stands between two paragraphs


@dataclass
class Tag:
    """Markup at a position of the plain text."""

    kind: Kind  # OPEN, CLOSE, POINT or BREAK
    position: int
    parts: list[Part]  # as it is written; an attribute that is translated is a segment
    name: str = ""  # OPEN and CLOSE of one name belong together
    begins_block: bool = False  # it would, at the beginning of a line


@dataclass
class Segment:
    """A block of text with its markup: a paragraph, a heading, a cell, a subtitle."""

    raw: str  # as it is in the document
    # Plain, each run of spaces as one, a SEPARATOR between texts; a unit is one private character.
    text: str
    tags: list[Tag] = field(default_factory=list)
    # what is not translated, by its character
    units: dict[str, list[Part]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)  # what a reader sees of each unit
    escape: Callable[[str], str] = str  # from plain text to how the format writes it
    layout: Callable[[str], str] = str  # from the written translation to its lines
    language: str = ""  # that the document declares for it
    translation: str | None = None  # as it is written
    unsure: list[str] | None = None  # words of the translation; None: nobody has judged it
    faults: list[str] | None = None  # why somebody should read it; None: nobody has estimated it

    def __str__(self) -> str:
        """As it is written: its translation, if it has one."""
        return self.raw if self.translation is None else self.translation

    def inside(self) -> Iterator[list[Part]]:
        """The parts of each of its tags and units."""
        yield from (tag.parts for tag in self.tags)
        yield from self.units.values()

    def inner(self) -> Iterator[Segment]:
        """The segments inside its tags and units."""
        for parts in self.inside():
            yield from segments(parts)


class Left(str):
    """Text that is not translated, as it is written, and why."""

    reason: str

    def __new__(cls, text: str, reason: str) -> Left:
        left = super().__new__(cls, text)
        left.reason = reason
        return left


Part = str | Segment
WITHOUT_WORDS = "without words"  # the reason for an identifier, a colour, a path …
AS_CODE = "code"  # of a program or of markup: scripts, templates, formulas, examples
COMMENTS = "comments"
RUBY = "ruby"  # readings above characters
PROTECTED = "protected"  # the document says that it is not to be translated
FOREIGN = "in another language"
TRANSLATED = "already translated"
OBSOLETE = "obsolete"
MARKED = "marked as no text"  # by the format


class Malformed(Exception):
    """Text is not what its format says, at the character `position` or in `line`."""

    def __init__(self, problem: str, position: int | None = None, line: int | None = None) -> None:
        super().__init__(problem)
        self.position = position
        self.line = line


class Field(NamedTuple):
    parts: list[Part]
    save: Callable[[str], object]  # puts the translated text into the document
    # shows what is similar: how much, its source and target
    suggest: Callable[[float, str, str], object] | None = None
    # shows which words of what was saved are unsure, and why somebody should read it
    mark: Callable[[list[str], list[str] | None], object] | None = None


def doubts_of(texts: Iterable[Any]) -> tuple[list[str] | None, list[str] | None]:
    """The unsure words of some texts, and their faults; None where one of them was not judged."""
    unsure: list[str] | None = []
    faults: list[str] | None = []
    for text in texts:
        if text.unsure is None:
            return None, None
        unsure += text.unsure
        faults = None if faults is None or text.faults is None else faults + text.faults
    return unsure, faults


class Stated(NamedTuple):
    """A language that a file states of its texts, or of their translations."""

    name: str  # of the attribute or header
    code: str
    is_target: bool


@dataclass
class Document:
    """A parsed file: its fields, what the reader left apart from them, and how it is written."""

    fields: list[Field]
    serialize: Callable[[], bytes]
    left: list[Left] = field(default_factory=list)
    data: bytes | None = None  # as it was read
    has_suggestions: bool = False
    language: str = ""  # of the translation, set by whoever translates: XLIFF states it
    stated: list[Stated] = field(default_factory=list)

    def leave(self, text: str, reason: str) -> None:
        """Count a text that is in no field and is not translated."""
        self.left.append(Left(text, reason))

    def all_left(self) -> Iterator[Left]:
        """What is not translated, in the fields and apart from them."""
        yield from self.left
        for text_field in self.fields:
            yield from left_in(text_field.parts)

    def write(self) -> bytes:
        """The document with its translations; without any, the bytes that were read."""
        is_changed = self.has_suggestions
        for text_field in self.fields:
            found = segments(text_field.parts)
            translated = [segment for segment in found if segment.translation is not None]
            if not translated:
                continue
            is_changed = True
            text_field.save(written(text_field.parts))
            unsure, faults = doubts_of(translated)
            if text_field.mark and unsure is not None:
                text_field.mark(unsure, faults)
        if self.data is not None and not is_changed:
            return self.data
        return self.serialize()

    @property
    def marks_unsure(self) -> bool:
        """Whether its format has a place that says which words are unsure."""
        return any(text_field.mark for text_field in self.fields)


class TextFile(Document):
    """A text of which some places are replaced; all else stays, also its byte order mark."""

    def __init__(self, text: str, encoding: str = "utf-8") -> None:
        super().__init__([], lambda: (mark + spliced(self.text, self.new)).encode(encoding))
        self.text = text.removeprefix("\ufeff")
        mark = text[: len(text) - len(self.text)]
        self.new: dict[Span, str] = {}

    def add(
        self, parts: list[Part], start: int, end: int, write: Callable[[str], str] = str
    ) -> None:
        """Add a field for what stands from `start` to `end`."""

        def save(text: str) -> None:
            self.new[start, end] = write(text)

        self.fields.append(Field(parts, save))


def spliced(old: AnyStr, new: dict[Span, AnyStr]) -> AnyStr:
    """A text with other parts in these places; an empty place is before others that begin there."""
    parts: list[AnyStr] = []
    position = 0
    for start, end in sorted(new):
        parts += [old[position:start], new[start, end]]
        position = end
    parts.append(old[position:])
    return old[:0].join(parts)


UTF_8 = {"utf-8", "utf8", "ascii", "us-ascii"}  # encodings that are read as UTF-8


ASCII = {"ascii", "us-ascii"}
# What ASCII has not, but for the characters that stand for something while a text is translated
NOT_ASCII = re.compile(f"[^\0-\x7f{chr(FIRST_UNIT)}-{MARK}\ufdd0-\ufdef]")


def as_references(text: str) -> str:
    """A text of HTML or XML in ASCII."""
    return NOT_ASCII.sub(lambda match: f"&#{ord(match[0])};", text)


def check_encoding(stated: str, position: int | None = None, line: int | None = None) -> None:
    """Raise Malformed where a file states an encoding that is not read as UTF-8."""
    if stated.lower() not in UTF_8:
        raise Malformed(
            f"it says that its encoding is {stated}; convert it to UTF-8 and correct what it says",
            position,
            line,
        )


def check_text(text: str) -> None:
    if "\0" in text:
        raise Malformed("a NUL character; it is not text", text.index("\0"))


def segments(parts: Sequence[Part]) -> Iterator[Segment]:
    """The segments among these parts; those inside the tags and units of another one before it."""
    for part in parts:
        if isinstance(part, Segment):
            yield from part.inner()
            yield part


def left_in(parts: Sequence[Part]) -> Iterator[Left]:
    """What is not translated among these parts, also inside the tags and units of segments."""
    for part in parts:
        if isinstance(part, Left):
            yield part
        elif isinstance(part, Segment):
            for inside in part.inside():
                yield from left_in(inside)


def written(parts: Sequence[Part]) -> str:
    """The parts joined, with the translations of the segments that have one."""
    return "".join(map(str, parts))


def left_if_letters(text: str, reason: str) -> str:
    return Left(text, reason) if has_letters(text) else text


def closing(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """The match that closes what is open at `start`.

    `pattern` has the groups `open` and `close`.
    """
    depth = 1
    for match in pattern.finditer(text, start):
        depth += {"open": 1, "close": -1}.get(match.lastgroup or "", 0)
        if depth == 0:
            return match
    return None


def branch_spans(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Where the texts of the branches of a message are; none if it is broken."""
    spans = []
    while branch := BRANCH.match(text, start, stop):
        brace = closing(BRACES, text, branch.end())
        if brace is None:
            break
        spans.append((branch.end(), brace.start()))
        start = brace.end()
    return [] if text[start:stop].strip() else spans


def choice_spans(
    text: str, start: int, stop: int, limits: re.Pattern[str] = LIMIT
) -> list[tuple[int, int]]:
    """As `branch_spans`, of a choice of Java: each text is behind its limit and before a bar."""
    ends = []
    depth = 0
    for match in BRACES_AND_BARS.finditer(text, start, stop):
        depth += {"open": 1, "close": -1}.get(match.lastgroup or "", 0)
        if match["bar"] and depth == 0:
            ends.append(match.start())
    spans = []
    for end in [*ends, stop]:
        limit = limits.match(text, start, end)
        if limit is None:
            return []
        spans.append((limit.end(), end))
        start = end + 1
    return spans


def with_double_end(branch: str) -> str:
    """A branch of a message, whose last apostrophe would quote the brace behind it."""
    match = AT_END.search(branch)
    return f"{branch}'" if match and match["single"] else branch


def message_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where messages of ICU are in a text, up to the first one without an end."""
    end = 0
    for header in re.finditer(MESSAGE, text):
        if header.start() < end:
            continue
        brace = closing(BRACES, text, header.end())
        if brace is None:
            return
        end = brace.end() + bool(header["wiki"])
        yield header.start(), end


def message_part(pieces: Sequence[str | Tag], builder: SegmentBuilder) -> Part | None:
    """A text with messages of ICU as one segment, with markup also inside of their branches.

    None if it has too much markup.
    """
    stand_ins = iter(STAND_INS)
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        character = next(stand_ins, None)
        if character is None:
            return None
        builder.markup[character] = piece
        text += character
    escape = builder.escape
    markup = {ord(character): written(tag.parts) for character, tag in builder.markup.items()}
    builder.escape = lambda plain: escape(plain).translate(markup)
    builder.add_text(text)
    return builder.build(builder.escape(text))


def find_partners(things: Sequence[Any]) -> dict[int, int]:
    """The index of the CLOSE by that of its OPEN, which has the same name; pairs do not cross."""
    opened = list[int]()
    partners = {}
    for index, thing in enumerate(things):
        if thing.kind == Kind.OPEN and len(opened) < DEEPEST:
            opened.append(index)
        elif thing.kind == Kind.CLOSE and any(things[at].name == thing.name for at in opened):
            beginning = opened.pop()
            while things[beginning].name != thing.name:
                beginning = opened.pop()
            partners[beginning] = index
    return partners


def text_part(
    text: str, raw: str, escape: Callable[[str], str] = str, layout: Callable[[str], str] = str
) -> Part:
    """A plain text, which is written as `raw`."""
    builder = SegmentBuilder(escape)
    builder.add_text(text)
    return builder.build(raw, layout)


class SegmentBuilder:
    """Collects plain text and tags from left to right.

    `escape` writes plain text as its format does.
    """

    def __init__(self, escape: Callable[[str], str] = str) -> None:
        self.escape = escape
        self.pieces: list[str] = []  # of the text
        self.length = 0  # of the text
        self.last = ""  # character of the text
        self.tags: list[Tag] = []
        self.opened: set[str] = set()  # names of the pairs that begin where the text ends
        self.units: dict[str, list[Part]] = {}
        self.shown: dict[str, str] = {}  # of each unit
        self.space = ""  # as it was written, of the space that the text ends with
        self.markup: dict[str, Tag] = {}  # what STAND_INS stand for, if the text has any
        self.is_icu = False  # whether the text has a message of ICU, or is in one

    def add_text(self, text: str, kept: re.Pattern[str] = KEPT) -> None:
        """Add plain text, with entities decoded; what is not translated in it becomes a unit."""
        end = 0
        for match in kept.finditer(text):
            if match.start() < end:  # inside a message
                continue
            self.add_words(text[end : match.start()])
            end = self.add_kept(text, match)
        self.add_words(text[end:])

    def add_kept(self, text: str, match: re.Match[str]) -> int:
        """What is not translated in a text, by KEPT; the position after it."""
        if tag := self.markup.get(match[0]):
            self.add(tag.kind, tag.parts, tag.name)
            return match.end()
        raw = self.escape(match[0])
        name = match["opens"] or match["opens_alone"] or match["closes"]
        if match["message"]:
            return self.add_message(text, match)
        if name:
            self.add(Kind.CLOSE if match["closes"] else Kind.OPEN, [raw], f"[{name}")
        elif match["link_start"]:
            self.add(Kind.OPEN, [raw], "link")
        elif match["link_end"]:
            self.add(Kind.CLOSE, [raw], "link")
        elif match["bar"] or STATEMENT.match(match[0]):
            self.add(Kind.SEPARATOR, [left_if_letters(raw, AS_CODE)])
        else:
            self.add(Kind.UNIT, [raw], shown=match[0])
        return match.end()

    def add_words(self, text: str) -> None:
        words = text.lstrip(BLANK)
        if len(words) < len(text):
            self.add_space(text[: len(text) - len(words)])
        if words:
            self.append(re.sub(f"[{BLANK}]+", " ", words))
            self.space = words[len(words.rstrip(BLANK)) :]

    def append(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)
        self.last = text[-1]
        self.opened.clear()

    def add_space(self, space: str) -> None:
        """Add one space to the text. If the text ends with one already, the last tag keeps `space`.

        The end of a pair with words does not keep it.
        """
        if self.last not in ("", " ", SEPARATOR):
            self.append(" ")
            self.space = space
        elif self.tags and self.tags[-1].position == self.length:
            last = self.tags[-1]
            if last.kind != Kind.CLOSE or last.name in self.opened:
                last.parts.append(space)

    def add(self, kind: Kind, parts: Sequence[Part], name: str = "", shown: str = "") -> None:
        """Add what is no text; OPEN and CLOSE of one name belong together.

        `shown`: what a reader sees of a unit.

        The spaces around a break or a separator belong to it; before any text it is a point.
        """
        if kind == Kind.UNIT and len(self.units) < MOST_UNITS:
            character = chr(FIRST_UNIT + len(self.units))
            self.units[character] = list(parts)
            self.shown[character] = shown
            self.append(character)
            return
        if kind in (Kind.BREAK, Kind.SEPARATOR) and self.length:
            last = self.tags[-1] if self.tags else None
            if last and last.kind == Kind.BREAK and last.position == self.length:
                last.parts += parts
                return
            before = ""
            if self.last == " ":
                before = self.space
                self.pieces[-1] = self.pieces[-1][:-1]
                self.length -= 1
            self.append(SEPARATOR if kind == Kind.SEPARATOR else " ")
            kind = Kind.BREAK
            parts = [before, *parts]
        elif kind == Kind.OPEN:
            self.opened.add(name)
        elif kind != Kind.CLOSE:
            kind = Kind.POINT
        self.tags.append(Tag(kind, self.length, list(parts), name))

    def tags_to_text(self, unwanted: Sequence[Tag]) -> None:
        """Make text of tags that turned out to be none, such as * without a second one."""
        if not unwanted:
            return
        unwanted_ids = {id(tag) for tag in unwanted}
        text = "".join(self.pieces)
        self.pieces = []
        position = shift = 0
        for tag in self.tags:
            if id(tag) in unwanted_ids:
                self.pieces += [text[position : tag.position], written(tag.parts)]
                position = tag.position
                shift += len(self.pieces[-1])
            else:
                tag.position += shift
        self.pieces.append(text[position:])
        self.length += shift
        self.tags = [tag for tag in self.tags if id(tag) not in unwanted_ids]

    def add_message(self, text: str, header: re.Match[str]) -> int:
        """A message as a unit, its branches as segments, and the position after it.

        A broken one is no message.
        """
        brace = closing(BRACES, text, header.end())
        spans: list[tuple[int, int]] = []
        if brace and header["choice"]:
            spans = choice_spans(text, header.end(), brace.start())
        elif brace and header["wiki"]:
            spans = choice_spans(text, header.end(), brace.start(), COUNT)
        elif brace:
            spans = branch_spans(text, header.end(), brace.start())
        if brace is None or not spans:
            rest = text[header.start() :]
            self.add(Kind.UNIT, [self.escape(rest)], shown=rest)
            return len(text)
        is_icu = not header["choice"] and not header["wiki"]
        self.is_icu |= is_icu
        parts: list[Part] = []
        position = header.start()
        for start, stop in spans:
            words = text[start:stop].rstrip()
            inner = SegmentBuilder(self.escape)
            inner.markup = self.markup
            inner.is_icu = is_icu
            inner.add_text(words, KEPT_IN_BRANCH)
            branch = inner.build(self.escape(words), with_double_end if is_icu else str)
            parts += [self.escape(text[position:start]), branch]
            position = start + len(words)
        end = brace.end() + bool(header["wiki"])
        parts.append(self.escape(text[position:end]))
        self.add(Kind.UNIT, parts, shown=text[header.start() : end])
        return end

    def escape_in_message(self, text: str) -> str:
        """Plain text of a message of ICU: no apostrophe of it quotes the argument behind it."""

        def doubled(match: re.Match[str]) -> str:
            unit = written(self.units.get(match[1], []))
            return f"{match[0]}'" if unit.startswith(("{", "#")) else match[0]

        return self.escape(BEFORE_UNIT.sub(doubled, text))

    def text_of_lines(self) -> str:
        """The text; between two lines that both begin with a label, "Sunday: closed", are two."""
        text = "".join(self.pieces)
        starts = [0, *(tag.position for tag in self.tags if tag.kind == Kind.BREAK)]
        characters = list(text)
        for line, following in pairwise(starts):
            if LABEL.match(text, line, following) and LABEL.match(text, following):
                characters[following - 1] = SEPARATOR
        return "".join(characters)

    def build(self, raw: str, layout: Callable[[str], str] = str) -> Part:
        """The segment without space at its end; without words `raw`, with the reason for that."""
        text = self.text_of_lines().rstrip(f" {SEPARATOR}")
        after = [tag for tag in self.tags if tag.position > len(text)]
        if after and after[0].kind in (Kind.OPEN, Kind.POINT):
            after[0].parts.insert(0, self.space)
        for tag in after:
            tag.position = len(text)
        escape = self.escape_in_message if self.is_icu else self.escape
        segment = Segment(raw, text, self.tags, self.units, self.shown, escape, layout)
        if has_words(text) or any(segment.inner()):
            return segment
        left = next(left_in([segment]), None)
        if has_letters(text):
            return Left(raw or text, WITHOUT_WORDS)
        if left is not None:
            return Left(raw, left.reason)
        units = chain.from_iterable(self.units.values())
        has_code = any(isinstance(part, str) and has_letters(part) for part in units)
        return Left(raw, WITHOUT_WORDS) if raw and has_code else raw
