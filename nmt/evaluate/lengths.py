"""Scores by the length of the source: the curve of Bahdanau et al. (2015), figure 2.

A word is what `evaluate/words.py` calls one; in a script without spaces each character counts as a word.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nmt.evaluate.scores import tokenizer_for
from nmt.evaluate.words import SPACELESS, words

EDGES = (5, 10, 15, 20, 30, 40, 50)  # the longest of each bucket; a last bucket holds what is longer
SMALLEST = 20  # sentences: a BLEU over fewer says nothing


class Bucket(NamedTuple):
    """Sentences whose sources have `first` to `last` words; `last` is None where nothing bounds it."""

    first: int
    last: int | None
    rows: list[int]
    mean: float  # source words of a sentence

    @property
    def label(self) -> str:
        """Such as 6–10 or 51+."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


def count_words(text: str) -> int:
    """Words of a text, punctuation at a word's edge counted apart."""
    found = (text[start:end] for start, end in words(text))
    return sum(len(word) if SPACELESS.search(word) else 1 for word in found)


def buckets(lengths: Sequence[int], smallest: int = SMALLEST) -> list[Bucket]:
    """Sentences by source length; a bucket of fewer than `smallest` is merged with the next, at the end with the last.

    Blank sources are left out, and so are empty buckets below the shortest and above the longest sentence. There may
    be one bucket with fewer than `smallest` sentences when there are no more.
    """
    sizes = [length for length in lengths if length]
    if not sizes:
        return []
    edges: list[int | None] = [*(edge for edge in EDGES if min(sizes) <= edge < max(sizes)), upper(max(sizes))]
    first = max((edge for edge in EDGES if edge < min(sizes)), default=0) + 1
    found: list[tuple[int, int | None, list[int]]] = []
    start = first
    for edge in edges:
        rows = [row for row, size in enumerate(lengths) if size >= start and (edge is None or size <= edge)]
        if len(rows) >= smallest or edge == edges[-1]:
            found.append((start, edge, rows))
            start = (edge or 0) + 1
        # else the next bucket begins where this one did
    if len(found) > 1 and len(found[-1][2]) < smallest:
        (start, _, rows), (_, edge, more) = found[-2:]
        found[-2:] = [(start, edge, sorted(rows + more))]
    return [Bucket(*one, sum(lengths[row] for row in one[2]) / len(one[2])) for one in found]


def upper(longest: int) -> int | None:
    """The end of the bucket that the longest sentence is in."""
    return next((edge for edge in EDGES if longest <= edge), None)


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """BLEU alone, as `evaluate.scores.score` computes it."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenizer_for(language), force=True)
    return metric.corpus_score(list(hypotheses), [list(references)]).score


def by_length(
    hypotheses: Sequence[str], references: Sequence[str], found: Sequence[Bucket], language: str
) -> list[float]:
    """BLEU of each bucket."""
    return [
        corpus_bleu([hypotheses[row] for row in one.rows], [references[row] for row in one.rows], language)
        for one in found
    ]


def joined(pairs: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Each `count` consecutive pairs as one pair, source and target alike; a remainder is left out."""
    whole = range(0, len(pairs) - count + 1, count)
    groups = (pairs[start : start + count] for start in whole)
    return [(" ".join(source for source, _ in group), " ".join(target for _, target in group)) for group in groups]
