"""Which source words each word of a translation comes from: the weights that put tags back.

S source words, T target words. The weights are attention under forced decoding. A guided head is
mixed with the mean of the last layer, which is less certain of words that have no counterpart.
Without one, the weights are the squared mean of the two upper layers: squares keep many small
weights from adding up (docs/guides/documents.md). In a model without attention, a word comes from
the words at the same share of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch

from nmt.config.schema import TrainConfig
from nmt.corpus.words import SPACELESS, Span, WordPair, piece_spans, word_fractions, word_spans
from nmt.decode.forced_decoding import AttentionRecord
from nmt.documents.segment import UNITS
from nmt.evaluate.extraction import DECODER_STEPS, Extractor, default_extractor
from nmt.models.base import EncoderDecoder

GUIDED_SHARE = 0.6  # of the guided head in the weights
UNIT_OR_SIGN = re.compile(f"{UNITS.pattern}|(?<=[^\\W\\d_])[/–—…](?=[^\\W\\d_])")


class WordWeights(NamedTuple):
    """The words of a sentence and of its translation, and the weights [T S] between them."""

    source: list[Span]
    target: list[Span]
    weights: np.ndarray  # a row sums to 1, or to 0 where nothing is known of the word


@dataclass(frozen=True)
class WeightReader:
    """Reads the weights of a model: the mean of some extractors, by their shares.

    Between words the mean is raised to a power: 2 if the model was not trained with links.
    """

    extractors: Sequence[tuple[Extractor, float]]
    power: float = 2.0

    @classmethod
    def of_run(cls, train: TrainConfig, model: EncoderDecoder) -> WeightReader:
        """The reader for a trained model with attention."""
        has_layers = model.num_layers > 1
        if not train.guided_alignment:
            return cls([(Extractor((-2, -1) if has_layers else -1), 1.0)])
        guided = default_extractor(train, model)
        share = GUIDED_SHARE if has_layers else 1.0
        return cls([(guided, share), (Extractor(-1), 1 - share)], power=1.0)

    def read(self, records: Sequence[AttentionRecord], source: str, target: str) -> WordWeights:
        """The weights of a sentence; it has several records if it was translated in parts."""
        source_pieces: list[str] = []
        target_pieces: list[str] = []
        for record in records:
            source_pieces += record.source_pieces
            target_pieces += record.target_pieces
        source_spans = locate(source_pieces, source)
        target_spans = locate(target_pieces, target)
        source_words = whole_words(source, source_spans)
        target_words = whole_words(target, target_spans)
        pair = WordPair(
            [],
            [],
            word_fractions(source_spans, source_words),
            word_fractions(target_spans, target_words),
        )

        # Between pieces [target pieces, source pieces], with a column for </s>
        blocks = [self.read_pieces(record) for record in records]
        diagonal = torch.block_diag(*map(torch.from_numpy, blocks)).numpy()
        weights = np.pad(diagonal, ((0, 0), (0, 1)))
        # Between words [T S]
        weights = normalized(pair.merge(weights)[:, :-1])
        return WordWeights(source_words, target_words, normalized(weights**self.power))

    def read_pieces(self, record: AttentionRecord) -> np.ndarray:
        """[target pieces, source pieces]: each row sums to 1."""
        height = len(record.target_pieces)
        width = len(record.source_pieces)
        total = np.zeros((height, width))
        for extractor, share in self.extractors:
            weights = record.weight_table(extractor.method, extractor.layer, extractor.head)
            first = DECODER_STEPS[extractor.decoder_step]
            total += share * normalized(weights[first : first + height, :width])
        return total


def normalized(matrix: np.ndarray) -> np.ndarray:
    """The matrix with rows that sum to 1; a row of zeros stays."""
    rows: np.ndarray = matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-9)
    return rows


def proportional_weights(source: str, target: str) -> WordWeights:
    """Of a model without attention: a word comes from the words at the same share of the text."""
    source_words = whole_words(source)
    target_words = whole_words(target)
    source_edges = np.linspace(0, 1, len(source_words) + 1)
    target_edges = np.linspace(0, 1, len(target_words) + 1)
    # How much of the text both words have [T S]
    ends = np.minimum.outer(target_edges[1:], source_edges[1:])
    starts = np.maximum.outer(target_edges[:-1], source_edges[:-1])
    overlap = np.clip(ends - starts, 0, None)
    return WordWeights(source_words, target_words, normalized(overlap))


def whole_words(text: str, pieces: Sequence[Span] = ()) -> list[Span]:
    """The words of a text; a unit is one word, and so is / or a dash between two words.

    In a script without spaces a piece is one word, and a character without pieces.
    """
    piece_edges = sorted(set(chain.from_iterable(pieces)))
    words: list[Span] = []
    for start, end in word_spans(text):
        edges = {start, end}
        for unit in UNIT_OR_SIGN.finditer(text, start, end):
            edges.update(unit.span())
        if SPACELESS.search(text, start, end):
            inside = piece_edges[bisect_right(piece_edges, start) : bisect_left(piece_edges, end)]
            edges.update(inside or range(start, end))
        words += pairwise(sorted(edges))
    return words


def locate(pieces: list[str], text: str) -> list[Span]:
    """The span of each piece in the text as it was given.

    The tokenizer may have changed single characters of that text.
    """
    spelt, spans = piece_spans(pieces)
    if spelt == text:
        return spans
    first = spelt.lower()
    second = text.lower()
    if (len(first), len(second)) != (len(spelt), len(text)):  # İ has two characters if lowered
        first = spelt
        second = text

    # The place in the text of each place in what the pieces spell, where both are the same
    places = np.full(len(spelt) + 1, -1)
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for start, other, size in matcher.get_matching_blocks():
        places[start : start + size + 1] = np.arange(other, other + size + 1)
    places[0] = 0
    places[-1] = len(text)

    # The places between two that are known
    known = np.flatnonzero(places >= 0)
    between = np.interp(np.arange(len(places)), known, places[known])
    places = np.maximum.accumulate(between.round().astype(int))
    return [(int(places[start]), int(places[end])) for start, end in spans]
