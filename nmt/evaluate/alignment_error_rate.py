"""Word alignments: the Pharaoh format, links from attention, and the alignment error rate (Och & Ney 2003).

A link (i, j) means that source word i and target word j translate each other; both count from 0 inside the program.
In a file a line is a sentence pair: `0-0 1-2 2p1`, where `i-j` is a sure link and `ipj` only a possible one.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nmt.errors import UserError

Link = tuple[int, int]
TOKEN = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


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


def parse_links(line: str, base: int = 0, where: str = "", reverse: bool = False) -> tuple[set[Link], set[Link]]:
    """The sure and the possible links of a Pharaoh line, counted from 0; sure links are possible too (P ⊇ S).

    `base` is the index of the first word in the file, `where` its name and line (`gold.txt:12`) for the message;
    `reverse` reads a file in which a link names the target word first.
    Raises UserError on anything that is not `i-j` or `ipj`, and on an index below `base`.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    prefix = f"{where}: " if where else ""
    for token in line.split():
        match = TOKEN.fullmatch(token)
        if not match:
            raise UserError(
                f"{prefix}'{token:.60}' is not an alignment link; expected i-j (sure) or ipj (possible), as in 0-0 1-2 "
                "2p1."
            )
        link = int(match[1]) - base, int(match[3]) - base
        if min(link) < 0:
            raise UserError(f"{prefix}link '{token}' is before the first word when words count from base {base}.")
        link = link[::-1] if reverse else link
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible


def format_links(links: Iterable[Link], base: int = 0, reverse: bool = False) -> str:
    """A Pharaoh line of links `i-j`, sorted by their first word: the source word, or with `reverse` the target word."""
    ordered = sorted(link[::-1] if reverse else link for link in links)
    return " ".join(f"{first + base}-{second + base}" for first, second in ordered)


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
