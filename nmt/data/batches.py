"""Batches of sentence pairs of similar length.

B batch, S source length, T target length. The batches of an epoch are a pure function of (lengths, budget, seed,
epoch), so that a training resumes in the middle of an epoch from two numbers: the epoch and the position in it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers

Ids = np.ndarray  # int32, one sentence


class Batch(NamedTuple):
    """Token ids of some pairs; sources end in </s>, targets begin with <s> as input and end in </s> as output."""

    source: Tensor  # [B S]
    mask: Tensor | None  # [B S], None when all sources are equally long
    target: Tensor  # [B T], the decoder's input
    output: Tensor  # [B T], the tokens it is to predict
    tokens: int  # target tokens, </s> counted, padding not

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        mask = None if self.mask is None else self.mask.to(device, non_blocking=True)
        source, target = self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True)
        return Batch(source, mask, target, self.output.to(device, non_blocking=True), self.tokens)

    def pinned(self) -> "Batch":
        """The same batch in page-locked memory, from which it is copied to a GPU asynchronously."""
        mask = None if self.mask is None else self.mask.pin_memory()
        return Batch(self.source.pin_memory(), mask, self.target.pin_memory(), self.output.pin_memory(), self.tokens)

    @property
    def padding(self) -> float:
        """The fraction of padding among all positions of source and target."""
        source = self.source.numel() if self.mask is None else int(self.mask.sum())
        return 1 - (source + self.tokens) / (self.source.numel() + self.output.numel())


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


def plan_batches(source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int) -> BatchPlan:
    """The batches of an epoch: rows sorted by both lengths, ties and the order of batches shuffled.

    source and target are lengths in pieces. A batch has at most `budget` padded positions on its longer side (a longer
    sentence is a batch of its own). A new source length opens a new batch once the last is half full, so that nearly
    all batches need no source mask.
    """
    random = np.random.default_rng((seed, epoch))
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
    rows = len(source)
    width, height = (int(lengths.max(initial=0)) + 1 for lengths in (target, source))
    dtype = np.min_scalar_type(height * width)
    key = source.astype(dtype) * dtype.type(width) + target.astype(dtype)
    order = np.argsort(key, kind="stable").astype(np.int32 if rows < 2**31 else np.int64)
    key = key[order]
    runs = np.concatenate(([0], np.flatnonzero(key[1:] != key[:-1]) + 1, [rows] if rows else [])).astype(np.int64)
    tie_breakers = random.random(rows)[order]
    for start, end in zip(runs.tolist(), runs[1:].tolist(), strict=False):
        order[start:end] = order[start:end][np.argsort(tie_breakers[start:end], kind="stable")]
    return order, runs


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


def collate(sources: list[Ids], targets: list[Ids]) -> Batch:
    """A batch of sentence pairs, padded to the longest source and the longest target."""
    source = pad([np.append(ids, EOS) for ids in sources])
    target = pad([np.concatenate(([BOS], ids)) for ids in targets])
    output = pad([np.append(ids, EOS) for ids in targets])
    return Batch(source, padding_mask(source), target, output, int((output != PAD).sum()))


def pad(rows: list[Ids]) -> Tensor:
    """Sentences as one tensor of token ids [B longest], filled up with PAD."""
    padded = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)


def padding_mask(source: Tensor) -> Tensor | None:
    """[B S], True at tokens and False at padding; None when nothing is padding."""
    is_token = source != PAD
    return None if bool(is_token.all()) else is_token


class BatchIterator:
    """The training batches of any epoch from any position on; `budget` as in `plan_batches`.

    `sampling` is the strength of subword sampling (`Tokenizer.sample`); 0 turns it off.
    """

    def __init__(self, pairs: ParallelDataset, tokenizers: Tokenizers, budget: int, seed: int, sampling: float) -> None:
        self.pairs, self.tokenizers, self.budget, self.seed, self.sampling = pairs, tokenizers, budget, seed, sampling
        self.cached_plan: tuple[int, BatchPlan] | None = None  # of one epoch
        self.plan_lock = Lock()  # `plan` is called by the thread of `stream` as well

    def plan(self, epoch: int) -> BatchPlan:
        """The rows of each batch of an epoch; the plan of the last epoch asked for is cached."""
        with self.plan_lock:
            if self.cached_plan is None or self.cached_plan[0] != epoch:
                self.cached_plan = None  # so that no two plans are in memory at once
                lengths = self.pairs.source_lengths, self.pairs.target_lengths
                self.cached_plan = (epoch, plan_batches(*lengths, self.budget, self.seed, epoch))
            return self.cached_plan[1]

    def batch(self, epoch: int, position: int) -> Batch:
        """Batch `position` of `epoch`, with newly sampled pieces when subword sampling is on.

        A sampled sentence that is longer than any of the corpus is replaced by the stored one: the model may have no
        embedding for later positions.
        """
        rows = self.plan(epoch)[position]
        if not self.sampling:
            return collate([self.pairs.source(row) for row in rows], [self.pairs.target(row) for row in rows])
        texts = [self.pairs.texts(row) for row in rows]
        seed = int(np.random.default_rng((self.seed, epoch, position)).integers(2**31))
        sources = self.tokenizers.source.sample_all([source for source, _ in texts], self.sampling, seed)
        targets = self.tokenizers.target.sample_all([target for _, target in texts], self.sampling, seed + 1)
        source_limit, target_limit = self.longest
        return collate(
            keep_within(source_limit, sources, [self.pairs.source(row) for row in rows]),
            keep_within(target_limit, targets, [self.pairs.target(row) for row in rows]),
        )

    def describe_batch(self, epoch: int, position: int) -> str:
        """A batch for error messages: its number, its epoch and the corpus lines of its first pairs."""
        rows = self.plan(epoch)[position]
        lines = ", ".join(str(self.pairs.line(int(row))) for row in rows[:5])
        return f"batch {position + 1} of epoch {epoch + 1} (corpus lines {lines}, …)"

    @cached_property
    def longest(self) -> tuple[int, int]:
        """Pieces of the longest source and of the longest target."""
        return int(self.pairs.source_lengths.max()), int(self.pairs.target_lengths.max())

    def skip(self, epoch: int, position: int, count: int = 1) -> tuple[int, int]:
        """The epoch and position `count` batches later; the position may be the end of its epoch."""
        for _ in range(count):
            if position >= len(self.plan(epoch)):
                epoch, position = epoch + 1, 0
            position += 1
        return epoch, position

    def stream(
        self, epoch: int, position: int, rank: int = 0, world_size: int = 1, pinned: bool = False
    ) -> Iterator[tuple[int, int, Batch]]:
        """Yield (epoch, position, batch): of the batches from `position` of `epoch` on every `world_size`-th, from the
        `rank`-th on, epoch after epoch without end.

        A thread builds the next batch while the last one is trained on. A batch depends on its epoch and position
        alone, so a stream may be dropped at any time and another begun at the same batch.
        """

        def build(epoch: int, position: int) -> tuple[int, int, Batch]:
            if position >= len(self.plan(epoch)):
                epoch, position = epoch + 1, 0
            batch = self.batch(epoch, position)
            return epoch, position, batch.pinned() if pinned else batch

        def build_later(epoch: int, position: int, count: int) -> tuple[int, int, Batch]:
            return build(*self.skip(epoch, position, count))

        with ThreadPoolExecutor(1, "batches") as thread:
            future = thread.submit(build_later, epoch, position, rank)
            while True:
                epoch, position, batch = future.result()
                future = thread.submit(build_later, epoch, position, world_size)
                yield epoch, position, batch


def keep_within(limit: int, sampled: list[list[int]], stored: list[Ids]) -> list[Ids]:
    """The sampled sentences, but the stored one in place of each that has more than `limit` pieces."""
    return [
        np.asarray(ids) if len(ids) <= limit else stored_ids for ids, stored_ids in zip(sampled, stored, strict=True)
    ]


def batches_by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches, longest rows first, at most `budget` padded positions each; for search and scoring."""
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    batches, start = [], 0
    while start < len(order):
        rows = max(1, int(budget // (sorted_lengths[start] + 1)))
        batches.append(order[start : start + rows])
        start += rows
    return batches
