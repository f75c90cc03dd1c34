"""Puts the tags of a segment back into its translation, by the attention between their words.

A segment comes as plain text, with a list of its tags and their positions: <b>, </b>, an image, a
line break. The model translates the text alone. This module decides where the tags go in the
translation, and it has for that the word weights [T S]: how much of each of T target words comes
from each of S source words. A row sums to 1. The words of all sentences of a segment stand in one
row.

`put_back` takes these steps:

1. `with_units` puts back the units, such as %s or `code`, that a translated sentence has lost.
2. `tag_tree` makes a tree of the tags. A pair, such as <b>…</b>, is around source words and may
   contain other nodes. A point, such as an image, and a break are between source words.
3. `Placement` finds target words for each node, from the outside in. The weights of a target word
   on the source words of a pair are summed, and THRESHOLD is subtracted: what is left is positive
   if the word rather belongs to the pair. The pair goes around the contiguous target words with the
   largest total, so a single wrong weight does not move it. Breaks are placed first, then the pairs
   between two breaks, then the points. A node stays inside its parent, and siblings share no words,
   so no tag is lost and pairs never cross.
4. `render` writes the tags between the target words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from nmt.corpus.words import SPACELESS, SPACELESS_ENDS, Span, is_punctuation
from nmt.documents.segment import MARK, UNITS, Kind, Segment, find_partners, written
from nmt.documents.word_weights import WordWeights, proportional_weights

THRESHOLD = 0.5  # a target word with more than this from the words of a pair belongs to the pair
# A unit needs no space before CLOSING, and none after OPENING.
CLOSING = re.compile(r"$|[\s.,;:!?…)\]}»”’\"'。，！？]")
OPENING = re.compile(r"$|[\s(\[{«“„‘\"'¿¡-]")
END_MARKS = tuple(".!?…。！？")
# What a sentence has not: line ends, control characters, no characters. A model that spells words
# by their bytes may write them, and so may a translation memory.
NO_TEXT = re.compile(r"[\x00-\x1f\x7f\x85\ufdd0-\ufdef\ufffe\uffff]")
Region = tuple[int, int]  # words [first, last)


class TranslatedSentence(NamedTuple):
    """The translation of a sentence, with word weights and unsure words if they were asked for.

    faults: why somebody should read it; None: nobody has estimated its quality.
    """

    text: str
    weights: WordWeights | None = None
    unsure: list[str] | None = None
    has_changed_spans: bool = False  # Translation.changed_spans
    faults: list[str] | None = None

    @property
    def needs_review(self) -> bool:
        """Whether somebody should read it: by its faults, else by its unsure words."""
        return bool(self.unsure if self.faults is None else self.faults)


def put_back(
    segment: Segment, spans: Sequence[Span], sentences: Sequence[TranslatedSentence]
) -> str:
    """The translation of a segment as it is written, with its tags and units.

    `spans`: where each of the sentences is in the text of the segment.
    """
    text = ""
    source = list[Span]()
    target = list[Span]()
    blocks = []
    sentence_starts = set[int]()
    for (start, end), sentence in zip(spans, sentences, strict=True):
        new, words = with_units(segment.text[start:end], sentence)
        # Between two sentences is a space, if their scripts have spaces
        if (
            text
            and new
            and text[-1] not in SPACELESS_ENDS
            and not SPACELESS.search(text[-1] + new[0])
        ):
            text += " "
        sentence_starts.add(len(text))
        source += shifted(words.source, start)
        target += shifted(words.target, len(text))
        blocks.append(words.weights)
        text += new

    nodes = tag_tree(segment, source)
    if nodes:
        breakable = []
        for at, _ in target:
            between_words = text[at - 1].isspace() or bool(SPACELESS.match(text, at))
            breakable.append(at in sentence_starts or between_words)
        placement = Placement(
            SentenceWeights(blocks),
            punctuation_marks(segment.text, source),
            punctuation_marks(text, target),
            np.array(breakable, bool),
        )
        placement.place(nodes, (0, len(target)), (0, len(source)))

    def escape(plain: str) -> str:
        return segment.escape(plain).replace(MARK, "(?)")

    new = render(nodes, text, target, escape)
    units = {character: written(parts) for character, parts in segment.units.items()}
    # The first of each unit is written; a model may have copied it twice.
    new = UNITS.sub(lambda match: units.pop(match[0], ""), new)
    return segment.layout(new)


def shifted(words: Sequence[Span], offset: int) -> list[Span]:
    return [(start + offset, end + offset) for start, end in words]


def punctuation_marks(text: str, words: Sequence[Span]) -> list[bool]:
    """Which of the words are punctuation."""
    return [end - start == 1 and is_punctuation(text[start]) for start, end in words]


def with_units(source: str, sentence: TranslatedSentence) -> tuple[str, WordWeights]:
    """The translation of a sentence with each of its units, and its word weights.

    Around a unit are the spaces that the source has. A unit that the translation does not have, or
    has after its last mark, goes before the target word that comes most from the next source word.
    """
    translation = NO_TEXT.sub(" ", sentence.text)
    words_of_source, words_of_target, weights = sentence.weights or proportional_weights(
        source, translation
    )
    columns = list(words_of_source)
    words = [translation[start:end].strip() for start, end in words_of_target]
    spaces = spaces_between(translation, words_of_target)
    # Behind the sign of a heading, a space of any width would be its first word
    spaces[0] = ""
    spaces[-1] = ""
    for match in UNITS.finditer(source):
        unit = match[0]
        before = source[: match.start()]
        after = source[match.end() :]

        # A column for the unit, if the model has not seen it
        column = bisect_left(columns, match.span())
        if match.span() not in columns:
            columns.insert(column, match.span())
            weights = np.insert(weights, column, 0, 1)

        # A row for the unit
        row = words.index(unit) if unit in words else -1
        is_last = 0 < row == len(words) - 1
        if is_last and after.strip() and words[row - 1].endswith(END_MARKS):
            weights = np.delete(weights, row, 0)
            del words[row]
            del spaces[row]
            row = -1
        if row < 0:
            is_glued = bool(before.strip()) and not before[-1:].isspace()
            row = row_of_unit(weights, column, is_glued and after[:1] in "., ")
            words.insert(row, unit)
            spaces.insert(row if is_glued and row else row + 1, "")
            weights = np.insert(weights, row, 0, 0)

        # The unit comes from itself alone, so that tags around nothing but a unit stay around it
        weights[row] = 0
        weights[:, column] = 0
        weights[row, column] = 1

        # Spaces, but {name}'s may become {name}s
        following = spaces[row + 1] + "".join(words[row + 1 : row + 2])
        if CLOSING.match(after.lstrip("'’")) and not CLOSING.match(following):
            spaces[row + 1] = " "
        previous = "".join(words[max(row - 1, 0) : row]) + spaces[row]
        if before[-1:].isspace() and not OPENING.match(previous[-1:]):
            spaces[row] = " "

    text = ""
    new_words = list[Span]()
    for space, word in zip(spaces, words, strict=False):
        text += space
        new_words.append((len(text), len(text) + len(word)))
        text += word
    return text + spaces[-1], WordWeights(columns, new_words, weights)


def spaces_between(text: str, words: Sequence[Span]) -> list[str]:
    """What is before each word of a text, and after the last one."""
    starts = [start for start, _ in words]
    ends = [end for _, end in words]
    return [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]


def row_of_unit(weights: np.ndarray, column: int, after: bool) -> int:
    """The row for a unit that is the source word `column`.

    It is before the target word of the next source word or, with `after`, behind the target word of
    the previous one.
    """
    neighbour = column - 1 if after else column + 1
    if neighbour >= weights.shape[1] or not weights.size:
        return len(weights)
    return int(weights[:, neighbour].argmax()) + after


@dataclass
class Node:
    """A pair of tags with its children, a point, or a break."""

    kind: Kind  # OPEN: a pair
    open: str
    close: str = ""
    # A pair is around the source words [first, last); a point or a break is before word `first`.
    first: int = 0
    last: int = 0
    children: list[Node] = field(default_factory=list)
    after: bool = False  # a point that belongs to the word before it
    begins_block: bool = False  # a point before which there is a word, where its source has one
    # Target words [start, stop), found by Placement; start == stop: between two words.
    start: int = 0
    stop: int = 0

    @property
    def is_pair(self) -> bool:
        return self.kind == Kind.OPEN

    @property
    def whole(self) -> str:
        """The node as it is written where there are no words in it."""
        return "".join([self.open, *(child.whole for child in self.children), self.close])


def tag_tree(segment: Segment, words: Sequence[Span]) -> list[Node]:
    """The tags of a segment as nodes inside each other, between its words.

    A tag without its partner is a point, and so is a pair without a word.
    """
    starts = [start for start, _ in words]
    ends = [end for _, end in words]
    tags = segment.tags
    partners = find_partners(tags)

    def tree(index: int, stop: int) -> list[Node]:
        nodes = list[Node]()
        glued_at = -1  # the position of the last point that belongs to the word before it
        while index < stop:
            tag = tags[index]
            partner = partners.get(index)
            node = Node(tag.kind, written(tag.parts), first=bisect_right(ends, tag.position))
            if partner is not None:
                closing = tags[partner]
                node.children = tree(index + 1, partner)
                node.close = written(closing.parts)
                node.last = bisect_left(starts, closing.position)
                if node.last <= node.first or closing.position == tag.position:
                    node = Node(Kind.POINT, node.whole, first=node.first)
                index = partner
            elif tag.kind != Kind.BREAK:
                node.kind = Kind.POINT
                node.begins_block = tag.begins_block
                # Whether it follows a word without a space, and no word follows it in this way
                before = segment.text[max(tag.position - 1, 0) : tag.position]
                after = segment.text[tag.position : tag.position + 1]
                is_glued = bool(before.strip()) and not after.isalnum()
                is_glued = is_glued and not node.open[:1].isspace()
                if index and tags[index - 1].position == tag.position:
                    is_glued = is_glued and glued_at == tag.position
                node.after = tag.kind == Kind.CLOSE or (is_glued and tag.kind == Kind.POINT)
                glued_at = -1
                if node.after:
                    glued_at = tag.position
                    node.first = bisect_left(starts, tag.position)
            nodes.append(node)
            index += 1
        return nodes

    return tree(0, len(tags))


class SentenceWeights:
    """The word weights [T S] of sentences that follow each other.

    No word comes from another sentence, so only the block of each sentence is stored.
    """

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = blocks
        # Where the target words, and the source words, of each sentence begin.
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
    """Finds the target words of nodes.

    The time for a node grows with its own sentences, not with the whole segment.
    """

    weights: SentenceWeights
    source_marks: list[bool]  # which source words are punctuation
    target_marks: list[bool]
    breakable: np.ndarray  # before which target words a line may end

    def place(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Set `start` and `stop` of the nodes of a parent.

        `region` has the target words of the parent, `source` its source words. Each break divides
        both, and the nodes between two breaks are a group.
        """
        remaining = sum(node.kind == Kind.BREAK for node in nodes)
        first = region[0]
        left = source[0]
        group: list[Node] = []
        for node in nodes:
            if node.kind != Kind.BREAK:
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
        """The target word before which a line ends that ends before the source word `word`.

        `remaining` lines end later; each line gets a word if there are enough.
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
        # Only the sentences of the two words beside the break decide.
        near = self.weights.reach(word - 1, word + 1)
        start = min(max(near[0], low), high - 1)
        stop = max(min(near[1], high), start + 1)
        before = self.weights.sums((start, stop), (source[0], word))
        after = self.weights.sums((start, stop), (word, source[1]))
        # What is gained if the line ends before each of these words
        gains = np.append(0, np.cumsum(before - after))

        # The places that leave words for the other lines, and where a line may end
        lowest = max(start, low + 1)
        highest = min(stop, max(low + 1, high - remaining - 1))
        possible = np.arange(min(lowest, highest), highest + 1)
        allowed = possible[self.breakable[np.minimum(possible, len(self.breakable) - 1)]]
        possible = allowed if allowed.size else possible
        best = np.argmax(gains[np.clip(possible - start, 0, len(gains) - 1)])
        return int(possible[best])

    def place_group(self, nodes: Sequence[Node], region: Region, source: Region) -> None:
        """Place the pairs and points between two breaks."""
        # The pairs, the one with the largest sum first
        pairs = [node for node in nodes if node.is_pair]
        free = Free(region)
        for node in sorted(pairs, key=lambda pair: -self.clearest(pair, *region)[0]):
            node.start, node.stop = self.best_span(node, free, source)
            free.take(node.start, node.stop)

        # What is inside them
        for node in pairs:
            self.place(node.children, (node.start, node.stop), (node.first, node.last))

        # The points; one that would be inside a pair goes beside it
        in_order = sorted(pairs, key=lambda pair: (pair.start, pair.stop))
        starts = [pair.start for pair in in_order]
        for node in nodes:
            if node.is_pair:
                continue
            place = self.point(node, region, source)
            is_inside = node.begins_block and node.first > source[0]
            if is_inside and place == region[0] < region[1]:
                place += 1
            index = bisect_left(starts, place) - 1  # the last pair that begins before it
            if index >= 0 and place < in_order[index].stop:
                pair = in_order[index]
                is_before = node.first <= pair.first and not (is_inside and pair.start == region[0])
                place = pair.start if is_before else pair.stop
            node.start = place
            node.stop = place
            node.after |= place == region[1]

    def clearest(self, node: Node, low: int, high: int) -> tuple[float, int, int]:
        """The words among the target words [low, high) that come from the source words of a pair.

        Returns the sum of their weights above THRESHOLD, their start and their stop.
        """
        reach = self.weights.reach(node.first, node.last)
        start = max(low, min(reach[0], high - 1))
        stop = max(min(high, reach[1]), min(start + 1, high))
        gains = self.weights.sums((start, stop), (node.first, node.last)) - THRESHOLD
        total, first, last = best_sum(gains)
        return total, start + first, start + last

    def best_span(self, node: Node, free: Free, source: Region) -> Region:
        """The target words of a pair among the free ones; none only if all are taken.

        It has punctuation at an edge only if the source has some there.
        """
        if free.parts == [free.region] and (node.first, node.last) == source:
            return free.region
        parts = free.near(*self.weights.reach(node.first, node.last))
        spans = [self.clearest(node, low, high) for low, high in parts]
        if not spans:
            return free.region[0], free.region[0]
        _, start, stop = max(spans, key=lambda span: span[0])
        if not self.source_marks[node.last - 1]:
            while stop - start > 1 and self.target_marks[stop - 1]:
                stop -= 1
        if not self.source_marks[node.first]:
            while stop - start > 1 and self.target_marks[start]:
                start += 1
        return start, stop

    def point(self, node: Node, region: Region, source: Region) -> int:
        """The target word before which a point goes.

        It is where a pair around the next source word would begin, or where one around the previous
        source word would end.
        """
        word = node.first - node.after
        if word >= source[1]:
            return region[1]
        if region[0] == region[1] or word < source[0] or (word == source[0] and not node.after):
            return region[0]
        pair = Node(Kind.OPEN, "", first=word, last=word + 1)
        start, stop = self.best_span(pair, Free(region), (-1, -1))
        return stop if node.after else start


class Free:
    """The target words of a region that no pair has taken yet, as parts from left to right."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.parts = [region] if region[0] < region[1] else []

    def near(self, low: int, high: int) -> list[Region]:
        """The parts that have some of the words [low, high); without any, their neighbours."""
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


def best_sum(gains: np.ndarray) -> tuple[float, int, int]:
    """The contiguous, non-empty part with the largest sum (Kadane): its sum, start and stop."""
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
    """A text with these nodes between its words; at one place a point is before a pair."""
    spaces = spaces_between(text, words)
    left: list[list[str]] = [[] for _ in spaces]  # markup before each of the spaces
    right: list[list[str]] = [[] for _ in spaces]  # and after it

    def add(siblings: Sequence[Node]) -> None:
        for node in sorted(siblings, key=lambda node: (node.start, node.stop)):
            if node.start < node.stop:
                right[node.start].append(node.open)
                add(node.children)
                left[node.stop].append(node.close)
                continue
            is_break = node.kind == Kind.BREAK
            is_left = (is_break or node.after) and not any(right[node.start])
            side = left if is_left else right
            side[node.start].append(node.whole)
            if is_break:
                spaces[node.start] = ""

    add(nodes)

    # Text without markup in between is escaped at one go: a sign may need it for its neighbour.
    result = list[str]()
    waiting = ""
    for index, (start, end) in enumerate([*words, (len(text), len(text))]):
        for markup, plain in ((left, spaces[index]), (right, text[start:end])):
            raw = "".join(markup[index])
            if raw:
                result += [escape(waiting), raw] if waiting else [raw]
                waiting = ""
            waiting += plain
    if waiting:
        result.append(escape(waiting))
    return "".join(result)
