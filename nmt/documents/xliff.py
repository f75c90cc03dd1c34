"""XLIFF 1.2 and 2: segments without a target get one, marked for review; every other byte stays.

The file is edited as text: translate-toolkit, which reads it as well, would write all of it anew, with other quotation
marks, indentation and places of comments. Inline elements (g, x, ph, bpt, pc, …) are kept as tags or units.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat

from nmt.documents.markup_tokens import Token, escape_like, tokens
from nmt.documents.segment import Malformed, Part, SegmentBuilder, TagKind

CDATA = "<![CDATA["
PAIRED = {"g", "mrk", "pc"}  # with text inside
OPENING, CLOSING = {"bpt": "id", "bx": "id", "sc": "id"}, {"ept": "id", "ex": "id", "ec": "startRef"}
UNTRANSLATED = ("new", "needs-translation", "initial")  # states of a target that is only a copy of the source


@dataclass
class Element:
    """An element of the file, by its first token and its last."""

    open: Token
    first: int
    last: int = 0


class XliffReader:
    """The parts of a file; with `retranslate` also what has a target is translated. Raises Malformed."""

    def __init__(self, text: str, retranslate: bool) -> None:
        check_xml(text)
        self.text, self.retranslate = text, retranslate
        self.tokens = list(tokens(text, xml=True))

    def parts(self) -> Iterator[Part]:
        """The parts in order."""
        position = 0
        for unit in self.units():
            children = {local(each.open): each for each in self.children(unit)}
            source, target = children.get("source"), children.get("target")
            if source is None or source.open.closes_itself or not self.is_open(unit, target):
                continue
            content = self.content(source)
            if not any(not isinstance(part, str) for part in content):
                continue
            before = target or children.get("seg-source") or source
            start = self.tokens[before.first].start if target else self.tokens[before.last].end
            is_two = local(unit.open) == "segment"
            if is_two:
                tag = self.text[unit.open.start : unit.open.end]
                yield from (self.text[position : unit.open.start], with_state(tag, "translated"))
                position = unit.open.end
            yield self.text[position:start]
            if target:
                opening = self.text[target.open.start : target.open.end].replace("/>", ">")
            else:
                space = self.text[self.text.rfind(">", 0, source.open.start) + 1 : source.open.start]
                yield space if not space.strip() else ""
                opening = f"<{source.open.name.removesuffix('source')}target>"
            yield opening if is_two else with_state(opening, "needs-review-translation")
            yield from content
            yield f"</{source.open.name.removesuffix('source')}target>"
            position = self.tokens[target.last].end if target else start
        yield self.text[position:]

    def write(self, translated: Iterator[str]) -> Iterator[str]:
        """The file with the translations of its parts."""
        return translated

    def units(self) -> Iterator[Element]:
        """The elements that hold a source and a target, and are translated."""
        translated = [True]
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == "open" and not token.closes_itself:
                value = token.attributes.get("translate")
                translated.append(translated[-1] if value is None else value.value != "no")
                if local(token) in ("trans-unit", "segment"):
                    unit = self.element(index)
                    if translated[-1]:
                        yield unit
                    index = unit.last
                    translated.pop()
            elif token.kind == "close":
                translated.pop()
            index += 1

    def element(self, first: int) -> Element:
        """The element that begins with this token."""
        depth = 0
        for index in range(first, len(self.tokens)):
            token = self.tokens[index]
            depth += {"open": not token.closes_itself, "close": -1}.get(token.kind, 0)
            if depth == 0:
                return Element(self.tokens[first], first, index)
        raise AssertionError("expat has found the file well-formed")

    def children(self, parent: Element) -> Iterator[Element]:
        """The elements directly inside another."""
        index = parent.first + 1
        while index < parent.last:
            if self.tokens[index].kind == "open":
                child = self.element(index)
                yield child
                index = child.last
            index += 1

    def is_open(self, unit: Element, target: Element | None) -> bool:
        """Whether a segment is to be translated."""
        if target is None or target.first == target.last or self.retranslate:
            return True
        inside = self.text[target.open.end : self.tokens[target.last].start]
        state = (target.open if local(unit.open) == "trans-unit" else unit.open).attributes.get("state")
        return not inside.strip() or (state is not None and state.value in UNTRANSLATED)

    def content(self, source: Element) -> list[Part]:
        """The content of a source: the space around it, and its text as a segment; without words one string."""
        raw = self.text[source.open.end : self.tokens[source.last].start]
        body = raw.strip()
        lead = raw.index(body)
        builder = self.inline(source, source.open.end + lead, source.open.end + lead + len(body))
        if not builder.has_words:
            return [raw]
        return [raw[:lead], builder.build(body, escape_like("" if CDATA in body else body)), raw[lead + len(body) :]]

    def inline(self, source: Element, start: int, end: int) -> SegmentBuilder:
        """The tags and the text of a source, from character `start` to `end`."""
        builder, index = SegmentBuilder(), source.first + 1
        while index < source.last:
            token = self.tokens[index]
            raw = self.text[max(token.start, start) : min(token.end, end)]
            if token.kind == "text":
                builder.add_text(html.unescape(raw))
            elif raw.startswith(CDATA):  # its text is escaped in the target
                builder.add_text(raw.removeprefix(CDATA).removesuffix("]]>"))
            elif token.kind == "other":
                builder.add_tag(TagKind.POINT, [raw])
            elif local(token) in PAIRED and not token.closes_itself:
                builder.add_tag(TagKind.OPEN if token.kind == "open" else TagKind.CLOSE, [raw], local(token))
            else:
                index = self.element(index).last
                self.add_code(builder, token, self.text[token.start : self.tokens[index].end])
            index += 1
        return builder

    def add_code(self, builder: SegmentBuilder, token: Token, raw: str) -> None:
        """An element that stands for code: the beginning or the end of a pair, or a unit."""
        name = local(token)
        if name in OPENING or name in CLOSING:
            wanted = token.attributes.get("rid") or token.attributes.get(OPENING.get(name) or CLOSING[name])
            label = f"code {wanted.value if wanted else ''}"
            builder.add_tag(TagKind.OPEN if name in OPENING else TagKind.CLOSE, [raw], label)
        else:
            builder.add_unit([raw])


def check_xml(text: str) -> None:
    """Raise Malformed for what is no well-formed XLIFF in UTF-8, and for entities of its own."""
    parser = expat.ParserCreate("utf-8")
    names: list[str] = []

    def refuse(*about: object) -> None:
        raise Malformed("a file with entities of its own is refused", text.find("<!ENTITY"))

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: names.append(name) if not names else None
    declared = re.match(r"""<\?xml[^>]*encoding\s*=\s*["']([^"']+)""", text)
    if declared and declared[1].upper() not in ("UTF-8", "UTF8", "US-ASCII"):
        raise Malformed(f"the file says that its encoding is {declared[1]}; convert it to UTF-8", 0)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        lines = text.split("\n")
        position = sum(len(line) + 1 for line in lines[: error.lineno - 1])
        raise Malformed(f"this is no well-formed XML ({expat.ErrorString(error.code)})", position) from None
    if names[0].rpartition(":")[2] != "xliff":
        raise Malformed(f"an XLIFF file has the root element xliff, not {names[0][:40]}", 0)


def local(token: Token) -> str:
    """The name of an element without the prefix of its namespace."""
    return token.name.rpartition(":")[2]


def with_state(tag: str, state: str) -> str:
    """A tag with this attribute `state`."""
    if re.search(r"""\sstate\s*=\s*(?:"[^"]*"|'[^']*')""", tag):
        return re.sub(r"""(\sstate\s*=\s*)(?:"[^"]*"|'[^']*')""", rf'\1"{state}"', tag)
    return f'{tag[:-1]} state="{state}">'
