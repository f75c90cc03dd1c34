"""Blocks of pairs that are shifted by some lines, or do not belong together at all, and where they begin and end.

For each pair i and shift k the evidence that source line i belongs to target line i + k is a log-likelihood ratio:

    log N(s_i, t_{i+k}; ρ) − log N(s_i) N(t_{i+k}) + the words and numbers that both have,

with standardised log lengths s and t of correlation ρ. Where the evidence for k = 0 fails over a window of pairs, the
most likely sequence of shifts is searched for (Viterbi), in which each change of the shift costs CHANGE.
"""

from dataclasses import dataclass

import numpy as np

from nmt.data.inspect.lines import Lines
from nmt.data.inspect.profile import MAX_SHIFT, MIN_PAIRS, Profile

MIN_CORRELATION = 0.35  # of the lengths of a corpus whose lines belong together; in seven languages 0.51 to 0.98
WINDOW = 16  # pairs whose evidence is summed
AROUND = 150  # pairs before and after a suspicious window that are looked at
CHANGE = 12.0  # nats
LOWEST = -4.0  # nats of one pair: a free translation is no proof
UNRELATED = 9  # stands for lines that do not belong together
SHIFTS = [*range(-MAX_SHIFT, MAX_SHIFT + 1), UNRELATED]
MIN_WORD = 4  # letters of a word that is evidence; numbers of any length are
SHARED, MOST_SHARED = 2.5, 5.0  # nats for each word that both lines have, and at most
Sides = tuple[np.ndarray, np.ndarray]  # values of the source's and of the target's lines


@dataclass
class MisalignedBlock:
    """Pairs `first` to `last`, from 1: the source is `shift` lines ahead of the target; UNRELATED: no shift fits."""

    first: int
    last: int
    shift: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def describe(self) -> str:
        if self.shift == UNRELATED:
            return "the two sides do not belong together"
        lines = "1 line" if abs(self.shift) == 1 else f"{abs(self.shift)} lines"
        return f"the target is {lines} {'late' if self.shift > 0 else 'early'}"


def find_misaligned_blocks(profile: Profile, source: list[str], target: list[str]) -> list[MisalignedBlock]:
    """The misaligned blocks of a chunk of pairs, numbered from 1 in the chunk."""
    correlation = float(profile.moments[2, 0])
    if len(source) < WINDOW or not profile.moments[2, 0]:
        return []
    if correlation < MIN_CORRELATION:
        return [MisalignedBlock(1, len(source), UNRELATED)] if len(source) >= MIN_PAIRS else []
    scores = standard_scores(profile, 0, source), standard_scores(profile, 1, target)
    found: list[MisalignedBlock] = []
    for start, end in suspicious_areas(length_evidence(scores, correlation, 0)):
        area = Lines(source[start:end]), Lines(target[start:end])
        table = all_evidence((scores[0][start:end], scores[1][start:end]), area, correlation)
        found += runs(most_likely(table, SHIFTS.index(0)), start)
    return [block for block in found if block.last - block.first >= 2]


def all_evidence(scores: Sides, area: tuple[Lines, Lines], correlation: float) -> np.ndarray:
    """The evidence for each shift, and 0 for lines that do not belong together [states pairs]."""
    rare = [np.flatnonzero(evidential(side)) for side in area]
    rows = [length_evidence(scores, correlation, k) + shared_words(*area, rare, k) for k in SHIFTS[:-1]]
    return np.stack([*rows, np.zeros(area[0].count)])


def standard_scores(profile: Profile, number: int, texts: list[str]) -> np.ndarray:
    """The log lengths of lines, less their mean, by their standard deviation; extremes are cut off."""
    values = (np.log(np.array([len(text) for text in texts]) + 3.0) - profile.moments[0, number]) / max(
        profile.moments[1, number], 1e-3
    )
    return np.clip(values, -3, 3)


def length_evidence(scores: Sides, correlation: float, shift: int) -> np.ndarray:
    """The log-likelihood ratio by the lengths of source line i and target line i + shift; 0 beyond the chunk."""
    source, moved = scores[0], np.roll(scores[1], -shift)
    square = 1 - correlation**2
    ratio = -0.5 * np.log(square) - (correlation**2 * (source**2 + moved**2) - 2 * correlation * source * moved) / (
        2 * square
    )
    ratio = np.maximum(ratio, LOWEST)
    if shift:
        ratio[slice(-shift, None) if shift > 0 else slice(0, -shift)] = 0
    return ratio


def evidential(side: Lines) -> np.ndarray:
    """Which words are evidence where both sides have them."""
    return side.words.digit | (side.words.length >= MIN_WORD)


def shared_words(source: Lines, target: Lines, rare: list[np.ndarray], shift: int) -> np.ndarray:
    """SHARED for each word that source line i and target line i + shift have in common, at most MOST_SHARED."""
    words = source.words
    shared = words.in_other(target.words, rare[0], shift, rare[1])
    return np.minimum(SHARED * words.lines_with(rare[0][shared]), MOST_SHARED)


def suspicious_areas(evidence: np.ndarray) -> list[tuple[int, int]]:
    """(start, end) of areas around windows whose pairs together do not look aligned."""
    sums = np.convolve(evidence, np.ones(WINDOW), "same")
    bad = np.flatnonzero(sums < 0)
    if not len(bad):
        return []
    groups = np.split(bad, np.flatnonzero(np.diff(bad) > 2 * AROUND) + 1)
    return [(max(0, group[0] - AROUND), min(len(evidence), group[-1] + AROUND)) for group in groups]


def most_likely(evidence: np.ndarray, straight: int) -> np.ndarray:
    """The state of each pair [pairs] of the best path through evidence [states pairs], which begins `straight`."""
    states, pairs = evidence.shape
    score = np.full(states, -CHANGE)
    score[straight] = 0
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


def runs(path: np.ndarray, start: int) -> list[MisalignedBlock]:
    edges = np.flatnonzero(np.diff(path)) + 1
    bounds = [0, *edges.tolist(), len(path)]
    return [
        MisalignedBlock(start + first + 1, start + last, SHIFTS[path[first]])
        for first, last in zip(bounds, bounds[1:], strict=False)
        if SHIFTS[path[first]] != 0
    ]


def merge(misaligned: list[MisalignedBlock]) -> list[MisalignedBlock]:
    """Blocks in order, joined where one continues the other."""
    merged: list[MisalignedBlock] = []
    for block in sorted(misaligned, key=lambda each: each.first):
        before = merged[-1] if merged else None
        if before and before.shift == block.shift and block.first <= before.last + 1:
            before.last = max(before.last, block.last)
        else:
            merged.append(MisalignedBlock(block.first, block.last, block.shift))
    return merged
