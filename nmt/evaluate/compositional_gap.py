"""The compositional gap: how much lower a score is on new combinations of known parts than on known combinations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmt.errors import UserError
from nmt.evaluate.bleu_chrf import tokenizer_for
from nmt.evaluate.significance import SEED

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

SAMPLES = 1000
SEEN, UNSEEN = "test_seen", "test_unseen"


class Gap(NamedTuple):
    """BLEU(test_seen) − BLEU(test_unseen) and the ends of its 95 % interval."""

    gap: float
    low: float
    high: float

    def text(self) -> str:
        """gap 6.52 (4.98 to 8.10)"""
        return f"gap {self.gap:.2f} ({self.low:.2f} to {self.high:.2f})"


def compositional_gap(
    seen: tuple[Sequence[str], Sequence[str]], unseen: tuple[Sequence[str], Sequence[str]], language: str = "en"
) -> Gap:
    """gap = BLEU(seen) − BLEU(unseen), with an interval by bootstrap resampling (Koehn 2004) of independent samples.

    Each set is (translations, references). The sentences of each are resampled by themselves, SAMPLES times; the
    interval reaches from the 2.5th to the 97.5th percentile of the differences. Raises UserError where a set is empty
    or its numbers of lines differ.
    """
    from sacrebleu.metrics.bleu import BLEU  # imported here so that the command line starts fast

    random, bleu, scores = np.random.default_rng(SEED), BLEU(tokenize=tokenizer_for(language), force=True), []
    for translations, references in (seen, unseen):
        counts = sentence_counts(bleu, translations, references)
        lines = len(counts)
        drawn = random.multinomial(lines, np.full(lines, 1 / lines), size=SAMPLES)  # how often each sentence is taken
        sums = np.concatenate([counts.sum(axis=0, keepdims=True), drawn @ counts])
        scores.append(np.array([score(bleu, row.tolist()) for row in sums]))
    difference = scores[0] - scores[1]
    low, high = np.percentile(difference[1:], [2.5, 97.5])
    return Gap(float(difference[0]), float(low), float(high))


def sentence_counts(bleu: "BLEU", translations: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """[sentences, 2 + 2N]: words of the translation, of the reference, N matches, N n-grams, whose sums give BLEU."""
    if len(translations) != len(references):
        raise UserError(f"{len(translations)} translations cannot be scored against {len(references)} references.")
    if not references:
        raise UserError("There is nothing to score; the references are empty.")
    scored = (
        bleu.corpus_score([line], [[reference]]) for line, reference in zip(translations, references, strict=True)
    )
    return np.array([[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in scored])


def score(bleu: "BLEU", row: list[int]) -> float:
    """BLEU of summed counts, as sacreBLEU computes it for a corpus."""
    order = (len(row) - 2) // 2
    return bleu.compute_bleu(row[2 : 2 + order], row[2 + order :], row[0], row[1], smooth_method="exp").score
