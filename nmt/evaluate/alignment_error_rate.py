"""Links from attention, and the alignment error rate (Och & Ney 2003)."""

from typing import NamedTuple

import numpy as np

from nmt.data.links import Link
from nmt.errors import UserError


class AlignmentScore(NamedTuple):
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), precision = |A∩P| / |A|, recall = |A∩S| / |S|; from 0 to 1."""

    aer: float
    precision: float
    recall: float


class AlignmentCounts(NamedTuple):
    """The sums over a corpus that the alignment error rate is computed from; A predicted, S sure, P possible links."""

    predicted: int = 0  # |A|
    sure: int = 0  # |S|
    correct_sure: int = 0  # |A∩S|
    correct_possible: int = 0  # |A∩P|

    def add(self, links: set[Link], sure: set[Link], possible: set[Link]) -> "AlignmentCounts":
        """The counts with one more sentence pair; sure links count as possible too (P ⊇ S)."""
        return AlignmentCounts(
            self.predicted + len(links),
            self.sure + len(sure),
            self.correct_sure + len(links & sure),
            self.correct_possible + len(links & (sure | possible)),
        )

    def score(self) -> AlignmentScore:
        """AER, precision and recall; where the denominator is 0, AER is 0, precision is 1 and recall is 1."""
        links = self.predicted + self.sure
        return AlignmentScore(
            aer=1 - (self.correct_sure + self.correct_possible) / links if links else 0.0,
            precision=self.correct_possible / self.predicted if self.predicted else 1.0,
            recall=self.correct_sure / self.sure if self.sure else 1.0,
        )


def argmax_links(matrix: np.ndarray) -> set[Link]:
    """One link for each target word, to the source word of largest weight (Luong 2015 §5.4); a row of zeros gives none.

    matrix [target words, source words and </s>]: the last column is the source's </s>, which is never linked.
    The first of equal weights wins.
    """
    matrix = matrix[:, :-1]
    if not matrix.shape[1]:
        return set()
    best = matrix.argmax(axis=1)
    return {(int(source), target) for target, source in enumerate(best) if matrix[target, source] > 0}


def threshold_links(matrix: np.ndarray, threshold: float) -> set[Link]:
    """All links whose weight is at least `threshold`; the matrix is as for `argmax_links`.

    Raises UserError for a threshold that is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise UserError(f"An alignment threshold of {threshold} is not possible; it must be above 0 and at most 1.")
    matrix = matrix[:, :-1]
    return {(int(source), int(target)) for target, source in zip(*np.nonzero(matrix >= threshold), strict=True)}
