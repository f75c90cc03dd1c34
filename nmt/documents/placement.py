"""Puts the tags of a segment back into its translation, by the attention between the words of both.

S source words, T target words, those of all sentences of the segment in one row; weights [T S] say
how much of a target word comes from each source word. A pair of tags around source words goes
around the contiguous target words whose summed weight on these words exceeds THRESHOLD the most, so
that a single wrong weight does not move it. Punctuation at its edge stays outside unless the source
has it inside. Pairs inside each other are placed from the outside in, each within its parent and
beside its siblings: tags are never lost and never cross.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import numpy as np

from nmt.data.words import SPACELESS, Span, is_punctuation
from nmt.decode.long_lines import SENTENCE_ENDS
from nmt.documents.segment import UNITS, Segment, Tag, TagKind, written
from nmt.documents.word_weights import WordWeights, proportional_weights

THRESHOLD = 0.5  # of the weight of a target word, above which it rather belongs to a pair
# Before what and after what a unit needs no space; marks after which a sentence has ended.
CLOSING = re.compile(r"$|[\s.,;:!?…)\]}»”’\"'。，！？]")
OPENING = re.compile(r"$|[\s(\[{«“„‘\"'¿¡-]")
END_MARKS = tuple(".!?…。！？")
DEEPEST = 50  # tags inside each other; further ones are points
Region = tuple[int, int]  # words, the last one excluded


class TranslatedSentence(NamedTuple):
    """The translation of a sentence; its word weights and its unsure words where they were asked
    for."""

    text: str
    weights: WordWeights | None = None
    unsure: list[str] | None = None
    has_changed_spans: bool = False  # Translation.changed_spans


def put_back(
    segment: Segment, spans: Sequence[Span], sentences: Sequence[TranslatedSentence]
) -> str:
    """The translation of a segment as it is written: its translated sentences with its tags and
    units."""
    text = ""
    blocks = []
    source = list[Span]()
    target = list[Span]()
    starts = set[int]()  # of the translated sentences
    for (start, end), sentence in zip(spans, sentences, strict=True):
        new, words = with_units(segment.text[start:end], sentence)
        if (
            text
            and new
            and not SPACELESS.search(text[-1] + new[0])
            and text[-1] not in SENTENCE_ENDS
        ):
            text += " "
        starts.add(len(text))
        source += [(start + first, start + last) for first, last in words.source]
        target += [(len(text) + first, len(text) + last) for first, last in words.target]
        blocks.append(words.weights)
        text += new
    nodes = tag_tree(segment, source)
    if nodes:
        marks = [
            [last - first == 1 and is_punctuation(of[first]) for first, last in spans]
            for of, spans in ((segment.text, source), (text, target))
        ]
        breakable = [
            at in starts or text[at - 1].isspace() or bool(SPACELESS.match(text, at))
            for at, _ in target
        ]
        placement = Placement(
            SentenceWeights(blocks), marks[0], marks[1], np.array(breakable, bool)
        )
        placement.place(nodes, (0, len(target)), (0, len(source)))
    units = {each: written(parts) for each, parts in segment.units.items()}
    new = UNITS.sub(
        lambda match: units.pop(match[0], ""), render(nodes, text, target, segment.escape)
    )
    return segment.layout(new)


def with_units(source: str, sentence: TranslatedSentence) -> tuple[str, WordWeights]:
    """The translation of a sentence with each of its units, and with the spaces around them that
    the sentence has.

    No word is joined to the end of a unit that a space, a mark or nothing follows. A unit that the
    translation does not have, or has after its last mark, goes before what the next word became.
    """
    words_of_source, words_of_target, weights = sentence.weights or proportional_weights(
        source, sentence.text
    )
    columns = list(words_of_source)
    words = [sentence.text[start:end] for start, end in words_of_target]
    edges = [0, *chain.from_iterable(words_of_target), len(sentence.text)]
    # before a word
    spaces = [
        sentence.text[first:last] for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]
    for match in UNITS.finditer(source):
        unit = match[0]
        before = source[: match.start()]
        after = source[match.end() :]
        column = bisect_left(columns, match.span())
        if match.span() not in columns:  # the model has not seen it
            columns.insert(column, match.span())
            weights = np.insert(weights, column, 0, 1)
        row = words.index(unit) if unit in words else -1
        if 0 < row == len(words) - 1 and after.strip() and words[row - 1].endswith(END_MARKS):
            weights = np.delete(weights, row, 0)
            del words[row], spaces[row]
            row = -1
        if row < 0:
            is_glued = bool(before.strip()) and not before[-1:].isspace()
            row = row_of_unit(weights, column, is_glued and after[:1] in "., ")
            words.insert(row, unit)
            spaces.insert(row + (not is_glued or row == 0), "")
            weights = np.insert(weights, row, 0, 0)
        weights[row], weights[:, column] = 0, 0  # tags around nothing but a unit stay around it
        weights[row, column] = 1
        following = spaces[row + 1] + "".join(words[row + 1 : row + 2])
        # but {name}'s may become {name}s
        if CLOSING.match(after.lstrip("'’")) and not CLOSING.match(following):
            spaces[row + 1] = " "
        previous = "".join(words[max(row - 1, 0) : row]) + spaces[row]
        if before[-1:].isspace() and not OPENING.match(previous[-1:]):
            spaces[row] = " "
    text = ""
    new = []
    for space, word in zip(spaces, [*words, ""], strict=True):
        new.append((len(text + space), len(text + space + word)))
        text += space + word
    return text, WordWeights(columns, new[:-1], weights)


def row_of_unit(weights: np.ndarray, index: int, after: bool) -> int:
    """Before which target word a unit goes that is source word `index`: by the next word, or
    `after` the one before."""
    column = index - 1 if after else index + 1
    if not 0 <= column < weights.shape[1] or not weights.size:
        return 0 if column < 0 else len(weights)
    return int(weights[:, column].argmax()) + after


@dataclass
class Node:
    """A pair of tags with what it contains, a point or a break, between source words and then
    between target words."""

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

    @property
    def whole(self) -> str:
        """Without words."""
        return "".join([self.open, *(child.whole for child in self.children), self.close])


def tag_tree(segment: Segment, words: Sequence[Span]) -> list[Node]:
    """The tags inside each other, between words; one without its partner is a point, and a pair
    without a word too."""
    starts = [start for start, _ in words]
    ends = [end for _, end in words]
    tags = segment.tags
    partners = find_partners(segment.tags)

    def tree(index: int, stop: int) -> list[Node]:
        nodes = list[Node]()
        glued_at = -1  # the position of the last point that belongs to the word before it
        while index < stop:
            tag = tags[index]
            partner = partners.get(index)
            kind = TagKind.POINT if partner is None and tag.kind != TagKind.BREAK else tag.kind
            before = segment.text[tag.position - 1 : tag.position] if tag.position else ""
            after = segment.text[tag.position : tag.position + 1]
            node = Node(kind, written(tag.parts), first=bisect_right(ends, tag.position))
            if partner is not None:
                node.children = tree(index + 1, partner)
                node.close = written(tags[partner].parts)
                node.last = bisect_left(starts, tags[partner].position)
                index = partner
            if node.is_pair and node.last <= node.first:
                node = Node(TagKind.POINT, node.whole, first=node.first)
            elif kind == TagKind.POINT:
                is_glued = (
                    bool(before.strip()) and not after.isalnum() and not node.open[:1].isspace()
                )
                if index and tags[index - 1].position == tag.position:
                    is_glued = is_glued and tag.position == glued_at
                node.after = tag.kind == TagKind.CLOSE or (is_glued and tag.kind == TagKind.POINT)
                glued_at = tag.position if node.after else -1
                node.first = bisect_left(starts, tag.position) if node.after else node.first
            nodes.append(node)
            index += 1
        return nodes

    return tree(0, len(tags))


def find_partners(tags: Sequence[Tag]) -> dict[int, int]:
    """The index of the end of each pair by that of its beginning; pairs do not cross."""
    opened = list[int]()
    partners = {}
    for index, tag in enumerate(tags):
        if tag.kind == TagKind.OPEN and len(opened) < DEEPEST:
            opened.append(index)
        elif tag.kind == TagKind.CLOSE and tag.name in (tags[each].name for each in opened):
            while tags[beginning := opened.pop()].name != tag.name:
                pass
            partners[beginning] = index
    return partners


class SentenceWeights:
    """The word weights [T S] of sentences that follow each other: no word comes from another
    sentence."""

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = blocks
        # where the target words of each sentence begin
        self.rows = [0, *accumulate(len(block) for block in blocks)]
        self.columns = [0, *accumulate(block.shape[1] for block in blocks)]

    def reach(self, first: int, last: int) -> Region:
        """The target words of the sentences that have the source words [first, last)."""
        begin = max(bisect_right(self.columns, first) - 1, 0)
        end = min(max(bisect_left(self.columns, last), begin + 1), len(self.blocks))
        return self.rows[begin], self.rows[end]

    def sums(self, rows: Region, columns: Region) -> np.ndarray:
        """How much of each of these target words comes from these source words."""
        low, high = rows
        total = np.zeros(high - low)
        begin = max(bisect_right(self.rows, low) - 1, 0)
        end = bisect_left(self.rows, high)
        for index in range(begin, min(end, len(self.blocks))):
            top = self.rows[index]
            left = self.columns[index]
            bottom = self.rows[index + 1]
            inside = self.blocks[index][
                max(low - top, 0) : high - top,
                max(columns[0] - left, 0) : max(columns[1] - left, 0),
            ]
            total[max(top, low) - low : min(bottom, high) - low] = inside.sum(1)
        return total


@dataclass
class Placement:
    """Finds the target words of nodes; which words are punctuation, and before which target words a
    line may end.

    What it does for a node takes as long as the sentences are that the node is in, not all of the
    segment.
    """

    weights: SentenceWeights
    source_marks: list[bool]
    target_marks: list[bool]
    breakable: np.ndarray

    def place(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Set `start` and `stop` of nodes between the source words `source`: breaks first, the rest
        between them."""
        remaining = sum(node.kind == TagKind.BREAK for node in nodes)
        first = region[0]
        left = source[0]
        group: list[Node] = []
        for node in nodes:
            if node.kind != TagKind.BREAK:
                group.append(node)
                continue
            remaining -= 1
            node.start = node.stop = self.split(
                (first, region[1]), (left, source[1]), node.first, remaining
            )
            self.place_group(group, (first, node.start), (left, node.first))
            group = []
            first = node.start
            left = node.first
        self.place_group(group, (first, region[1]), (left, source[1]))

    def split(self, region: Region, source: Region, word: int, remaining: int) -> int:
        """Before which target word the line ends that ends before source word `word`; `remaining`
        lines end later.

        Each line keeps a word where there are enough.
        """
        low, high = region
        if word >= source[1]:
            return high
        if word <= source[0]:
            return low
        sentence = bisect_left(self.weights.columns, word)
        if self.weights.columns[sentence] == word:  # between two sentences
            return min(max(self.weights.rows[sentence], low), high)
        if high - low < 2:
            return high
        # Words of sentences before and after those of the two words beside the break decide
        # nothing.
        near = self.weights.reach(word - 1, word + 1)
        start = min(max(near[0], low), high - 1)
        stop = max(min(near[1], high), start + 1)
        before = self.weights.sums((start, stop), (source[0], word))
        after = self.weights.sums((start, stop), (word, source[1]))
        gains = np.append(0, np.cumsum(before - after))
        lowest = max(start, low + 1)
        highest = min(stop, max(low + 1, high - remaining - 1))
        possible = np.arange(min(lowest, highest), highest + 1)
        allowed = possible[self.breakable[np.minimum(possible, len(self.breakable) - 1)]]
        possible = allowed if allowed.size else possible
        return int(possible[np.argmax(gains[np.clip(possible - start, 0, len(gains) - 1)])])

    def place_group(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Pairs and points between two breaks: the clearest pair first, then what is inside, then
        points."""
        pairs = [node for node in nodes if node.is_pair]
        free = Free(region)
        for node in sorted(pairs, key=lambda pair: -self.clearest(pair, *region)[0]):
            node.start, node.stop = self.best_span(node, free, source)
            free.take(node.start, node.stop)
        for node in pairs:
            self.place(node.children, (node.start, node.stop), (node.first, node.last))
        in_order = sorted(pairs, key=lambda pair: (pair.start, pair.stop))
        starts = [pair.start for pair in in_order]
        for node in nodes:
            if not node.is_pair:
                node.start = node.stop = self.point(node, region, source)
                index = bisect_left(starts, node.start) - 1  # the last pair that begins before it
                if index >= 0 and node.start < (pair := in_order[index]).stop:
                    node.start = node.stop = pair.start if node.first <= pair.first else pair.stop
                node.after |= node.start == region[1]

    def clearest(self, node: Node, low: int, high: int) -> tuple[float, int, int]:
        """Which of the target words [low, high) come from the source words of a pair, by the sum
        above THRESHOLD."""
        reach = self.weights.reach(node.first, node.last)
        start = max(low, min(reach[0], high - 1))
        stop = max(min(high, reach[1]), min(start + 1, high))
        total, first, last = best_sum(
            self.weights.sums((start, stop), (node.first, node.last)) - THRESHOLD
        )
        return total, start + first, start + last

    def best_span(self, node: Node, free: Free, source: Region) -> Region:
        """The target words of a pair among those that are free; none only where all are taken.

        Punctuation is at its edges only where the source has some there.
        """
        if free.is_whole and (node.first, node.last) == source:
            return free.parts[0]
        parts = free.near(*self.weights.reach(node.first, node.last))
        spans = [self.clearest(node, low, high) for low, high in parts]
        if not spans:
            return free.first, free.first
        _, start, stop = max(spans, key=lambda span: span[0])
        while (
            stop - start > 1
            and self.target_marks[stop - 1]
            and not self.source_marks[node.last - 1]
        ):
            stop -= 1
        while stop - start > 1 and self.target_marks[start] and not self.source_marks[node.first]:
            start += 1
        return start, stop

    def point(self, node: Node, region: Region, source: Region) -> int:
        """Before which target word a point goes: that of the next source word."""
        word = node.first - node.after
        if word >= source[1]:
            return region[1]
        if region[0] == region[1] or word < source[0] or (word == source[0] and not node.after):
            return region[0]
        return self.best_span(
            Node(TagKind.OPEN, "", first=word, last=word + 1), Free(region), (-1, -1)
        )[node.after]


class Free:
    """The target words of a region that no pair has taken yet, as parts from left to right."""

    def __init__(self, region: Region) -> None:
        self.first = region[0]
        self.parts = [region] if region[0] < region[1] else []
        self.is_whole = bool(self.parts)

    def near(self, low: int, high: int) -> list[Region]:
        """The parts that have some of the words [low, high), or else the last one before and the
        first one after."""
        begin = bisect_left(self.parts, low, key=lambda part: part[1] - 1)
        end = bisect_left(self.parts, high, key=lambda part: part[0])
        return self.parts[begin:end] or self.parts[max(begin - 1, 0) : begin + 1]

    def take(self, start: int, stop: int) -> None:
        index = bisect_right(self.parts, start, key=lambda part: part[0]) - 1
        if index < 0 or start == stop:
            return
        low, high = self.parts[index]
        rest = [(low, start), (stop, high)]
        self.parts[index : index + 1] = [part for part in rest if part[0] < part[1]]
        self.is_whole = False


def best_sum(gains: np.ndarray) -> tuple[float, int, int]:
    """The contiguous, non-empty part with the largest sum (Kadane): its sum, its start and its
    end."""
    best = (-np.inf, 0, 0)
    start = 0
    total = 0.0
    for index, gain in enumerate(gains.tolist()):
        if total <= 0:
            start = index
            total = 0.0
        total += gain
        if total > best[0]:
            best = total, start, index + 1
    return best


def render(
    nodes: Sequence[Node], text: str, words: Sequence[Span], escape: Callable[[str], str] = str
) -> str:
    """A text with these nodes between its words, from left to right; of those at one place a point
    is before a pair."""
    edges = [0, *chain.from_iterable(words), len(text)]
    # before each word
    spaces = [text[first:last] for first, last in zip(edges[::2], edges[1::2], strict=True)]
    left: list[list[str]] = [[] for _ in spaces]  # markup before these
    right: list[list[str]] = [[] for _ in spaces]  # and after them

    def add(siblings: Sequence[Node]) -> None:
        for node in sorted(siblings, key=lambda node: (node.start, node.stop)):
            if node.start < node.stop:
                right[node.start].append(node.open)
                add(node.children)
                left[node.stop].append(node.close)
            else:
                is_break = node.kind == TagKind.BREAK
                is_left = (is_break or node.after) and not any(right[node.start])
                (left if is_left else right)[node.start].append(node.whole)
                if is_break:
                    spaces[node.start] = ""

    add(nodes)
    pieces: list[tuple[bool, str]] = []  # and whether it is markup
    for index, (start, end) in enumerate([*words, (len(text), len(text))]):
        pieces += [(True, "".join(left[index])), (False, spaces[index])]
        pieces += [(True, "".join(right[index])), (False, text[start:end])]
    groups = groupby((piece for piece in pieces if piece[1]), lambda piece: piece[0])
    joined = [(is_markup, "".join(piece for _, piece in group)) for is_markup, group in groups]
    return "".join(piece if is_markup else escape(piece) for is_markup, piece in joined)
