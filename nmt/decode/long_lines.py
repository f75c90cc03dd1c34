"""Lines longer than the sentences of training: how to split them and join their translations."""

from nmt.corpus.words import SPACELESS

SENTENCE_ENDS = "。！？"  # those that no space follows


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
