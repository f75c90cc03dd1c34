"""YAML: the texts that are values; every other byte stays, also comments, anchors and tags.

PyYAML says where each value begins and ends. It reads YAML 1.1, as Ruby and many others do: `no` is
false. New values that 1.1 or 1.2 would not read as text get quotation marks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import yaml

from nmt.documents.limits import DEEPEST, MOST_VALUES
from nmt.documents.segment import MARKED, Document, Field, Malformed, has_letters
from nmt.documents.stores import message_parts

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # of libyaml, if there is one
RESOLVER = yaml.SafeLoader("")  # tells the type of a value without quotation marks
TEXT = "tag:yaml.org,2002:str"
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor, a tag
SYMBOL = re.compile(r":[\w@$]\S*")  # of Ruby
# What PyYAML takes for text and other readers of 1.1 or 1.2 do not.
NO_TEXT = re.compile(r"[yYnN]|[-+]?[\d_]+(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|0o[0-7]+")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
ESCAPE = re.compile(r"\\[xuU][0-9a-fA-F]{2}")


@dataclass
class Collection:
    """A list or mapping that is open while the file is read."""

    is_mapping: bool = False
    in_flow: bool = False  # it is written in [ ] or { }
    anchor: str | None = None
    is_key: bool = False  # or inside one
    nodes: int = 0  # inside it so far: in a mapping, every other one is a key
    size: int = 1  # values inside it, with all that aliases stand for

    def next_is_key(self) -> bool:
        return self.is_key or (self.is_mapping and self.nodes % 2 == 0)


class Scalar(NamedTuple):
    """A key or value that is no collection, and where it is in the file."""

    text: str
    tag: str
    style: str  # the sign that it begins with; none for plain text
    start: int
    end: int
    in_flow: bool
    is_key: bool


def read_yaml(data: bytes, _: bool) -> Document:
    """YAML with one or more documents; a text that aliases refer to is translated once."""
    text = data.decode()
    mark = "\ufeff" * text.startswith("\ufeff")  # of the byte order
    content = text.removeprefix(mark)
    writer = Writer(is_escaped=content.isascii() and ESCAPE.search(content) is not None)
    pieces = [mark]
    position = 0

    def save(new: str, place: int, scalar: Scalar) -> None:
        pieces[place] = writer.write(new, scalar, content[scalar.start : scalar.end])

    document = Document([], lambda: "".join(pieces).encode())
    for scalar in scalars(content):
        if scalar.is_key:
            continue
        is_symbol = not scalar.style and SYMBOL.fullmatch(scalar.text)
        if scalar.tag != TEXT or is_symbol:
            if has_letters(scalar.text):
                document.leave(scalar.text, MARKED)
            continue
        pieces += [content[position : scalar.start], content[scalar.start : scalar.end]]
        save_here = partial(save, place=len(pieces) - 1, scalar=scalar)
        document.fields.append(Field(message_parts(scalar.text), save_here))
        position = scalar.end
    pieces.append(content[position:])
    return document


def scalars(text: str) -> Iterator[Scalar]:
    """The keys and values of a text in their order; raises Malformed, also for too many of them."""
    path: list[Collection] = []  # the document, and the collections that are open
    sizes: dict[str, int] = {}  # of what anchors name
    for event in events(text):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes = {}
            path = [Collection()]
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = path.pop()
            add_size(path[-1], closed.size, closed.anchor, sizes)
        elif isinstance(event, yaml.NodeEvent):
            parent = path[-1]
            is_key = parent.next_is_key()
            parent.nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                path.append(Collection(is_mapping, bool(event.flow_style), event.anchor, is_key))
                sizes.setdefault(event.anchor, 1)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in sizes:
                    raise Malformed(f"nothing is named by &{event.anchor}", event.start_mark.index)
                add_size(parent, sizes[event.anchor], None, sizes)
            else:
                add_size(parent, 1, event.anchor, sizes)
                yield read_scalar(text, event, parent.in_flow, is_key)
        if len(path) > DEEPEST + 1:
            raise Malformed(
                f"more than {DEEPEST} lists or mappings are inside each other",
                event.start_mark.index,
            )


def events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise Malformed(f"this is not YAML ({error.problem or error.context})", line=line) from None
    except yaml.YAMLError as error:
        raise Malformed(f"this is not YAML ({' '.join(str(error).split())[:200]})") from None


def add_size(parent: Collection, size: int, anchor: str | None, sizes: dict[str, int]) -> None:
    """Count a value inside a collection; raises Malformed where aliases make too many of them."""
    if anchor:
        sizes[anchor] = size
    parent.size += size
    if parent.size > MOST_VALUES:
        raise Malformed(f"its aliases stand for more than {MOST_VALUES:,} values")


def read_scalar(text: str, event: Any, in_flow: bool, is_key: bool) -> Scalar:
    """A scalar without its anchor and tag."""
    match = PROPERTIES.match(text, event.start_mark.index, event.end_mark.index)
    style = event.style or ""
    if event.tag in (None, "!"):
        is_plain = not style and event.tag is None
        tag = RESOLVER.resolve(yaml.ScalarNode, event.value, (is_plain, not is_plain))
    else:
        tag = event.tag
    start = match.end() if match else event.start_mark.index
    return Scalar(event.value, tag, style, start, event.end_mark.index, in_flow, is_key)


@dataclass
class Writer:
    """Writes new texts of scalars."""

    is_escaped: bool  # letters beyond ASCII are written as \\u00fc, in quotation marks

    def write(self, text: str, scalar: Scalar, raw: str) -> str:
        """A text as the scalar `raw` was written, or else in double quotation marks."""
        if scalar.style in ("|", ">"):
            return self.write_block(text, scalar, raw)
        if "\n" in text:
            return self.dump(text, '"', True)
        style = scalar.style
        if not style and NO_TEXT.fullmatch(text):
            style = "'"
        return self.dump(text, style, scalar.in_flow)

    def dump(self, text: str, style: str, in_flow: bool) -> str:
        """A text as PyYAML writes it in a list, with quotation marks if it needs them."""
        listed = yaml.safe_dump(
            [text],
            default_style=style or None,
            default_flow_style=in_flow,
            width=float("inf"),
            allow_unicode=not self.is_escaped,
        )
        return str(listed[1:-2] if in_flow else listed[2:-1])

    def write_block(self, text: str, scalar: Scalar, raw: str) -> str:
        """A text of several lines; the line with | or > stays, and so do blank lines at the end."""
        head, newline, body = raw.partition("\n")
        blank_lines = re.search(r"(?:\r?\n[ \t]*)*\Z", body)
        end = blank_lines[0] if blank_lines else ""
        content = text.rstrip("\n")
        lines = content.split("\n") if scalar.style == "|" else self.folded(content)

        # Not every text can be written so.
        has_indicator = any(character.isdigit() for character in head.partition("#")[0])
        is_indented = content.lstrip("\n").startswith((" ", "\t"))
        if UNPRINTABLE.search(content) or not lines or (is_indented and not has_indicator):
            _, space, comment = head.partition(" #")
            return self.dump(text, '"', True) + space + comment + end

        indentation = " " * (indented(body) - indented(scalar.text))
        carriage_return = "\r" * head.endswith("\r")
        written = []
        for line in lines:
            written.append(f"{indentation if line else ''}{line}{carriage_return}")
        return head + newline + "\n".join(written).removesuffix("\r") + end

    def folded(self, text: str) -> list[str]:
        """The lines of a text after >, without indentation; none if PyYAML cannot write it so."""
        block = yaml.safe_dump([text], default_style=">", width=float("inf"), allow_unicode=True)
        head, *lines = block.removesuffix("\n").split("\n")
        if not head.startswith("- >"):
            return []
        return [line.removeprefix("  ") for line in lines]


def indented(text: str) -> int:
    """By how many spaces the first line that is not empty is indented."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return len(first) - len(first.lstrip(" "))


def count_yaml(data: bytes) -> Counter[str]:
    """Keys, values of each type and texts that are not blank, in the nodes that PyYAML composes."""
    counts = Counter[str]()
    waiting = list(yaml.compose_all(data.decode("utf-8-sig"), LOADER))
    seen = set[int]()  # aliases are the same nodes once more
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        counts[f"values of the type {node.tag}"] += 1
        if isinstance(node, yaml.MappingNode):
            counts["keys"] += len(node.value)
            for key, value in node.value:
                waiting += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        else:
            counts["texts"] += bool(node.value.strip())
    return counts
