"""YAML: the texts that are values; every other byte stays, also comments, anchors and tags.

PyYAML says where each value begins and ends. It reads YAML 1.1, as Ruby and many others do: `no` is
false. New values that 1.1 or 1.2 would not read as text get quotation marks.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from nmt.corpus.words import has_letters
from nmt.documents.limits import DEEPEST, MOST_VALUES
from nmt.documents.messages import said_about, value_parts
from nmt.documents.segment import MARKED, Document, Malformed, TextFile

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # of libyaml, if there is one
TEXT = "tag:yaml.org,2002:str"
PROPERTIES = re.compile(r"(?:(?:[&!]\S*|#.*)\s+)*")  # an anchor, a tag, comments behind them
SYMBOL = re.compile(r":[\w@$]\S*")  # of Ruby
# What PyYAML takes for text and other readers of 1.1 or 1.2 do not.
NO_TEXT = re.compile(r"[yYnN]|[-+]?[\d_]+(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|0o[0-7]+")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
# At the end of a text, or in the line before its last one
LAST_SEPARATOR = re.compile(r"[\x85\u2028\u2029][^\n]*\n?[^\n]*\Z")
ESCAPE = re.compile(r"\\[xuU][0-9a-fA-F]{2}")


class RepeatedAnchors(yaml.SafeLoader):
    """Reads two values with one name, as YAML permits; an alias is the last one before it."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if not self.check_event(yaml.AliasEvent):
            self.anchors.pop(self.peek_event().anchor, None)
        return super().compose_node(parent, index)


def read_yaml(data: bytes) -> Document:
    """YAML with one or more documents; a text that aliases refer to is translated once."""
    document = TextFile(data.decode())
    text = document.text
    is_escaped = text.isascii() and ESCAPE.search(text) is not None
    for node, in_flow, reason in scalars(text):
        is_symbol = not node.style and SYMBOL.fullmatch(node.value)
        if node.tag != TEXT or is_symbol:
            reason = reason or MARKED
        if reason:
            if has_letters(node.value):
                document.leave(node.value, reason)
            continue
        start = node.start_mark.index
        if properties := PROPERTIES.match(text, start, node.end_mark.index):
            start = properties.end()
        raw = text[start : node.end_mark.index]
        writer = Writer(node.style or "", node.value, raw, in_flow, is_escaped)
        document.add(value_parts(node.value), start, node.end_mark.index, writer.write)
    return document


def scalars(text: str) -> Iterator[tuple[Any, bool, str]]:
    """The values that are no collections, in their order; aliases do not count.

    After each: whether it is in a collection written in [ ] or { }, and why it is left; "": it is
    not. Raises Malformed, also for too many values.
    """
    sizes: dict[Any, int] = {}  # the values in each node, with all that aliases stand for

    def visit(
        node: Any, in_flow: bool, is_key: bool, reason: str
    ) -> Iterator[tuple[Any, bool, str]]:
        sizes[node] = 1
        if isinstance(node, yaml.ScalarNode):
            if not is_key:
                yield node, in_flow, reason
            return
        for child, is_inner_key, own_reason in children_of(node):
            if child not in sizes:
                yield from visit(
                    child, bool(node.flow_style), is_key or is_inner_key, reason or own_reason
                )
            sizes[node] += sizes[child]
            if sizes[node] > MOST_VALUES:
                raise Malformed(f"its aliases stand for more than {MOST_VALUES:,} values")

    for root in compose(text):
        yield from visit(root, False, False, "")


def children_of(node: Any) -> Iterator[tuple[Any, bool, str]]:
    """The nodes in a collection, whether they are keys, and why they are left (`said_about`)."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((child, False, "") for child in node.value)
        return
    may_be_text = {}
    for key, value in node.value:
        is_scalar = isinstance(value, yaml.ScalarNode)
        may_be_text[str(key.value)] = value.tag == TEXT or not is_scalar
    about = said_about(may_be_text)
    for key, value in node.value:
        yield key, True, ""
        yield value, False, about.get(str(key.value), "")


def compose(text: str) -> Iterator[Any]:
    """The nodes of each document; raises Malformed."""
    depth = 0
    anchors = set[str]()
    loader = LOADER
    try:
        for event in yaml.parse(text, LOADER):
            anchor = getattr(event, "anchor", None)
            if anchor and not isinstance(event, yaml.AliasEvent):
                loader = RepeatedAnchors if anchor in anchors else loader
                anchors.add(anchor)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:  # libyaml would overflow its stack
                raise Malformed(
                    f"more than {DEEPEST} lists or mappings are inside each other",
                    event.start_mark.index,
                )
        yield from yaml.compose_all(text, loader)
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context
        mark = error.problem_mark or error.context_mark
        if mark and isinstance(error, yaml.composer.ComposerError):
            name = re.findall(r"[^\s,\]}*]+", text[mark.index :])[0]
            raise Malformed(f"nothing is named by &{name}", mark.index) from None
        place = mark.index if mark else None
        separator = LAST_SEPARATOR.search(text, 0, place) if place else None
        if separator:
            problem = "a line ends at this line separator; write it as \\L, \\P or \\N in quotes"
            place = separator.start()
        raise Malformed(f"this is not YAML ({problem})", place) from None
    except yaml.reader.ReaderError as error:
        problem = f"YAML has no character U+{error.character:04X}"
        raise Malformed(f"this is not YAML ({problem})", error.position) from None
    except yaml.YAMLError as error:
        raise Malformed(f"this is not YAML ({' '.join(str(error).split())[:200]})") from None


@dataclass
class Writer:
    """Writes a new text as a scalar is written, or else in double quotation marks."""

    style: str  # the sign that the scalar begins with; none for plain text
    value: str
    raw: str  # as it is in the file
    in_flow: bool
    is_escaped: bool  # letters beyond ASCII are written as \\u00fc, in quotation marks

    def write(self, text: str) -> str:
        if self.style in ("|", ">"):
            return self.write_block(text)
        if "\n" in text or UNPRINTABLE.search(text):
            return self.dump(text, '"', True)
        style = self.style
        if not style and NO_TEXT.fullmatch(text):
            style = "'"
        return self.dump(text, style, self.in_flow)

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

    def write_block(self, text: str) -> str:
        """A text of several lines; the line with | or > stays, and so do blank lines at the end."""
        head, newline, body = self.raw.partition("\n")
        blank_lines = re.search(r"(?:\r?\n[ \t]*)*\Z", body)
        end = blank_lines[0] if blank_lines else ""
        content = text.rstrip("\n")
        lines = content.split("\n") if self.style == "|" else folded(content)

        # Not every text can be written so.
        has_indicator = any(character.isdigit() for character in head.partition("#")[0])
        is_indented = content.lstrip("\n").startswith((" ", "\t"))
        if UNPRINTABLE.search(content) or not lines or (is_indented and not has_indicator):
            _, space, comment = head.partition(" #")
            return self.dump(text, '"', True) + space + comment + end

        indentation = " " * (indented(body) - indented(self.value))
        carriage_return = "\r" * head.endswith("\r")
        written = []
        for line in lines:
            written.append(f"{indentation if line else ''}{line}{carriage_return}")
        return head + newline + "\n".join(written).removesuffix("\r") + end


def folded(text: str) -> list[str]:
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
    waiting = list(compose(data.decode("utf-8-sig")))
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
