"""Where the tags of a source sentence stand in its translation, by the attention between the words of both.

S source words, T target words; weights [T S] say how much of a target word comes from each source word. A pair of tags
around source words goes around the contiguous target words whose summed weight on these words exceeds THRESHOLD the
most, so that a single wrong weight does not move it. Punctuation at its edge stays outside unless the source has it
inside. Pairs inside each other are placed from the outside in, each within its parent and beside its siblings: tags are
never lost and never cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmt.documents.segment import TagKind

THRESHOLD = 0.5  # of the weight of a target word, above which it rather belongs to a pair
Region = tuple[int, int]  # words, the last one excluded


@dataclass
class Node:
    """A pair of tags with what it contains, a point or a break, between source words and then between target words."""

    kind: TagKind  # OPEN: a pair
    open: str
    close: str = ""
    first: int = 0  # source words [first, last); a point or a break is before word `first`
    last: int = 0
    children: list[Node] = field(default_factory=list)
    from_left: bool = False  # the pair has begun in an earlier sentence
    to_right: bool = False  # the pair goes on in a later sentence
    after: bool = False  # a point that belongs to the word before it
    start: int = 0  # target words [start, stop)
    stop: int = 0

    @property
    def is_pair(self) -> bool:
        """Whether it can contain words."""
        return self.kind == TagKind.OPEN


@dataclass
class Placement:
    """Places the nodes of one sentence."""

    weights: np.ndarray  # [T S], a row sums to 1 at most
    source_marks: Sequence[bool]  # [S]: which words are punctuation
    target_marks: Sequence[bool]  # [T]
    breakable: np.ndarray  # [T]: before which words a line may end

    def place(self, nodes: Sequence[Node]) -> None:
        """Set `start` and `stop` of all nodes."""
        self.place_siblings(nodes, (0, self.weights.shape[0]), (0, self.weights.shape[1]))

    def place_siblings(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Nodes of the source words `source` in the target words `region`: breaks first, the rest between them."""
        remaining = sum(node.kind == TagKind.BREAK for node in nodes)
        first, left = region[0], source[0]
        group: list[Node] = []
        for node in nodes:
            if node.kind != TagKind.BREAK:
                group.append(node)
                continue
            remaining -= 1
            node.start = node.stop = self.split((first, region[1]), (left, source[1]), node.first, remaining)
            self.place_group(group, (first, node.start), (left, node.first))
            group, first, left = [], node.start, node.first
        self.place_group(group, (first, region[1]), (left, source[1]))

    def split(self, region: Region, source: Region, word: int, remaining: int) -> int:
        """Before which target word the line ends that ends before source word `word`; `remaining` lines end later.

        Each line keeps a word where there are enough.
        """
        low, high = region
        if word >= source[1] or high - low < 2:
            return high
        if word <= source[0]:
            return low
        before = self.weights[low:high, source[0] : word].sum(1) - self.weights[low:high, word : source[1]].sum(1)
        gains = np.append(0, np.cumsum(before))
        possible = np.arange(low + 1, max(low + 2, high - remaining))
        allowed = possible[self.breakable[possible]]
        possible = allowed if allowed.size else possible
        return int(possible[np.argmax(gains[possible - low])])

    def place_group(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Pairs and points between two breaks; pairs that are cut at an edge of the sentence first."""
        pairs = [node for node in nodes if node.is_pair]
        cut = [pair for pair in pairs if pair.from_left or pair.to_right]
        low, high = region
        for node in cut:
            node.start, node.stop = self.best_span(node, [(low, high)], source)
            low, high = (node.stop if node.from_left else low), (node.start if node.to_right else high)
            low, high = min(low, high), max(low, high)
        free = [(low, high)]
        rest = [pair for pair in pairs if not (pair.from_left or pair.to_right)]
        for node in sorted(rest, key=lambda pair: -best_sum(self.gains(pair)[low:high])[0]):
            node.start, node.stop = self.best_span(node, free, source)
            free = [part for gap in free for part in without(gap, (node.start, node.stop))]
        for node in pairs:
            self.place_siblings(node.children, (node.start, node.stop), (node.first, node.last))
        for node in nodes:
            if not node.is_pair:
                node.start = node.stop = self.point(node, (low, high), source, rest)

    def gains(self, node: Node) -> np.ndarray:
        """[T]: the weight on the source words of a pair above the threshold; of punctuation only if they have some."""
        gains: np.ndarray = self.weights[:, node.first : node.last].sum(1) - THRESHOLD
        if not any(self.source_marks[node.first : node.last]):
            gains = np.where(self.target_marks, np.minimum(gains, 0), gains)
        return gains

    def best_span(self, node: Node, free: Sequence[Region], source: Region) -> Region:
        """The target words of a pair among those that are free; none only where all are taken."""
        if len(free) == 1 and (node.first, node.last) == source:
            return free[0]
        gains = self.gains(node)
        spans = []
        for low, high in free:
            if low < high:
                total, start, stop = best_sum(gains[low:high])
                spans.append((total, low if node.from_left else low + start, high if node.to_right else low + stop))
        if not spans:
            edge = free[0][1] if node.to_right else free[0][0]
            return edge, edge
        _, start, stop = max(spans, key=lambda span: span[0])
        return self.trim(node, start, stop)

    def trim(self, node: Node, start: int, stop: int) -> Region:
        """The span without punctuation at its edges, unless the source has some there."""
        marks = self.target_marks
        while stop - start > 1 and marks[stop - 1] and not (node.to_right or self.source_marks[node.last - 1]):
            stop -= 1
        while stop - start > 1 and marks[start] and not (node.from_left or self.source_marks[node.first]):
            start += 1
        return start, stop

    def point(self, node: Node, region: Region, source: Region, pairs: Sequence[Node]) -> int:
        """Before which target word a point goes: that of the next source word, outside of pairs beside it."""
        low, high = region
        word = node.first - 1 if node.after else node.first
        if word >= source[1]:
            found = high
        elif low == high or word < source[0] or (word == source[0] and not node.after):
            found = low
        else:
            start, stop = self.best_span(Node(TagKind.OPEN, "", first=word, last=word + 1), [region], (-1, -1))
            found = stop if node.after else start
        for pair in pairs:
            if pair.start < found < pair.stop:
                found = pair.start if node.first <= pair.first else pair.stop
        return found


def best_sum(gains: np.ndarray) -> tuple[float, int, int]:
    """The contiguous, non-empty part with the largest sum (Kadane): its sum, its start and its end."""
    best, start, total = (-np.inf, 0, 0), 0, 0.0
    for index, gain in enumerate(gains.tolist()):
        if total <= 0:
            start, total = index, 0.0
        total += gain
        if total > best[0]:
            best = total, start, index + 1
    return best


def without(gap: Region, taken: Region) -> list[Region]:
    """What is left of a gap."""
    (low, high), (start, stop) = gap, taken
    if start == stop or stop <= low or start >= high:
        return [gap]
    return [(low, start), (stop, high)]
