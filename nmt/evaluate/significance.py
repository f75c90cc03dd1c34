"""Significance of differences between systems: paired bootstrap resampling of sentences (Koehn 2004) by sacreBLEU.

All systems are scored on the same resampled sentences. sacreBLEU's p-value is the fraction of resamples whose absolute
difference, less the mean of all absolute differences, exceeds the difference on the whole set.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from nmt.errors import UserError
from nmt.evaluate.bleu_chrf import tokenizer_for

SEED = 12345  # sacreBLEU's own
MIN_SAMPLES = 100  # resamples: below that the ends of a 95 % interval are single draws
MAX_LINES = 50_000_000  # resamples × lines: sacreBLEU holds all of them at once, 72 bytes each for chrF


class Interval(NamedTuple):
    """A score with its 95 % confidence interval mean ± half_width, and p of its difference from the first system."""

    score: float
    mean: float  # of the resamples
    half_width: float
    p: float | None  # None for the first system


class Significance(NamedTuple):
    """The intervals of all systems in order, by metric (`bleu`, `chrf`), and the metrics' signatures."""

    intervals: dict[str, list[Interval]]
    signatures: dict[str, str]


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], language: str = "en", samples: int = 1000
) -> Significance:
    """BLEU and chrF of several systems' translations with 95 % intervals, and p against the first system.

    A signature holds the number of lines and of resamples and the seed. Deviation from sacreBLEU: systems whose
    translations are all alike get p = 1; its formula would give 1 / (samples + 1), the smallest p there is. Raises
    UserError when there is nothing to score, the numbers of lines differ, or `samples` is too small or too large.
    """
    check_samples(systems, references, samples)
    from sacrebleu.metrics.bleu import BLEU  # imported here so that the command line starts fast
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    bleu, chrf = (
        BLEU(tokenize=tokenizer_for(language), force=True, references=[references]),
        CHRF(references=[references]),
    )
    named: list[tuple[str, Sequence[str]]] = [(str(number), list(system)) for number, system in enumerate(systems)]
    with fixed_seed():
        signatures, results = PairedTest(named, {"BLEU": bleu, "chrF2": chrf}, None, "bs", samples, n_jobs=1)()
    intervals = {}
    for metric, sacrebleu_name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        intervals[metric] = [
            Interval(result.score, float(result.mean), float(result.ci), p_value(systems, number, result.p_value))
            for number, result in enumerate(cast(list[Any], results[sacrebleu_name]))
        ]
    lines = f"lines:{len(references)}|"
    return Significance(intervals, {"bleu": lines + str(signatures["BLEU"]), "chrf": lines + str(signatures["chrF2"])})


def p_value(systems: Sequence[Sequence[str]], number: int, computed: float | None) -> float | None:
    """sacreBLEU's p-value of system `number`; None for the first, 1 for one with the same translations as the first."""
    if number == 0 or computed is None:
        return None
    return 1.0 if list(systems[number]) == list(systems[0]) else float(computed)


def check_samples(systems: Sequence[Sequence[str]], references: Sequence[str], samples: int) -> None:
    """Raise UserError where there is nothing to resample, the lines differ in number, or `samples` is not possible."""
    if not systems or not references:
        raise UserError("There is nothing to compare; give at least one system and one reference.")
    for system in systems:
        if len(system) != len(references):
            raise UserError(f"{len(system)} translations cannot be scored against {len(references)} references.")
    if samples < MIN_SAMPLES:
        raise UserError(f"{samples} resamples are too few for a 95 % interval; choose at least {MIN_SAMPLES}.")
    if samples * len(references) > MAX_LINES:
        most = MAX_LINES // len(references)
        raise UserError(f"{samples} resamples of {len(references)} lines need too much memory; choose at most {most}.")


@contextmanager
def fixed_seed() -> Iterator[None]:
    """Set the environment variable from which sacreBLEU reads its seed, and restore it afterwards."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(SEED)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
