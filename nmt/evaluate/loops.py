"""Translations that loop: a span of words, or of letters, again and again."""

import re
from collections.abc import Sequence

TOKEN = re.compile(r"\w+|[^\w\s]")
LETTERS = re.compile(r"([^\W\d_]{1,4}?)\1{3,}", re.IGNORECASE)


def is_loop(source: str, translation: str) -> bool:
    """Whether a span of words is repeated more than twice, and more than any span of the source.

    Letters count as well: `hahahaha`, where the source has no such word.
    """
    allowed = max(2, most_repeats(TOKEN.findall(source.lower())))
    if most_repeats(TOKEN.findall(translation.lower())) > allowed:
        return True
    return LETTERS.search(translation) is not None and LETTERS.search(source) is None


def most_repeats(words: Sequence[str]) -> int:
    """How often the most repeated span stands in a row; marks alone, as in ..., are no span."""
    most = 1
    for period in range(1, len(words) // 2 + 1):
        run = 0
        has_word = False
        for before, word in zip(words, words[period:], strict=False):
            if before == word:
                run += 1
                has_word |= word.isalnum()
            else:
                run = 0
                has_word = False
            if has_word:
                most = max(most, 1 + run // period)
    return most
