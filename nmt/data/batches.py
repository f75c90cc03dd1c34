"""Seating sentences among others of their own length.

B batch, S source length, T target length. A plan is a pure function of (lengths, budget, seed, epoch), so a training
that continues knows the rest of its epoch from two numbers.
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
    target: Tensor  # [B T], what the decoder reads
    output: Tensor  # [B T], what it should write
    tokens: int  # real target tokens, </s> counted, padding not

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        mask = None if self.mask is None else self.mask.to(device, non_blocking=True)
        source, target = self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True)
        return Batch(source, mask, target, self.output.to(device, non_blocking=True), self.tokens)

    def pinned(self) -> "Batch":
        """The same batch in memory that a GPU reads while it computes."""
        mask = None if self.mask is None else self.mask.pin_memory()
        return Batch(self.source.pin_memory(), mask, self.target.pin_memory(), self.output.pin_memory(), self.tokens)

    @property
    def padding(self) -> float:
        """Share of positions, on both sides, that hold no token."""
        source = self.source.numel() if self.mask is None else int(self.mask.sum())
        return 1 - (source + self.tokens) / (self.source.numel() + self.output.numel())


class Plan:
    """The batches of an epoch: a length, and the row numbers of batch 0, 1, …; three arrays, whatever their number."""

    def __init__(self, order: np.ndarray, bounds: np.ndarray, batches: np.ndarray) -> None:
        self.order, self.bounds, self.batches = order, bounds, batches  # rows; where batches begin in it; their order

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, position: int) -> np.ndarray:
        start, end = self.bounds[self.batches[position] :][:2]
        return self.order[start:end]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[position] for position in range(len(self)))


def plan(source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int) -> Plan:
    """Row numbers of each batch of this epoch: sorted by both lengths, ties and the order of batches shuffled.

    source and target are lengths in pieces. A batch has at most `budget` padded positions on its longer side (a longer
    sentence sits alone). A new source length opens a new batch once the last is half full, so that nearly all batches
    need no source mask.
    """
    random = np.random.default_rng((seed, epoch))
    order, runs = sort_by_length(source, target, random)
    first = order[runs[:-1]]
    bounds = cut(source[first] + 1, target[first] + 1, np.diff(runs), budget)
    return Plan(order, bounds, random.permutation(len(bounds) - 1))


def sort_by_length(source: np.ndarray, target: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows sorted by both lengths, ties shuffled; and where each run of equal lengths begins, closed by where all end.

    What np.lexsort((random.random(rows), target, source)) returns, in a quarter of its time: two short lengths are one
    16-bit number, which NumPy sorts in linear time, and what is left to sort are runs.
    """
    rows = len(source)
    width, height = (int(lengths.max(initial=0)) + 1 for lengths in (target, source))
    kind = np.min_scalar_type(height * width)
    key = source.astype(kind) * kind.type(width) + target.astype(kind)
    order = np.argsort(key, kind="stable").astype(np.int32 if rows < 2**31 else np.int64)
    key = key[order]
    runs = np.concatenate(([0], np.flatnonzero(key[1:] != key[:-1]) + 1, [rows] if rows else [])).astype(np.int64)
    chance = random.random(rows)[order]
    for start, end in zip(runs.tolist(), runs[1:].tolist(), strict=False):
        order[start:end] = order[start:end][np.argsort(chance[start:end], kind="stable")]
    return order, runs


def cut(source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int) -> np.ndarray:
    """Boundaries between batches over sorted runs: `rows` rows of equal lengths each, cut by arithmetic."""
    bounds: list[int] = []
    place, held, longest, first = 0, 0, 0, 0  # `held` rows are in the open batch, which began with a source of `first`
    for ours, theirs, count in zip(source.tolist(), target.tolist(), rows.tolist(), strict=True):
        wider = max(longest, ours, theirs)
        room = budget // wider if held else 0
        if ours != first:  # may fill a batch up to its half
            half = -(-budget // (2 * wider))
            room = min(room, max(held + 1, half)) if 2 * longest * held < budget else 0
        joins = min(count, max(0, room - held))
        if joins:
            held, longest = held + joins, wider
        if joins < count:
            longest, first = max(ours, theirs), ours
            each = max(1, budget // longest)
            bounds.extend(range(place + joins, place + count, each))
            held = (count - joins - 1) % each + 1
        place += count
    return np.array([*bounds, place])


def collate(sources: list[Ids], targets: list[Ids]) -> Batch:
    """Pad sentences to one length each side."""
    source = pad([np.append(ids, EOS) for ids in sources])
    target = pad([np.concatenate(([BOS], ids)) for ids in targets])
    output = pad([np.append(ids, EOS) for ids in targets])
    return Batch(source, mask(source), target, output, int((output != PAD).sum()))


def pad(rows: list[Ids]) -> Tensor:
    """[B longest] of token ids."""
    full = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        full[number, : len(row)] = row
    return torch.from_numpy(full)


def mask(source: Tensor) -> Tensor | None:
    """True where there is a token; None when that is everywhere."""
    real = source != PAD
    return None if bool(real.all()) else real


class BatchIterator:
    """The batches of a training, any epoch from any position."""

    def __init__(self, pairs: ParallelDataset, tokenizers: Tokenizers, budget: int, seed: int, sampling: float) -> None:
        self.pairs, self.tokenizers, self.budget, self.seed, self.sampling = pairs, tokenizers, budget, seed, sampling
        self.planned: tuple[int, Plan] | None = None
        self.planning = Lock()  # the thread of `stream` asks as well

    def plan(self, epoch: int) -> Plan:
        """The rows of each batch; the last epoch asked for is kept."""
        with self.planning:
            if self.planned is None or self.planned[0] != epoch:
                self.planned = None  # two plans need not be in memory together
                lengths = self.pairs.source_lengths, self.pairs.target_lengths
                self.planned = (epoch, plan(*lengths, self.budget, self.seed, epoch))
            return self.planned[1]

    def batch(self, epoch: int, position: int) -> Batch:
        """Batch `position` of `epoch`, re-cut into other pieces when subword sampling is on.

        A side that would become longer than any of the corpus stays as it is stored: a model may know no later place.
        """
        rows = self.plan(epoch)[position]
        if not self.sampling:
            return collate([self.pairs.source(row) for row in rows], [self.pairs.target(row) for row in rows])
        texts = [self.pairs.texts(row) for row in rows]
        seed = int(np.random.default_rng((self.seed, epoch, position)).integers(2**31))
        sources = self.tokenizers.source.sample_all([pair[0] for pair in texts], self.sampling, seed)
        targets = self.tokenizers.target.sample_all([pair[1] for pair in texts], self.sampling, seed + 1)
        cut = zip(rows, sources, targets, strict=True)
        both = [(self.fitting(source, 0, row), self.fitting(target, 1, row)) for row, source, target in cut]
        return collate([source for source, _ in both], [target for _, target in both])

    def told(self, epoch: int, position: int) -> str:
        """Which batch that is, and where its pairs come from."""
        rows = self.plan(epoch)[position]
        lines = ", ".join(str(self.pairs.line(int(row))) for row in rows[:5])
        return f"batch {position + 1} of epoch {epoch + 1} (corpus lines {lines}, …)"

    @cached_property
    def longest(self) -> tuple[int, int]:
        """Pieces of the longest source and target."""
        return int(self.pairs.source_lengths.max()), int(self.pairs.target_lengths.max())

    def fitting(self, sampled: list[int], side: int, row: int) -> Ids:
        """A sampled side, or the stored one where the sample is longer than any."""
        if len(sampled) <= self.longest[side]:
            return np.asarray(sampled)
        return self.pairs.target(row) if side else self.pairs.source(row)

    def stream(self, epoch: int, position: int, pinned: bool = False) -> Iterator[tuple[int, int, Batch]]:
        """Batch `position` of `epoch` and all that follow, for ever: (its epoch, its position, itself).

        While one is trained on, a thread prepares the next. What a batch holds depends on its two numbers alone, so a
        stream may be dropped at any time and another begun where it was.
        """

        def prepare(epoch: int, position: int) -> tuple[int, int, Batch]:
            if position >= len(self.plan(epoch)):
                epoch, position = epoch + 1, 0
            batch = self.batch(epoch, position)
            return epoch, position, batch.pinned() if pinned else batch

        with ThreadPoolExecutor(1, "batches") as thread:
            coming = thread.submit(prepare, epoch, position)
            while True:
                epoch, position, batch = coming.result()
                coming = thread.submit(prepare, epoch, position + 1)
                yield epoch, position, batch


def in_order(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Rows sorted by length, longest first, in batches of at most `budget` padded positions: for validation, search."""
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    batches, start = [], 0
    while start < len(order):
        rows = max(1, int(budget // (sorted_lengths[start] + 1)))
        batches.append(order[start : start + rows])
        start += rows
    return batches
