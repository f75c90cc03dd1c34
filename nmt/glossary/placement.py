"""Where in a translation a term must stand: where the model has translated the source term.

T target pieces. The place is the word whose log-probability falls most when the source term is removed (Li et al. 2019,
"On the word alignment from neural machine translation", prediction difference), with its neighbours that lose much,
too: "Bahnhof" is "train station". Every model can be asked that, with attention or without.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.evaluate.words import Span, is_punctuation, split_into_words, word_fractions

NEIGHBOUR = 0.3  # of the largest loss


class Place(NamedTuple):
    """The pieces of a translation that a term is to replace; none if start = end."""

    start: int
    end: int


def find_places(pieces: Sequence[str], losses: np.ndarray, taken: Sequence[Span]) -> list[Place]:
    """The word with the largest loss, and that word with its neighbours; after the last word if there is none.

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
    first = last = best = int(of_words.argmax())
    least = max(NEIGHBOUR * of_words[best], 0.0)
    while first and of_words[first - 1] > least:
        first -= 1
    while last + 1 < len(words) and of_words[last + 1] > least:
        last += 1
    return list(dict.fromkeys(place(fractions, *each) for each in ((best, best), (first, last))))


def place(fractions: np.ndarray, first: int, last: int) -> Place:
    """The pieces of the words first … last."""
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))
    return Place(int(rows[0]), int(rows[-1]) + 1)
