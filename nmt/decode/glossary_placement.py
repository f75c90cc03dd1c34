"""Which words of a translation a term must replace: those that translate the source term.

T target pieces. The loss of a piece is how much its log-probability falls when the source term is removed (prediction
difference, Li et al. 2019, "On the Word Alignment from Neural Machine Translation"); every model has it. Where there is
attention, its weights on the source term are added, both in shares of their maximum. A term replaces the word with the
largest sum and its neighbours with LEFT or RIGHT of it: "Bahnhof" is "train station". What stands on the right needs
less, since the words before it predict it as well; articles, prepositions and other short words need SHORT more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.words import Span, is_punctuation, split_into_words, word_fractions
from nmt.decode.forced_decoding import AttentionRecord

LEFT, RIGHT, SHORT = 0.6, 0.25, 0.2  # of the largest sum; by gold links of the phrasebook's validation set
SHORTEST = 4  # letters of a word that is not short


class TermSpan(NamedTuple):
    """The pieces of a translation that a term is to replace; none if start = end."""

    start: int
    end: int
    may_change_previous: bool = False  # the word before it


def piece_shares(record: AttentionRecord, without: AttentionRecord, first: int, last: int) -> list[np.ndarray]:
    """How much each target piece depends on the source pieces first … last − 1, in two measures [T], or in one.

    `without` is the record of the same target for a source without these pieces.
    """
    measures = [np.subtract(record.log_probabilities, without.log_probabilities)[:-1]]
    if record.weights is not None:
        upper = record.weights[record.num_layers // 2 :]
        measures.append(upper.mean((0, 1))[:-1, first:last].sum(1))
    return measures


def find_term_span(pieces: Sequence[str], measures: Sequence[np.ndarray], protected: Sequence[Span]) -> TermSpan:
    """The span of a term; the end of the translation where all words are protected.

    measures [T]: of `piece_shares`; `protected`: spans of the text, pieces joined, that must stay.
    """
    words, spans, of_pieces = split_into_words(list(pieces))
    fractions = word_fractions(of_pieces, spans)
    usable = np.array([
        not all(map(is_punctuation, word)) and not any(first < end and start < last for first, last in protected)
        for word, (start, end) in zip(words, spans, strict=True)
    ], dtype=bool)  # fmt: skip
    if not usable.any():
        return TermSpan(len(pieces), len(pieces))
    loss, *attention = (fractions.T @ measure for measure in measures)
    attention = [each / np.maximum(fractions.sum(0), 1e-12) for each in attention]  # a mean, as it is read elsewhere
    total = sum(np.maximum(each, 0) / max(each[usable].max(), 1e-12) for each in (loss, *attention))
    total = np.where(usable, total, -np.inf)
    first = last = int(total.argmax())
    largest = max(total[first], 1e-12)
    more = np.array([SHORT * (len(word) < SHORTEST) for word in words])
    left, right = largest * (LEFT + more), largest * (RIGHT + more)
    while first and total[first - 1] >= left[first - 1]:
        first -= 1
    while last + 1 < len(words) and total[last + 1] >= right[last + 1]:
        last += 1
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))
    return TermSpan(int(rows[0]), int(rows[-1]) + 1, first > 0 and bool(usable[first - 1]))
