"""HTML: block elements delimit what is translated together, inline elements are tags in it; every other byte stays.

A reader of our own, because translate-toolkit refuses elements that are not closed, writes entities and attributes
anew, and has no text areas. Scripts, styles, comments and `pre` stay as they are, and so does what translate="no" or
class="notranslate" marks. A tag, comment or script without an end is refused.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nmt.documents.segment import Malformed, Part, SegmentBuilder, TagKind, has_letters

# What may stand in a tag: values in quotation marks, which may have > in them, and all else.
TOKEN = re.compile(
    r"(?P<other><!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z))"
    r"""|<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*)(?P<rest>(?:[^>=]|=\s*"[^"]*"|=\s*'[^']*'|=(?!\s*["']))*)>?""",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"""(?P<name>[^\s=/"'>]+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s"'>][^\s>]*))?""")
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


class Token(NamedTuple):
    kind: str  # text, line: of a text area, open, close, or other: a comment, a declaration, raw text
    start: int
    end: int
    name: str = ""  # of the element, in small letters
    attributes: dict[str, re.Match[str]] = {}  # noqa: RUF012

    def value(self, name: str) -> str:
        """An attribute in small letters."""
        value = self.attributes[name]["value"] if name in self.attributes else None
        return html.unescape(value or "").strip("\"' ").lower()

    @property
    def is_kept(self) -> bool:
        """Whether the tag says that its content must not be translated."""
        return self.value("translate") == "no" or "notranslate" in self.value("class").split()

    @property
    def is_outside(self) -> bool:
        """Whether at the edge of a text it does not belong to it: a comment, an image, a line break."""
        return self.kind == "other" or (self.kind == "open" and self.name in VOID)


def tokens(text: str) -> Iterator[Token]:
    """The tokens, which joined are the text; raises Malformed for one that does not end."""
    position = 0
    while match := TOKEN.search(text, position):
        if match.start() > position:
            yield Token("text", position, match.start())
        token = read_token(text, match)
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


def read_token(text: str, match: re.Match[str]) -> Token:
    """The token of a match of TOKEN; raises Malformed for one without an end."""
    if not match[0].endswith(">"):
        name = "comment" if match[0].startswith("<!--") else f"tag <{match['close'] or ''}{match['name'] or '!'}"
        raise Malformed(f"the {name} has no end", match.start())
    if match["other"]:
        return Token("other", *match.span())
    attributes: dict[str, re.Match[str]] = {}
    for attribute in ATTRIBUTE.finditer(text, *match.span("rest")):
        attributes.setdefault(attribute["name"].lower(), attribute)
    return Token("close" if match["close"] else "open", *match.span(), match["name"].lower(), attributes)


def read_html(text: str) -> Iterator[Part]:
    """The parts of a document or of a piece of one; raises Malformed."""
    blocks: list[tuple[str, bool]] = []  # the open blocks, and whether they are translated
    run: list[Token] = []  # since the last tag of a block
    is_translated = True
    for token in [*tokens(text), Token("end", len(text), len(text))]:
        if token.kind in ("text", "other") or token.name in INLINE:
            run.append(token)
            if token.kind == "text" and token.end - run[0].start > LONGEST_BLOCK:
                yield from inline_parts(text, run) if is_translated else [text[run[0].start : token.end]]
                run = []
            continue
        if run:
            yield from inline_parts(text, run) if is_translated else [text[run[0].start : token.start]]
        run = []
        if token.kind in ("line", "end"):
            yield from inline_parts(text, [token._replace(kind="text")])
            continue
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


def check_encoding(token: Token) -> None:
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
    for name in names & token.attributes.keys():
        value = token.attributes[name]["value"] or ""
        if value[:1] in ("'", '"'):
            mark, raw = value[0], value[1:-1]
            builder = SegmentBuilder()
            builder.add_text(html.unescape(raw).strip())
            escape = escape_like(f"{raw}&#39;" if mark == "'" else raw, '"' if mark == '"' else "")
            start = token.attributes[name].start("value") + 1
            parts += [text[position:start], builder.build(raw, escape)]
            position = start + len(raw)
    return [*parts, text[position : token.end]]


def inline_parts(text: str, run: list[Token], entities: bool = True) -> list[Part]:
    """The parts of these tokens of a text: what surrounds its words as it is, these as one segment.

    `entities`: whether &amp; and the like stand for signs.
    """
    edges: list[list[Part]] = [[], []]
    for edge, index in ((0, 0), (1, -1)):
        while run and (run[index].is_outside or not text[run[index].start : run[index].end].strip()):
            parts = tag_parts(text, token := run.pop(index))
            edges[edge] = [*parts, *edges[1]] if edge else [*edges[0], *parts]
    if not run:
        return [*edges[0], *edges[1]]
    start, end = run[0].start, run[-1].end
    if run[0].kind == "text":
        start += len(text[start:end]) - len(text[start:end].lstrip())
    if run[-1].kind == "text":
        end = start + len(text[start:end].rstrip())
    builder, position = SegmentBuilder(), start
    for token in run:
        if token.kind == "text":
            raw = text[max(token.start, position) : min(token.end, end)]
            builder.add_text(html.unescape(raw) if entities else raw)
        elif token.start >= position:
            position = add_element(builder, text, token, end)
    raw = text[start:end]
    inner = builder.build(raw, escape_like(raw) if entities else str)
    return [*edges[0], text[run[0].start : start], inner, text[end : run[-1].end], *edges[1]]


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
    return token.end


def escape_like(raw: str, marks: str = "") -> Callable[[str], str]:
    """A function that writes text as HTML or XML, with the entities that `raw` has for its signs, such as &uuml;."""
    spellings: dict[str, str] = {}
    for match in ENTITY.finditer(raw):
        if len(character := html.unescape(match[0])) == 1:
            spellings.setdefault(character, match[0])
    table = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **dict.fromkeys(marks, "&quot;")} | spellings)
    return lambda text: text.translate(table)
