"""BLEU and chrF, computed by sacreBLEU and by nothing else, on raw untokenised text, always with the signature."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from nmt.errors import UserError

# 13a sees a sentence of these languages as one word or nearly so. Japanese and Korean have better tokenisers in
# sacreBLEU (ja-mecab, ko-mecab) that need extra packages; characters need none, and the signature says which it was.
TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}
TOKENISED = re.compile(r"\S [.,](?=\s|$)|&(apos|quot|amp|#91|#93|#124);|@-@")
SUSPICIOUS = 0.3  # share of lines


def tokenizer_for(language: str) -> str:
    """SacreBLEU's tokeniser for a target language code such as de or zh_CN."""
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


def write_result(folder: Path, hypotheses: list[str], result: dict[str, Any]) -> Path:
    """Write `hyp`, one translation a line, and then `result.json`; returns the latter's path.

    Each file appears whole or not at all, so where the JSON exists its translations do too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = (" ".join(re.split(r"[\r\n]+", hypothesis)) for hypothesis in hypotheses)
    write_whole(folder / "hyp", "".join(f"{line}\n" for line in lines))
    path = folder / "result.json"
    write_whole(path, json.dumps(result, ensure_ascii=False, indent=2) + "\n")
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a text file through a temporary sibling, so that no reader meets half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp makes files that nobody else may read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
