"""Text, tags and comments of HTML, XML and of the few tags in subtitles and messages, as browsers split them."""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nmt.documents.segment import Malformed

TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
# One attribute, or the space or slash before it; a quotation mark inside a value without quotes is part of the value.
ATTRIBUTE = re.compile(
    r"""[\s/]+|(?P<name>(?:=(?!\s*["'])|[^\s/>=])[^\s/>=]*)(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>][^\s>]*)|(?=>)))?"""
)
RAW_TEXT = {"script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"}  # their content has no tags
ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")


@dataclass
class Attribute:
    """A quoted value, without its quotation marks, or one without them."""

    value: str
    start: int
    end: int
    quoted: bool = True


@dataclass
class Token:
    """A stretch of the document."""

    kind: str  # text, open, close, or other: a comment, a declaration, raw text
    start: int
    end: int
    name: str = ""  # of the element, in small letters
    attributes: dict[str, Attribute] = field(default_factory=dict)
    closes_itself: bool = False


def tokens(text: str, start: int = 0, end: int | None = None, xml: bool = False) -> Iterator[Token]:
    """The tokens of text[start:end], which joined are that text; raises Malformed for one that does not end."""
    end = len(text) if end is None else end
    position = start
    while position < end:
        token = next_token(text, position, end, xml)
        yield token
        position = token.end
        if token.kind == "open" and not xml and token.name in RAW_TEXT:
            close = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(text, position, end)
            if close is None:
                raise Malformed(f"<{token.name}> has no end", token.start)
            if close.start() > position:
                yield Token("other", position, close.start())
            position = close.start()


def next_token(text: str, position: int, end: int, xml: bool) -> Token:
    """The token that begins at a position."""
    if text[position] != "<":
        following = text.find("<", position, end)
        return Token("text", position, end if following < 0 else following)
    for opening, closing, name in (("<!--", "-->", "comment"), ("<![CDATA[", "]]>", "CDATA section")):
        if text.startswith(opening, position, end) and (xml or name == "comment"):
            return other_token(text, position, end, closing, name)
    if text.startswith(("<!", "<?"), position, end):
        return other_token(text, position, end, ">", "declaration")
    match = TAG.match(text, position, end)
    if match is None:  # a sign of its own, as in 1 < 2
        following = text.find("<", position + 1, end)
        return Token("text", position, end if following < 0 else following)
    token = Token("close" if match[1] else "open", position, match.end(), match[2] if xml else match[2].lower())
    while attribute := ATTRIBUTE.match(text, token.end, end):
        token.end = attribute.end()
        if name := attribute["name"]:
            kind = next((kind for kind in ("double", "single", "bare") if attribute[kind] is not None), None)
            value = Attribute(html.unescape(attribute[kind]), *attribute.span(kind), kind != "bare") if kind else None
            token.attributes.setdefault(name if xml else name.lower(), value or Attribute("", 0, 0, False))
    if not text.startswith(">", token.end, end):
        raise Malformed(f"the tag <{match[1]}{match[2][:40]} has no end", position)
    token.closes_itself = text[token.end - 1] == "/"
    token.end += 1
    return token


def other_token(text: str, position: int, end: int, closing: str, name: str) -> Token:
    """A comment, a declaration or a CDATA section."""
    found = text.find(closing, position + 2, end)
    if found < 0:
        raise Malformed(f"a {name} has no end", position)
    return Token("other", position, found + len(closing))


def escape_like(raw: str, marks: str = "") -> Callable[[str], str]:
    """A function that writes text as HTML or XML, with the entities that `raw` has for its signs, such as &uuml;."""
    spellings: dict[str, str] = {}
    for match in ENTITY.finditer(raw):
        if len(character := html.unescape(match[0])) == 1 and match[0].endswith(";"):
            spellings.setdefault(character, match[0])
    table = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **dict.fromkeys(marks, "&quot;")} | spellings)
    return lambda text: text.translate(table)
