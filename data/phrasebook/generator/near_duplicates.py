"""Near-duplicates: sentences whose edit distance, in words, is at most one."""

from collections.abc import Iterator, Sequence

from generator.draw import Pair

WILDCARD = "*"
WITHOUT_MARKS = str.maketrans("", "", ".,!?;:")


def near_training(candidates: Sequence[Pair], train: Sequence[Pair]) -> list[bool]:
    """For each candidate, whether a training pair is within one word of it on the German or the
    English side.

    One word inserted, deleted or exchanged, or none; case and punctuation do not count. Time grows
    with the number of words of both lists, not with the product of their lengths.
    """
    near = [False] * len(candidates)
    for side in ("german", "english"):
        shortened: dict[str, list[int]] = {}  # without one word, and as it is
        patterns: dict[str, list[int]] = {}  # with a wildcard for a word, or between two words
        for number, pair in enumerate(candidates):
            words = plain(getattr(pair, side)).split()
            for text in {
                " ".join(words),
                *(" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))),
            }:
                shortened.setdefault(text, []).append(number)
            inserted = (" ".join([*words[:i], WILDCARD, *words[i:]]) for i in range(len(words) + 1))
            for pattern in {*exchanged(" ".join(words)), *inserted}:
                patterns.setdefault(pattern, []).append(number)
        for pair in train:
            text = plain(getattr(pair, side))
            for number in shortened.get(text, ()):
                near[number] = True
            for pattern in exchanged(text):
                for number in patterns.get(pattern, ()):
                    near[number] = True
    return near


def plain(text: str) -> str:
    """A sentence in lower case without punctuation marks."""
    return text.translate(WITHOUT_MARKS).lower()


def exchanged(text: str) -> Iterator[str]:
    """A sentence with each of its words in turn replaced by a wildcard; its words are separated by
    one space."""
    start = 0
    while start <= len(text):
        end = text.find(" ", start)
        end = len(text) if end < 0 else end
        yield text[:start] + WILDCARD + text[end:]
        start = end + 1
