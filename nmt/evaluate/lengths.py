"""Scores by the length of the source: the curve of Bahdanau et al. (2015), figure 2.

Words are those of `evaluate/words.py`; in a script without spaces each character counts as a word.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.words import SPACELESS, word_spans
from nmt.evaluate.metrics import Translated, open_scorer

EDGES = (5, 10, 15, 20, 30, 40, 50)  # the longest length of each bucket; longer sentences are in one more bucket
MIN_SENTENCES = 20  # of a bucket: a BLEU over fewer means nothing


class Bucket(NamedTuple):
    """Sentences whose sources have `first` to `last` words; `last` is None for the bucket without an upper bound."""

    first: int
    last: int | None
    rows: list[int]
    mean_length: float  # source words of a sentence

    @property
    def label(self) -> str:
        """The range of lengths, such as 6–10 or 51+."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


def count_words(text: str) -> int:
    """Number of words of a text; each punctuation character at a word's edge counts as one."""
    words = (text[start:end] for start, end in word_spans(text))
    return sum(len(word) if SPACELESS.search(word) else 1 for word in words)


def length_buckets(lengths: Sequence[int], min_sentences: int = MIN_SENTENCES) -> list[Bucket]:
    """Sentences by source length; a bucket of fewer than `min_sentences` is merged with the next, the last with its
    predecessor.

    Blank sources are left out, and so are empty buckets below the shortest and above the longest sentence. There may
    be one bucket with fewer than `min_sentences` sentences when there are no more.
    """
    sizes = [length for length in lengths if length]
    if not sizes:
        return []
    edges: list[int | None] = [*(edge for edge in EDGES if min(sizes) <= edge < max(sizes)), upper_edge(max(sizes))]
    ranges: list[tuple[int, int | None, list[int]]] = []
    start = max((edge for edge in EDGES if edge < min(sizes)), default=0) + 1
    for edge in edges:
        rows = [row for row, size in enumerate(lengths) if size >= start and (edge is None or size <= edge)]
        if len(rows) >= min_sentences or edge == edges[-1]:
            ranges.append((start, edge, rows))
            start = (edge or 0) + 1
        # else the next bucket begins at the same length
    if len(ranges) > 1 and len(ranges[-1][2]) < min_sentences:
        (start, _, rows), (_, edge, more) = ranges[-2:]
        ranges[-2:] = [(start, edge, sorted(rows + more))]
    return [Bucket(first, last, rows, sum(lengths[row] for row in rows) / len(rows)) for first, last, rows in ranges]


def upper_edge(length: int) -> int | None:
    """The upper edge of the bucket of a length; None above all EDGES."""
    return next((edge for edge in EDGES if length <= edge), None)


def bleu_by_length(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], buckets: Sequence[Bucket], language: str
) -> list[float]:
    """BLEU of the sentences of each bucket."""
    scorer = open_scorer("bleu", language)
    counts = scorer.statistics(Translated(hypotheses, references))
    return [scorer.score(counts[bucket.rows].sum(axis=0)) for bucket in buckets]


def join_pairs(pairs: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Each `count` consecutive pairs as one pair, source and target alike; a remainder is left out."""
    groups = (pairs[start : start + count] for start in range(0, len(pairs) - count + 1, count))
    return [(" ".join(source for source, _ in group), " ".join(target for _, target in group)) for group in groups]
