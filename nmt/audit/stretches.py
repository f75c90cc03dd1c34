"""Stretches of lines in which one side is shifted against the other, and where each begins and ends.

Two kinds of evidence say whether two lines belong together: their lengths, and beginnings of words that both have
(names, numbers, related words). Both are learnt from the first pairs of training, as they stand and shifted by half
their number. For each shift k, the evidence that line i belongs to line i + k less the evidence that it belongs to
line i is summed up; a stretch is where this sum rises by more than MIN_EVIDENCE (Page's CUSUM test). Lines that belong
to none nearby, as shuffled ones do, make a stretch by the evidence against line i alone.
"""

from dataclasses import dataclass

import numpy as np

from nmt.audit.characters import Characters

MAX_SHIFT = 5  # lines
MIN_EVIDENCE = 30.0  # nats; by chance one of e^30 lines begins such a stretch
MIN_PAIRS = 200  # from which the evidence is learnt
PREFIX = 4  # characters of a word
WORDS = 8  # of 64 bits that hold the beginnings of a line's words
EDGES = np.linspace(-1.5, 1.5, 31)  # of the histogram of differences of log lengths
GAP = 20  # lines; stretches with the same shift that are no farther apart are one


@dataclass
class Stretch:
    """Pairs `first` to `last`, from 0, where target line i + `shift` belongs to source line i; None: none nearby."""

    first: int
    last: int
    shift: int | None
    evidence: float = 0.0  # nats


@dataclass
class LineSummaries:
    """What is compared of the lines of one side: log lengths [n] and beginnings of words, as bits [n, WORDS]."""

    lengths: np.ndarray
    words: np.ndarray

    @classmethod
    def of(cls, characters: Characters) -> "LineSummaries":
        """The summaries of lines in small letters."""
        codes = np.concatenate([characters.codes, np.full(PREFIX, ord(" "), np.uint32)])
        is_letter = (codes > ord("@")) | ((codes >= ord("0")) & (codes <= ord("9")))
        begins = is_letter.copy()
        begins[1:] &= ~is_letter[:-1]
        begins &= np.roll(is_letter, -1) & np.roll(is_letter, -2)  # words of three characters and more
        positions = np.flatnonzero(begins[: len(characters.codes)])
        mixed = np.zeros(len(positions), np.uint32)
        for offset in range(PREFIX):
            code = codes[positions + offset]
            mixed = mixed * np.uint32(0x9E3779B1) + np.where(is_letter[positions + offset], code, 0).astype(np.uint32)
        bits = (mixed ^ (mixed >> np.uint32(15))) % np.uint32(64 * WORDS)
        rows = np.searchsorted(characters.starts, positions, side="right") - 1
        words = np.zeros(len(characters.starts) * WORDS, np.uint64)
        np.bitwise_or.at(words, rows * WORDS + bits // 64, np.uint64(1) << (bits % 64).astype(np.uint64))
        return cls(np.log1p(characters.lengths), words.reshape(-1, WORDS))

    def __getitem__(self, rows: slice) -> "LineSummaries":
        return LineSummaries(self.lengths[rows], self.words[rows])

    def joined(self, other: "LineSummaries") -> "LineSummaries":
        """These lines, and then others."""
        return LineSummaries(np.append(self.lengths, other.lengths), np.append(self.words, other.words, axis=0))

    def __len__(self) -> int:
        return len(self.lengths)


def compare(source: LineSummaries, target: LineSummaries) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of lines: the class of their lengths' difference, and that of what their words have in common."""
    differences = np.searchsorted(EDGES, target.lengths - source.lengths)
    return differences, np.minimum(((source.words & target.words) != 0).sum(1), 4)


class Evidence:
    """How much more likely two lines are of one pair than of two, in nats."""

    def __init__(self, source: LineSummaries, target: LineSummaries) -> None:
        half = len(source) // 2
        shifted = LineSummaries(np.roll(target.lengths, half), np.roll(target.words, half, axis=0))
        self.tables = [
            log_ratio(together, apart)
            for together, apart in zip(compare(source, target), compare(source, shifted), strict=True)
        ]

    def of(self, source: LineSummaries, target: LineSummaries) -> np.ndarray:
        """The evidence that line n of both sides belong together; 0 where one is blank."""
        total = sum(table[classes] for table, classes in zip(self.tables, compare(source, target), strict=True))
        return np.where((source.lengths > 0) & (target.lengths > 0), total, 0.0)


def log_ratio(together: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """log P(class | together) − log P(class | apart), both smoothed, so that a few wrong pairs do not decide."""
    number = max(together.max(), apart.max(), len(EDGES)) + 1
    counts = [np.bincount(classes, minlength=number) for classes in (together, apart)]
    probabilities = [0.98 * each / each.sum() + 0.02 / number for each in counts]
    return np.log(probabilities[0] / probabilities[1])


class StretchFinder:
    """Finds shifted stretches in a stream of pairs."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rises = {shift or None: Rise() for shift in range(-MAX_SHIFT, MAX_SHIFT + 1)}
        self.held: tuple[LineSummaries, LineSummaries] | None = None  # the last lines
        self.judged = 0  # of those held
        self.found: list[Stretch] = []

    def add(self, source: LineSummaries, target: LineSummaries) -> None:
        """Look at the next pairs; the last MAX_SHIFT are judged with those after them, at the end not at all."""
        if self.held is not None:
            source, target = self.held[0].joined(source), self.held[1].joined(target)
        start, stop = self.judged, max(self.judged, len(source) - MAX_SHIFT)
        own = self.evidence.of(source[start:stop], target[start:stop])
        for shift, rise in self.rises.items():
            if shift is None:
                gain = -own
            else:
                first = min(stop, max(start, -shift))
                other = self.evidence.of(source[first:stop], target[first + shift : stop + shift])
                gain = np.concatenate([np.zeros(first - start), other]) - own
            self.found += [Stretch(first, last, shift, sum) for first, last, sum in rise.add(gain)]
        keep = max(0, stop - MAX_SHIFT)
        self.held, self.judged = (source[keep:], target[keep:]), stop - keep

    def finish(self) -> list[Stretch]:
        """The stretches, in order; of overlapping ones that with the most evidence."""
        for shift, rise in self.rises.items():
            self.found += [Stretch(first, last, shift, sum) for first, last, sum in rise.end()]
        chosen: list[Stretch] = []
        for stretch in sorted(self.found, key=lambda each: -each.evidence):
            if all(stretch.last < other.first or stretch.first > other.last for other in chosen):
                chosen.append(stretch)
        joined: list[Stretch] = []
        for stretch in sorted(chosen, key=lambda each: each.first):
            if joined and joined[-1].shift == stretch.shift and stretch.first - joined[-1].last <= GAP:
                joined[-1].last = stretch.last
            else:
                joined.append(stretch)
        return joined


class Rise:
    """Finds where a sum of numbers rises by more than MIN_EVIDENCE, from its lowest point to its highest."""

    def __init__(self) -> None:
        self.number, self.sum = 0, 0.0
        self.first, self.highest, self.last = 0, 0.0, 0  # of the rise under way

    def add(self, values: np.ndarray) -> list[tuple[int, int, float]]:
        """The rises that have ended: the numbers of their first and last value, from 0, and their heights."""
        ended = []
        for value in values.tolist():
            if self.sum <= 0.0 and value > 0.0:
                self.first, self.sum = self.number, 0.0
            self.sum += value
            if self.sum > self.highest:
                self.highest, self.last = self.sum, self.number
            elif self.highest and (self.sum <= 0.0 or self.highest - self.sum > MIN_EVIDENCE):
                ended += self.end()
            self.number += 1
        return ended

    def end(self) -> list[tuple[int, int, float]]:
        """The rise under way, if it is high enough; the next begins."""
        height, self.sum, self.highest = self.highest, 0.0, 0.0
        return [(self.first, self.last, height)] if height > MIN_EVIDENCE else []
