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
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np

from nmt.data.words import SPACELESS, Span, is_punctuation
from nmt.decode.long_lines import SENTENCE_ENDS
from nmt.documents.segment import UNITS, Segment, Tag, TagKind, written
from nmt.documents.word_weights import WordWeights, block_diagonal, proportional_weights

THRESHOLD = 0.5  # of the weight of a target word, above which it rather belongs to a pair
# Before what and after what a unit needs no space; marks after which a sentence has ended.
CLOSING, OPENING = re.compile(r"$|[\s.,;:!?…)\]}»”’\"'。，！？]"), re.compile(r"$|[\s(\[{«“„‘\"'¿¡-]")
END_MARKS = tuple(".!?…。！？")
DEEPEST = 50  # tags inside each other; further ones are points
Region = tuple[int, int]  # words, the last one excluded


class TranslatedSentence(NamedTuple):
    """The translation of a sentence; its word weights and its unsure words where they were asked for."""

    text: str
    weights: WordWeights | None = None
    unsure: list[str] | None = None


def put_back(segment: Segment, spans: Sequence[Span], sentences: Sequence[TranslatedSentence]) -> str:
    """The translation of a segment as it is written: its translated sentences with its tags and units."""
    text, blocks, source, target = "", [], list[Span](), list[Span]()
    for (start, end), sentence in zip(spans, sentences, strict=True):
        new, words = with_units(segment.text[start:end], sentence)
        if text and new and not SPACELESS.search(text[-1] + new[0]) and text[-1] not in SENTENCE_ENDS:
            text += " "
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
        breakable = [at == 0 or text[at - 1].isspace() or bool(SPACELESS.match(text, at)) for at, _ in target]
        placement = Placement(block_diagonal(blocks), marks[0], marks[1], np.array(breakable, bool))
        placement.place(nodes, (0, len(target)), (0, len(source)))
    units = {each: written(parts) for each, parts in segment.units.items()}
    new = UNITS.sub(lambda match: units.pop(match[0], ""), render(nodes, text, target, segment.escape))
    return segment.layout(new)


def with_units(source: str, sentence: TranslatedSentence) -> tuple[str, WordWeights]:
    """The translation of a sentence with each of its units, and with the spaces around them that the sentence has.

    No word is joined to the end of a unit that a space, a mark or nothing follows. A unit that the translation does not
    have, or has after its last mark, goes before what the next word became.
    """
    words_of_source, words_of_target, weights = sentence.weights or proportional_weights(source, sentence.text)
    columns, words = list(words_of_source), [sentence.text[start:end] for start, end in words_of_target]
    edges = [0, *chain.from_iterable(words_of_target), len(sentence.text)]
    spaces = [sentence.text[first:last] for first, last in zip(edges[::2], edges[1::2], strict=True)]  # before a word
    for match in UNITS.finditer(source):
        unit, before, after = match[0], source[: match.start()], source[match.end() :]
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
        if CLOSING.match(after.lstrip("'’")) and not CLOSING.match(following):  # but {name}'s may become {name}s
            spaces[row + 1] = " "
        previous = "".join(words[max(row - 1, 0) : row]) + spaces[row]
        if before[-1:].isspace() and not OPENING.match(previous[-1:]):
            spaces[row] = " "
    text, new = "", []
    for space, word in zip(spaces, [*words, ""], strict=True):
        new.append((len(text + space), len(text + space + word)))
        text += space + word
    return text, WordWeights(columns, new[:-1], weights)


def row_of_unit(weights: np.ndarray, index: int, after: bool) -> int:
    """Before which target word a unit goes that is source word `index`: by the next word, or `after` the one before."""
    column = index - 1 if after else index + 1
    if not 0 <= column < weights.shape[1] or not weights.size:
        return 0 if column < 0 else len(weights)
    return int(weights[:, column].argmax()) + after


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

    @property
    def whole(self) -> str:
        """Without words."""
        return "".join([self.open, *(child.whole for child in self.children), self.close])


def tag_tree(segment: Segment, words: Sequence[Span]) -> list[Node]:
    """The tags inside each other, between words; one without its partner is a point, and a pair without a word too."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    tags, partners = segment.tags, find_partners(segment.tags)

    def tree(index: int, stop: int) -> list[Node]:
        nodes = []
        while index < stop:
            tag, partner = tags[index], partners.get(index)
            kind = TagKind.POINT if partner is None and tag.kind != TagKind.BREAK else tag.kind
            before, after = segment.text[: tag.position][-1:], segment.text[tag.position :][:1]
            node = Node(kind, written(tag.parts), first=bisect_right(ends, tag.position))
            if partner is not None:
                node.children, node.close = tree(index + 1, partner), written(tags[partner].parts)
                node.last = bisect_left(starts, tags[partner].position)
                index = partner
            if node.is_pair and node.last <= node.first:
                node = Node(TagKind.POINT, node.whole, first=node.first)
            elif kind == TagKind.POINT:
                is_glued = bool(before.strip()) and not after.isalnum() and not node.open[:1].isspace()
                node.after = tag.kind == TagKind.CLOSE or (is_glued and tag.kind == TagKind.POINT)
                node.first = bisect_left(starts, tag.position) if node.after else node.first
            nodes.append(node)
            index += 1
        return nodes

    return tree(0, len(tags))


def find_partners(tags: Sequence[Tag]) -> dict[int, int]:
    """The index of the end of each pair by that of its beginning; pairs do not cross."""
    opened, partners = list[int](), {}
    for index, tag in enumerate(tags):
        if tag.kind == TagKind.OPEN and len(opened) < DEEPEST:
            opened.append(index)
        elif tag.kind == TagKind.CLOSE and tag.name in (tags[each].name for each in opened):
            while tags[beginning := opened.pop()].name != tag.name:
                pass
            partners[beginning] = index
    return partners


@dataclass
class Placement:
    """Finds the target words of nodes; which words are punctuation, and before which target words a line may end."""

    weights: np.ndarray  # [T S]; a row sums to 1 at most
    source_marks: list[bool]
    target_marks: list[bool]
    breakable: np.ndarray

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
        before, after = self.weights[low:high, source[0] : word], self.weights[low:high, word : source[1]]
        gains = np.append(0, np.cumsum(before.sum(1) - after.sum(1)))
        possible = np.arange(low + 1, max(low + 2, high - remaining))
        allowed = possible[self.breakable[possible]]
        possible = allowed if allowed.size else possible
        return int(possible[np.argmax(gains[possible - low])])

    def place_group(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Pairs and points between two breaks: the clearest pair first, then what is inside, then points."""
        pairs = [node for node in nodes if node.is_pair]
        free = [region]
        for node in sorted(pairs, key=lambda pair: -self.clearest(pair, *region)[0]):
            node.start, node.stop = self.best_span(node, free, source)
            start, stop = node.start, node.stop
            free = [
                part
                for low, high in free
                for part in ([(low, start), (stop, high)] if low <= start < stop <= high else [(low, high)])
            ]
        for node in pairs:
            self.place(node.children, (node.start, node.stop), (node.first, node.last))
        for node in nodes:
            if not node.is_pair:
                node.start = node.stop = self.point(node, region, source)
                for pair in pairs:
                    if pair.start < node.start < pair.stop:
                        node.start = node.stop = pair.start if node.first <= pair.first else pair.stop
                node.after |= node.start == region[1]

    def clearest(self, node: Node, low: int, high: int) -> tuple[float, int, int]:
        """Which of the target words [low, high) come from the source words of a pair, by the sum above THRESHOLD."""
        total, start, stop = best_sum(self.weights[low:high, node.first : node.last].sum(1) - THRESHOLD)
        return total, low + start, low + stop

    def best_span(self, node: Node, free: Sequence[Region], source: Region) -> Region:
        """The target words of a pair among those that are free; none only where all are taken.

        Punctuation is at its edges only where the source has some there.
        """
        if len(free) == 1 and (node.first, node.last) == source:
            return free[0]
        spans = [self.clearest(node, low, high) for low, high in free if low < high]
        if not spans:
            return free[0][0], free[0][0]
        _, start, stop = max(spans, key=lambda span: span[0])
        while stop - start > 1 and self.target_marks[stop - 1] and not self.source_marks[node.last - 1]:
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
        return self.best_span(Node(TagKind.OPEN, "", first=word, last=word + 1), [region], (-1, -1))[node.after]


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


def render(nodes: Sequence[Node], text: str, words: Sequence[Span], escape: Callable[[str], str] = str) -> str:
    """A text with these nodes between its words, from left to right; of those at one place a point is before a pair."""
    edges = [0, *chain.from_iterable(words), len(text)]
    spaces = [text[first:last] for first, last in zip(edges[::2], edges[1::2], strict=True)]  # before each word
    left, right = [""] * len(spaces), [""] * len(spaces)  # markup before and after these

    def add(siblings: Sequence[Node]) -> None:
        for node in sorted(siblings, key=lambda node: (node.start, node.stop)):
            if node.start < node.stop:
                right[node.start] += node.open
                add(node.children)
                left[node.stop] += node.close
            else:
                is_break = node.kind == TagKind.BREAK
                is_left = (is_break or node.after) and not right[node.start]
                (left if is_left else right)[node.start] += node.whole
                spaces[node.start] = "" if is_break else spaces[node.start]

    add(nodes)
    pieces: list[tuple[bool, str]] = []  # and whether it is markup
    for index, (start, end) in enumerate([*words, (len(text), len(text))]):
        pieces += [(True, left[index]), (False, spaces[index]), (True, right[index]), (False, text[start:end])]
    groups = groupby((piece for piece in pieces if piece[1]), lambda piece: piece[0])
    joined = [(is_markup, "".join(piece for _, piece in group)) for is_markup, group in groups]
    return "".join(piece if is_markup else escape(piece) for is_markup, piece in joined)
