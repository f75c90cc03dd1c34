"""A translated sentence with its tags, as it is written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nmt.data.words import SPACELESS, Span
from nmt.decode.long_lines import SENTENCE_ENDS
from nmt.documents.links import WordLinks, proportional_links
from nmt.documents.placement import Node, Placement
from nmt.documents.segment import UNITS, Part, Segment, Tag, TagKind, nested_segments
from nmt.documents.tag_tree import by_sentence, tag_tree, to_words

SENTENCE_MARKS = tuple(".!?…。！？")


class TranslatedSentence(NamedTuple):
    """The translation of a sentence; its word links where they were asked for."""

    text: str
    links: WordLinks | None = None


@dataclass
class TranslatedSegment:
    """A segment with its sentences, and what became of them."""

    segment: Segment
    sentences: list[Span]
    translated: list[TranslatedSentence] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The sentences."""
        return [self.segment.text[start:end] for start, end in self.sentences]

    def is_linked(self, sentence: Span) -> bool:
        """Whether a sentence has tags, or units that may get lost."""
        index = bisect_left(self.sentences, sentence)
        start = self.sentences[index - 1][1] if index else 0
        end = self.sentences[index + 1][0] if index + 1 < len(self.sentences) else len(self.segment.text)
        first = bisect_left(self.segment.tags, start, key=lambda tag: tag.position)
        inside = first < len(self.segment.tags) and self.segment.tags[first].position <= end
        return inside or bool(UNITS.search(self.segment.text, start, end))

    def write(self, nested: Mapping[int, str]) -> str:
        """The translation with its tags; a segment whose text did not change stays as it was written.

        `nested`: the written segments inside its tags, by their id.
        """
        inner = [each for each in nested_segments(self.segment) if each is not self.segment]
        unchanged = all(text == new.text for text, new in zip(self.texts, self.translated, strict=True))
        if unchanged and all(nested[id(each)] == each.raw for each in inner):
            return self.segment.raw

        def written(parts: list[Part]) -> str:
            return "".join(part if isinstance(part, str) else nested[id(part)] for part in parts)

        lost = self.lost_units()
        tags = [*self.segment.tags, *lost.values()]
        tree = tag_tree(self.segment.text, sorted(tags, key=lambda tag: tag.position), written)
        units = {each: written(parts) for each, parts in self.segment.units.items() if each not in lost}

        def write_text(text: str) -> str:
            return UNITS.sub(lambda match: units.pop(match[0], ""), self.segment.escape(text))

        result, broken = "", True
        for span, sentence, nodes in zip(
            self.sentences, self.translated, by_sentence(tree, self.sentences), strict=True
        ):
            sentence = without_words(sentence, lost)
            placed, words = place_nodes(nodes, span[0], self.segment.text[slice(*span)], sentence)
            text = Renderer(sentence.text, words, write_text).render(placed)
            broken = broken or any(node.kind == TagKind.BREAK and node.start == 0 for node in placed)
            result += f" {text}" if text and not broken and are_spaced(result, text) else text
            broken = any(node.kind == TagKind.BREAK and node.start == len(words) for node in placed)
        return self.segment.layout(result.rstrip(" ") if lost else result)

    def lost_units(self) -> dict[str, Tag]:
        """A point for each unit that its translation does not have, or only after its end."""
        lost = {}
        for (start, end), sentence in zip(self.sentences, self.translated, strict=True):
            for match in UNITS.finditer(self.segment.text, start, end):
                at = sentence.text.find(match[0])
                if at < 0 or (sentence.text[:at].rstrip()[-1:] in SENTENCE_MARKS and match.end() < end - 1):
                    spaced = self.segment.text[match.end() : match.end() + 1] == " "
                    parts = [*self.segment.units[match[0]], *([" "] if spaced else [])]
                    lost[match[0]] = Tag(TagKind.POINT, match.start(), parts)
        return lost


def without_words(sentence: TranslatedSentence, characters: Collection[str]) -> TranslatedSentence:
    """The sentence without links of the words that are these characters."""
    if not characters or sentence.links is None:
        return sentence
    target = sentence.links.target
    kept = [target.text[start:end] not in characters for start, end in target.words]
    return sentence._replace(links=sentence.links._replace(weights=sentence.links.weights * np.array(kept)[:, None]))


def place_nodes(
    nodes: Sequence[Node], start: int, source_text: str, sentence: TranslatedSentence
) -> tuple[list[Node], list[Span]]:
    """The nodes of a sentence, which begins at character `start`, between the words of its translation; these words."""
    if not nodes:
        return [], []
    source, target, weights = sentence.links or proportional_links(source_text, sentence.text)
    placed = to_words(nodes, start, source.words)
    Placement(weights, source.marks, target.marks, target.breakable).place(placed)
    return placed, target.words


def are_spaced(left: str, right: str) -> bool:
    """Whether a space stands between two sentences."""
    return bool(left) and not SPACELESS.search(left[-1] + right[0]) and left[-1] not in SENTENCE_ENDS


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
            if node.kind == TagKind.BREAK:
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
