"""BLEU and chrF, computed by sacreBLEU and by nothing else, on raw untokenized text, always with the signature."""

import re
from typing import Any

from nmt.errors import UserError

# 13a takes a sentence of these languages for one word or nearly so. Japanese and Korean have better tokenizers in
# sacreBLEU (ja-mecab, ko-mecab) that need extra packages; characters need none, and the signature says which it was.
TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "yue": "zh"}
TOKENIZERS |= dict.fromkeys("ja jpn ko kor th tha lo lao km khm my mya".split(), "char")
TOKENIZED = re.compile(r"\S [.,](?=\s|$)|&(apos|quot|amp|#91|#93|#124);|@-@")
SUSPICIOUS_FRACTION = 0.3  # of the lines


def tokenizer_for(language: str) -> str:
    """SacreBLEU's tokenizer for a target language code such as de, zh_CN or zho_Hans."""
    return TOKENIZERS.get(re.split("[-_]", language.lower())[0], "13a")


def score(hypotheses: list[str], references: list[str], language: str = "en") -> dict[str, Any]:
    """BLEU and chrF (0 to 100) of translations against one reference each, with sacreBLEU's signatures.

    Returns {"bleu", "chrf", "bleu_signature", "chrf_signature", "sentences"}. Raises UserError when the numbers of
    lines differ or there are none.
    """
    from sacrebleu.metrics.bleu import BLEU  # imported here so that the command line starts fast
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} translations cannot be scored against {len(references)} references.")
    if not references:
        raise UserError("There is nothing to score; the references are empty.")
    # force: sacreBLEU's own warning about tokenized text is about hypotheses; `tokenization_warning` checks references.
    bleu, chrf = BLEU(tokenize=tokenizer_for(language), force=True), CHRF()
    return {
        "bleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
        "sentences": len(references),
    }


def sentence_bleu(hypothesis: str, reference: str, language: str = "en") -> float:
    """BLEU of one sentence, of the n-gram orders that it is long enough for."""
    from sacrebleu.metrics.bleu import BLEU

    return float(
        BLEU(tokenize=tokenizer_for(language), effective_order=True).sentence_score(hypothesis, [reference]).score
    )


def tokenization_warning(references: list[str]) -> str | None:
    """A warning in words when references seem to be tokenized (by Moses), None otherwise."""
    lines = [line for line in references if line.strip()]
    tokenized = [line for line in lines if TOKENIZED.search(line)]
    if not tokenized or len(tokenized) < SUSPICIOUS_FRACTION * len(lines):
        return None
    return (
        f"{len(tokenized)} of {len(lines)} references look tokenized (such as {tokenized[0][:60]!r}); BLEU and chrF "
        "are comparable with published ones only on raw, detokenized text."
    )
