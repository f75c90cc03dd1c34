"""Which words of a translation come from which words of its source: the weights by which tags are
put back.

S source words, T target words. The weights are attention under forced decoding. A guided head is
mixed with the mean of the last layer, which is less certain of words that have no counterpart.
Without one, the weights are the squared mean of the two upper layers: squares keep many small
weights from adding up (docs/guides/documents.md). In a model without attention, a word comes from
the words at the same share of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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


class WordWeights(NamedTuple):
    """The words of a sentence and of its translation, and the weights [T S] between them."""

    source: list[Span]
    target: list[Span]
    weights: np.ndarray  # a row sums to 1, or to 0 where nothing is known of the word


@dataclass(frozen=True)
class WeightReader:
    """Which weights of a model are read.

    They are a mean of extractors by their shares, raised to a power between words. The power is 2
    for weights that were not trained with links.
    """

    extractors: Sequence[tuple[Extractor, float]]
    power: float = 2.0

    @classmethod
    def of_run(cls, train: TrainConfig, model: EncoderDecoder) -> WeightReader:
        """The one for a trained model with attention."""
        if not train.guided_alignment:
            return cls([(Extractor((-2, -1) if model.num_layers > 1 else -1), 1.0)])
        guided = default_extractor(train, model)
        share = GUIDED_SHARE if model.num_layers > 1 else 1.0
        return cls([(guided, share), (Extractor(-1), 1 - share)], power=1.0)

    def read(self, records: Sequence[AttentionRecord], source: str, target: str) -> WordWeights:
        """From the records of a sentence, of each part where it was translated in parts."""
        blocks = [self.read_pieces(record) for record in records]
        pieces = [
            locate(
                [piece for record in records for piece in getattr(record, f"{side}_pieces")], text
            )
            for side, text in (("source", source), ("target", target))
        ]
        words = whole_words(source, pieces[0]), whole_words(target, pieces[1])
        pair = WordPair([], [], *map(word_fractions, pieces, words))
        # a column for </s>
        weights = pair.merge(np.pad(block_diagonal(blocks), ((0, 0), (0, 1))))[:, :-1]
        return WordWeights(*words, normalized(normalized(weights) ** self.power))

    def read_pieces(self, record: AttentionRecord) -> np.ndarray:
        """[target pieces, source pieces]: each row sums to 1."""
        height = len(record.target_pieces)
        width = len(record.source_pieces)
        total = np.zeros((height, width))
        for extractor, share in self.extractors:
            weights = record.read(extractor.method, extractor.layer, extractor.head)
            total += share * normalized(
                weights[DECODER_STEPS[extractor.decoder_step] :][:height, :width]
            )
        return total


def block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """A matrix of these along its diagonal, in float64, with zeros elsewhere."""
    matrix: np.ndarray = torch.block_diag(
        *(torch.from_numpy(each.astype(float)) for each in blocks)
    ).numpy()
    return matrix


def normalized(matrix: np.ndarray) -> np.ndarray:
    """The matrix with rows that sum to 1; a row of zeros stays."""
    rows: np.ndarray = matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-9)
    return rows


def proportional_weights(source: str, target: str) -> WordWeights:
    """Of a model without attention: a word comes from the words at the same share of the text."""
    words = whole_words(source), whole_words(target)
    edges = [np.linspace(0, 1, len(spans) + 1) for spans in words]
    overlap = np.minimum.outer(edges[1][1:], edges[0][1:]) - np.maximum.outer(
        edges[1][:-1], edges[0][:-1]
    )
    return WordWeights(*words, normalized(np.clip(overlap, 0, None)))


def whole_words(text: str, pieces: Sequence[Span] = ()) -> list[Span]:
    """The words of a text; a unit is one word.

    Where no words are spaced, so is a piece, and without pieces a character.
    """
    spans: list[Span] = []
    for start, end in word_spans(text):
        edges = {start, end}
        edges.update(at for match in UNITS.finditer(text, start, end) for at in match.span())
        if SPACELESS.search(text, start, end):
            edges.update(
                [at for span in pieces for at in span if start < at < end] or range(start, end)
            )
        ordered = sorted(edges)
        spans += zip(ordered, ordered[1:], strict=False)
    return spans


def locate(pieces: list[str], text: str) -> list[Span]:
    """The span of each piece in the text as it was given.

    The tokenizer may have changed single characters of that text.
    """
    spelt, spans = piece_spans(pieces)
    if spelt == text:
        return spans
    at = np.full(len(spelt) + 1, -1)
    sides = spelt.lower(), text.lower()
    # İ has two characters in small letters
    if (len(sides[0]), len(sides[1])) != (len(spelt), len(text)):
        sides = spelt, text
    for start, other, size in SequenceMatcher(
        None, sides[0], sides[1], autojunk=False
    ).get_matching_blocks():
        at[start : start + size + 1] = np.arange(other, other + size + 1)
    at[0], at[-1] = 0, len(text) if at[-1] < 0 else at[-1]
    known = np.flatnonzero(at >= 0)
    at = np.maximum.accumulate(np.interp(np.arange(len(at)), known, at[known]).round().astype(int))
    return [(int(at[start]), int(at[end])) for start, end in spans]
