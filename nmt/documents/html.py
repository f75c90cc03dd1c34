"""HTML: block elements delimit what is translated together, inline elements are tags in it; every other byte stays.

A reader of our own, because translate-toolkit refuses elements that are not closed, writes entities and attributes
anew, and has no text areas. Scripts, styles, comments and `pre` stay as they are, and so does what translate="no" or
class="notranslate" marks. A tag, comment or script without an end is refused.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt.documents.segment import Malformed, Part, SegmentBuilder, TagKind

TOKEN = re.compile(
    r"(?P<other><!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z))|<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*)", re.DOTALL
)
# One attribute, or the space or slash before it; a quotation mark inside a value without quotes is part of the value.
ATTRIBUTE = re.compile(
    r"""[\s/]+|(?P<name>(?:=(?!\s*["'])|[^\s/>=])[^\s/>=]*)"""
    r"""(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>][^\s>]*)|(?=>)))?"""
)
ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
# Their content has no text, or no tags.
RAW_TEXT = {"script", "style", "xmp", "iframe", "noembed", "noframes", "svg", "math"}
INLINE = set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math q rp rt ruby s samp small "
    "span strike strong sub sup svg time tt u var wbr".split()
)
UNITS = {"code", "kbd", "samp", "var", "tt", "svg", "math"}  # their content is not translated
MARKS = {"sup", "sub", "a"}  # without letters a footnote mark or an index
KEPT = {"pre", "template", "object", "canvas", "audio", "video"}  # blocks whose text stays as it is
VOID = set("area base br col embed hr img input link meta param source track wbr".split())
TEXT_ATTRIBUTES = {"alt", "title", "placeholder", "label", "aria-label", "aria-description"}
# `content` of <meta name= or property=…>, `value` of <input type=…>
META = "description og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt".split()
BUTTONS = {"submit", "button", "reset"}
LONGEST_BLOCK = 5_000  # characters; a longer one is read in parts
# Elements that the beginning of another one ends: <li> ends the <li> before it, any block ends a <p>.
ENDS = {
    "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "tr": {"tr", "td", "th"}, "td": {"td", "th"},
    "th": {"td", "th"}, "option": {"option"},
}  # fmt: skip


class Attribute(NamedTuple):
    """A value, without its quotation marks."""

    value: str
    start: int
    end: int
    quoted: bool


@dataclass
class Token:
    """A stretch of the document."""

    kind: str  # text, line: of a text area, open, close, or other: a comment, a declaration, raw text
    start: int
    end: int
    name: str = ""  # of the element, in small letters
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """An attribute in small letters."""
        return self.attributes[name].value.strip().lower() if name in self.attributes else ""

    @property
    def is_kept(self) -> bool:
        """Whether the tag says that its content must not be translated."""
        return self.value("translate") == "no" or "notranslate" in self.value("class").split()


def tokens(text: str) -> Iterator[Token]:
    """The tokens, which joined are the text; raises Malformed for one that does not end."""
    position = 0
    while match := TOKEN.search(text, position):
        if match.start() > position:
            yield Token("text", position, match.start())
        token = read_tag(text, match)
        yield token
        position = token.end
        if token.kind == "open" and token.name in RAW_TEXT | {"textarea", "title"} and text[position - 2] != "/":
            close = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(text, position)
            if close is None:
                raise Malformed(f"<{token.name}> has no end", token.start)
            for line in re.compile(r".+\n?|\n").finditer(text, position, close.start()):
                yield Token("other" if token.name in RAW_TEXT else "line", *line.span())
            position = close.start()
    if position < len(text):
        yield Token("text", position, len(text))


def read_tag(text: str, match: re.Match[str]) -> Token:
    """The token that begins with this match of TOKEN; raises Malformed for one without an end."""
    if match["other"]:
        if not match[0].endswith(">"):
            name = "comment" if match[0].startswith("<!--") else "declaration"
            raise Malformed(f"a {name} has no end", match.start())
        return Token("other", *match.span())
    token = Token("close" if match["close"] else "open", *match.span(), match["name"].lower())
    while attribute := ATTRIBUTE.match(text, token.end):
        token.end = attribute.end()
        if attribute["name"]:
            kind = next((each for each in ("double", "single", "bare") if attribute[each] is not None), "name")
            value = html.unescape(attribute[kind]) if kind != "name" else ""
            token.attributes.setdefault(
                attribute["name"].lower(), Attribute(value, *attribute.span(kind), kind in ("double", "single"))
            )
    if not text.startswith(">", token.end):
        raise Malformed(f"the tag {match[0][:40]} has no end", match.start())
    token.end += 1
    return token


def read_html(text: str) -> Iterator[Part]:
    """The parts of a document or of a piece of one; raises Malformed."""
    blocks: list[tuple[str, bool]] = []  # the open blocks, and whether they are translated
    run: list[Token] = []
    is_translated = True
    for token in [*tokens(text), Token("end", len(text), len(text))]:
        if token.kind in ("text", "other") or token.name in INLINE:
            run.append(token)
            if token.kind == "text" and token.end - run[0].start > LONGEST_BLOCK:
                yield from inline_parts(text, run) if is_translated else [text[run[0].start : token.end]]
                run = []
            continue
        if run:
            yield from inline_parts(text, run) if is_translated else [text[run[0].start : run[-1].end]]
        run = []

    for token in tokens(text):
        if token.kind in ("text", "other", "line") or token.name in INLINE:
            run.append(token)
            if token.kind == "line" or (token.kind == "text" and token.end - run[0].start > LONGEST_BLOCK):
                yield from flush()
            continue
        yield from flush()
        if token.name == "meta":
            check_encoding(token)
        parent = is_translated and not token.is_kept
        if token.kind == "close":
            if any(name == token.name for name, _ in blocks):
                while blocks.pop()[0] != token.name:
                    pass
        else:
            while blocks and blocks[-1][0] in ENDS.get(token.name, set()) | {"p"}:
                blocks.pop()
            if token.name not in VOID:
                allowed = not blocks or blocks[-1][1] or "translate" in token.attributes
                blocks.append((token.name, allowed and not token.is_kept and token.name not in KEPT))
        is_translated = blocks[-1][1] if blocks else True
        yield from tag_parts(text, token) if parent else [text[token.start : token.end]]
    yield from flush()


def check_encoding(token: Token) -> None:
    """Raise Malformed for a document that says that it is not UTF-8."""
    declared = token.value("charset") or token.value("content").partition("charset=")[2]
    try:
        known = not declared or codecs.lookup(declared).name in ("utf-8", "ascii")
    except LookupError:
        known = True
    if not known:
        raise Malformed(f"the document says that its encoding is {declared}; convert it to UTF-8", token.start)


def tag_parts(text: str, token: Token) -> list[Part]:
    """A tag as it is written, its attributes that are text as segments."""
    names = set(TEXT_ATTRIBUTES) if token.kind == "open" and not token.is_kept else set()
    if token.name == "meta" and (token.value("name") in META or token.value("property") in META):
        names.add("content")
    if token.name == "input" and token.value("type") in BUTTONS:
        names.add("value")
    parts: list[Part] = []
    position = token.start
    for name, value in token.attributes.items():
        if name in names and value.quoted:
            raw, mark = text[value.start : value.end], text[value.start - 1]
            builder = SegmentBuilder()
            builder.add_text(value.value.strip())
            escape = escape_like(f"{raw}&#39;" if mark == "'" else raw, '"' if mark == '"' else "")
            parts += [text[position : value.start], builder.build(raw, escape)]
            position = value.end
    return [*parts, text[position : token.end]]


def inline_parts(text: str, run: Sequence[Token], entities: bool = True) -> list[Part]:
    """The parts of a block: what surrounds its text as it is, its text as one segment.

    `entities`: whether &amp; and the like stand for signs.
    """
    first, last = 0, len(run)
    while first < last and is_edge(text, run[first]):
        first += 1
    while last > first and is_edge(text, run[last - 1]):
        last -= 1
    before, after = ([part for token in edge for part in tag_parts(text, token)] for edge in (run[:first], run[last:]))
    if first == last:
        return before
    middle = run[first:last]
    start, end = middle[0].start, middle[-1].end
    if middle[0].kind in ("text", "line"):
        start += len(text[start : middle[0].end]) - len(text[start : middle[0].end].lstrip())
    if middle[-1].kind in ("text", "line"):
        end -= len(text[middle[-1].start : end]) - len(text[middle[-1].start : end].rstrip())
    builder, raw = SegmentBuilder(), text[start:end]
    index = 0
    while index < len(middle):
        index = add_token(builder, text, middle, index, (start, end), entities)
    inner = builder.build(raw, escape_like(raw) if entities else str)
    return [*before, text[middle[0].start : start], inner, text[end : middle[-1].end], *after]


def add_element(builder: SegmentBuilder, text: str, token: Token, end: int) -> int:
    """Add a tag, or an element that is one unit or mark, to a segment; the position after it."""
    raw = text[token.start : token.end]
    if token.kind == "open" and (token.name in UNITS | MARKS or token.is_kept):
        depth = 0
        for match in re.compile(rf"<(/?){token.name}(?=[\s/>])[^>]*>", re.IGNORECASE).finditer(text, token.start, end):
            depth += -1 if match[1] else 1
            if depth == 0:
                break
        whole = text[token.start : match.end()] if depth == 0 else ""
        content = re.sub("<[^>]*>", "", whole)
        if whole and (token.name in UNITS or token.is_kept):
            builder.add_unit([whole])
            return match.end()
        before, after = builder.text[-1:], text[match.end() : end][:1]
        if content.strip() and before.strip() and (before.isdigit() or not has_letters(content)):
            builder.add_mark(whole, after.isalnum() or after in tuple("-‐’'"))
            return match.end()
    if token.name == "br":
        builder.add_break(raw)
    elif token.kind == "close":
        builder.add_tag(TagKind.CLOSE, [raw], token.name)
    elif token.kind == "open" and token.name not in VOID and not raw.endswith("/>"):
        builder.add_tag(TagKind.OPEN, tag_parts(text, token), token.name)
    else:
        builder.add_tag(TagKind.POINT, tag_parts(text, token))
    return index + 1


def element_end(run: Sequence[Token], index: int) -> int:
    """Where the element that begins here ends; 0 where none begins, or it has no end among these tokens."""
    token, depth = run[index], 0
    if token.kind != "open" or token.name not in UNITS | MARKS and not token.is_kept:
        return 0
    for number in range(index, len(run)):
        if run[number].name == token.name:
            depth += {"open": 1, "close": -1}[run[number].kind]
            if depth == 0:
                return number + 1
    return 0


def escape_like(raw: str, marks: str = "") -> Callable[[str], str]:
    """A function that writes text as HTML or XML, with the entities that `raw` has for its signs, such as &uuml;."""
    spellings: dict[str, str] = {}
    for match in ENTITY.finditer(raw):
        if len(character := html.unescape(match[0])) == 1:
            spellings.setdefault(character, match[0])
    table = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **dict.fromkeys(marks, "&quot;")} | spellings)
    return lambda text: text.translate(table)
