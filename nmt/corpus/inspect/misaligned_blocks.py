"""Finds blocks of pairs that are shifted by some lines, or do not belong together at all.

For each pair i and shift k the evidence that source line i belongs to target line i + k is a
log-likelihood ratio:

    log N(s_i, t_{i+k}; ρ) − log N(s_i) N(t_{i+k}) + the words and numbers that both have,

with standardised log lengths s and t of correlation ρ. Where the evidence for k = 0 fails over a
window of pairs, the most likely sequence of shifts is searched for (Viterbi), in which each change
of the shift costs CHANGE.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from nmt.corpus.inspect.lines import Lines, Words

MIN_PAIRS = 200  # of a sample by which a fault is judged that depends on what is usual
MAX_SHIFT, BLOCK = 5, 500  # lines, pairs
MIN_SPREAD = 0.05  # standard deviation of log lengths; lines of one length tell nothing
# of the lengths of a corpus whose lines belong together; in seven languages 0.51 to 0.98
MIN_CORRELATION = 0.35
WINDOW = 16  # pairs whose evidence is summed
AROUND = 150  # pairs before and after a suspicious window that are looked at
CHANGE = 12.0  # nats
LOWEST = -4.0  # nats of one pair: a free translation is no proof
UNRELATED = 9  # stands for lines that do not belong together
SHIFTS = [*range(-MAX_SHIFT, MAX_SHIFT + 1), UNRELATED]
MIN_WORD = 4  # letters of a word that is evidence; numbers of any length are
# nats for each word that both lines have, and at most
SHARED = 2.5
MOST_SHARED = 5.0
Sides = tuple[np.ndarray, np.ndarray]  # values of the source's and of the target's lines


class MisalignedBlock(NamedTuple):
    """Pairs `first` to `last`, from 1, in which the source is `shift` lines ahead of the target.

    UNRELATED: no shift fits.
    """

    first: int
    last: int
    shift: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def moved(self, pairs: int) -> "MisalignedBlock":
        return MisalignedBlock(self.first + pairs, self.last + pairs, self.shift)

    def describe(self) -> str:
        if self.shift == UNRELATED:
            return "the two sides do not belong together"
        lines = "1 line" if abs(self.shift) == 1 else f"{abs(self.shift)} lines"
        when = "late" if self.shift > 0 else "early"
        return f"the target is {lines} {when}"


@dataclass
class Chunk:
    """Pairs that are looked at together, in their context."""

    pairs: list[tuple[str, str]]
    core: slice  # of those that are not context
    first: int  # number of the first pair of the core, from 1

    @property
    def size(self) -> int:
        return self.core.stop - self.core.start


def chunks(pairs: Iterator[tuple[str, str]], most: int) -> Iterator[Chunk]:
    """The pairs in chunks of at most `most`, with AROUND pairs of context before and after."""
    held = list(islice(pairs, most + AROUND))
    before = 0
    first = 1
    while len(held) > before:
        size = min(most, len(held) - before)
        yield Chunk(held, slice(before, before + size), first)
        first += size
        keep = max(0, before + size - AROUND)
        before = before + size - keep
        held = held[keep:]
        held += islice(pairs, before + most + AROUND - len(held))


def length_moments(source: Lines, target: Lines) -> np.ndarray:
    """Means and standard deviations of both sides' log lengths, and their correlation [3 2].

    Extremes are cut off. The correlation is the median over blocks, each shifted by so many lines
    as fit best: one file may be shifted.
    """
    moments = np.zeros((3, 2))
    kept = ~(source.blank | target.blank)
    if kept.sum() < MIN_PAIRS:
        return moments
    for column, side in enumerate((source, target)):
        moments[:2, column] = robust(np.log(side.lengths[kept] + 3.0))
    if moments[1].min() >= MIN_SPREAD:
        source_scores = standard_scores(moments, 0, source.lengths)
        target_scores = standard_scores(moments, 1, target.lengths)
        correlations = []
        for start in range(0, max(1, source.count - BLOCK + 1), BLOCK):
            block = slice(start, start + BLOCK)
            correlations.append(best_correlation(source_scores[block], target_scores[block]))
        moments[2, 0] = np.median(correlations)
    return moments


def robust(values: np.ndarray) -> tuple[float, float]:
    """Median, and the standard deviation of a normal distribution with the same quartiles."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float((high - low) / 1.349)


def best_correlation(source: np.ndarray, target: np.ndarray) -> float:
    """The largest correlation over shifts by up to MAX_SHIFT lines."""
    size = len(source) - MAX_SHIFT
    if min(source.std(), target.std()) < 1e-6:
        return 0.0
    correlations = []
    for shift in range(MAX_SHIFT + 1):
        shifted = slice(shift, shift + size)
        correlations.append(float(np.corrcoef(source[shifted], target[:size])[0, 1]))
        if shift:
            correlations.append(float(np.corrcoef(target[shifted], source[:size])[0, 1]))
    return max(correlations)


def find_misaligned_blocks(moments: np.ndarray, chunk: Chunk) -> list[MisalignedBlock]:
    """The misaligned blocks of a chunk, cut off at the ends of its core.

    They are numbered from 1 in it.
    """
    source = [pair[0] for pair in chunk.pairs]
    target = [pair[1] for pair in chunk.pairs]
    blocks = []
    for block in blocks_of(moments, source, target):
        first = max(block.first - chunk.core.start, 1)
        last = min(block.last - chunk.core.start, chunk.size)
        if first <= last:
            blocks.append(MisalignedBlock(first, last, block.shift))
    return blocks


def blocks_of(moments: np.ndarray, source: list[str], target: list[str]) -> list[MisalignedBlock]:
    correlation = float(moments[2, 0])
    if len(source) < WINDOW or not correlation:
        return []
    if correlation < MIN_CORRELATION:
        return [MisalignedBlock(1, len(source), UNRELATED)] if len(source) >= MIN_PAIRS else []
    scores = (
        standard_scores(moments, 0, np.array(list(map(len, source)))),
        standard_scores(moments, 1, np.array(list(map(len, target)))),
    )
    blocks: list[MisalignedBlock] = []
    for start, end in suspicious_areas(length_evidence(scores, correlation, 0)):
        area_scores = scores[0][start:end], scores[1][start:end]
        words = Lines(source[start:end]).words, Lines(target[start:end]).words
        table = all_evidence(area_scores, words, correlation)
        blocks += blocks_on(most_likely(table), start)
    return [block for block in blocks if block.size > 2]


def all_evidence(scores: Sides, words: tuple[Words, Words], correlation: float) -> np.ndarray:
    """The evidence for each shift, and 0 for lines that do not belong together [states pairs].

    Each word that both lines have counts SHARED, at most MOST_SHARED.
    """
    source, target = words
    chosen = np.flatnonzero(source.digit | (source.length >= MIN_WORD))
    others = np.flatnonzero(target.digit | (target.length >= MIN_WORD))
    rows = []
    for shift in SHIFTS[:-1]:
        shared = source.lines_with(chosen[source.in_other(target, chosen, shift, others)])
        of_words = np.minimum(SHARED * shared, MOST_SHARED)
        rows.append(length_evidence(scores, correlation, shift) + of_words)
    return np.stack([*rows, np.zeros(source.lines)])


def standard_scores(moments: np.ndarray, side: int, lengths: np.ndarray) -> np.ndarray:
    """The log lengths of lines, less their mean, divided by their standard deviation.

    Extremes are cut off.
    """
    return np.clip((np.log(lengths + 3.0) - moments[0, side]) / max(moments[1, side], 1e-3), -3, 3)


def length_evidence(scores: Sides, correlation: float, shift: int) -> np.ndarray:
    """The log-likelihood ratio by the lengths of source line i and target line i + shift.

    It is 0 beyond the chunk.
    """
    source = scores[0]
    moved = np.roll(scores[1], -shift)
    square = max(1 - correlation**2, 1e-9)  # it is 0 where all lengths are the same on both sides
    ratio = -0.5 * np.log(square) - (
        correlation**2 * (source**2 + moved**2) - 2 * correlation * source * moved
    ) / (2 * square)
    ratio = np.maximum(ratio, LOWEST)
    if shift > 0:
        ratio[-shift:] = 0
    elif shift < 0:
        ratio[:-shift] = 0
    return ratio


def suspicious_areas(evidence: np.ndarray) -> list[tuple[int, int]]:
    """(start, end) of areas around windows whose pairs together do not look aligned."""
    sums = np.convolve(evidence, np.ones(WINDOW), "same")
    bad = np.flatnonzero(sums < 0)
    if not len(bad):
        return []
    groups = np.split(bad, np.flatnonzero(np.diff(bad) > 2 * AROUND) + 1)
    areas = []
    for group in groups:
        start = max(0, group[0] - AROUND)
        end = min(len(evidence), group[-1] + AROUND)
        areas.append((start, end))
    return areas


def most_likely(evidence: np.ndarray) -> np.ndarray:
    """The state of each pair [pairs] on the best path through evidence [states pairs].

    The path begins without a shift.
    """
    states, pairs = evidence.shape
    score = np.full(states, -CHANGE)
    score[SHIFTS.index(0)] = 0
    came_from = np.empty((pairs, states), np.int8)
    everyone = np.arange(states)
    for pair, gain in enumerate(evidence.T):
        best = int(score.argmax())
        stays = score >= score[best] - CHANGE
        came_from[pair] = np.where(stays, everyone, best)
        score = np.maximum(score, score[best] - CHANGE) + gain
    path = np.empty(pairs, np.int8)
    state = int(score.argmax())
    for pair in range(pairs - 1, -1, -1):
        path[pair] = state
        state = came_from[pair, state]
    return path


def blocks_on(path: np.ndarray, start: int) -> list[MisalignedBlock]:
    """The stretches of a path with one shift, without those that are not shifted."""
    edges = np.flatnonzero(np.diff(path)) + 1
    blocks = []
    for first, last in pairwise([0, *edges.tolist(), len(path)]):
        shift = SHIFTS[path[first]]
        if shift != 0:
            blocks.append(MisalignedBlock(start + first + 1, start + last, shift))
    return blocks


def merge(misaligned: list[MisalignedBlock]) -> list[MisalignedBlock]:
    """Blocks in order, joined where one continues the other."""
    merged: list[MisalignedBlock] = []
    for block in sorted(misaligned):
        before = merged[-1] if merged else None
        if before and before.shift == block.shift and block.first <= before.last + 1:
            merged[-1] = before._replace(last=max(before.last, block.last))
        else:
            merged.append(block)
    return merged
