"""HTML: block elements delimit what is translated together, inline elements are tags in it; every other byte stays.

A reader of our own, because translate-toolkit refuses elements that are not closed, writes entities and attributes
anew, and has no text areas. Scripts, styles, comments and `pre` stay as they are, and so does what translate="no" or
class="notranslate" marks. A tag, comment or script without an end is refused.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.documents.segment import Malformed, Part, SegmentBuilder, TagKind, closing

INLINE = set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math q rp rt ruby s samp small "
    "span strike strong sub sup svg time tt u var wbr".split()
)
VOID = set("area base br col embed hr img input link meta param source track wbr".split())
RAW_TEXT = set("script style xmp iframe noembed noframes".split())  # no tags are inside
KEPT = set("code kbd samp var tt svg math pre template object canvas audio video".split())  # no text is inside
LINES = {"textarea", "title"}  # no tags are inside, and each line is a text
TEXT_ATTRIBUTES = {"alt", "title", "placeholder", "label", "aria-label", "aria-description"}
# `content` of <meta name= or property=…>, `value` of <input type=…>
META = "description og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt".split()
BUTTONS = {"submit", "button", "reset"}
LONGEST_BLOCK = 5_000  # characters; a longer one is read in parts

# A word with an index, which would not be one word without it: H₂O, 10⁶, 4th.
NO_LETTER = r"(?:[^<>\w]|[\d_])"
INDEX, NUMBER = (rf"(?:<su[bp]\b[^<>]*>{content}+</su[bp]>\w*)+" for content in ("[^<>]", NO_LETTER))
FORMULA = rf"(?<!\w)(?:\d+{INDEX}|\w+{NUMBER}(?:(?<=\w)|(?=[-‐’'])))"
TOKEN = re.compile(
    r"(?P<comment><!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z))"
    rf"|(?P<mark>(?<=\S)<(?P<of>sup|sub|a)\b[^<>]*>(?:</?(?!(?P=of)\b)\w[^<>]*>|{NO_LETTER})+</(?P=of)>)"
    # What may stand in a tag: values in quotation marks, which may have > in them, and all else.
    r"""|<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*)(?P<rest>(?:[^>=]|=\s*"[^"]*"|=\s*'[^']*'|=(?!\s*["']))*)>?"""
    rf"|(?P<formula>{FORMULA})",
    re.DOTALL | re.IGNORECASE,
)
ATTRIBUTE = re.compile(r"""(?P<name>[^\s=/"'>]+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s"'>][^\s>]*))?""")


class Token(NamedTuple):
    """A piece of the document, from left to right; what is written of it, where that is not its text."""

    kind: str  # text, unit, point, break, open, close
    start: int
    end: int
    parts: Sequence[Part] = ()
    name: str = ""
    is_block: bool = False  # it stands between texts


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


def tokens(text: str) -> Iterator[Token]:
    """The tokens, which joined are the text; raises Malformed for one that does not end."""
    position = 0
    while match := TOKEN.search(text, position):
        if match.start() > position:
            yield Token("text", position, match.start())
        found = [Token("unit", *match.span(), [match[0]])] if match["formula"] else read_markup(text, match)
        yield from found
        position = found[-1].end
    if position < len(text):
        yield Token("text", position, len(text))


def read_markup(text: str, match: re.Match[str], end: int | None = None) -> list[Token]:
    """The tokens of a comment, a tag, or an element that stays as it is; raises Malformed for one without an end."""
    start, stop, raw, name = *match.span(), match[0], (match["name"] or "").lower()
    if match["mark"]:
        return [Token("point", start, stop, [raw])]
    if not raw.endswith(">"):
        what = "comment" if raw.startswith("<!--") else f"tag <{match['close'] or ''}{match['name'] or '!'}"
        raise Malformed(f"the {what} has no end", start)
    if match["comment"]:
        return [Token("point", start, stop, [raw])]
    is_block = name not in INLINE
    if match["close"]:
        return [Token("close", start, stop, [raw], name, is_block)]
    kind = "break" if name == "br" else "point" if name in VOID or raw.endswith("/>") else "open"
    attributes = read_attributes(match)
    is_kept = attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()
    parts = [raw] if is_kept else tag_parts(text, match, name, attributes)
    if name in RAW_TEXT | LINES and kind == "open":
        close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, stop)
        if close is None:
            raise Malformed(f"<{name}> has no end", start)
        if name in RAW_TEXT:
            return [Token("unit", start, close.start(), [text[start : close.start()]], name, is_block)]
        lines = [match.span() for match in re.compile(r".+\n?|\n").finditer(text, stop, close.start())]
        return [Token(kind, start, stop, parts, name, True), *(Token("text", *line, is_block=True) for line in lines)]
    if (is_kept or name in KEPT) and kind == "open":
        stop = element_end(text, name, stop, len(text) if end is None else end) or (len(text) if is_block else stop)
        return [Token("unit", start, stop, [text[start:stop]], name, is_block)]
    content = attributes.get("content", "") if "http-equiv" in attributes else ""
    declared = attributes.get("charset") or content.partition("charset=")[2].partition(";")[0].strip()
    if name == "meta" and declared not in ("", "utf-8", "utf8", "us-ascii", "ascii"):
        raise Malformed(f"the document says that its encoding is {declared}; convert it to UTF-8", start)
    return [Token(kind, start, stop, parts, name, is_block)]


def read_attributes(match: re.Match[str]) -> dict[str, str]:
    """The attributes of a tag with their values in small letters; the first of those that are there twice."""
    found = [(each["name"].lower(), each["value"] or "") for each in ATTRIBUTE.finditer(match["rest"])]
    return {name: html.unescape(value).strip("\"' ").lower() for name, value in reversed(found)}


def element_end(text: str, name: str, start: int, end: int) -> int:
    """Where an element ends; without a tag for that where the next one of its name begins, 0 without such a one."""
    begins = rf"(?P<open><{re.escape(name)}(?=[\s/>])[^>]*>)"
    tag = re.compile(rf"{begins}|(?P<close></{re.escape(name)}\s*>)", re.IGNORECASE)
    if found := closing(tag, text, start, end):
        return found.end()
    following = re.compile(begins, re.IGNORECASE).search(text, start, end)
    return following.start() if following else 0


def tag_parts(text: str, match: re.Match[str], name: str, attributes: dict[str, str]) -> list[Part]:
    names = set(TEXT_ATTRIBUTES)
    if name == "meta" and (attributes.get("name") in META or attributes.get("property") in META):
        names.add("content")
    if name == "input" and attributes.get("type") in BUTTONS:
        names.add("value")
    parts: list[Part] = []
    position = match.start()
    for attribute in ATTRIBUTE.finditer(text, *match.span("rest")):
        value = attribute["value"] or ""
        if attribute["name"].lower() in names and value[:1] in ("'", '"'):
            builder = SegmentBuilder(partial(escape_in_quotes, mark=value[0]))
            builder.add_text(html.unescape(value[1:-1]).strip())
            start, end = attribute.start("value") + 1, attribute.end("value") - 1
            parts += [text[position:start], builder.build(text[start:end])]
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
    return [text[run[0].start : start], builder.build(text[start:end]), text[max(start, end) : run[-1].end]]


def add_markup(builder: SegmentBuilder, token: Token) -> None:
    if token.kind == "unit":
        builder.add_unit(token.parts)
    elif token.kind == "break":
        builder.add_break(str(token.parts[0]))
    else:
        builder.add_tag(TagKind[token.kind.upper()], token.parts, token.name)
