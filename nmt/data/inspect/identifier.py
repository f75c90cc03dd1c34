"""The language of single lines by py3langid, which may be missing; it is slow, so it gets doubtful lines only."""

from functools import lru_cache
from typing import Any

import numpy as np

from nmt.data.inspect.language import Language
from nmt.data.inspect.lines import Lines
from nmt.errors import UserError, install_extra

DOUBTFUL = 0.4  # share of unknown words
CERTAIN = 0.9  # probability


@lru_cache
def load_identifier() -> Any:
    """py3langid with probabilities; raises UserError where it is not installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise UserError(
            "data.audit_identifier=true needs the library py3langid (0.4 or newer); install it with "
            f"{install_extra('audit')}, or leave the key out."
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def check_languages(*codes: str) -> None:
    """Raise UserError for a language code that the identifier does not know."""
    known = {str(label) for label in load_identifier().labels}
    for code in codes:
        if base(code) not in known:
            raise UserError(f"The language identifier does not know '{code}'; leave data.audit_identifier out.")


def base(code: str) -> str:
    """The language of a code such as de-AT."""
    return code.replace("_", "-").split("-")[0].lower()


def other_language(language: Language, code: str, side: Lines) -> np.ndarray:
    """Which of the lines with many unknown words are certainly in another language."""
    found = language.unknown(side, DOUBTFUL)
    for line in np.flatnonzero(found).tolist():
        name, probability = load_identifier().classify(side.texts[line])
        found[line] = name != base(code) and probability >= CERTAIN
    return found
