"""Whether a new version of a run is used: better on held-out corrections, not worse elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nmt.corpus.filtering import hash_letters, hash_text
from nmt.evaluate.metrics import METRICS, STANDARD, sentence_chrf
from nmt.evaluate.significance import LEVEL, POWER, enough_sentences, paired_bootstrap
from nmt.runs.versions import ACCEPTED

HELD_OUT = "corrections"  # that are not trained on; also the name of their test set
SHARE = 0.2  # of the corrections that are held out
FEWEST = 10  # held-out corrections: of fewer no test says anything
EDITS = "ter"  # of the machine's text into a correction: HTER
NOT_BETTER = "not better"
TOO_FEW = "too few to tell"
WORSE = "worse on other text"


def is_held_out(source: str) -> bool:
    """Whether a correction is held out: a function of the letters of its source alone."""
    value = hash_letters(source) or hash_text(source)
    return hash_text(f"held out {value}") < SHARE * 2**64


@dataclass
class SetChange:
    """What two versions make of one set."""

    name: str
    language: str  # of the translations
    sources: list[str]
    references: list[str]
    before: list[str]
    after: list[str]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Of each metric the values `before` and `after`; of their difference `p` and `error`."""
        metrics = [*STANDARD, EDITS] if self.name == HELD_OUT else STANDARD
        tested = paired_bootstrap(
            [self.before, self.after], [self.references], self.language, metrics=metrics
        )
        scores = {}
        for metric, (before, after) in tested.intervals.items():
            p = 1.0 if after.p is None else after.p
            scores[metric] = {"before": before.score, "after": after.score, "p": p}
            scores[metric]["error"] = after.standard_error
        return scores

    def gain(self, metric: str) -> float:
        return self.scores[metric]["after"] - self.scores[metric]["before"]

    def gains_of_sentences(self) -> np.ndarray:
        """[S]: the difference in chrF of each translation."""
        before = sentence_chrf(self.before, self.references)
        return sentence_chrf(self.after, self.references) - before


@dataclass(frozen=True)
class Decision:
    """Whether a version is used, in one word and in a sentence."""

    kind: str
    sentence: str


def decide(corrections: SetChange | None, others: Sequence[SetChange], margin: float) -> Decision:
    """Whether a version is better on held-out corrections and not worse on other sets."""
    lost = [change for change in others if change.gain("bleu") < -margin]
    kept = "; ".join(f"{change.name} {described(change, 'bleu')}" for change in others)
    if lost:
        words = "; ".join(f"{change.name} {described(change, 'bleu')}" for change in lost)
        return Decision(
            WORSE, f"Worse on other text than the margin of {margin:g} BLEU allows: {words}."
        )
    if corrections is None:
        return Decision(
            TOO_FEW,
            "Too few to tell: none of these corrections is held out, and the test needs "
            f"{amount(FEWEST)}.",
        )
    count = len(corrections.sources)
    words = f"{count} held-out corrections: {described(corrections, 'chrf')}"
    if count < FEWEST:
        return Decision(TOO_FEW, f"Too few to tell: {words}, and the test needs {amount(FEWEST)}.")
    p = corrections.scores["chrf"]["p"]
    gain = corrections.gain("chrf")
    if gain <= 0:
        return Decision(
            NOT_BETTER,
            f"Not better. {words}. More corrections for the test would not help: there is no gain "
            "that it could find.",
        )
    if p >= LEVEL:
        needed = enough_sentences(gain, corrections.scores["chrf"]["error"], count)
        return Decision(
            TOO_FEW,
            f"Too few to tell: {words}, which may be chance (p = {p:.3f}). A gain of this size "
            f"would be found in {100 * POWER:.0f} % of all cases with {amount(needed)}.",
        )
    return Decision(ACCEPTED, f"Better. {words} (p = {p:.3f}); other text: {kept}.")


def amount(held_out: int) -> str:
    """How many corrections have so many held-out ones; two digits of both numbers, rounded up."""
    numbers = []
    for number in (held_out / SHARE, held_out):
        step = 10 ** max(0, len(str(math.ceil(number))) - 2)
        numbers.append(f"{step * math.ceil(number / step):,}")
    return f"about {numbers[0]} corrections, {numbers[1]} of them held out"


def described(change: SetChange, metric: str) -> str:
    """Such as `chrF 41.2 → 44.9 (+3.7)`."""
    scores = change.scores[metric]
    label = METRICS[metric].label
    return f"{label} {scores['before']:.1f} → {scores['after']:.1f} ({change.gain(metric):+.1f})"
