"""Lines longer than the sentences of training: where they are split, and how their translations are
joined."""

from nmt.data.words import SPACELESS

SENTENCE_ENDS = "。！？"  # no space follows them


def join_texts(texts: list[str]) -> str:
    """Parts as one line, with spaces between them where their script has any."""
    line = ""
    for text in texts:
        spaced = line and not SPACELESS.search(line[-1] + text[0]) and line[-1] not in SENTENCE_ENDS
        line += f" {text}" if spaced else text
    return line


def split_position(pieces: list[str], start: int, stop: int) -> int:
    """Where to end a part: after the last sentence end in its second half, else before the last
    word, else anywhere."""
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
    """Where the parts of a line of more than `longest` pieces end, the last one excepted."""
    stops = []
    start = 0
    while len(pieces) - start > longest:
        start = split_position(pieces, start, start + longest)
        stops.append(start)
    return stops
