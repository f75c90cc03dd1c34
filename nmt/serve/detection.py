"""Which language a text is in, by py3langid: a probability for each of 140 languages.

A guess is about the languages of the service. All others compete with them, so that a text in none
of them is recognized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from nmt.corpus.languages import base_code
from nmt.errors import needs_extra

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MOST_CHARACTERS = 2000  # that are looked at
SURE = 0.9  # the share at which a language that the service does not have is believed
NAMES = {"nb": "no", "zt": "zh", "pb": "pt"}  # codes that py3langid has under another name


class Guess(NamedTuple):
    """A language, and the share of the evidence that is for it."""

    language: str
    share: float  # from 0 to 1


@cache
def identifier() -> LanguageIdentifier:
    """The identifier with its table; raises UserError without py3langid."""
    with needs_extra("serve"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def guess_languages(text: str, codes: Sequence[str]) -> list[Guess]:
    """The languages of `codes` by their likelihood; before them another language, if it is sure.

    Without a letter there is no evidence: the list is empty.
    """
    text = text[:MOST_CHARACTERS]
    if not any(character.isalpha() for character in text):
        return []
    likelihoods = dict(identifier().rank(text))
    # Codes of one language, such as pt and pb, share its likelihood
    shared = Counter(map(library_code, codes))
    ours = {}
    for code in codes:
        known = library_code(code)
        ours[code] = likelihoods.get(known, 0.0) / shared[known]
    for known in shared:
        likelihoods.pop(known, None)
    other = max(likelihoods, key=likelihoods.__getitem__)
    total = sum(ours.values()) + likelihoods[other]
    guesses = [Guess(code, likelihood / total) for code, likelihood in ours.items()]
    guesses.sort(key=lambda guess: -guess.share)
    other_share = likelihoods[other] / total
    are_known = all(library_code(code) in identifier().labels for code in codes)
    if other_share >= SURE and are_known:  # else it may be one that the identifier has never seen
        guesses.insert(0, Guess(other, other_share))
    return guesses


def library_code(code: str) -> str:
    language = base_code(code)
    return NAMES.get(language, language)
