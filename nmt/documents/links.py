"""Which words of a translation come from which words of its source: the weights by which tags are put back.

S source words, T target words. The weights are attention under forced decoding. A guided head is mixed with the mean
of the last layer, which is less certain of words that have no counterpart. Without one, the weights are the squared
mean of the two upper layers: squares keep many small weights from adding up (docs/guides/documents.md). In a
model without attention, a word comes from the words at the same share of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from nmt.config.schema import TrainConfig
from nmt.data.words import SPACELESS, Span, WordPair, piece_spans, word_fractions, word_spans
from nmt.decode.forced_decoding import AttentionRecord
from nmt.documents.segment import UNITS
from nmt.evaluate.extraction import DECODER_STEPS, Extractor, default_extractor
from nmt.models.base import EncoderDecoder

GUIDED_SHARE = 0.6  # of the guided head in the weights


class WordLinks(NamedTuple):
    """The words of a sentence and of its translation, and the weights [T S] between them."""

    source: list[Span]
    target: list[Span]
    weights: np.ndarray  # a row sums to 1, or to 0 where nothing is known of the word


@dataclass(frozen=True)
class LinkReader:
    """Which weights of a model are read: a mean of extractors by their shares, raised to a power between words."""

    extractors: Sequence[tuple[Extractor, float]]
    power: float = 1.0

    @classmethod
    def of_run(cls, train: TrainConfig, model: EncoderDecoder) -> LinkReader:
        """The one for a trained model with attention."""
        if not train.guided_alignment:
            return cls.of_extractor(Extractor((-2, -1) if model.num_layers > 1 else -1))
        guided = default_extractor(train, model)
        if model.num_layers == 1:
            return cls([(guided, 1.0)])
        return cls([(guided, GUIDED_SHARE), (Extractor(-1), 1 - GUIDED_SHARE)])

    @classmethod
    def of_extractor(cls, extractor: Extractor) -> LinkReader:
        """The one for weights that were not trained with links."""
        return cls([(extractor, 1.0)], power=2.0)

    def read(self, record: AttentionRecord) -> np.ndarray:
        """[target pieces, source pieces]: each row sums to 1."""
        height, width = len(record.target_pieces), len(record.source_pieces)
        total = np.zeros((height, width))
        for extractor, share in self.extractors:
            weights = record.read(extractor.method, extractor.layer, extractor.head)
            total += share * normalized(weights[DECODER_STEPS[extractor.decoder_step] :][:height, :width])
        return total


def normalized(matrix: np.ndarray) -> np.ndarray:
    """The matrix with rows that sum to 1; a row of zeros stays."""
    rows: np.ndarray = matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-9)
    return rows


def attention_links(records: Sequence[AttentionRecord], reader: LinkReader, source: str, target: str) -> WordLinks:
    """From the records of a sentence, of each part where it was translated in parts."""
    of_source = locate([piece for record in records for piece in record.source_pieces], source)
    of_target = locate([piece for record in records for piece in record.target_pieces], target)
    weights = np.zeros((len(of_target), len(of_source) + 1))
    row = column = 0
    for record in records:
        read = reader.read(record)
        (height, width) = read.shape
        weights[row : row + height, column : column + width] = read
        row, column = row + height, column + width
    words = whole_words(source, of_source), whole_words(target, of_target)
    fractions = [word_fractions(pieces, spans) for pieces, spans in zip((of_source, of_target), words, strict=True)]
    matrix = WordPair([], [], *fractions).merge(weights)[:, :-1]
    return WordLinks(*words, normalized(normalized(matrix) ** reader.power))


def proportional_links(source: str, target: str) -> WordLinks:
    """Of a model without attention: a word comes from the words at the same share of the text."""
    words = whole_words(source), whole_words(target)
    edges = [np.linspace(0, 1, len(spans) + 1) for spans in words]
    overlap = np.minimum.outer(edges[1][1:], edges[0][1:]) - np.maximum.outer(edges[1][:-1], edges[0][:-1])
    return WordLinks(*words, normalized(np.clip(overlap, 0, None)))


def whole_words(text: str, pieces: Sequence[Span] = ()) -> list[Span]:
    """The words of a text; a unit is one word, and so is a piece, without pieces a character, where none are spaced."""
    spans: list[Span] = []
    for start, end in word_spans(text):
        edges = {start, end}
        edges.update(at for match in UNITS.finditer(text, start, end) for at in match.span())
        if SPACELESS.search(text, start, end):
            edges.update([at for span in pieces for at in span if start < at < end] or range(start, end))
        ordered = sorted(edges)
        spans += zip(ordered, ordered[1:], strict=False)
    return spans


def locate(pieces: list[str], text: str) -> list[Span]:
    """The span of each piece in the text as it was given, which the tokenizer may have changed in single characters."""
    spelt, spans = piece_spans(pieces)
    if spelt == text:
        return spans
    at = np.full(len(spelt) + 1, -1)
    matcher = SequenceMatcher(None, spelt.lower(), text.lower(), autojunk=False)
    if len(spelt.lower()) != len(spelt) or len(text.lower()) != len(text):  # İ has two characters in small letters
        matcher = SequenceMatcher(None, spelt, text, autojunk=False)
    for start, other, size in matcher.get_matching_blocks():
        at[start : start + size + 1] = np.arange(other, other + size + 1)
    at[0], at[-1] = 0, len(text) if at[-1] < 0 else at[-1]
    known = np.flatnonzero(at >= 0)
    at = np.maximum.accumulate(np.interp(np.arange(len(at)), known, at[known]).round().astype(int))
    return [(int(at[start]), int(at[end])) for start, end in spans]
