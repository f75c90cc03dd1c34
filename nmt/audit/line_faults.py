"""Faults of a pair that its own two lines show."""

import re

NUMBER = re.compile(r"\d+(?:[.,:/’'\u00a0\u202f]?\d+)*")
# Written alike in every language: addresses, paths of the web, and words of letters and digits.
ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.-]*\w|\b(?:https?://|www\.)\S*\w|\b(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Z\d]{3,}\b"
)
ADDRESS_SIGNS = ("@", "://", "www.")
SEPARATED_SIGNS = ("&apos;", "@-@", " '", " n't")
SEPARATED = re.compile(r"&apos;|@-@|(?<=\w) '(?:s|t|re|ll|ve|d|m)\b|(?<=\w) n't\b")  # parts of contractions
MARK, MARK_SIGNS = re.compile("\ufeff"), ("\ufeff",)  # the byte order mark
WORD = re.compile(r"[^\W\d_]{3,}")
MIN_DIGITS = 3  # of a number that is expected on the other side too; smaller ones are often words there
MIN_COPIED_WORDS, COPIED_SHARE = 5, 0.6  # of the target's words that the source has too


def numbers(line: str) -> set[str]:
    """The digits of each number of a line, without separators and decimals of zero."""
    return {re.sub(r"[.,]00?$|\D", "", number) for number in NUMBER.findall(line)}


def numbers_differ(source: str, target: str) -> bool:
    """Whether a number on one side is not on the other: of MIN_DIGITS digits, of one more where that side has none.

    Small numbers are often words on the other side, and times and dates are written in other ways.
    """
    both = numbers(source), numbers(target)
    digits = MIN_DIGITS if all(both) else MIN_DIGITS + 1
    return any(len(number) >= digits for number in both[0] ^ both[1])


def addresses_differ(source: str, target: str) -> bool:
    """Whether an e-mail address, a URL or a code of letters and digits on one side is not on the other."""
    return set(ADDRESS.findall(source)) != set(ADDRESS.findall(target))


def is_mostly_copied(source: str, target: str) -> bool:
    """Whether most words of the target are words of the source, but not all of the line."""
    if source == target:
        return False
    words = WORD.findall(target)
    if len(words) < MIN_COPIED_WORDS:
        return False
    known = set(WORD.findall(source))
    return sum(word in known for word in words) >= COPIED_SHARE * len(words)
