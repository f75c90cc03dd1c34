"""Is a difference between scores more than chance? Bootstrap resampling (Koehn 2004)."""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from nmt.errors import UserError
from nmt.evaluate.metrics import SEED, STANDARD, Translated, open_scorer

SAMPLES = 1000
LEVEL = 0.05  # a smaller p is more than chance
POWER = 0.8  # of a test with enough sentences: how often it finds a gain that is there
MIN_SAMPLES = 100  # resamples: below that the ends of a 95 % interval are single draws


class Interval(NamedTuple):
    """A score, its 95 % interval mean ± half_width, and its difference from the first system."""

    score: float
    mean: float  # of the resamples
    half_width: float
    p: float | None  # of the difference; None for the first system
    standard_error: float = 0.0  # of the difference: its deviation over the resamples


class Significance(NamedTuple):
    """The intervals of all systems in order, by metric, and the metrics' signatures."""

    intervals: dict[str, list[Interval]]
    signatures: dict[str, str]


def paired_bootstrap(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    language: str = "en",
    samples: int = SAMPLES,
    metrics: Iterable[str] = STANDARD,
    sources: Sequence[str] = (),
) -> Significance:
    """The scores of several systems with 95 % intervals, and p against the first system.

    All systems are scored on the same resampled sentences, drawn as sacreBLEU draws them. Its
    p-value is the fraction of resamples whose absolute difference, less the mean of all absolute
    differences, exceeds the difference on the whole set. A signature holds the number of lines and
    of resamples and the seed. Deviation from sacreBLEU: systems whose translations are all alike
    get p = 1; its formula would give 1 / (samples + 1), the smallest p there is. Raises UserError
    when the numbers of lines differ, there are none, or `samples` is too small.
    """
    check_samples(samples)
    intervals: dict[str, list[Interval]] = {}
    signatures = {}
    lines = len(references[0])
    for name in metrics:
        scorer = open_scorer(name, language)
        sets = [Translated(system, references, sources) for system in systems]
        counts = [scorer.statistics(translated) for translated in sets]  # of each system [S N]
        scores = np.array([scorer.score(sentences.sum(axis=0)) for sentences in counts])

        # The scores of all systems on the same sentences, drawn anew for each sample
        random = np.random.default_rng(SEED)
        resampled = np.zeros((len(systems), samples))
        for sample in range(samples):
            drawn = np.bincount(random.choice(lines, size=lines, replace=True), minlength=lines)
            resampled[:, sample] = [scorer.score(drawn @ sentences) for sentences in counts]

        # p: how often the difference from the first system, centred, exceeds that of the whole set
        signed = resampled - resampled[0]
        standard_errors = signed.std(axis=1)
        differences = np.abs(signed)
        centred = differences - differences.mean(axis=1, keepdims=True)
        exceeds = centred > np.abs(scores - scores[0])[:, None]
        p_values = (exceeds.sum(axis=1) + 1) / (samples + 1)

        # The interval: without 2.5 % of the scores at each end
        ordered = np.sort(resampled, axis=1)
        cut = samples // 40
        half_widths = (ordered[:, -1 - cut] - ordered[:, cut]) / 2

        intervals[name] = []
        for number, system in enumerate(systems):
            p: float | None = float(p_values[number])
            if number == 0:
                p = None
            elif list(system) == list(systems[0]):
                p = 1.0
            mean = float(resampled[number].mean())
            half_width = float(half_widths[number])
            error = float(standard_errors[number])
            intervals[name].append(Interval(float(scores[number]), mean, half_width, p, error))
        form = max(translated.form for translated in sets)
        signatures[name] = f"lines:{lines}|{scorer.signature(len(references), samples)}{form}"
    return Significance(intervals, signatures)


def enough_sentences(gain: float, standard_error: float, sentences: int) -> int:
    """In how many sentences a gain would be found in POWER of all cases.

    It is taken to be the gain that these sentences have, whose standard error falls with the root
    of their number: n = N·((z of LEVEL + z of POWER) · error / gain)². p is the one-sided one that
    `paired_bootstrap` has where the gain is large beside its error.
    """
    normal = NormalDist()
    errors = normal.inv_cdf(1 - LEVEL) + normal.inv_cdf(POWER)
    return math.ceil(sentences * (errors * standard_error / gain) ** 2)


def check_samples(samples: int) -> None:
    """Raise UserError where there are too few resamples."""
    if samples < MIN_SAMPLES:
        raise UserError(
            f"{samples} resamples are too few for a 95 % interval; choose at least {MIN_SAMPLES}."
        )


class Gap(NamedTuple):
    """BLEU(test_seen) − BLEU(test_unseen) and the ends of its 95 % interval.

    How much lower a score is on new combinations of known parts than on known combinations.
    """

    gap: float
    low: float
    high: float


def compositional_gap(seen: Translated, unseen: Translated, language: str = "en") -> Gap:
    """gap = BLEU(seen) − BLEU(unseen), with an interval by resampling independent samples.

    The sentences of each set are resampled by themselves, SAMPLES times; the interval reaches from
    the 2.5th to the 97.5th percentile of the differences. Raises UserError where a set is empty or
    its numbers of lines differ.
    """
    random = np.random.default_rng(SEED)
    scorer = open_scorer("bleu", language)
    scores = []
    for translated in (seen, unseen):
        counts = scorer.statistics(translated)
        lines = len(counts)
        # how often each sentence is taken
        drawn = random.multinomial(lines, np.full(lines, 1 / lines), size=SAMPLES)
        sums = [counts.sum(axis=0), *(drawn @ counts)]
        scores.append(np.array(list(map(scorer.score, sums))))
    difference = scores[0] - scores[1]
    low, high = np.percentile(difference[1:], [2.5, 97.5])
    return Gap(float(difference[0]), float(low), float(high))
