"""The tags of a segment as a tree, and the part of it that belongs to each of its sentences.

Positions are characters of the segment's text, then words of a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.documents.placement import Node
from nmt.documents.segment import Kind, Part, Tag
from nmt.evaluate.words import Span


def tag_tree(text: str, tags: Sequence[Tag], written: Callable[[list[Part]], str]) -> list[Node]:
    """The tags inside each other; one without its partner is a point, and so is a pair without a word between."""
    root: list[Node] = []
    opened: list[tuple[Node, str]] = []

    def siblings() -> list[Node]:
        return opened[-1][0].children if opened else root

    def leave_open() -> None:
        node, _ = opened.pop()
        siblings()[-1:] = [Node(Kind.POINT, node.open, first=node.first, last=node.first), *node.children]

    for tag in tags:
        node = Node(tag.kind, written(tag.parts), first=tag.position, last=tag.position)
        if tag.kind != Kind.CLOSE:
            siblings().append(node)
            if tag.kind == Kind.OPEN:
                opened.append((node, tag.name))
            continue
        if tag.name not in (name for _, name in opened):
            siblings().append(replace(node, kind=Kind.POINT, after=True))
            continue
        while opened[-1][1] != tag.name:
            leave_open()
        pair, _ = opened.pop()
        pair.close, pair.last = node.open, tag.position
        if not text[pair.first : pair.last].strip(" "):
            siblings()[-1] = Node(Kind.POINT, flattened(pair), first=pair.first, last=pair.first)
    while opened:
        leave_open()
    return root


def flattened(node: Node) -> str:
    """The tags of a node without any text."""
    return "".join([node.open, *map(flattened, node.children), node.close])


def by_sentence(nodes: Sequence[Node], spans: Sequence[Span]) -> list[list[Node]]:
    """The nodes of each sentence; a pair over several sentences is opened in the first and closed in the last."""
    found: list[list[Node]] = [[] for _ in spans]
    distribute(nodes, spans, 0, len(spans) - 1, found)
    return found


def distribute(nodes: Sequence[Node], spans: Sequence[Span], low: int, high: int, found: Sequence[list[Node]]) -> None:
    """Add nodes to the lists of the sentences low … high, in which their parent is."""
    for node in nodes:
        if not node.is_pair:
            found[min(max(sentence_of(node, spans), low), high)].append(node)
            continue
        inside = [index for index, (start, end) in enumerate(spans) if start < node.last and end > node.first]
        first, last = inside[0], inside[-1]
        children: list[list[Node]] = [[] for _ in spans]
        distribute(node.children, spans, first, last, children)
        for index in inside:
            part = replace(node, children=children[index], from_left=index > first, to_right=index < last)
            part.open, part.close = node.open * (index == first), node.close * (index == last)
            found[index].append(part)


def sentence_of(node: Node, spans: Sequence[Span]) -> int:
    """The sentence of a point: that of the next word, or of the word before it."""
    if node.after:
        return max((index for index, (start, _) in enumerate(spans) if start < node.first), default=0)
    return next((index for index, (_, end) in enumerate(spans) if end > node.first), len(spans) - 1)


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
