"""Finished translations as the search returns them, and as integers to send between processes."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α


NBest = list[list[Hypothesis]]  # the n best of each sentence of a batch


def pack_nbest(nbest: NBest) -> list[int]:
    """The n best of each sentence as 64-bit integers: numbers, lengths, ids, and the bits of the scores."""
    values = [len(nbest)]
    for hypotheses in nbest:
        values.append(len(hypotheses))
        for hypothesis in hypotheses:
            values += [int(np.float64(hypothesis.score).view(np.int64)), len(hypothesis.ids), *hypothesis.ids]
    return values


def unpack_nbest(values: Iterator[int]) -> NBest:
    """The next list that `pack_nbest` packed."""

    def hypothesis() -> Hypothesis:
        score, length = float(np.int64(next(values)).view(np.float64)), next(values)
        return Hypothesis(list(itertools.islice(values, length)), score)

    return [[hypothesis() for _ in range(next(values))] for _ in range(next(values))]
