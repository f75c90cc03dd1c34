"""How sure a translation is: the probability that each of its words is right.

Let p be the probability of the word's least probable piece. The confidence is
σ(slope · logit p + intercept), where σ is the sigmoid (Platt 1999). Slope and intercept are fitted
on the validation set (nmt/evaluate/calibration.py). The confidence of a sentence is the mean over
its words: the share of them that the reference is expected to have.

T target pieces, W words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LARGEST_LOGIT = 15.0  # of a probability, as an absolute value
# A word of a lower confidence is more likely wrong than right. translator_page.js has this number
# as well.
UNSURE = 0.5


class Calibration(NamedTuple):
    """From a word's probability to its confidence; by default they are the same."""

    slope: float = 1.0
    intercept: float = 0.0

    def confidences(self, log_probabilities: np.ndarray) -> np.ndarray:
        """Words' log-probabilities [W] → their confidences [W]."""
        return sigmoid(self.slope * logits(log_probabilities) + self.intercept)


def mark_unsure(text: str, words: Sequence[tuple[str, float]], before: str, after: str) -> str:
    """The text with `before` and `after` around each unsure one of its words.

    `words` are in the order of the text, each with its confidence.
    """
    marked = ""
    written = 0  # characters of the text that are in `marked`
    end = 0  # of the previous word
    for word, confidence in words:
        start = text.find(word, end)
        if start < 0:  # the text differs from its pieces there
            continue
        end = start + len(word)
        if confidence < UNSURE:
            marked += text[written:start] + before + word + after
            written = end
    return marked + text[written:]


def logits(log_probabilities: np.ndarray) -> np.ndarray:
    """log p − log (1 − p), at most LARGEST_LOGIT as an absolute value."""
    values = np.minimum(log_probabilities, -1e-12)  # log (1 − p) of p = 1 would be −∞
    return np.clip(values - np.log(-np.expm1(values)), -LARGEST_LOGIT, LARGEST_LOGIT)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)), without an overflow."""
    return np.exp(-np.logaddexp(0, -values))


def least_log_probabilities(of_pieces: Sequence[float], fractions: np.ndarray) -> np.ndarray:
    """of_pieces [T], fractions [T W] → [W]: that of the least probable piece of each word.

    A word without pieces has 0.
    """
    column = np.asarray(of_pieces, dtype=np.float64)[:, None]  # [T 1]
    # 0 is the largest log-probability, so pieces of other words change no minimum
    of_words = np.where(fractions > 0, column, 0.0)  # [T W]
    return of_words.min(axis=0, initial=0.0)
