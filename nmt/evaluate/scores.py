"""BLEU and chrF, computed by sacreBLEU and by nothing else, on raw untokenised text, always with the signature."""

import re
from typing import Any

from nmt.errors import UserError

# 13a sees a sentence of these languages as one word or nearly so. Japanese and Korean have better tokenisers in
# sacreBLEU (ja-mecab, ko-mecab) that need extra packages; characters need none, and the signature says which it was.
TOKENIZERS = {"zh": "zh", "zho": "zh", "cmn": "zh", "yue": "zh"}
TOKENIZERS |= dict.fromkeys("ja jpn ko kor th tha lo lao km khm my mya".split(), "char")
TOKENISED = re.compile(r"\S [.,](?=\s|$)|&(apos|quot|amp|#91|#93|#124);|@-@")
SUSPICIOUS = 0.3  # share of lines


def tokenizer_for(language: str) -> str:
    """SacreBLEU's tokeniser for a target language code such as de, zh_CN or zho_Hans."""
    return TOKENIZERS.get(re.split("[-_]", language.lower())[0], "13a")


def score(hypotheses: list[str], references: list[str], language: str = "en") -> dict[str, Any]:
    """BLEU and chrF (0 to 100) of translations against one reference each, with sacreBLEU's signatures.

    Returns {"bleu", "chrf", "bleu_signature", "chrf_signature", "sentences"}. Raises UserError when the numbers of
    lines differ or there are none.
    """
    from sacrebleu.metrics.bleu import BLEU  # here: the command line shall start fast
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} translations cannot be scored against {len(references)} references.")
    if not references:
        raise UserError("There is nothing to score; the references are empty.")
    # force: sacreBLEU's own warning about tokenised text looks at hypotheses; `looks_tokenised` looks at references.
    bleu, chrf = BLEU(tokenize=tokenizer_for(language), force=True), CHRF()
    return {
        "bleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
        "sentences": len(references),
    }


def looks_tokenised(references: list[str]) -> str | None:
    """A sentence of warning when references seem to be tokenised (Moses), None otherwise."""
    lines = [line for line in references if line.strip()]
    marked = [line for line in lines if TOKENISED.search(line)]
    if not marked or len(marked) < SUSPICIOUS * len(lines):
        return None
    return (
        f"{len(marked)} of {len(lines)} references look tokenised (such as {marked[0][:60]!r}); BLEU and chrF are "
        "comparable with published ones only on raw, detokenised text."
    )
