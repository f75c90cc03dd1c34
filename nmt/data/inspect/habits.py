"""How lines are written: with tags, in capitals, as tokenizers write them. A fault, unless most of the corpus is so."""

import re

import numpy as np

from nmt.data.inspect.characters import CAPITAL, SMALL
from nmt.data.inspect.lines import NEWLINE, Lines

TAG = re.compile(
    r"</?(?:a|b|i|u|p|br|em|strong|span|div|font|su[bp]|tt|code|li|[uo]l|t[drh]|table|img|h[1-6]|seg|s)\b[^<>\n]{0,200}>",
    re.I,
)
MIN_CASED_WORDS = 3  # of a line whose case is judged, or that may not be equal on both sides


def matching(side: Lines, candidates: np.ndarray, pattern: re.Pattern[str]) -> np.ndarray:
    """Which of the candidate lines match a pattern."""
    found = candidates.copy()
    for line in np.flatnonzero(candidates).tolist():
        found[line] = pattern.search(side.texts[line]) is not None
    return found


def has_tags(side: Lines) -> np.ndarray:
    """Which lines have tags of HTML."""
    return matching(side, side.having(side.codes == ord("<")), TAG)


def in_capitals(side: Lines) -> np.ndarray:
    """Which lines have no small letter, and at least MIN_CASED_WORDS words in capitals."""
    words = side.words
    many = words.lines_with((words.kind == CAPITAL) & (words.length > 1)) >= MIN_CASED_WORDS
    return (side.small == 0) & many


def has_spaced_punctuation(side: Lines) -> np.ndarray:
    """Which lines have a full stop or comma between spaces, or a space before a full stop at the end."""
    codes = side.codes
    middle = (codes[1:-1] == ord(".")) | (codes[1:-1] == ord(","))
    after = (codes[2:] == 32) | (codes[2:] == NEWLINE)
    found = np.concatenate(([False], (codes[:-2] == 32) & middle & after, [False])) if len(codes) > 2 else codes < 0
    return side.having(found)


def without_capitals(side: Lines) -> np.ndarray:
    """Which lines begin with a small letter, have no capital letter, and at least MIN_CASED_WORDS words."""
    words = side.words
    many = words.lines_with((words.kind == SMALL) & (words.length > 1)) >= MIN_CASED_WORDS
    first = np.append(words.kind, 0)[np.minimum(np.cumsum(words.count) - words.count, len(words.kind))]
    return (side.capitals == 0) & many & (first == SMALL)


def few_capitals(side: Lines) -> np.ndarray:
    """Which lines have small letters and no capitals."""
    return (side.small > 0) & (side.capitals == 0)
