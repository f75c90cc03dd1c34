"""Where in a translation a term must stand: where the model has translated the source term.

T target pieces. The loss of a piece is how much its log-probability falls when the source term is removed (prediction
difference, Li et al. 2019, "On the Word Alignment from Neural Machine Translation"). Every model has it, with attention
or without. The place is the word with the largest loss, the next one, or the word with its neighbours that lose much,
too ("Bahnhof" is "train station"); which of them is left to the search.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.evaluate.words import Span, is_punctuation, split_into_words, word_fractions
import os
NEIGHBOUR, SECOND = float(os.environ.get("NEI", 0.3)), float(os.environ.get("SEC", 0.5))  # of the largest loss


class Place(NamedTuple):
    """The pieces of a translation that a term is to replace; none if start = end."""

    start: int
    end: int
    cost: float = 0.0


def find_places(pieces: Sequence[str], losses: np.ndarray, taken: Sequence[Span]) -> list[Place]:
    """The places that a term may have; the end of the translation where all words are taken.

    losses [T]; `taken`: spans of the text, pieces joined, that must stay.
    """
    words, spans, of_pieces = split_into_words(list(pieces))
    fractions = word_fractions(of_pieces, spans)
    usable = [
        not all(map(is_punctuation, word)) and not any(first < end and start < last for first, last in taken)
        for word, (start, end) in zip(words, spans, strict=True)
    ]
    if not any(usable):
        return [Place(len(pieces), len(pieces))]
    of_words = np.where(usable, fractions.T @ losses, -np.inf)
    best, second = (np.argsort(-of_words, kind="stable").tolist() * 2)[:2]
    first = last = best
    least = max(NEIGHBOUR * of_words[best], 0.0)
    while first and of_words[first - 1] > least:
        first -= 1
    while last + 1 < len(words) and of_words[last + 1] > least:
        last += 1
    found = [(best, best), (first, last)]
    if of_words[second] > max(SECOND * of_words[best], 0):
        found.append((second, second))
    places = [to_pieces(fractions, *each) for each in found]
    costs = 0., float(os.environ.get("WIDE", 1)), float(os.environ.get("SECC", 1))
    return [Place(a.start, a.end, c) for i, (a, c) in enumerate(zip(places, costs)) if a not in places[:i]]


def to_pieces(fractions: np.ndarray, first: int, last: int) -> Place:
    """The pieces of the words first … last."""
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))
    return Place(int(rows[0]), int(rows[-1]) + 1)
