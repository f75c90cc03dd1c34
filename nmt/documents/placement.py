"""Puts the tags of a segment back into its translation, by the attention between the words of both.

S source words, T target words, those of all sentences of the segment in one row; weights [T S] say how much of a target
word comes from each source word. A pair of tags around source words goes around the contiguous target words whose
summed weight on these words exceeds THRESHOLD the most, so that a single wrong weight does not move it. Punctuation at
its edge stays outside unless the source has it inside. Pairs inside each other are placed from the outside in, each
within its parent and beside its siblings: tags are never lost and never cross.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from nmt.data.words import SPACELESS, Span, is_punctuation
from nmt.decode.long_lines import SENTENCE_ENDS
from nmt.documents.links import WordLinks, proportional_links
from nmt.documents.segment import UNITS, Segment, TagKind, written

THRESHOLD = 0.5  # of the weight of a target word, above which it rather belongs to a pair
# Before what and after what a unit needs no space.
CLOSING, OPENING = re.compile(r"$|[\s.,;:!?…)\]}»”’\"'。，！？]"), re.compile(r"$|[\s(\[{«“„‘\"'¿¡-]")
DEEPEST = 50  # tags inside each other; further ones are points
Region = tuple[int, int]  # words, the last one excluded


class TranslatedSentence(NamedTuple):
    """The translation of a sentence; its word links where they were asked for."""

    text: str
    links: WordLinks | None = None


@dataclass
class Node:
    """A pair of tags with what it contains, a point or a break, between source words and then between target words."""

    kind: TagKind  # OPEN: a pair
    open: str
    close: str = ""
    first: int = 0  # source words [first, last); a point or a break is before word `first`
    last: int = 0
    children: list[Node] = field(default_factory=list)
    after: bool = False  # a point that belongs to the word before it
    start: int = 0  # target words [start, stop)
    stop: int = 0

    @property
    def is_pair(self) -> bool:
        return self.kind == TagKind.OPEN


def put_back(segment: Segment, spans: Sequence[Span], sentences: Sequence[TranslatedSentence]) -> str:
    """The translation of a segment as it is written: its translated sentences with its tags and units."""
    text, blocks = "", []
    for (start, end), sentence in zip(spans, sentences, strict=True):
        original = segment.text[start:end]
        links = sentence.links or proportional_links(original, sentence.text)
        new, links = with_units(original, sentence.text, links)
        if text and new and not SPACELESS.search(text[-1] + new[0]) and text[-1] not in SENTENCE_ENDS:
            text += " "
        blocks.append(WordLinks(shifted(links.source, start), shifted(links.target, len(text)), links.weights))
        text += new
    source, target = ([word for block in blocks for word in block[side]] for side in (0, 1))
    nodes = tag_tree(segment, source)
    if nodes:
        weights = np.zeros((len(target), len(source)))
        row = column = 0
        for block in blocks:
            height, width = block.weights.shape
            weights[row : row + height, column : column + width] = block.weights
            row, column = row + height, column + width
        Placement(weights, segment.text, source, text, target).place(nodes, (0, len(target)), (0, len(source)))
    units = {each: written(parts) for each, parts in segment.units.items()}
    parts = UNITS.split(result := render(nodes, text, target, segment.escape))
    for index, match in enumerate(UNITS.finditer(result)):
        parts[index] += units.pop(match[0], "")
    return segment.layout("".join(parts))


def shifted(words: Sequence[Span], by: int) -> list[Span]:
    return [(start + by, end + by) for start, end in words]


def with_units(source: str, text: str, links: WordLinks) -> tuple[str, WordLinks]:
    """The translation of a sentence with each of its units, and with the spaces around them that the sentence has.

    No word is joined to the end of a unit that a space, a mark or nothing follows. A unit that the translation does not
    have, or has after its last mark, goes before what the next word became.
    """
    for match in UNITS.finditer(source):
        words, weights = list(links.target), links.weights
        unit, before, after = match[0], source[: match.start()], source[match.end() :]
        index = bisect_left(links.source, match.span())
        if match.span() not in links.source:  # the model has not seen it
            links.source.insert(index, match.span())
            weights = np.insert(weights, index, 0, 1)
        at = text.find(unit)
        if at > 0 and after.strip() and text[:at].rstrip()[-1:] in tuple(".!?…。！？") and not text[at + 1 :].strip():
            row = bisect_left(words, (at, at + 1))
            text, at = text[:at].rstrip(), -1
            words, weights = words[:row], weights[:row]
        if at < 0:
            row = row_of_unit(weights, index, bool(before.strip()) and not before[-1:].isspace() and after[:1] in "., ")
            at = words[row][0] if row < len(words) else len(text)
            if row and row < len(words) and text[at - 1 : at] == " " and not before[-1:].isspace() and before:
                at = words[row - 1][1]
            text = text[:at] + unit + text[at:]
            words = [*words[:row], (at, at + 1), *shifted(words[row:], 1)]
            weights = np.insert(weights, row, np.eye(weights.shape[1])[index], 0)
        row = bisect_left(words, (at, at + 1))
        if CLOSING.match(after.lstrip("'’")) and not CLOSING.match(text, at + 1):  # but {name}'s may become {name}s
            text, words = f"{text[: at + 1]} {text[at + 1 :]}", [*words[: row + 1], *shifted(words[row + 1 :], 1)]
        if before[-1:].isspace() and not OPENING.match(text[at - 1 : at]):
            text, words = f"{text[:at]} {text[at:]}", [*words[:row], *shifted(words[row:], 1)]
        links = WordLinks(links.source, words, weights)
    return text, links


def row_of_unit(weights: np.ndarray, index: int, after: bool) -> int:
    """Before which target word a unit goes that is source word `index`: by the next word, or `after` the one before."""
    column = index - 1 if after else index + 1
    if not 0 <= column < weights.shape[1] or not weights.size:
        return 0 if column < 0 else len(weights)
    return int(weights[:, column].argmax()) + after


def tag_tree(segment: Segment, words: Sequence[Span]) -> list[Node]:
    """The tags inside each other, between words; one without its partner is a point, and a pair without a word too."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    root: list[Node] = []
    opened: list[tuple[Node, str]] = []

    def siblings() -> list[Node]:
        return opened[-1][0].children if opened else root

    def leave_open() -> None:
        node, _ = opened.pop()
        siblings()[-1:] = [replace(node, kind=TagKind.POINT, last=node.first, children=[]), *node.children]

    for tag in segment.tags:
        around = segment.text[max(tag.position - 1, 0) : tag.position + 1]
        glued = tag.position > 0 and not around[0].isspace() and not around[1:].isalnum()
        node = Node(tag.kind, written(tag.parts), after=tag.kind == TagKind.POINT and glued)
        if tag.kind == TagKind.CLOSE:
            if tag.name in (name for _, name in opened):
                while opened[-1][1] != tag.name:
                    leave_open()
                pair, _ = opened.pop()
                pair.close, pair.last = node.open, bisect_left(starts, tag.position)
                if pair.first >= pair.last:
                    siblings()[-1] = replace(pair, kind=TagKind.POINT, open=flattened(pair), close="", children=[])
                continue
            node.kind, node.after = TagKind.POINT, True
        node.first = node.last = bisect_left(starts, tag.position) if node.after else bisect_right(ends, tag.position)
        siblings().append(node)
        if tag.kind == TagKind.OPEN and len(opened) < DEEPEST:
            opened.append((node, tag.name))
        elif tag.kind == TagKind.OPEN:
            node.kind = TagKind.POINT
    while opened:
        leave_open()
    return root


def flattened(node: Node) -> str:
    return "".join([node.open, *map(flattened, node.children), node.close])


class Placement:
    def __init__(
        self, weights: np.ndarray, source: str, source_words: Sequence[Span], target: str, target_words: Sequence[Span]
    ) -> None:
        self.sums = np.cumsum(np.pad(weights, ((0, 0), (1, 0))), axis=1)  # [T S+1]; a row of weights sums to 1 at most
        # Which words are punctuation; before which a line may end: after a space, or in a script without spaces.
        self.source_marks = [end - start == 1 and is_punctuation(source[start]) for start, end in source_words]
        self.target_marks = [end - start == 1 and is_punctuation(target[start]) for start, end in target_words]
        self.breakable = np.array(
            [bool(SPACELESS.match(target, at)) or at == 0 or target[at - 1].isspace() for at, _ in target_words], bool
        )

    def place(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Set `start` and `stop` of nodes between the source words `source`: breaks first, the rest between them."""
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
        first, middle, last = (self.sums[low:high, column] for column in (source[0], word, source[1]))
        gains = np.append(0, np.cumsum((middle - first) - (last - middle)))
        possible = np.arange(low + 1, max(low + 2, high - remaining))
        allowed = possible[self.breakable[possible]]
        possible = allowed if allowed.size else possible
        return int(possible[np.argmax(gains[possible - low])])

    def place_group(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Pairs and points between two breaks: the clearest pair first, then what is inside, then points."""
        pairs = [node for node in nodes if node.is_pair]
        free = [region]
        for node in sorted(pairs, key=lambda pair: -best_sum(self.gains(pair)[slice(*region)])[0]):
            node.start, node.stop = self.best_span(node, free, source)
            free = [part for gap in free for part in without(gap, (node.start, node.stop))]
        for node in pairs:
            self.place(node.children, (node.start, node.stop), (node.first, node.last))
        for node in nodes:
            if not node.is_pair:
                node.start = node.stop = self.point(node, region, source, pairs)

    def gains(self, node: Node) -> np.ndarray:
        """[T]: the weight on the source words of a pair above the threshold; of punctuation only if they have some."""
        gains: np.ndarray = self.sums[:, node.last] - self.sums[:, node.first] - THRESHOLD
        if not any(self.source_marks[node.first : node.last]):
            gains = np.where(self.target_marks, np.minimum(gains, 0), gains)
        return gains

    def best_span(self, node: Node, free: Sequence[Region], source: Region) -> Region:
        """The target words of a pair among those that are free; none only where all are taken.

        Punctuation is at its edges only where the source has some there.
        """
        if len(free) == 1 and (node.first, node.last) == source:
            return free[0]
        gains, marks = self.gains(node), self.target_marks
        spans = [
            (total, low + first, low + last)
            for low, high in free
            if low < high
            for total, first, last in [best_sum(gains[low:high])]
        ]
        if not spans:
            return free[0][0], free[0][0]
        _, start, stop = max(spans, key=lambda span: span[0])
        while stop - start > 1 and marks[stop - 1] and not self.source_marks[node.last - 1]:
            stop -= 1
        while stop - start > 1 and marks[start] and not self.source_marks[node.first]:
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
    (low, high), (start, stop) = gap, taken
    if start == stop or stop <= low or start >= high:
        return [gap]
    return [(low, start), (stop, high)]


def render(nodes: Sequence[Node], text: str, words: Sequence[Span], escape: Callable[[str], str] = str) -> str:
    """A text with these nodes between its words, from left to right; of those at one place a point is before a pair."""
    output: list[str] = []
    position = 0  # how much of the text is written

    def write_to(end: int) -> None:
        nonlocal position
        if end > position:
            output.append(escape(text[position:end]))
            position = end

    def start_of(word: int) -> int:
        return words[word][0] if word < len(words) else len(text)

    def end_before(word: int) -> int:
        return words[word - 1][1] if word > 0 else 0

    def add(siblings: Sequence[Node], stop: int) -> None:
        nonlocal position
        for node in sorted(siblings, key=lambda node: (node.start, node.stop)):
            if node.kind == TagKind.BREAK:
                write_to(end_before(node.start))
                output.append(node.open)
                position = max(position, start_of(node.start))
                continue
            is_empty = not (node.is_pair and node.start < node.stop)
            at_end = is_empty and (node.start == stop or node.after)
            write_to(end_before(node.start) if at_end else start_of(node.start))
            output.append(node.open)
            if node.is_pair:
                add(node.children, node.stop)
                write_to(end_before(node.stop))
                output.append(node.close)

    add(nodes, len(words))
    write_to(len(text))
    return "".join(output)
