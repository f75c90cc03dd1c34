"""Lines longer than the sentences of training: how to split them and join their translations.

A model that has only seen single sentences often translates only the first and the last sentence of
such a line. `lacks_sentences` notices that.
"""

import re

from nmt.corpus.words import SPACELESS_ENDS

# The end of a sentence before another one, in Arabic, Urdu, Hindi and Armenian too. A point after a
# single letter is none ("z. B.").
BOUNDARY = re.compile(
    r"(?:(?<=[^\W\d_]{2})\.|[!?…؟۔।։])[\"'“”’»)\]]*\s+(?=\S)" rf"|[{SPACELESS_ENDS}](?=\s*\w)"
)
LEAST_SENTENCES = 3  # of a line that may have lost some; two are often joined by a comma
# A translation has lost sentences if it has at most these shares of its source's sentences and of
# its characters. Sentences alone do not suffice: those of Thai cannot be counted
MOST_SENTENCES_LEFT = 0.5
MOST_CHARACTERS_LEFT = 0.6


def count_sentences(text: str) -> int:
    """About how many sentences a line has; an abbreviation such as "Dr." counts as an end."""
    return 1 + len(BOUNDARY.findall(text.strip()))


def lacks_sentences(source: str, translation: str) -> bool:
    """Whether a translation has at most half of its source's sentences, and 60 % of its length."""
    sentences = count_sentences(source)
    return (
        sentences >= LEAST_SENTENCES
        and count_sentences(translation) <= MOST_SENTENCES_LEFT * sentences
        and len(translation) <= MOST_CHARACTERS_LEFT * len(source)
    )


def split_position(pieces: list[str], start: int, stop: int) -> int:
    """Where a part that begins at `start` ends, at `stop` at the latest; more pieces follow.

    It ends after the last of . ! ? ; or 。！？ in its second half, else before the last word that
    begins there, else at `stop`.
    """
    middle = (start + stop) // 2
    for index in range(stop, middle, -1):
        last = pieces[index - 1][-1]
        if last in SPACELESS_ENDS or (pieces[index].startswith("▁") and last in ".!?;"):
            return index
    for index in range(stop, middle, -1):
        if pieces[index].startswith("▁"):
            return index
    return stop


def split_positions(pieces: list[str], longest: int) -> list[int]:
    """Where the parts of a line end, except the last; a part has at most `longest` pieces."""
    stops = []
    start = 0
    while len(pieces) - start > longest:
        start = split_position(pieces, start, start + longest)
        stops.append(start)
    return stops
