"""How sure a translation is: the probability that each of its words is right, and its calibration.

A word is right if the reference has it too, wherever it stands; each word of the reference counts once. What the model
gives is the probability p of the word's least probable piece; the confidence is σ(slope · logit p + intercept) (Platt
1999), with both numbers fitted on the validation set. The confidence of a sentence is the mean over its words: the
share of them that the reference is expected to have. Legend: T target pieces, W words.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LARGEST_LOGIT = 15.0  # of p
RIDGE, STEPS = 1.0, 30  # of the fit: pulls towards slope 1 and intercept 0, which decide where there are few words
BINS = 10  # of equal width


class Calibration(NamedTuple):
    """From a word's probability to its confidence; as it is by default, the probability itself."""

    slope: float = 1.0
    intercept: float = 0.0

    def confidences(self, probabilities: np.ndarray) -> np.ndarray:
        """[W] → [W]; `probabilities` are logarithms."""
        return sigmoid(self.slope * logits(probabilities) + self.intercept)

    @classmethod
    def fit(cls, probabilities: np.ndarray, right: np.ndarray) -> "Calibration":
        """The slope and the intercept with the smallest cross entropy (and ridge), by Newton's method.

        probabilities [W] are logarithms, right [W] is boolean.
        """
        features = np.stack([logits(probabilities), np.ones(len(probabilities))], axis=1)
        start = np.array(cls())
        weights = start.copy()
        for _ in range(STEPS):
            predicted = sigmoid(features @ weights)
            gradient = features.T @ (predicted - right) + RIDGE * (weights - start)
            curvature = (features * (predicted * (1 - predicted))[:, None]).T @ features + RIDGE * np.eye(2)
            weights = weights - np.linalg.solve(curvature, gradient)
        return cls(*weights.tolist())


def logits(log_probabilities: np.ndarray) -> np.ndarray:
    """log p − log (1 − p), at most LARGEST_LOGIT in size."""
    values = np.minimum(log_probabilities, -1e-12)
    return np.clip(values - np.log(-np.expm1(values)), -LARGEST_LOGIT, LARGEST_LOGIT)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)), without an overflow."""
    return np.exp(-np.logaddexp(0, -values))


def word_log_probabilities(of_pieces: Sequence[float], fractions: np.ndarray) -> np.ndarray:
    """[T], fractions [T W] (`word_fractions`) → [W]: of each word the least probable piece; certain without one."""
    columns = np.where(fractions > 0, np.asarray(of_pieces, dtype=np.float64)[:, None], 0.0)
    return columns.min(axis=0, initial=0.0)


def right_words(words: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Which words the reference has; the second of two is wrong where the reference has one."""
    left = Counter(reference)
    right = []
    for word in words:
        right.append(left[word] > 0)
        left[word] -= 1
    return right


class Reliability(NamedTuple):
    """How well confidences fit: of all words whose confidence is about 0.8, 80 % should be right."""

    words: int
    right: float  # share of the words
    error: float  # expected calibration error: mean |confidence − share that is right| over the bins, by words
    bins: list[tuple[int, float, float]]  # words, mean confidence and share that is right of each bin

    @classmethod
    def measure(cls, confidences: np.ndarray, right: np.ndarray) -> "Reliability":
        """confidences [W], right [W]."""
        bins = []
        number = np.minimum((confidences * BINS).astype(int), BINS - 1)
        for index in range(BINS):
            inside = number == index
            count = int(inside.sum())
            means = (confidences[inside].mean(), right[inside].mean()) if count else (0.0, 0.0)
            bins.append((count, float(means[0]), float(means[1])))
        total = max(1, len(confidences))
        error = sum(count * abs(confidence - share) for count, confidence, share in bins) / total
        return cls(len(confidences), float(right.mean()) if len(right) else 0.0, error, bins)


def auroc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """The probability that a positive has a higher score than another, ties counted half; None without both kinds."""
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    number = int(positive.sum())
    others = len(positive) - number
    if not number or not others:
        return None
    return float((ranks[positive].sum() - number * (number + 1) / 2) / (number * others))
