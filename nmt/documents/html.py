"""HTML: block elements delimit what is translated together, inline elements are tags in it; every
other byte stays.

A reader of our own, because translate-toolkit refuses elements that are not closed, writes entities
and attributes anew, and has no text areas. Left as they are, and counted: scripts, styles,
comments, `pre` and `code`, what translate="no" or class="notranslate" marks, and what lang= says is
in another language than the run's source. A tag, comment or script without an end is refused.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nmt.documents.segment import (
    AS_CODE,
    CALL,
    COMMENTS,
    PROTECTED,
    STATEMENT,
    Malformed,
    Part,
    Segment,
    SegmentBuilder,
    TagKind,
    left_if_letters,
)

INLINE = set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math q rp "
    "rt ruby s samp small "
    "span strike strong sub sup svg time tt u var wbr".split()
)
VOID = set("area base br col embed hr img input link meta param source track wbr".split())
RAW_TEXT = set("script style xmp iframe noembed noframes".split())  # no tags are inside
CODE = set("code kbd samp var tt math pre".split())  # no text is inside
LINES = {"textarea", "title"}  # no tags are inside, and each line is a text
TEXT_ATTRIBUTES = set(
    "alt title placeholder label summary abbr aria-label aria-description aria-placeholder "
    "aria-valuetext "
    "aria-roledescription".split()
)
# `content` of <meta name= or property=…>, `value` of <input type=…>
META = (
    "description og:title og:description og:image:alt twitter:title twitter:description "
    "twitter:image:alt"
).split()
BUTTONS = {"submit", "button", "reset"}
LONGEST_BLOCK = 5_000  # characters; a longer one is read in parts
CELL = {"td", "th", "tr", "tbody", "tfoot"}
# Elements that may have no end tag, and what begins after them; `p` ends where any other block
# begins.
ENDED_BY = {
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "td": CELL,
    "th": CELL,
    "tr": CELL - {"td", "th"},
    "option": {"option", "optgroup"},
}

# A word with an index, which would not be one word without it: H₂O, 10⁶, 4th.
NO_LETTER = r"(?:[^<>\w]|[\d_])"
INDEX, NUMBER = (
    rf"(?:<su[bp]\b[^<>]*>{content}+</su[bp]>\w*)+" for content in ("[^<>]", NO_LETTER)
)
FORMULA = rf"(?<!\w)(?:\d+{INDEX}|\w+{NUMBER}(?:(?<=\w)|(?=[-‐’'])))"
# Templates, which may have < and > in them. None goes over the beginning of another one.
TEMPLATE = (
    r"\{\{(?:(?!\{\{).){0,500}?\}\}\}?|\{%(?:(?!\{%).){0,500}?%\}|\{#(?:(?!\{#).){0,2000}?#\}"
    r"|<%(?:(?!<%).){0,5000}?%>|<\?(?:php\b|=).*?(?:\?>|\Z)"
)
# What may stand in a tag: templates, values in quotation marks, which may have > in them, and all
# else.
TAG = (
    r"<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*|\d+(?=\s*/?>))"
    rf"""(?P<rest>(?:{TEMPLATE}|[^>=]|=\s*"[^"]*"|=\s*'[^']*'|=(?!\s*["']))*)>?"""
)
TOKEN = re.compile(
    rf"(?P<template>{TEMPLATE}|{CALL})"
    r"|(?P<comment><!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z))"
    rf"|(?P<mark>(?<=\S)<(?P<of>sup|sub|a)\b[^<>]*>"
    rf"(?:</?(?!(?P=of)\b)\w[^<>]*>|{NO_LETTER})+</(?P=of)>)"
    rf"|{TAG}"
    rf"|(?P<formula>{FORMULA})",
    re.DOTALL | re.IGNORECASE,
)
STATEMENT_END = re.compile(r"\{%[-+~ ]*end(\w+)")
ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s=/"'>]+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s"'>][^\s>]*))?"""
)


class Token(NamedTuple):
    """A piece of the document, from left to right.

    It has what is written for it, where that is not its text.
    """

    kind: str  # text, unit, statement, point, break, open, close
    start: int
    end: int
    parts: Sequence[Part] = ()
    name: str = ""
    is_block: bool = False  # it stands between texts
    reason: str = ""  # why the element that it begins is left as it is
    language: str = ""  # of its element, as that says


def read_html(text: str) -> Iterator[Part]:
    """The parts of a document or of a piece of one; raises Malformed."""
    run: list[Token] = []  # since the last tag of a block
    for token in [*tokens(text), Token("point", len(text), len(text), is_block=True)]:
        if not token.is_block:
            run.append(token)
        if token.is_block or (token.kind == "text" and token.end - run[0].start > LONGEST_BLOCK):
            yield from inline_parts(text, run)
            run = []
        if token.is_block:
            yield from inline_parts(text, [token]) if token.kind == "text" else token.parts


def tokens(text: str) -> list[Token]:
    """The tokens, which joined are the text; raises Malformed for one that does not end."""
    found = list[Token]()
    statements = {name.lower() for name in STATEMENT_END.findall(text)}
    position = 0
    while match := TOKEN.search(text, position):
        if match.start() > position:
            found.append(Token("text", position, match.start()))
        found += read_markup(text, match, statements)
        position = found[-1].end
    if position < len(text):
        found.append(Token("text", position, len(text)))
    return list(arrange(text, found, element_ends(found), 0, len(found), ""))


def read_markup(text: str, match: re.Match[str], statements: Collection[str] = ()) -> list[Token]:
    """The tokens of what TOKEN has found, those inside a script or a text area included.

    Raises Malformed. `statements`: names such as block, because the text has {% endblock %}.
    """
    start, stop = match.span()
    raw = match[0]
    if match["formula"]:
        return [Token("unit", start, stop, [raw])]
    if match["template"]:
        is_statement = STATEMENT.match(raw) or raw[2:].strip(" -+~").partition(" ")[0] in statements
        kind = "statement" if is_statement else "unit"
        return [Token(kind, start, stop, [raw])]
    if match["mark"]:
        return [Token("point", start, stop, mark_parts(text, start, stop))]
    if not raw.endswith(">"):
        what = (
            "comment"
            if raw.startswith("<!--")
            else f"tag <{match['close'] or ''}{match['name'] or '!'}"
        )
        raise Malformed(f"the {what} has no end", start)
    if match["comment"]:
        reason = {"<!--": COMMENTS, "<![C": AS_CODE}.get(raw[:4])
        return [Token("point", start, stop, [left_if_letters(raw, reason) if reason else raw])]
    return read_tag(text, match)


def read_tag(text: str, match: re.Match[str]) -> list[Token]:
    start, stop = match.span()
    raw = match[0]
    name = match["name"].lower()
    is_block = name not in INLINE and not name.isdigit()
    if match["close"]:
        return [Token("close", start, stop, [raw], name, is_block)]
    kind = "break" if name == "br" else "point" if name in VOID or raw.endswith("/>") else "open"
    attributes = read_attributes(match)
    check_encoding(name, attributes, start)
    is_kept = (
        attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()
    )
    parts = [raw] if is_kept else tag_parts(text, match, name, attributes)
    if kind == "open" and name in RAW_TEXT | LINES:
        close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, stop)
        if close is None:
            raise Malformed(f"<{name}> has no end", start)
        if name in RAW_TEXT:
            content = text[start : close.start()]
            return [
                Token(
                    "unit",
                    start,
                    close.start(),
                    [left_if_letters(content, AS_CODE)],
                    name,
                    is_block,
                )
            ]
        lines = [
            match.span() for match in re.compile(r".+\n?|\n").finditer(text, stop, close.start())
        ]
        return [
            Token(kind, start, stop, parts, name, True),
            *(Token("text", *line, is_block=True) for line in lines),
        ]
    reason = PROTECTED if is_kept else AS_CODE if name in CODE else ""
    language = (
        "" if name in ("html", "body") else attributes.get("lang") or attributes.get("xml:lang", "")
    )
    return [Token(kind, start, stop, parts, name, is_block, reason, language)]


def check_encoding(name: str, attributes: Mapping[str, str], position: int) -> None:
    """Raise Malformed where the document says that it is not in UTF-8."""
    content = attributes.get("content", "") if "http-equiv" in attributes else ""
    declared = (
        attributes.get("charset") or content.partition("charset=")[2].partition(";")[0].strip()
    )
    if name == "meta" and declared not in ("", "utf-8", "utf8", "us-ascii", "ascii"):
        raise Malformed(
            f"the document says that its encoding is {declared}; convert it to UTF-8", position
        )


def read_attributes(match: re.Match[str]) -> dict[str, str]:
    """The attributes of a tag with their values, in small letters.

    Of attributes that are there twice, the first counts.
    """
    found = [
        (each["name"].lower(), each["value"] or "") for each in ATTRIBUTE.finditer(match["rest"])
    ]
    return {name: html.unescape(value).strip("\"' ").lower() for name, value in reversed(found)}


def element_ends(found: Sequence[Token]) -> dict[int, int]:
    """The index after each element, by the index where it begins.

    An inline element without an end tag has no content.
    """
    opened = list[int]()
    ends = dict[int, int]()
    names = Counter[str]()

    def end_last(after: int) -> str:
        beginning = opened.pop()
        name = found[beginning].name
        names[name] -= 1
        is_closed = after > 0 and found[after - 1].kind == "close" and found[after - 1].name == name
        ends[beginning] = after if is_closed or found[beginning].is_block else beginning + 1
        return name

    for index, token in enumerate(found):
        if token.kind == "open":
            while opened and is_ended_by(found[opened[-1]].name, token):
                end_last(index)
            opened.append(index)
            names[token.name] += 1
        elif token.kind == "close" and names[token.name]:
            while found[opened[-1]].name != token.name:
                end_last(index)
            end_last(index + 1)
    while opened:
        end_last(len(found))
    return ends


def is_ended_by(name: str, following: Token) -> bool:
    return following.is_block if name == "p" else following.name in ENDED_BY.get(name, ())


def arrange(
    text: str, found: Sequence[Token], ends: Mapping[int, int], start: int, stop: int, language: str
) -> Iterator[Token]:
    """The tokens [start, stop) with their languages.

    What stays is one token: code, drawings, foreign words.
    """
    scopes = [(stop, language)]  # until which token which language is declared
    index = start
    while index < stop:
        while len(scopes) > 1 and index >= scopes[-1][0]:
            scopes.pop()
        token = found[index]
        language = scopes[-1][1]
        end = min(ends.get(index, index + 1), stop)
        span = token.start, found[end - 1].end
        if token.kind == "open" and token.reason:
            left = left_if_letters(text[slice(*span)], token.reason)
            yield Token("unit", *span, [left], token.name, token.is_block)
            index = end
            continue
        if token.kind == "open" and token.name == "svg":
            inside = [part for each in found[index:end] for part in drawing_parts(text, each)]
            yield Token("unit", *span, inside, token.name)
            index = end
            continue
        if token.language and token.language != language and end > index + 1:
            if not any(each.is_block for each in found[index:end]):
                inner = list(arrange(text, found, ends, index + 1, end - 1, token.language))
                parts = [*token.parts, *inline_parts(text, inner), *found[end - 1].parts]
                yield Token("unit", *span, parts, token.name)
                index = end
                continue
            language = token.language
            scopes.append((end, language))
        yield token._replace(language=language)
        index += 1


def drawing_parts(text: str, token: Token) -> Sequence[Part]:
    """Of SVG: each text is one of its own."""
    return inline_parts(text, [token]) if token.kind == "text" else token.parts


def mark_parts(text: str, start: int, stop: int) -> list[Part]:
    """Of a footnote mark with its tags, whose titles are text."""
    parts: list[Part] = []
    for match in re.compile(TAG, re.DOTALL).finditer(text, start, stop):
        parts.append(text[start : match.start()])
        parts += tag_parts(text, match, match["name"].lower(), {})
        start = match.end()
    return [*parts, text[start:stop]]


def tag_parts(
    text: str, match: re.Match[str], name: str, attributes: Mapping[str, str]
) -> list[Part]:
    names = set(TEXT_ATTRIBUTES)
    if name == "meta" and (attributes.get("name") in META or attributes.get("property") in META):
        names.add("content")
    if name == "input" and attributes.get("type") in BUTTONS:
        names.add("value")
    parts: list[Part] = []
    position = match.start()
    for attribute in ATTRIBUTE.finditer(text, *match.span("rest")):
        value = attribute["value"] or ""
        if not value or attribute["name"].lower() not in names:
            continue
        start, end = attribute.span("value")
        is_quoted = value[0] in "'\""
        if is_quoted:
            start = start + 1
            end = end - 1
        builder = SegmentBuilder(partial(escape_in_quotes, mark=value[0] if is_quoted else '"'))
        builder.add_text(html.unescape(text[start:end]).strip())
        layout: Callable[[str], str] = str if is_quoted else '"{}"'.format
        parts += [text[position:start], builder.build(text[start:end], layout)]
        position = end
    return [*parts, text[position : match.end()]]


escape: Callable[[str], str] = partial(html.escape, quote=False)


def escape_in_quotes(plain: str, mark: str) -> str:
    return escape(plain).replace(mark, html.escape(mark))


def inline_parts(text: str, run: Sequence[Token], entities: bool = True) -> list[Part]:
    """The parts of these tokens of a text: the space around them as it is, the rest as one segment.

    `entities`: whether &amp; and the like stand for signs.
    """
    if not run:
        return []
    whole = text[run[0].start : run[-1].end]
    start = run[0].start + len(whole) - len(whole.lstrip())
    end = run[-1].end - len(whole) + len(whole.rstrip())
    builder = SegmentBuilder(escape if entities else str)
    for token in run:
        if token.kind == "text":
            raw = text[max(token.start, start) : min(token.end, end)]
            builder.add_text(html.unescape(raw) if entities else raw)
        else:
            add_markup(builder, token)
    part = builder.build(text[start:end])
    if isinstance(part, Segment):
        part.language = run[0].language
    return [text[run[0].start : start], part, text[max(start, end) : run[-1].end]]


def text_of(token: Token) -> str:
    return "".join(map(str, token.parts))


def add_markup(builder: SegmentBuilder, token: Token) -> None:
    if token.kind == "unit":
        builder.add_unit(token.parts)
    elif token.kind == "statement":
        builder.add_break(left_if_letters(text_of(token), AS_CODE), separates=True)
    elif token.kind == "break":
        builder.add_break(text_of(token))
    else:
        builder.add_tag(TagKind[token.kind.upper()], token.parts, token.name)
