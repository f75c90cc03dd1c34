"""Tokenizers and the text filter as data for JavaScript: pieces with scores, and regular expressions."""

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
    types = [NORMAL] * tokenizer.size
    for number in ids:
        if model.is_unknown(number):
            types[number] = UNKNOWN
        elif model.is_control(number):
            types[number] = CONTROL
        elif model.is_byte(number):
            types[number] = BYTE
        elif number in user_defined:
            types[number] = USER_DEFINED
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
    pattern = pattern.replace(r"[^\W\d_]", LETTERS).replace("(?P<", "(?<")
    parts, index, inside = [], 0, False
    while index < len(pattern):
        character = pattern[index]
        if character == "\\":
            parts.append(escape(pattern[index + 1], inside))
            index += 2
            if parts[-1] == r"\p":  # as LETTERS has it
                end = pattern.index("}", index) + 1
                parts.append(pattern[index:end])
                index = end
            continue
        if character == "[" and not inside:
            inside = True
        elif character == "]" and inside:
            inside = False
        parts.append(character)
        index += 1
    return "".join(parts)


def escape(letter: str, inside: bool) -> str:
    """A backslash and a letter as JavaScript reads them, inside or outside of [ ]."""
    if letter in CLASSES:
        return CLASSES[letter] if inside else f"[{CLASSES[letter]}]"
    if letter == "S" and not inside:
        return f"[^{CLASSES['s']}]"
    is_syntax = letter in r"^$\.*+?()[]{}|/" or (inside and letter == "-")
    return f"\\{letter}" if is_syntax or letter.isalnum() else letter
