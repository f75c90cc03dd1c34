"""Sampling: each piece is drawn from the distribution of the model, not chosen as the best.

The distribution is that of search: <pad> and <s> are forbidden, and constraints hold. It is changed
in this order: p becomes p^(1/temperature); the `top_k` most probable pieces are kept (Fan et al.
2018); the fewest most probable pieces whose probabilities sum to `top_p` or more are kept (Holtzman
et al. 2020 §3.1). After each step the probabilities are normalized.

A draw needs one number, uniform in [0, 1), which depends on the seed, the line, its part, the
sample and the column alone. So the samples of a line do not depend on the other lines, on batches
or on processes, except by rounding: a number may be so near to the border between two pieces that
the last bit of a logit, which depends on the batch, decides. Of 3,072 samples, in two sizes of
batches, none differed with top_p=0.9 or less, and 8 with top_p=1, where every piece has a border.
In bf16 it was 434, so `Run.with_samples` searches in float32.

N open samples, R pieces that are kept, V vocabulary, T columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nmt.errors import UserError, check_positive

FIRST_SIZE = 32  # how many of the most probable pieces are sorted at first
MOST_SAMPLES = 10_000  # of a sentence; they are rows of one batch
LEAST_TEMPERATURE = 0.01  # below it, probabilities would leave the range of float32

Place = tuple[int, int]  # the number of a line, and the number of one of its parts


@dataclass(frozen=True)
class Sampling:
    """How many translations of each sentence are drawn, and from which distribution.

    Raises UserError for values that are out of range.
    """

    samples: int
    temperature: float = 1.0
    top_k: int | None = None  # None: all pieces
    top_p: float = 0.7  # the best of 0.5 to 0.9 for --choose mbr, on validation sets
    seed: int = 1

    def __post_init__(self) -> None:
        check_positive(samples=self.samples, top_k=self.top_k)
        if self.samples > MOST_SAMPLES:
            raise UserError(
                f"samples={self.samples} is invalid; it must be at most {MOST_SAMPLES}."
            )
        if not LEAST_TEMPERATURE <= self.temperature < math.inf:
            raise UserError(
                f"temperature={self.temperature:g} is invalid; it must be {LEAST_TEMPERATURE} or "
                "greater. With top_k=1 the most probable piece is always chosen."
            )
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p={self.top_p:g} is invalid; it must be above 0 and at most 1.")
        if self.seed < 0:
            raise UserError(f"seed={self.seed} is invalid; it must be 0 or greater.")

    def sampler(self, places: Sequence[Place], columns: int, device: torch.device) -> Sampler:
        """The sampler of all samples of these places; those of one place are adjacent."""
        numbers = []
        for line, part in places:
            for sample in range(self.samples):
                generator = np.random.default_rng((self.seed, line, part, sample))
                numbers.append(generator.random(columns, dtype=np.float32))
        return Sampler(self, torch.from_numpy(np.stack(numbers)).to(device))


@dataclass(frozen=True)
class Sampler:
    """Draws the next pieces of the open samples."""

    sampling: Sampling
    numbers: Tensor  # [N T]: uniform in [0, 1), multiples of 2^−24

    def rows(self, index: Tensor) -> Sampler:
        """The sampler of these samples alone."""
        return replace(self, numbers=self.numbers[index])

    def draw(self, log_probabilities: Tensor, column: int) -> Tensor:
        """log_probabilities [N V] → the piece of each sample in this column [N 1]."""
        numbers = self.numbers[:, column : column + 1]  # [N 1]
        logits = log_probabilities / self.sampling.temperature
        top_tokens = None
        if self.sampling.top_k is not None:
            logits, top_tokens = logits.topk(min(self.sampling.top_k, logits.size(1)), 1)  # [N R]
        probabilities = logits.softmax(1)  # [N V] or [N R]
        if self.sampling.top_p < 1:
            drawn = draw_from_nucleus(probabilities, numbers, self.sampling.top_p)
        else:
            drawn = draw(probabilities, numbers)
        return drawn if top_tokens is None else top_tokens.gather(1, drawn)


def draw(weights: Tensor, numbers: Tensor) -> Tensor:
    """weights [N R], numbers [N 1] → indices [N 1], by the inverse of the cumulative distribution.

    The probability of an index is proportional to its weight. The weights are float32, in which
    number · total is less than the total, so that no index is R.
    """
    cumulative = weights.cumsum(1)
    return torch.searchsorted(cumulative, numbers * cumulative[:, -1:], right=True)


def draw_from_nucleus(
    probabilities: Tensor, numbers: Tensor, top_p: float, size: int = FIRST_SIZE
) -> Tensor:
    """`draw` from the smallest set of the most probable indices whose sum is `top_p` or more.

    probabilities [N V], numbers [N 1] → indices [N 1]. To sort all V would take longer than the
    rest of a column. So the `size` largest are sorted, and 8 times as many in rows that need more.
    """
    largest, indices = probabilities.topk(min(size, probabilities.size(1)), 1)  # [N R]
    sums = largest.cumsum(1)
    sums_before = functional.pad(sums[:, :-1], (1, 0))  # [N R]: of the more probable ones
    kept = largest.masked_fill(sums_before >= top_p, 0.0)
    drawn = indices.gather(1, draw(kept, numbers))
    rows = (sums[:, -1] < top_p).nonzero()[:, 0]  # that need more
    if len(rows) and size < probabilities.size(1):
        drawn[rows] = draw_from_nucleus(probabilities[rows], numbers[rows], top_p, 8 * size)
    return drawn
