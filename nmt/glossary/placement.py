"""Where in a translation a term must stand: where the model has translated the source term.

S source pieces, T target pieces. The place is the target word that attends most to the pieces of the source term, with
its neighbours that attend at least half as much to it: "Bahnhof" is "train station".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.alignments.extraction import DECODER_STEPS, Extractor
from nmt.decode.forced_decoding import AttentionRecord
from nmt.evaluate.words import Span, is_punctuation, split_into_words, word_fractions

NEIGHBOUR = 0.5  # of the largest weight


class Place(NamedTuple):
    """The pieces of a translation that a term is to replace; none if start = end."""

    start: int
    end: int


class TargetWords:
    """The words of a translation, their pieces, and which of them a term may replace.

    `taken`: spans of its text, pieces joined, that must stay.
    """

    def __init__(self, pieces: Sequence[str], taken: Sequence[Span]) -> None:
        self.pieces = pieces
        words, self.spans, of_pieces = split_into_words(list(pieces))
        self.fractions = word_fractions(of_pieces, self.spans)
        self.usable = [
            not all(map(is_punctuation, word)) and not any(first < end and start < last for first, last in taken)
            for word, (start, end) in zip(words, self.spans, strict=True)
        ]

    def place(self, first: int, last: int) -> Place:
        """The pieces of the words first … last."""
        pieces = np.flatnonzero(self.fractions[:, first : last + 1].any(1))
        return Place(int(pieces[0]), int(pieces[-1]) + 1)

    def every_place(self) -> list[Place]:
        """Each word, and the end."""
        places = [self.place(word, word) for word, usable in enumerate(self.usable) if usable]
        return [*places, self.end()]

    def end(self) -> Place:
        """After the last word that is no punctuation."""
        last = len(self.spans)
        while last and not self.usable[last - 1]:
            last -= 1
        end = self.place(last - 1, last - 1).end if last else len(self.pieces)
        return Place(end, end)

    def attending(self, mass: np.ndarray, most: int) -> list[Place]:
        """The `most` places with the largest mean of mass [T]; the end where there is none."""
        weights = self.fractions.T @ mass / np.maximum(self.fractions.sum(0), 1e-12)
        places: list[Place] = []
        for word in np.argsort(-weights, kind="stable").tolist():
            if len(places) == most or not self.usable[word]:
                continue
            first = last = word
            while first > 0 and self.usable[first - 1] and weights[first - 1] >= NEIGHBOUR * weights[word]:
                first -= 1
            while last + 1 < len(weights) and self.usable[last + 1] and weights[last + 1] >= NEIGHBOUR * weights[word]:
                last += 1
            place = self.place(first, last)
            places += [] if any(place.start < other.end and other.start < place.end for other in places) else [place]
        return places or [self.end()]


def find_places(
    record: AttentionRecord, extractor: Extractor | None, first: int, last: int, taken: Sequence[Span], most: int
) -> list[Place]:
    """The best places for the source pieces first … last − 1; every word for a model without attention."""
    words = TargetWords(record.target_pieces, taken)
    if extractor is None or record.weights is None:
        return words.every_place()
    weights = record.read(extractor.method, extractor.layer, extractor.head)[DECODER_STEPS[extractor.decoder_step] :]
    return words.attending(weights[: len(record.target_pieces), first:last].sum(1), most)
