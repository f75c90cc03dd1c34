"""Where the tags of a source sentence stand in its translation, by the attention between the words of both.

S source words, T target words; weights [T S] say how much of a target word comes from each source word, a row sums to
1 at most. A pair of tags around source words goes around the contiguous target words whose summed weight on these words
exceeds THRESHOLD the most, so that one wrong weight at its edge does not move it. Pairs inside each other are placed
from the outside in, each within its parent and beside its siblings: tags are never lost and never cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmt.documents.segment import Kind

THRESHOLD = 0.5  # of the weight of a target word, above which it rather belongs to a pair
Region = tuple[int, int]  # target words, the last one excluded


@dataclass
class Node:
    """A pair of tags with what it contains, a point or a break, between source words and then between target words."""

    kind: Kind  # OPEN: a pair
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
        return self.kind == Kind.OPEN


def place(nodes: Sequence[Node], weights: np.ndarray) -> None:
    """Set `start` and `stop` of the nodes of a sentence, and their order; weights [T S]."""
    place_within(list(nodes), weights, (0, weights.shape[0]), (0, weights.shape[1]))


def place_within(nodes: list[Node], weights: np.ndarray, region: Region, source: Region) -> None:
    """Place siblings of the source words `source` in the target words `region`: breaks first, the rest between them."""
    breaks = [node for node in nodes if node.kind == Kind.BREAK]
    first, left = region[0], source[0]
    group: list[Node] = []
    for node in nodes:
        if node.kind != Kind.BREAK:
            group.append(node)
            continue
        remaining = len(breaks) - breaks.index(node) - 1
        split = split_at(weights, (first, region[1]), (left, source[1]), node.first, remaining)
        node.start = node.stop = split
        place_group(group, weights, (first, split), (left, node.first))
        group, first, left = [], split, node.first
    place_group(group, weights, (first, region[1]), (left, source[1]))


def split_at(weights: np.ndarray, region: Region, source: Region, word: int, remaining: int) -> int:
    """Before which target word a break before source word `word` goes; each line keeps a word where there are enough."""
    low, high = region
    if word >= source[1]:
        return high
    if word <= source[0]:
        return low
    before = weights[low:high, source[0] : word].sum(1) - weights[low:high, word : source[1]].sum(1)
    gains = np.append(0, np.cumsum(before))
    least, most = 1, max(1, high - low - 1 - remaining)
    if high - low < 2:
        return high
    return low + least + int(np.argmax(gains[least : most + 1]))


def place_group(nodes: list[Node], weights: np.ndarray, region: Region, source: Region) -> None:
    """Place pairs and points between two breaks; those that are cut at an edge of the sentence first."""
    pairs = [node for node in nodes if node.is_pair]
    low, high = region
    for node in [pair for pair in pairs if pair.from_left or pair.to_right]:
        node.start, node.stop = best_span(node, weights, [(low, high)], source)
        low, high = (node.stop if node.from_left else low), (node.start if node.to_right else high)
        low, high = min(low, high), max(low, high)
    free = [(low, high)]
    rest = [pair for pair in pairs if not (pair.from_left or pair.to_right)]
    for node in sorted(rest, key=lambda pair: -confidence(pair, weights, (low, high))):
        node.start, node.stop = best_span(node, weights, free, source)
        free = [part for gap in free for part in without(gap, (node.start, node.stop))]
    for node in pairs:
        place_within(node.children, weights, (node.start, node.stop), (node.first, node.last))
    for node in nodes:
        if not node.is_pair:
            node.start = node.stop = point_at(node, weights, (low, high), source, rest)


def gains_of(node: Node, weights: np.ndarray) -> np.ndarray:
    """[T]: the weight on the source words of a pair, above the threshold."""
    gains: np.ndarray = weights[:, node.first : node.last].sum(1) - THRESHOLD
    return gains


def confidence(node: Node, weights: np.ndarray, region: Region) -> float:
    """How much weight the best span of a pair has."""
    return best_sum(gains_of(node, weights)[slice(*region)])[0]


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


def best_span(node: Node, weights: np.ndarray, free: list[Region], source: Region) -> Region:
    """The target words of a pair among those that are free; none are left only where all are taken."""
    if len(free) == 1 and (node.first, node.last) == source:
        return free[0]
    gains = gains_of(node, weights)
    spans = []
    for low, high in free:
        if low == high:
            continue
        total, start, stop = best_sum(gains[low:high])
        start, stop = (0 if node.from_left else start), (high - low if node.to_right else stop)
        spans.append((total, -(low + start), low + stop))
    if not spans:
        edge = free[0][1] if node.to_right else free[0][0]
        return edge, edge
    _, start, stop = max(spans)
    return -start, stop


def without(gap: Region, taken: Region) -> list[Region]:
    """What is left of a gap; an empty gap stays where nothing else is."""
    (low, high), (start, stop) = gap, taken
    if start == stop or stop <= low or start >= high:
        return [gap]
    return [(low, start), (stop, high)]


def point_at(node: Node, weights: np.ndarray, region: Region, source: Region, pairs: list[Node]) -> int:
    """Before which target word a point goes: before the translation of the next word, outside of pairs beside it."""
    low, high = region
    position = node.first - 1 if node.after else node.first
    if position >= source[1]:
        found = high
    elif position < source[0] or low == high:
        found = low
    elif node.first == source[0] and not node.after:
        found = low
    else:
        word = Node(Kind.OPEN, "", first=position, last=position + 1)
        start, stop = best_span(word, weights, [region], (-1, -1))
        found = stop if node.after else start
    for pair in pairs:
        if pair.start < found < pair.stop:
            found = pair.start if node.first <= pair.first else pair.stop
    return found
