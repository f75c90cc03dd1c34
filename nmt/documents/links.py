"""Which words of a translation come from which words of its source: the weights by which tags are put back.

S source words, T target words. Weights are those of the run's links (nmt/alignments): the guided head, or a mean over
heads. A model without attention has the weights of two texts of which each word takes the same share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from nmt.alignments.extraction import DECODER_STEPS, Extractor
from nmt.data.protection import find_spans
from nmt.decode.forced_decoding import AttentionRecord
from nmt.documents.segment import UNITS
from nmt.evaluate.words import SPACELESS, Span, WordPair, piece_spans, word_fractions, word_spans


@dataclass(frozen=True)
class WordLinks:
    """The spans of the words of a sentence and of its translation, and the weights [T S] between them."""

    source: list[Span]
    target: list[Span]
    weights: np.ndarray  # a row sums to 1, or to 0 where nothing is known of the word


def attention_links(records: Sequence[AttentionRecord], extractor: Extractor, source: str, target: str) -> WordLinks:
    """From the records of a sentence, of each part where it was translated in parts."""
    of_source = locate([piece for record in records for piece in record.source_pieces], source)
    of_target = locate([piece for record in records for piece in record.target_pieces], target)
    weights = np.zeros((len(of_target), len(of_source) + 1))
    row = column = 0
    for record in records:
        height, width = len(record.target_pieces), len(record.source_pieces)
        read = record.read(extractor.method, extractor.layer, extractor.head)[DECODER_STEPS[extractor.decoder_step] :]
        weights[row : row + height, column : column + width] = read[:height, :width]
        row, column = row + height, column + width
    words = [whole_words(text, pieces) for text, pieces in ((source, of_source), (target, of_target))]
    fractions = [word_fractions(pieces, spans) for pieces, spans in zip((of_source, of_target), words, strict=True)]
    matrix = WordPair([], [], *fractions).merge(weights)[:, :-1]
    return WordLinks(*words, matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-9))


def proportional_links(source: str, target: str) -> WordLinks:
    """Of a model without attention: a word comes from the words at the same share of the text."""
    words = [whole_words(text, []) for text in (source, target)]
    edges = [np.linspace(0, 1, len(spans) + 1) for spans in words]
    overlap = np.minimum.outer(edges[1][1:], edges[0][1:]) - np.maximum.outer(edges[1][:-1], edges[0][:-1])
    overlap = np.clip(overlap, 0, None)
    return WordLinks(*words, overlap / np.maximum(overlap.sum(1, keepdims=True), 1e-9))


def whole_words(text: str, pieces: Sequence[Span]) -> list[Span]:
    """The words of a text; a number, a placeholder or code is one word, and so is a piece where no spaces are written.

    Without pieces each character of a script without spaces is a word.
    """
    copied = [(span.start, span.end) for span in find_spans(text)] + [match.span() for match in UNITS.finditer(text)]
    marks = np.zeros(len(text) + 1, dtype=int)
    for number, (start, end) in enumerate(copied, 1):
        marks[start:end] = number
    spans: list[Span] = []
    for start, end in word_spans(text):
        edges = [start]
        edges += [at for at in range(start + 1, end) if marks[at] != marks[at - 1]]
        if SPACELESS.search(text, start, end):
            inside = [at for span in pieces for at in span] or range(start, end)
            edges += [at for at in inside if start < at < end and not (marks[at] and marks[at] == marks[at - 1])]
        edges = [*sorted(set(edges)), end]
        for first, last in zip(edges, edges[1:], strict=False):
            if spans and marks[first] and marks[first] == marks[spans[-1][0]]:
                spans[-1] = spans[-1][0], last
            else:
                spans.append((first, last))
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
