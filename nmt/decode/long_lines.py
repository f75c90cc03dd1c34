"""Lines longer than the sentences of training: how to split them and join their translations.

A model that has only seen single sentences often translates only the first and the last sentence of
such a line. `lacks_sentences` notices that.
"""

import re

from nmt.corpus.words import SPACELESS

SENTENCE_ENDS = "。！？"  # those that no space follows
# Between two sentences; those of Arabic, Urdu, Hindi and Armenian too. No point of "z. B." is one.
BOUNDARY = re.compile(
    r"(?:(?<=[^\W\d_]{2})\.|[!?…؟۔।։])[\"'“”’»)\]]*\s+(?=\S)" rf"|[{SENTENCE_ENDS}](?=\s*\w)"
)
LEAST_SENTENCES = 3  # of a line that may have lost some; two are often joined by a comma
LOST_SENTENCES = 0.5  # at most this share of them is left, and
LOST_CHARACTERS = 0.6  # at most this share of the characters: Thai has no sentence ends


def count_sentences(text: str) -> int:
    """About how many sentences a line has; an abbreviation such as "Dr." counts as an end."""
    return 1 + len(BOUNDARY.findall(text.strip()))


def lacks_sentences(source: str, translation: str) -> bool:
    """Whether a translation has at most half of the sentences of its source, and is shorter."""
    sentences = count_sentences(source)
    return (
        sentences >= LEAST_SENTENCES
        and count_sentences(translation) <= LOST_SENTENCES * sentences
        and len(translation) <= LOST_CHARACTERS * len(source)
    )


def join_texts(texts: list[str]) -> str:
    """One line of texts that are not empty, with spaces between them where their script has any."""
    line = ""
    for text in texts:
        if line and line[-1] not in SENTENCE_ENDS and not SPACELESS.search(line[-1] + text[0]):
            line += " "
        line += text
    return line


def split_position(pieces: list[str], start: int, stop: int) -> int:
    """Where a part that begins at `start` ends, at `stop` at the latest; more pieces follow.

    It ends after the last sentence end in its second half, else before the last word that begins
    there, else at `stop`.
    """
    middle = (start + stop) // 2
    for index in range(stop, middle, -1):
        last = pieces[index - 1][-1]
        if last in SENTENCE_ENDS or (pieces[index].startswith("▁") and last in ".!?;"):
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
