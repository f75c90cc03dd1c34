"""Tokenizers and the text filter as data for JavaScript: pieces with scores, and regular expressions."""

import re
from collections.abc import Collection
from typing import Any

from nmt.data.tags import TAG
from nmt.data.text_filter import NUMBERS, OTHERS, PLACEHOLDERS, SPANS
from nmt.data.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # as in SentencePiece's own files
# What Python's classes hold, within [ ] of JavaScript with the flag u.
CLASSES = {"w": r"\p{L}\p{N}_", "d": r"\p{Nd}", "s": r"\t-\r\x1c-\x20\x85\p{Z}"}
LETTERS = r"[\p{L}\p{Nl}\p{No}]"  # [^\W\d_]


def tokenizer_table(tokenizer: Tokenizer) -> dict[str, Any]:
    """The pieces of a tokenizer with their scores and types."""
    model, user_defined = tokenizer.processor, {*tokenizer.placeholders}
    ids = range(tokenizer.size)
    pieces, scores = [model.id_to_piece(number) for number in ids], [model.get_score(number) for number in ids]
    user_defined |= {number for number in ids if pieces[number] in tokenizer.tags}
    types = [
        UNKNOWN if model.is_unknown(number)
        else CONTROL if model.is_control(number)
        else BYTE if model.is_byte(number)
        else USER_DEFINED if number in user_defined
        else NORMAL
        for number in ids
    ]  # fmt: skip
    return {"pieces": pieces, "scores": scores, "types": types, "bpe": tokenizer.sampler.dropout}


def filter_rules(marks: Collection[str] = PLACEHOLDERS) -> dict[str, Any]:
    """The patterns of nmt/data/text_filter.py as JavaScript reads them, and the placeholders that a tokenizer has."""
    return {
        "pattern": javascript_pattern(SPANS.pattern),
        "tag": javascript_pattern(TAG.pattern),
        "numbers": [mark for mark in NUMBERS if mark in marks],
        "others": [mark for mark in OTHERS if mark in marks],
    }


def javascript_pattern(pattern: str) -> str:
    r"""A regular expression of Python as JavaScript reads it with the flag u: \w, \d and \s mean what Python means."""
    is_set = False  # inside of [ ]

    def convert(match: re.Match[str]) -> str:
        nonlocal is_set
        part, letter = match[0], match[0][-1]
        if part in ("[", "]"):
            is_set = part == "["
        elif letter in CLASSES:
            return CLASSES[letter] if is_set else f"[{CLASSES[letter]}]"
        elif part == r"\S" and not is_set:
            return f"[^{CLASSES['s']}]"
        elif not (letter in r"^$\.*+?()[]{}|/" or letter.isalnum() or (is_set and letter == "-")):
            return letter
        return part

    pattern = pattern.replace(r"[^\W\d_]", LETTERS).replace("(?P<", "(?<")
    return re.sub(r"\\p\{\w+\}|\\.|[\[\]]", convert, pattern)
