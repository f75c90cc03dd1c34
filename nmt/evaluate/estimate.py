"""The estimate of a translation's quality: fitted on a run's validation set, without a reference.

The expected chrF of a sentence is a linear function of FEATURES, which search itself knows, fitted
by ridge regression. Two faults are named apart from it:

- *Detached*: with H(y | x) the cross-entropy of the translation y given its source x, per piece and
  </s>, and H(y | ∅) that given an empty source, y is detached if its gain 1 − H(y | x) / H(y | ∅)
  is small. For the translation of another sentence it is near 0.
- *Omission*: SPAN or more neighbouring words of the source each get little attention from all of
  the translation, and the translation is short for its source.

The limits are learned from the ordinary translations of the validation set and from planted faults:
translations that are put to another source, and two sources of which only one is translated.

W words, S source pieces, T target pieces, F features, N sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.config.schema import TrainConfig
from nmt.corpus.checksums import json_digest
from nmt.corpus.words import join_texts
from nmt.decode.forced_decoding import AttentionRecord, IdPair
from nmt.decode.quality import Quality
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator
from nmt.evaluate.extraction import (
    Extractor,
    default_extractor,
    max_pieces_per_side,
    record_words,
)
from nmt.evaluate.loops import is_loop
from nmt.evaluate.measured import read_measured, write_measured
from nmt.evaluate.metrics import sentence_chrf
from nmt.models.base import EncoderDecoder

FILE = Path("evaluate", "estimate.json")  # in the folder of a run
FEATURES = (
    "mean confidence of the words",
    "least confidence of a word",
    "geometric mean of the probabilities of the pieces",
    "log length",
    "size of the log length ratio",
    "is a loop",
)
RIDGE = 1.0  # for standardized features
FOLDS = 10  # of the cross-validation
FEWEST = 50  # validation pairs; with fewer nothing is fitted
MOST_PLANTED = 200  # faults of each kind
SPAN = 3  # words
ALARMS = 0.02  # the share of ordinary translations that may be named as faulty, for each fault
SHORT = 0.95  # the share of planted omissions that are short enough to be named
MOST_ATTENTION = 0.5  # a word that gets more of all the attention is not left out
NEVER = -1e9  # a limit below any score

Part = tuple[Translation, AttentionRecord]  # a translation in one part, and its record


class Fitted(NamedTuple):
    """What was fitted on the validation set of a run.

    detached: the largest gain of a detached translation.
    surprise: the smallest H(y | ∅) of an ordinary translation, in nats.
    short: the largest (T + 1) / (S + 1) of a translation with an omission.
    unattended: the most attention that a left out word gets.
    """

    weights: tuple[float, ...]  # F
    intercept: float
    error: float  # mean |expected chrF − chrF|, by cross-validation
    correlation: float  # of expected chrF and chrF, by cross-validation
    detached: float
    surprise: float
    short: float
    unattended: float


@dataclass(frozen=True)
class Estimator:
    """Estimates translations with fitted numbers; `extractor`: None without attention."""

    fitted: Fitted
    extractor: Extractor | None

    def digest(self) -> str:
        return json_digest([self.fitted, self.extractor])

    def estimate(
        self,
        translator: Translator,
        translations: Sequence[Translation],
        records: Sequence[Sequence[AttentionRecord]],
    ) -> list[Quality | None]:
        """What is expected of each translation; None for one that is copied.

        `records`: those of its parts, of the search or of forced decoding; the parts get their own
        quality. A few translations that may have a fault are decoded once more.
        """
        parts: list[Part] = []
        for translation, of_parts in zip(translations, records, strict=True):
            if not translation.is_copied:
                parts += zip(translation.searched_parts, of_parts, strict=True)
        is_detached = self.find_detached(translator, parts)
        omitted = self.find_omitted(translator, parts)

        qualities = []
        for row, (part, record) in enumerate(parts):
            values = features(translator, part, record)
            expected = self.fitted.intercept + float(values @ np.array(self.fitted.weights))
            part.quality = Quality(min(max(expected, 0.0), 100.0), is_detached[row], omitted[row])
            qualities.append(part.quality)

        remaining = iter(qualities)
        result: list[Quality | None] = []
        for translation in translations:
            if translation.is_copied:
                result.append(None)
                continue
            of_line = list(islice(remaining, len(translation.parts) or 1))
            lengths = [len(part.ids) + 1 for part in translation.searched_parts]
            result.append(join_qualities(of_line, lengths))
        return result

    def find_detached(self, translator: Translator, parts: Sequence[Part]) -> list[bool]:
        """Which translations are detached.

        H(y | ∅) is computed only where H(y | x) is so large that the gain can be small.
        """
        own = np.array([cross_entropy(record) for _, record in parts])
        found = np.zeros(len(parts), dtype=bool)
        fitted = self.fitted
        suspects = np.flatnonzero(own >= (1 - fitted.detached) * fitted.surprise).tolist()
        chosen = [parts[row][0] for row in suspects]
        gains = 1 - own[suspects] / without_source(translator, chosen)
        found[suspects] = gains <= fitted.detached
        return found.tolist()

    def find_omitted(self, translator: Translator, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The spans of words of each source that its translation does not attend to."""
        omitted: list[tuple[str, ...]] = [()] * len(parts)
        if self.extractor is None:
            return omitted
        suspects: list[int] = []
        unknown: list[int] = []  # suspects whose attention is not known yet
        pairs: list[IdPair] = []  # of these
        for row, (part, record) in enumerate(parts):
            if length_ratio(record) <= self.fitted.short:
                suspects.append(row)
                if record.weights is None:
                    unknown.append(row)
                    pairs.append((part.source_ids, part.ids))
        decoded = dict(zip(unknown, translator.force_decode_all(pairs), strict=True))
        for row in suspects:
            record = decoded.get(row, parts[row][1])
            words, attention = attention_of_words(translator, record, self.extractor)
            omitted[row] = tuple(unattended_spans(words, attention, self.fitted.unattended))
        return omitted


def quality_extractor(train: TrainConfig, model: EncoderDecoder) -> Extractor | None:
    """The weights that show what is left out: those of the run's heatmaps, if it has attention."""
    return default_extractor(train, model) if model.has_attention else None


def join_qualities(of_parts: Sequence[Quality], lengths: Sequence[int]) -> Quality:
    """The quality of a line from those of its parts, whose translations have these lengths."""
    expected = [quality.expected_chrf for quality in of_parts]
    omitted = chain.from_iterable(quality.omitted for quality in of_parts)
    return Quality(
        float(np.average(expected, weights=lengths)),
        any(quality.is_detached for quality in of_parts),
        tuple(omitted),
    )


def features(translator: Translator, part: Translation, record: AttentionRecord) -> np.ndarray:
    """[F]: the values of FEATURES."""
    confidences = [value for _, value in translator.word_confidences(part, [record])] or [0.0]
    source = translator.tokenizers.source.decode(part.source_ids)
    values = [
        np.mean(confidences),
        min(confidences),
        math.exp(-cross_entropy(record)),
        math.log(len(record.log_probabilities)),
        abs(math.log(length_ratio(record))),
        is_loop(source, part.text),
    ]
    return np.array(values, dtype=float)


def cross_entropy(record: AttentionRecord) -> float:
    """−log p per piece and </s>, in nats."""
    return -sum(record.log_probabilities) / len(record.log_probabilities)


def length_ratio(record: AttentionRecord) -> float:
    """(T + 1) / (S + 1)."""
    return (len(record.target_pieces) + 1) / (len(record.source_pieces) + 1)


def without_source(translator: Translator, translations: Sequence[Translation]) -> np.ndarray:
    """[N]: H(y | ∅), with what names the languages alone as the source."""
    pairs: list[IdPair] = []
    for translation in translations:
        ids = translation.source_ids
        start = translator.tokenizers.source.sentence_start(ids)
        pairs.append((ids[:start], translation.ids))
    records = translator.force_decode_all(pairs)
    return np.array([cross_entropy(record) for record in records])


def attention_of_words(
    translator: Translator, record: AttentionRecord, extractor: Extractor
) -> tuple[list[str], np.ndarray]:
    """The words of the source and the attention that each gets from all target words [W].

    Punctuation is left out, and so are the tags before the sentence.
    """
    pair = record_words(record)
    totals = extractor.word_weights(record, pair)[:, :-1].sum(axis=0)
    is_word = np.array([any(map(str.isalnum, word)) for word in pair.source], dtype=bool)
    tag_pieces = translator.tokenizers.source.count_tags(record.source_pieces)
    is_word &= ~pair.source_fractions[:tag_pieces].any(axis=0)
    words = [word for word, is_wanted in zip(pair.source, is_word, strict=True) if is_wanted]
    return words, totals[is_word]


def unattended_spans(words: Sequence[str], attention: np.ndarray, most: float) -> Iterator[str]:
    """The spans of SPAN words or more that each get at most so much attention [W]."""
    span: list[str] = []
    for word, value in zip([*words, ""], [*attention, math.inf], strict=True):
        if value <= most:
            span.append(word)
            continue
        if len(span) >= SPAN:
            yield join_texts(span)
        span = []


def least_attended(attention: np.ndarray) -> float:
    """The smallest limit with which `unattended_spans` finds one; ∞ without SPAN words."""
    starts = range(len(attention) - SPAN + 1)
    return min((float(attention[start : start + SPAN].max()) for start in starts), default=math.inf)


def fit_estimator(
    translator: Translator,
    translations: Sequence[Translation],
    references: Sequence[str],
    extractor: Extractor | None,
) -> tuple[Fitted, dict[str, float]] | None:
    """Fit to translations of the validation set; None for fewer than FEWEST.

    With it come the shares of ordinary and of planted translations that it names. Lines in parts
    and copied lines are left out.
    """
    longest = max_pieces_per_side(translator)
    kept: list[Translation] = []
    kept_references = []
    for translation, reference in zip(translations, references, strict=True):
        size = max(len(translation.source_ids), len(translation.ids))
        if not translation.is_copied and not translation.parts and size <= longest:
            kept.append(translation)
            kept_references.append(reference)
    if len(kept) < FEWEST:
        return None

    # What is known of each, read from one chunk of records at a time
    rows = []
    entropies = []
    ratios = []
    attended = []
    for translation, (record,) in translator.with_records(kept):
        rows.append(features(translator, translation, record))
        entropies.append(cross_entropy(record))
        ratios.append(length_ratio(record))
        attended.append(math.inf)
        if extractor is not None:
            _, attention = attention_of_words(translator, record, extractor)
            attended[-1] = least_attended(attention)

    # The regression
    scores = sentence_chrf([translation.text for translation in kept], kept_references)
    values = np.array(rows)  # [N F]
    predicted = cross_validated(values, scores)
    weights, intercept = ridge(values, scores)

    # Detached translations
    empty = without_source(translator, kept)
    gains = 1 - np.array(entropies) / empty
    pairs, others = planted_detached(kept)
    records = translator.force_decode_all(pairs)
    planted_gains = 1 - np.array([cross_entropy(record) for record in records]) / empty[others]
    detached = alarm_limit(gains, planted_gains)

    # Omissions
    planted_ratios = []
    planted_attended = []
    if extractor is not None:
        for record in translator.force_decode_all(planted_omissions(translator, kept, longest)):
            planted_ratios.append(length_ratio(record))
            _, attention = attention_of_words(translator, record, extractor)
            planted_attended.append(least_attended(attention))
    short = float(np.quantile(planted_ratios, SHORT)) if planted_ratios else 0.0
    own_omitted = np.where(np.array(ratios) <= short, attended, math.inf)
    planted_omitted = np.where(np.array(planted_ratios) <= short, planted_attended, math.inf)
    unattended = min(MOST_ATTENTION, alarm_limit(own_omitted, planted_omitted))

    fitted = Fitted(
        tuple(weights.tolist()),
        intercept,
        float(np.abs(predicted - scores).mean()),
        correlation(predicted, scores),
        detached,
        float(empty.min()),
        short,
        unattended,
    )
    named = {
        "detached": share(gains <= detached),
        "planted_detached": share(planted_gains <= detached),
        "omissions": share(own_omitted <= unattended),
        "planted_omissions": share(planted_omitted <= unattended),
    }
    return fitted, named


def ridge(values: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights [F] and intercept of ridge regression from values [N F] to scores [N].

    The features are standardized for it; one that never varies gets the weight 0.
    """
    means = values.mean(axis=0)
    deviations = values.std(axis=0)
    deviations[deviations < 1e-9] = math.inf
    standard = (values - means) / deviations
    curvature = standard.T @ standard + RIDGE * np.eye(len(means))
    weights = np.linalg.solve(curvature, standard.T @ (scores - scores.mean())) / deviations
    return weights, float(scores.mean() - means @ weights)


def cross_validated(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """[N]: what is expected of each of the scores [N] by a fit to the other folds."""
    folds = np.arange(len(values)) % FOLDS
    predicted = np.empty(len(values))
    for fold in range(FOLDS):
        is_held_out = folds == fold
        weights, intercept = ridge(values[~is_held_out], scores[~is_held_out])
        predicted[is_held_out] = values[is_held_out] @ weights + intercept
    return predicted.clip(0, 100)


def planted_detached(translations: Sequence[Translation]) -> tuple[list[IdPair], list[int]]:
    """Sources with the translations of others, and whose translations these are."""
    count = len(translations)
    pairs: list[IdPair] = []
    others = []
    for row, translation in enumerate(translations[:MOST_PLANTED]):
        other = (row + count // 2) % count
        if translations[other].text != translation.text:
            pairs.append((translation.source_ids, translations[other].ids))
            others.append(other)
    return pairs, others


def planted_omissions(
    translator: Translator, translations: Sequence[Translation], longest: int
) -> list[IdPair]:
    """Two sources as one, with the translation of the first or of the second alone."""
    count = len(translations)
    pairs: list[IdPair] = []
    for row, first in enumerate(translations[:MOST_PLANTED]):
        second = translations[(row + count // 2) % count]
        start = translator.tokenizers.source.sentence_start(second.source_ids)
        ids = first.source_ids.like([*first.source_ids, *second.source_ids[start:]])
        if len(ids) <= longest:
            pairs.append((ids, (first, second)[row % 2].ids))
    return pairs


def alarm_limit(ordinary: np.ndarray, planted: np.ndarray) -> float:
    """Up to which score a translation is named as faulty; NEVER if nothing was planted.

    At most ALARMS of the ordinary ones are named, and fewer if the planted ones lie apart: then the
    limit is midway between both.
    """
    if not len(planted):
        return NEVER
    low = float(np.quantile(ordinary, ALARMS, method="lower"))
    high = float(np.quantile(planted, 1 - ALARMS, method="higher"))
    return min(low, (low + high) / 2)


def share(is_named: np.ndarray) -> float:
    return float(is_named.mean()) if len(is_named) else 0.0


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's; 0 where one of them never varies."""
    if first.std() < 1e-9 or second.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def read_estimator(
    run_folder: Path, weights: Sequence[str], extractor: Extractor | None
) -> Estimator | None:
    """What was fitted for checkpoints with these digests; None if nothing was."""
    match read_measured(run_folder / FILE, weights):
        case {"features": {**of_features}, **numbers}:
            weights_of: list[Any] = [of_features.get(name) for name in FEATURES]
            others: list[Any] = [numbers.get(name) for name in Fitted._fields[1:]]
            values = weights_of + others
            if all(isinstance(value, float) and math.isfinite(value) for value in values):
                return Estimator(Fitted(tuple(weights_of), *others), extractor)
    return None


def write_estimate(
    run_folder: Path,
    weights: Sequence[str],
    found: tuple[Fitted, dict[str, float]] | None,
    pairs: int,
    key: str,
) -> None:
    """Keep what was fitted on that many validation pairs; `key` stands for all that it depends on.

    Raises OSError and UserError.
    """
    content: dict[str, Any] = {"validation_pairs": pairs, "key": key}
    if found is not None:
        fitted, named = found
        numbers = fitted._asdict()
        of_features = dict(zip(FEATURES, numbers.pop("weights"), strict=True))
        content = {"features": of_features} | numbers | {"named": named} | content
    write_measured(run_folder / FILE, weights, content)
