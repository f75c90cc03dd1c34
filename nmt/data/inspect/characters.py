"""Tables over Unicode characters: their kind, their script and their small letter."""

import unicodedata
from functools import lru_cache

import numpy as np

from nmt.data.words import SPACELESS

SIZE = 0x20000  # characters beyond this are OTHER: emoji, rare Chinese characters
OTHER, SPACE, SMALL, CAPITAL, UNCASED, DIGIT, MARK = range(7)  # kinds; from SMALL on they are parts of words
# A script goes by the first word of a letter's name in Unicode; these are written together in one language.
TOGETHER = {
    "HIRAGANA": "CJK",
    "KATAKANA": "CJK",
    "KATAKANA-HIRAGANA": "CJK",
    "IDEOGRAPHIC": "CJK",
    "FULLWIDTH": "LATIN",
}
NO_SCRIPT = 0
KINDS = {"Ll": SMALL, "Lu": CAPITAL, "Lt": CAPITAL, "Lo": UNCASED, "Lm": UNCASED, "Mn": MARK, "Mc": MARK, "Nd": DIGIT}


@lru_cache
def kinds() -> np.ndarray:
    """The kind of each character [SIZE]."""
    table = np.zeros(SIZE, np.uint8)
    for code in range(SIZE):
        character = chr(code)
        table[code] = SPACE if character.isspace() else KINDS.get(unicodedata.category(character), OTHER)
    return table


@lru_cache
def small_letters() -> np.ndarray:
    """The small letter of each character [SIZE], itself where it has none."""
    table = np.arange(SIZE, dtype=np.uint32)
    for code in np.flatnonzero(kinds() == CAPITAL).tolist():
        small = chr(code).lower()
        table[code] = ord(small) if len(small) == 1 else code
    return table


@lru_cache
def scripts() -> tuple[np.ndarray, list[str]]:
    """The script of each character [SIZE], NO_SCRIPT for what is no letter; and the names of the scripts."""
    table, numbers = np.zeros(SIZE, np.uint8), {"": NO_SCRIPT}
    for code in np.flatnonzero(np.isin(kinds(), (SMALL, CAPITAL, UNCASED))).tolist():
        name = unicodedata.name(chr(code), "OTHER").split(" ")[0]
        name = TOGETHER.get(name, name)
        table[code] = numbers.setdefault(name, min(len(numbers), 255))
    return table, list(numbers)


@lru_cache
def single_words() -> np.ndarray:
    """Whether each character [SIZE] is a word by itself, since its script has no spaces between words."""
    return np.array([SPACELESS.match(chr(code)) is not None for code in range(SIZE)])
