"""HTML: block elements delimit what is translated together, inline elements are tags in it; every
other byte stays.

A reader of our own, because translate-toolkit refuses elements that are not closed, writes entities
and attributes anew, and has no text areas. Left as they are, and counted: scripts, styles,
comments, `pre` and `code`, what translate="no" or class="notranslate" marks, and what lang= says is
in another language than the run's source. A tag, comment or script without an end is refused.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from nmt.corpus.words import has_letters
from nmt.documents.segment import (
    AS_CODE,
    CALL,
    COMMENTS,
    PROTECTED,
    RUBY,
    STATEMENT,
    Kind,
    Malformed,
    Part,
    Segment,
    SegmentBuilder,
    as_references,
    check_encoding,
    find_partners,
    left_if_letters,
    segments,
    written,
)

INLINE = set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math q rp "
    "rt ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)
# <?xml version="1.0" encoding="UTF-8"?>
DECLARATION = re.compile(r"""<\?xml\b[^>]*\bencoding\s*=\s*["']([^"']+)""")
STATES_ASCII = re.compile(
    r"<(?:meta|\?xml)\b[^<>]*\b(?:charset|encoding)\s*=\s*[\"']?(?:us-)?ascii\b", re.IGNORECASE
)
READINGS = {"rt", "rp"}  # of characters, in <ruby>
VOID = set("area base br col embed hr img input link meta param source track wbr".split())
RAW_TEXT = set("script style xmp iframe noembed noframes".split())  # no tags are inside
CODE = set("code kbd samp var tt math pre".split())  # no text is inside
LINES = {"textarea", "title"}  # no tags are inside, and each line is a text
TEXT_ATTRIBUTES = set(
    "alt title placeholder label summary abbr aria-label aria-description aria-placeholder "
    "aria-valuetext aria-roledescription".split()
)
# `content` of <meta name= or property=…>, `value` of <input type=…>
META = (
    "description og:title og:description og:image:alt twitter:title twitter:description "
    "twitter:image:alt"
).split()
BUTTONS = {"submit", "button", "reset"}
# What may stand between the links of a menu, without entities
BETWEEN_LINKS = re.compile(r"[\s|¦·•∙⋅/\\›»→▸–—]*")
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
INDEX = r"(?:<su[bp]\b[^<>]*>[^<>]+</su[bp]>\w*)+"
NUMBER = rf"(?:<su[bp]\b[^<>]*>{NO_LETTER}+</su[bp]>\w*)+"
FORMULA = rf"(?<!\w)(?:\d+{INDEX}|\w+{NUMBER}(?:(?<=\w)|(?=[-‐’'])))"
# What is inside {{ }} and {% %}: texts in quotation marks, and all else but tags. So it cannot go
# from one attribute to another one, nor over a tag: no text touches a word, or looks like the
# border between two values: "> … title=". An apostrophe is in or behind a word.
BORDER = r"[\s/>](?:[^QUOTE]*\s)?[\w:@.-]+=QUOTE"
QUOTATION = rf"(?<!\w)QUOTE(?!{BORDER})[^QUOTE]{{0,300}}QUOTE(?![\wQUOTE])"
TEXT_INSIDE = "|".join(QUOTATION.replace("QUOTE", quote) for quote in ('"', "'", "`"))
TAG_INSIDE = r"</?[A-Za-z][\w:-]*(?:\s[^<>{}&|]{0,300})?/?>"
EXPRESSION = rf"(?:{TEXT_INSIDE}|(?<=\w)'|(?!\{{\{{|\{{%|{TAG_INSIDE})[^\"']){{0,500}}?"
# Templates, which may have < and > in them. None goes over the beginning of another one.
TEMPLATE = (
    r"\{\{[-~]?\s*(?:!|/\*)(?:(?!\{\{).){0,500}?\}\}"  # a comment
    rf"|\{{\{{{EXPRESSION}\}}\}}\}}?|\{{%{EXPRESSION}%\}}|\{{#(?:(?!\{{#).){{0,2000}}?#\}}"
    r"|<%(?:(?!<%).){0,5000}?%>|<\?(?:php\b|=).*?(?:\?>|\Z)"
)
# A value of an attribute; a template in it may have such quotation marks, too. It never fails, so
# that many of them take no time: one without an end goes on up to the end of the text.
QUOTED = rf"""(?:"(?:{TEMPLATE}|[^"])*(?:"|\Z)|'(?:{TEMPLATE}|[^'])*(?:'|\Z))"""
# What may stand in a tag: templates, values in quotation marks, which may have > in them, and all
# else.
TAG = (
    r"<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*|\d+(?=\s*/?>))"
    rf"""(?P<rest>(?:{TEMPLATE}|[^>=]|=\s*{QUOTED}|=(?!\s*["']))*)(?P<end>>)?"""
)
TOKEN = re.compile(
    rf"(?P<template>{TEMPLATE}|{CALL})"
    r"|(?P<comment><!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z))"
    rf"|(?P<mark>(?<=\S)<(?P<of>sup|sub|a)\b[^<>]*>(?!\s*</)"
    rf"(?:</?(?!(?P=of)\b)\w[^<>]*>|{NO_LETTER})+</(?P=of)>)"
    rf"|{TAG}"
    rf"|(?P<formula>{FORMULA})",
    re.DOTALL | re.IGNORECASE,
)
TEMPLATES = re.compile(TEMPLATE, re.DOTALL | re.IGNORECASE)
# What is no text for a reader: all but templates
SHOWN = re.compile(rf"(?P<template>{TEMPLATE})|<!--.*?-->|{TAG}", re.DOTALL | re.IGNORECASE)
STATEMENT_END = re.compile(r"\{%[-+~ ]*end(\w+)")
ATTRIBUTE = re.compile(  # or a template, which has no name
    rf"""{TEMPLATE}|(?P<name>[^\s=/"'>]+)"""
    rf"""(?:\s*=\s*(?P<value>{QUOTED}|(?:{TEMPLATE}|[^\s"'>])(?:{TEMPLATE}|[^\s>])*))?""",
    re.DOTALL | re.IGNORECASE,
)


class Token(NamedTuple):
    """A piece of the document; the pieces follow each other."""

    kind: Kind  # a SEPARATOR is a statement of a template
    start: int
    end: int
    parts: Sequence[Part] = ()  # as it is written, but for a text
    name: str = ""
    is_block: bool = False  # it stands between texts
    reason: str = ""  # why the element that it begins is left as it is
    language: str = ""  # of its element, as that says


def read_page(text: str) -> Iterator[Part]:
    """The parts of a whole document; one that states ASCII gets no other characters."""
    parts = list(read_html(text))
    if STATES_ASCII.search(text):
        for segment in segments(parts):
            segment.escape = partial(escape_to_ascii, segment.escape)
    yield from parts


def escape_to_ascii(escape: Callable[[str], str], text: str) -> str:
    return as_references(escape(text))


def read_html(text: str) -> Iterator[Part]:
    """The parts of a document or of a piece of one; raises Malformed."""
    run: list[Token] = []  # since the last tag of a block
    for token in tokens(text):
        if token.is_block:
            yield from run_parts(text, run)
            run = []
            yield from parts_alone(text, token)
            continue
        run.append(token)
        if token.kind == Kind.TEXT and token.end - run[0].start > LONGEST_BLOCK:
            yield from run_parts(text, run)
            run = []
    yield from run_parts(text, run)


def run_parts(text: str, run: Sequence[Token]) -> Iterator[Part]:
    """The parts of what stands between blocks: a sentence, or a menu, whose links are texts."""
    for piece in menu_pieces(text, run) or [run]:
        yield from inline_parts(text, piece)


def menu_pieces(text: str, run: Sequence[Token]) -> list[Sequence[Token]]:
    """The elements of a menu and what stands between them; none of a sentence.

    A menu has two links side by side, and no words but in elements.
    """
    partners = find_partners(run)
    is_link = [run[index].name == "a" and index in partners for index in range(len(run))]
    links = [0, *accumulate(is_link)]  # before each token
    pieces = list[Sequence[Token]]()
    is_menu = False
    is_after_link = False
    index = 0
    while index < len(run):
        after = partners.get(index, index) + 1
        if not is_link[index] and links[index] < links[after]:
            after = index + 1  # an element around links
        piece = run[index:after]
        words = [text[token.start : token.end] for token in piece if token.kind == Kind.TEXT]
        has_words = has_letters(html.unescape("".join(words)))
        if len(piece) > 1 and has_words:
            is_menu |= is_link[index] and is_after_link
            is_after_link = is_link[index]
        elif run[index].kind == Kind.UNIT or not (
            len(piece) > 1 or BETWEEN_LINKS.fullmatch(html.unescape("".join(words)))
        ):
            return []
        pieces.append(piece)
        index = after
    return pieces if is_menu else []


def tokens(text: str) -> list[Token]:
    """The tokens, which joined are the text; raises Malformed for one that does not end."""
    pieces = list[Token]()
    statements = {name.lower() for name in STATEMENT_END.findall(text)}
    position = 0
    while match := TOKEN.search(text, position):
        if match.start() > position:
            pieces.append(Token(Kind.TEXT, position, match.start()))
        pieces += markup_tokens(text, match, statements)
        position = pieces[-1].end
    if position < len(text):
        pieces.append(Token(Kind.TEXT, position, len(text)))
    return list(arrange(text, pieces, element_ends(pieces), 0, len(pieces), ""))


def markup_tokens(text: str, match: re.Match[str], statements: Collection[str] = ()) -> list[Token]:
    """The tokens of a match of TOKEN, those inside a script or a text area included.

    Raises Malformed. `statements`: names such as block, because the text has {% endblock %}.
    """
    start, stop = match.span()
    raw = match[0]
    if declaration := DECLARATION.match(raw):
        check_encoding(declaration[1], start)
    if match["formula"]:
        return [Token(Kind.UNIT, start, stop, [raw])]
    if match["template"]:
        first_word = raw[2:].strip(" -+~").partition(" ")[0]
        if STATEMENT.match(raw) or first_word in statements:
            return [Token(Kind.SEPARATOR, start, stop, [left_if_letters(raw, AS_CODE)])]
        return [Token(Kind.UNIT, start, stop, [raw])]
    if match["mark"]:
        return [Token(Kind.POINT, start, stop, mark_parts(text, start, stop))]
    is_comment = raw.startswith("<!--")
    if not (match["end"] if match["name"] else raw.endswith(">")):
        tag = f"tag <{match['close'] or ''}{match['name'] or '!'}"
        raise Malformed(f"the {'comment' if is_comment else tag} has no end", start)
    if not match["comment"]:
        return tag_tokens(text, match)
    if is_comment:
        raw = left_if_letters(raw, COMMENTS)
    elif raw.startswith("<![C"):
        raw = left_if_letters(raw, AS_CODE)
    return [Token(Kind.POINT, start, stop, [raw])]


def tag_tokens(text: str, match: re.Match[str]) -> list[Token]:
    """The token of a tag, and those of the text inside where no tags can be inside."""
    start, stop = match.span()
    raw = match[0]
    name = match["name"].lower()
    is_block = name not in INLINE and not name.isdigit()
    if match["close"]:
        return [Token(Kind.CLOSE, start, stop, [raw], name, is_block)]
    kind = Kind.OPEN
    if name == "br":
        kind = Kind.BREAK
    elif name in VOID or raw.endswith("/>"):
        kind = Kind.POINT
    attributes = read_attributes(match)
    if name == "meta":
        check_encoding(stated_encoding(attributes), start)
    classes = attributes.get("class", "").split()
    is_kept = attributes.get("translate") == "no" or "notranslate" in classes
    parts = [raw] if is_kept else tag_parts(text, match, name, attributes)
    if kind == Kind.OPEN and name in RAW_TEXT | LINES:
        close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, stop)
        if close is None:
            raise Malformed(f"<{name}> has no end", start)
        end = close.start()
        if name in RAW_TEXT:
            left = left_if_letters(text[start:end], AS_CODE)
            return [Token(Kind.UNIT, start, end, [left], name, is_block)]
        inside = [Token(kind, start, stop, parts, name, is_block=True)]
        for line in re.compile(r".+\n?|\n").finditer(text, stop, end):
            inside.append(Token(Kind.TEXT, line.start(), line.end(), is_block=True))
        return inside
    reason = ""
    if is_kept:
        reason = PROTECTED
    elif name in CODE:
        reason = AS_CODE
    language = ""  # that of the whole document is no reason to leave it
    if name not in ("html", "body"):
        language = attributes.get("lang") or attributes.get("xml:lang", "")
    return [Token(kind, start, stop, parts, name, is_block, reason, language)]


def stated_encoding(attributes: Mapping[str, str]) -> str:
    """The encoding that a <meta> states; UTF-8 if it states none."""
    stated = attributes.get("charset", "")
    if not stated and "http-equiv" in attributes:
        content = attributes.get("content", "")
        stated = content.partition("charset=")[2].partition(";")[0].strip()
    return stated or "utf-8"


def read_attributes(match: re.Match[str]) -> dict[str, str]:
    """The attributes of a tag with their values, in small letters.

    Of attributes that are there twice, the first counts.
    """
    values: dict[str, str] = {}
    for attribute in ATTRIBUTE.finditer(match["rest"]):
        if not attribute["name"]:
            continue
        value = html.unescape(attribute["value"] or "").strip("\"' ").lower()
        values.setdefault(attribute["name"].lower(), value)
    return values


def element_ends(tokens: Sequence[Token]) -> dict[int, int]:
    """The index after each element, by the index where it begins.

    An inline element without an end tag has no content.
    """
    opened = list[int]()
    ends = dict[int, int]()
    names = Counter[str]()  # of what is opened

    def end_last(after: int) -> None:
        beginning = opened.pop()
        name = tokens[beginning].name
        names[name] -= 1
        last = tokens[after - 1]
        is_closed = last.kind == Kind.CLOSE and last.name == name
        ends[beginning] = after if is_closed or tokens[beginning].is_block else beginning + 1

    for index, token in enumerate(tokens):
        if token.kind == Kind.OPEN:
            while opened and (
                token.name in ENDED_BY.get(tokens[opened[-1]].name, ())
                or (token.is_block and tokens[opened[-1]].name == "p")
            ):
                end_last(index)
            opened.append(index)
            names[token.name] += 1
        elif token.kind == Kind.CLOSE and names[token.name]:
            while tokens[opened[-1]].name != token.name:
                end_last(index)
            end_last(index + 1)
    while opened:
        end_last(len(tokens))
    return ends


def arrange(
    text: str,
    tokens: Sequence[Token],
    ends: Mapping[int, int],
    start: int,
    stop: int,
    language: str,
) -> Iterator[Token]:
    """The tokens [start, stop) with their languages.

    What stays is one token: code, drawings, words in another language inside a sentence.
    """
    scopes = [(stop, language)]  # until which token which language is declared
    index = start
    while index < stop:
        while len(scopes) > 1 and index >= scopes[-1][0]:
            scopes.pop()
        token = tokens[index]
        language = scopes[-1][1]
        for attribute in segments(token.parts):
            attribute.language = token.language or language
        after = min(ends.get(index, index + 1), stop)  # its element
        kept = kept_element(text, tokens, ends, index, after, language)
        if kept is not None:
            yield kept
            index = after
            continue
        if is_foreign(token, language) and after > index + 1:
            language = token.language
            scopes.append((after, language))
        yield token._replace(language=language)
        index += 1


def is_foreign(token: Token, language: str) -> bool:
    """Whether an element is declared to be in another language than what is around it."""
    return token.language not in ("", language)


def kept_element(
    text: str,
    tokens: Sequence[Token],
    ends: Mapping[int, int],
    index: int,
    after: int,
    language: str,
) -> Token | None:
    """The element of the tokens [index, after) as one token, if it stays; else None."""
    token = tokens[index]
    end = tokens[after - 1].end
    has_content = after > index + 1
    if token.kind == Kind.OPEN:
        if token.name in READINGS and has_content:
            reading = left_if_letters(text[token.start : end], RUBY)
            return Token(Kind.POINT, token.start, end, [reading], token.name)
        if token.reason:
            code = left_if_letters(text[token.start : end], token.reason)
            return Token(Kind.UNIT, token.start, end, [code], token.name, token.is_block)
        if token.name == "svg":
            drawing: list[Part] = []
            for inside in tokens[index:after]:
                drawing += parts_alone(text, inside)
            return Token(Kind.UNIT, token.start, end, drawing, token.name)
    if not (is_foreign(token, language) and has_content):
        return None
    if any(inside.is_block for inside in tokens[index:after]):
        return None
    words = arrange(text, tokens, ends, index + 1, after - 1, token.language)
    parts = [*token.parts, *inline_parts(text, list(words)), *tokens[after - 1].parts]
    return Token(Kind.UNIT, token.start, end, parts, token.name)


def parts_alone(text: str, token: Token) -> Sequence[Part]:
    """The parts of a token that is in no sentence; a text is one of its own."""
    return inline_parts(text, [token]) if token.kind == Kind.TEXT else token.parts


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
    """The parts of a tag: the attributes that a reader of the page sees are segments."""
    names = set(TEXT_ATTRIBUTES)
    if name == "meta" and (attributes.get("name") in META or attributes.get("property") in META):
        names.add("content")
    if name == "input" and attributes.get("type") in BUTTONS:
        names.add("value")
    parts: list[Part] = []
    position = match.start()
    for attribute in ATTRIBUTE.finditer(text, *match.span("rest")):
        if not attribute["value"] or attribute["name"].lower() not in names:
            continue
        start, end = attribute.span("value")
        quote = text[start]
        if quote == "{":  # an expression of MDX, or a template without quotation marks
            continue
        layout: Callable[[str], str] = str
        if quote in "'\"":
            start += 1
            end -= 1
        else:
            quote = '"'
            layout = '"{}"'.format
        builder = SegmentBuilder(partial(escape_in_quotes, mark=quote))
        add_written(builder, text[start:end].strip())
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
        if token.kind == Kind.TEXT:
            raw = text[max(token.start, start) : min(token.end, end)]
            if entities:
                add_written(builder, raw)
            else:
                builder.add_text(raw)
        else:
            add_token(builder, token, entities)
    part = builder.build(text[start:end])
    if isinstance(part, Segment):
        part.language = run[0].language
    return [text[run[0].start : start], part, text[max(start, end) : run[-1].end]]


def add_written(builder: SegmentBuilder, raw: str) -> None:
    """Add a text as it is written in HTML; templates in it stay, and are not escaped."""
    position = 0
    for match in TEMPLATES.finditer(raw):
        builder.add_text(html.unescape(raw[position : match.start()]))
        kind = Kind.SEPARATOR if STATEMENT.match(match[0]) else Kind.UNIT
        builder.add(kind, [match[0]], shown=match[0])
        position = match.end()
    builder.add_text(html.unescape(raw[position:]))


def shown_text(parts: Sequence[Part], entities: bool = True) -> str:
    """What a reader of the page sees of these parts."""
    text = SHOWN.sub(lambda match: match["template"] or "", written(parts))
    return html.unescape(text) if entities else text


def add_token(builder: SegmentBuilder, token: Token, entities: bool = True) -> None:
    shown = shown_text(token.parts, entities) if token.kind == Kind.UNIT else ""
    builder.add(token.kind, token.parts, token.name, shown)
