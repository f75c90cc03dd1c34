"""The plan of an epoch: which pairs form each batch, and in which order the batches come.

A plan is a pure function of (lengths, budget, seed, epoch, shard); the number of batches, of lengths and budget alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


class LengthRuns(NamedTuple):
    """Run k: rows[k] pairs of source[k] and target[k] pieces; sorted by both lengths, int64."""

    source: np.ndarray
    target: np.ndarray
    rows: np.ndarray


class BatchPlan:
    """A sequence of the batches of an epoch, each as the row numbers of its pairs; stored as three arrays.

    `order` holds all rows, sorted by length; batch k of them is order[bounds[k] : bounds[k + 1]]. Position i of the
    epoch is batch batches[i].
    """

    def __init__(self, order: np.ndarray, bounds: np.ndarray, batches: np.ndarray) -> None:
        self.order, self.bounds, self.batches = order, bounds, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, position: int) -> np.ndarray:
        start, end = self.bounds[self.batches[position] :][:2]
        return self.order[start:end]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[position] for position in range(len(self)))


def random_generator(*numbers: int, shard: int) -> np.random.Generator:
    """A generator for these numbers and a shard; for shard 0 that of the numbers alone, as for an undivided corpus."""
    return np.random.default_rng((*numbers, shard) if shard else numbers)


def plan_batches(
    source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int, shard: int = 0
) -> BatchPlan:
    """The batches of a shard in an epoch: rows sorted by both lengths, ties and the order of batches shuffled.

    source and target are lengths in pieces. A batch has at most `budget` padded positions on its longer side (a longer
    sentence is a batch of its own). A new source length opens a new batch once the last is half full, so that nearly
    all batches need no source mask.
    """
    random = random_generator(seed, epoch, shard=shard)
    order, runs = sort_by_length(source, target, random)
    first = order[runs[:-1]]
    bounds = batch_boundaries(source[first] + 1, target[first] + 1, np.diff(runs), budget)
    return BatchPlan(order, bounds, random.permutation(len(bounds) - 1))


def sort_by_length(
    source: np.ndarray, target: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers sorted by both lengths, ties shuffled; and the starts of the runs of equal lengths, then the end.

    The first is np.lexsort((random.random(rows), target, source)), in a quarter of its time: two short lengths are
    combined to a 16-bit number, which NumPy sorts in linear time, and only the runs are left to sort.
    """
    key, _ = combined_lengths(source, target)
    order = np.argsort(key, kind="stable").astype(np.int32 if len(key) < 2**31 else np.int64)
    runs = run_bounds(key[order])
    tie_breakers = random.random(len(key))[order]
    for start, end in zip(runs.tolist(), runs[1:].tolist(), strict=False):
        order[start:end] = order[start:end][np.argsort(tie_breakers[start:end], kind="stable")]
    return order, runs


def combined_lengths(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int]:
    """Both lengths as one number, source × width + target, which sorts like the pair; and the width."""
    width, height = (int(lengths.max(initial=0)) + 1 for lengths in (target, source))
    dtype = np.min_scalar_type(height * width)
    return source.astype(dtype) * dtype.type(width) + target.astype(dtype), width


def run_bounds(key: np.ndarray) -> np.ndarray:
    """The starts of the runs of equal values in a sorted array, then its end; empty for an empty array."""
    end = [len(key)] if len(key) else []
    return np.concatenate(([0], np.flatnonzero(key[1:] != key[:-1]) + 1, end)).astype(np.int64)


def length_runs(source: np.ndarray, target: np.ndarray) -> LengthRuns:
    """How many rows there are of each pair of lengths, in the order in which a plan sorts them."""
    key, width = combined_lengths(source, target)
    key = np.sort(key, kind="stable")
    bounds = run_bounds(key)
    first = key[bounds[:-1]].astype(np.int64)
    return LengthRuns(first // width, first % width, np.diff(bounds))


def count_batches(source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int) -> int:
    """How many batches the plan of rows with these LengthRuns has, whatever its seed and epoch."""
    return len(batch_boundaries(source + 1, target + 1, rows, budget)) - 1


def batch_boundaries(source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int) -> np.ndarray:
    """The boundaries between the batches of sorted rows, the end included, computed run by run.

    Run k has rows[k] rows of source length source[k] and target length target[k].
    """
    bounds: list[int] = []
    start, size, longest, first = 0, 0, 0, 0  # of the run; of the open batch: its rows, longest side, first source
    for source_length, target_length, count in zip(source.tolist(), target.tolist(), rows.tolist(), strict=True):
        new_longest = max(longest, source_length, target_length)
        capacity = budget // new_longest if size else 0
        if source_length != first:  # may fill a batch up to its half
            half = -(-budget // (2 * new_longest))
            capacity = min(capacity, max(size + 1, half)) if 2 * longest * size < budget else 0
        joining = min(count, max(0, capacity - size))
        if joining:
            size, longest = size + joining, new_longest
        if joining < count:
            longest, first = max(source_length, target_length), source_length
            full_size = max(1, budget // longest)
            bounds.extend(range(start + joining, start + count, full_size))
            size = (count - joining - 1) % full_size + 1
        start += count
    return np.array([*bounds, start])
