"""The calibration of a run's confidences: fitted on its validation set, measured on test sets.

A word is right if the reference has it too, wherever it stands; each word of the reference counts
once. Legend: W words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nmt.corpus.words import split_into_words
from nmt.decode.confidence import Calibration, logits, sigmoid
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator
from nmt.evaluate.measured import read_measured, write_measured

MOST_PAIRS = 1000  # of the validation set, evenly spread
RIDGE = 1.0  # pulls the fit towards slope 1 and intercept 0, which matters where words are few
STEPS = 50  # of Newton's method
HALVINGS = 60  # of each step, at most
BINS = 10  # of equal width
FILE = Path("evaluate", "calibration.json")  # in the folder of a run


def read_calibration(run_folder: Path, weights: Sequence[str]) -> Calibration | None:
    """What was fitted for checkpoints with these digests; None if nothing was."""
    match read_measured(run_folder / FILE, weights):
        case {"slope": float(slope), "intercept": float(intercept)}:
            if math.isfinite(slope + intercept):
                return Calibration(slope, intercept)
    return None


def write_calibration(
    run_folder: Path, weights: Sequence[str], calibration: Calibration, pairs: int, key: str
) -> None:
    """Keep what was fitted on that many validation pairs; `key` stands for all that it depends on.

    Raises OSError and UserError.
    """
    content = calibration._asdict() | {"validation_pairs": pairs, "key": key}
    write_measured(run_folder / FILE, weights, content)


def some_pairs(pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """At most MOST_PAIRS of the validation pairs."""
    count = min(len(pairs), MOST_PAIRS)
    return [pairs[number * len(pairs) // count] for number in range(count)]


def fit_calibration(
    translator: Translator, translations: Sequence[Translation], references: Sequence[str]
) -> Calibration:
    """Fit the confidences of the words of translations to what the references have.

    Copied lines are left out, since the model has not written their words.
    """
    translator = replace(translator, calibration=Calibration())
    translated = []
    their_references = []
    for translation, reference in zip(translations, references, strict=True):
        if not translation.is_copied:
            translated.append(translation)
            their_references.append(reference)
    confidences, right = judged_words(translator, translated, their_references)
    return fit(np.log(confidences), right)


def fit(probabilities: np.ndarray, right: np.ndarray) -> Calibration:
    """The slope and the intercept with the smallest cross entropy (and ridge), by Newton's method.

    probabilities [W] are logarithms, right [W] is boolean. A step that would increase the loss is
    halved until it does not: where all words are right or wrong, the loss is nearly flat at the
    start, and whole steps go further and further astray.
    """
    features = np.stack([logits(probabilities), np.ones(len(probabilities))], axis=1)
    start = np.array(Calibration())

    def loss(weights: np.ndarray) -> float:
        margins = features @ weights
        return float(
            np.sum(np.logaddexp(0, margins) - right * margins)
            + RIDGE / 2 * np.sum((weights - start) ** 2)
        )

    weights = start
    for _ in range(STEPS):
        predicted = sigmoid(features @ weights)
        gradient = features.T @ (predicted - right) + RIDGE * (weights - start)
        variances = (predicted * (1 - predicted))[:, None]  # [W 1]
        curvature = (features * variances).T @ features + RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        before = loss(weights)
        for _ in range(HALVINGS):
            if loss(weights - step) <= before:
                weights = weights - step
                break
            step = step / 2
    return Calibration(*weights.tolist())


def measure_confidence(
    translator: Translator, translations: Sequence[Translation], references: Sequence[str]
) -> dict[str, Any]:
    """How well the confidences of words fit, and their calibration."""
    measured = reliability(*judged_words(translator, translations, references))
    return measured | {"calibration": translator.calibration._asdict()}


def judged_words(
    translator: Translator, translations: Sequence[Translation], references: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The confidences of all words, and which of them are right."""
    confidences = []
    right = []
    target = translator.tokenizers.target
    for (translation, records), reference in zip(
        translator.with_records(translations), references, strict=True
    ):
        words = translator.word_confidences(translation, records)
        reference_words, _, _ = split_into_words(target.pieces(target.encode(reference)))
        confidences += [confidence for _, confidence in words]
        right += right_words([word for word, _ in words], reference_words)
    return np.array(confidences), np.array(right, dtype=float)


def right_words(words: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Which words the reference has; the second of two is wrong where the reference has one."""
    left = Counter(reference)
    right = []
    for word in words:
        right.append(left[word] > 0)
        left[word] -= 1
    return right


def reliability(confidences: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """How well confidences fit: of all words whose confidence is about 0.8, 80 % should be right.

    confidences [W], right [W]. words: W. right: their share. error: the expected calibration error,
    mean |confidence − share that is right| over the bins, by words. bins: words, mean confidence
    and share that is right of each.
    """
    bins = []
    number = np.minimum((confidences * BINS).astype(int), BINS - 1)
    for index in range(BINS):
        inside = number == index
        confidence = share = 0.0
        if inside.any():
            confidence = float(confidences[inside].mean())
            share = float(right[inside].mean())
        bins.append((int(inside.sum()), confidence, share))
    distance = sum(count * abs(confidence - share) for count, confidence, share in bins)
    error = distance / max(1, len(confidences))
    share = float(right.mean()) if len(right) else 0.0
    return {"words": len(confidences), "right": share, "error": error, "bins": bins}
