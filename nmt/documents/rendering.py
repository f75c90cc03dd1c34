"""A translated sentence with its tags, as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt.documents.placement import Node
from nmt.documents.segment import Kind
from nmt.evaluate.words import Span


class Renderer:
    """Writes a text from left to right with tags between its words."""

    def __init__(self, text: str, words: Sequence[Span], escape: Callable[[str], str]) -> None:
        self.text, self.words, self.escape = text, words, escape
        self.written: list[str] = []
        self.position = 0  # how much of the text is written

    def render(self, nodes: Sequence[Node]) -> str:
        """The whole text with these nodes."""
        self.add_nodes(nodes, (0, len(self.words)))
        self.write_to(len(self.text))
        return "".join(self.written)

    def write_to(self, position: int) -> None:
        """Write the text up to a character."""
        if position > self.position:
            self.written.append(self.escape(self.text[self.position : position]))
            self.position = position

    def add_nodes(self, nodes: Sequence[Node], region: tuple[int, int]) -> None:
        """Write siblings in the order of the translation; of those at one place a point comes before a pair."""
        for node in sorted(nodes, key=lambda node: (node.start, node.stop)):
            if node.kind == Kind.BREAK:
                self.write_to(self.end_before(node.start))
                self.written.append(node.open)
                self.position = max(self.position, self.start_of(node.start))
                continue
            at_end = node.start == region[1] or node.after
            if not (node.is_pair and node.start < node.stop) and at_end:
                self.write_to(self.end_before(node.start))
            else:
                self.write_to(self.start_of(node.start))
            self.written.append(node.open)
            if node.is_pair:
                self.add_nodes(node.children, (node.start, node.stop))
                self.write_to(self.end_before(node.stop))
                self.written.append(node.close)

    def start_of(self, word: int) -> int:
        """Where a word begins; after the last, the end of the text."""
        return self.words[word][0] if word < len(self.words) else len(self.text)

    def end_before(self, word: int) -> int:
        """Where the word before this one ends."""
        return self.words[word - 1][1] if word > 0 else 0
