"""The tags of a segment as a tree, and the part of it that belongs to each of its sentences.

Positions are characters of the segment's text, then words of a sentence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.data.words import Span
from nmt.documents.placement import Node
from nmt.documents.segment import Part, Tag, TagKind

DEEPEST = 50  # tags inside each other; further ones are points


def tag_tree(text: str, tags: Sequence[Tag], written: Callable[[list[Part]], str]) -> list[Node]:
    """The tags inside each other; one without its partner is a point, and so is a pair without a word between."""
    root: list[Node] = []
    opened: list[tuple[Node, str]] = []

    def siblings() -> list[Node]:
        return opened[-1][0].children if opened else root

    def leave_open() -> None:
        node, _ = opened.pop()
        siblings()[-1:] = [Node(TagKind.POINT, node.open, first=node.first, last=node.first), *node.children]

    for tag in tags:
        node = Node(tag.kind, written(tag.parts), first=tag.position, last=tag.position)
        if tag.kind == TagKind.OPEN and len(opened) < DEEPEST:
            siblings().append(node)
            opened.append((node, tag.name))
            continue
        if tag.kind != TagKind.CLOSE:
            siblings().append(replace(node, kind=TagKind.POINT) if tag.kind == TagKind.OPEN else node)
            continue
        if tag.name not in (name for _, name in opened):
            siblings().append(replace(node, kind=TagKind.POINT, after=True))
            continue
        while opened[-1][1] != tag.name:
            leave_open()
        pair, _ = opened.pop()
        pair.close, pair.last = node.open, tag.position
        if not text[pair.first : pair.last].strip(" "):
            siblings()[-1] = Node(TagKind.POINT, flattened(pair), first=pair.first, last=pair.first)
    while opened:
        leave_open()
    return root


def flattened(node: Node) -> str:
    """The tags of a node without any text."""
    return "".join([node.open, *map(flattened, node.children), node.close])


def by_sentence(nodes: Sequence[Node], spans: Sequence[Span]) -> list[list[Node]]:
    """The nodes of each sentence; a pair over several sentences is opened in the first and closed in the last."""
    found = distribute(nodes, Sentences(spans), 0, len(spans) - 1)
    return [found.get(index, []) for index in range(len(spans))]


class Sentences:
    """The spans of sentences, to be searched."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.starts, self.ends = [start for start, _ in spans], [end for _, end in spans]

    def of_pair(self, node: Node) -> tuple[int, int]:
        """The first and the last sentence of a pair, which contains a word."""
        return bisect_right(self.ends, node.first), bisect_left(self.starts, node.last) - 1

    def of_point(self, node: Node) -> int:
        """The sentence of the next word, or of the word before the point."""
        return bisect_left(self.starts, node.first) - 1 if node.after else bisect_right(self.ends, node.first)


def distribute(nodes: Sequence[Node], sentences: Sentences, low: int, high: int) -> dict[int, list[Node]]:
    """The nodes of the sentences low … high, in which their parent is."""
    found: dict[int, list[Node]] = {}
    for node in nodes:
        if not node.is_pair:
            found.setdefault(min(max(sentences.of_point(node), low), high), []).append(node)
            continue
        first, last = sentences.of_pair(node)
        children = distribute(node.children, sentences, first, last)
        for index in range(first, last + 1):
            part = replace(node, children=children.get(index, []), from_left=index > first, to_right=index < last)
            part.open, part.close = node.open * (index == first), node.close * (index == last)
            found.setdefault(index, []).append(part)
    return found


def to_words(nodes: Sequence[Node], start: int, words: Sequence[Span]) -> list[Node]:
    """Nodes of a sentence that begins at character `start`, between its words; a part of a word stands for it."""
    found = []
    for node in nodes:
        begin, end = node.first - start, node.last - start
        first = next((index for index, word in enumerate(words) if word[1] > begin), len(words))
        last = next((index for index, word in enumerate(words) if word[0] >= end), len(words))
        if not node.is_pair:
            first = last = last if node.after else first
        found.append(replace(node, first=first, last=last, children=to_words(node.children, start, words)))
    return found
