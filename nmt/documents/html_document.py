"""HTML: block elements delimit what is translated together, inline elements are tags in it.

Tags, attributes, comments, scripts, styles and `pre` stay as they are, and so does what translate="no" or
class="notranslate" marks. A tag, comment or script without an end is refused; elements that are not closed are not.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from nmt.documents.inline_markup import TRANSLATED_ATTRIBUTES, VOID_ELEMENTS, inline_parts, is_kept, tag_parts
from nmt.documents.markup_tokens import Token, tokens
from nmt.documents.segment import Malformed, Part

INLINE = set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math q rp rt ruby s samp small "
    "span strike strong sub sup svg time tt u var wbr".split()
)
KEPT = {"pre", "template", "object", "canvas", "audio", "video"}  # blocks whose text stays as it is
LONGEST_BLOCK = 20_000  # characters; a longer one is read in parts
# Elements that the beginning of another one ends: <li> ends the <li> before it, any block ends a <p>.
ENDS = {
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "tr": {"tr", "td", "th"},
    "td": {"td", "th"},
    "th": {"td", "th"},
    "option": {"option"},
}


def read_html(text: str) -> Iterator[Part]:
    """The parts of a document or of a piece of one; raises Malformed."""
    blocks: list[tuple[str, bool]] = []  # the open blocks, and whether they are translated
    run: list[Token] = []
    is_translated = True
    for token in tokens(text):
        check_encoding(token)
        if token.kind in ("text", "other") or token.name in INLINE:
            run.append(token)
            if token.kind == "text" and token.end - run[0].start > LONGEST_BLOCK:
                yield from write_run(text, run, is_translated)
                run = []
            continue
        yield from write_run(text, run, is_translated)
        run = []
        if token.kind == "close":
            leave(blocks, token.name)
        else:
            enter(blocks, token)
        was_translated = is_translated and not is_kept(token)
        is_translated = blocks[-1][1] if blocks else True
        names = attributes_of(token) if was_translated else ()
        yield from tag_parts(text, token, names)
    yield from write_run(text, run, is_translated)


def write_run(text: str, run: list[Token], is_translated: bool) -> Iterator[Part]:
    """The parts of what is between two tags of blocks."""
    if run:
        yield from inline_parts(text, run) if is_translated else [text[run[0].start : run[-1].end]]


def enter(blocks: list[tuple[str, bool]], token: Token) -> None:
    """The tag that begins a block; it ends those that need no end tag."""
    while blocks and blocks[-1][0] in ENDS.get(token.name, set()) | {"p"}:
        blocks.pop()
    if token.name in VOID_ELEMENTS:
        return
    parent = blocks[-1][1] if blocks else True
    says_yes = "translate" in token.attributes and not is_kept(token)
    blocks.append((token.name, (parent or says_yes) and not is_kept(token) and token.name not in KEPT))


def leave(blocks: list[tuple[str, bool]], name: str) -> None:
    """The tag that ends a block, and those inside it; one that ends nothing changes nothing."""
    if any(block == name for block, _ in blocks):
        while blocks.pop()[0] != name:
            pass


def attributes_of(token: Token) -> tuple[str, ...]:
    """The names of the attributes that are text."""
    about = token.attributes.get("name") or token.attributes.get("property")
    if token.name == "meta":
        return ("content",) if about and about.value.lower() in ("description", "og:title", "og:description") else ()
    return TRANSLATED_ATTRIBUTES


def check_encoding(token: Token) -> None:
    """Raise Malformed for a document that says that it is not UTF-8."""
    if token.name != "meta":
        return
    attributes = token.attributes
    content = attributes["content"].value.lower() if "content" in attributes else ""
    declared = attributes["charset"].value if "charset" in attributes else content.partition("charset=")[2]
    try:
        known = not declared or codecs.lookup(declared.strip()).name in ("utf-8", "ascii")
    except LookupError:
        known = True
    if not known:
        raise Malformed(f"the document says that its encoding is {declared.strip()}; convert it to UTF-8", token.start)
