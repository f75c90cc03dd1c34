"""Batches of sentence pairs of similar length.

B batch, S source length, T target length. The batches of an epoch are a pure function of (lengths, budget, seed,
epoch) for each shard of the corpus, so that a training resumes in the middle of an epoch from three numbers: the epoch,
the shard's index in the order of that epoch, and the position in the shard's plan.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.augmentation import Ids, Noise, Variation
from nmt.data.dataset import Sentences, TrainingPairs, combined_lengths, join, length_runs, longest_sides
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers
from nmt.data.training_links import TrainingLinks


class Batch(NamedTuple):
    """Token ids of some pairs; sources end in </s>, targets begin with <s> as input and end in </s> as output."""

    source: Tensor  # [B S]
    mask: Tensor | None  # [B S], None when all sources are equally long
    target: Tensor  # [B T], the decoder's input
    output: Tensor  # [B T], the tokens it is to predict
    tokens: int  # target tokens, </s> counted, padding not
    source_tokens: int  # source tokens, </s> counted, padding not
    real: Tensor | None  # [tokens], the places of the real tokens in `output`, flattened; None where all are real
    links: Tensor | None = None  # [B T S], what attention is to learn; None without guided alignment

    def to(self, device: torch.device) -> "Batch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same batch with every tensor changed."""
        fields: Any = (change(each) if isinstance(each, Tensor) else each for each in self)
        return Batch(*fields)

    @property
    def padding(self) -> float:
        """The fraction of padding among all positions of source and target."""
        return 1 - (self.source_tokens + self.tokens) / (self.source.numel() + self.output.numel())


def collate(sources: Sequence[Ids] | Sentences, targets: Sequence[Ids] | Sentences) -> Batch:
    """A batch of sentence pairs, padded to the longest source and the longest target.

    The decoder's first input is <s>. In figure 1 of Sutskever 2014 it is the <EOS> that ends the source; here the
    encoder has read that one.
    """
    sources, targets = (side if isinstance(side, Sentences) else join(side) for side in (sources, targets))
    source, output = (padded(side.ids, side.lengths, 1) for side in (sources, targets))
    target = np.roll(output, 1, axis=1)
    target[:, 0] = BOS
    rows = np.arange(len(source))
    source[rows, sources.lengths] = output[rows, targets.lengths] = EOS
    source_tokens, tokens = (int(side.lengths.sum()) + len(rows) for side in (sources, targets))
    mask = None if source_tokens == source.size else torch.from_numpy(positions(sources.lengths + 1))
    real = None if tokens == output.size else torch.from_numpy(np.flatnonzero(positions(targets.lengths + 1)))
    source_ids, inputs, outputs = map(torch.from_numpy, (source, target, output))
    return Batch(source_ids, mask, inputs, outputs, tokens, source_tokens, real)


def pad(rows: Sequence[Ids]) -> Tensor:
    """Sentences as one tensor of token ids [B longest], filled up with PAD."""
    return torch.from_numpy(padded(*join(rows)))


def padded(ids: Ids, lengths: np.ndarray, more: int = 0) -> np.ndarray:
    """The sentences of `Sentences` as [B longest + more], int64, filled up with PAD."""
    table = np.full((len(lengths), int(lengths.max()) + more), PAD, dtype=np.int64)
    table[:, : table.shape[1] - more][positions(lengths)] = ids
    return table


def positions(lengths: np.ndarray) -> np.ndarray:
    """[B longest], True at the positions of each sentence, False behind its end."""
    return np.arange(lengths.max()) < lengths[:, None]


def padding_mask(source: Tensor) -> Tensor | None:
    """[B S], True at tokens and False at padding; None when nothing is padding."""
    is_token = source != PAD
    return None if bool(is_token.all()) else is_token


def random_generator(*numbers: int, shard: int) -> np.random.Generator:
    """A generator for these numbers and a shard; for shard 0 that of the numbers alone, as for an undivided corpus."""
    return np.random.default_rng((*numbers, shard) if shard else numbers)


def plan_batches(
    source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """The row numbers of each batch of a shard in an epoch.

    Rows are sorted by both lengths, ties and the order of batches shuffled. source and target are lengths in pieces. A
    batch has at most `budget` padded positions on its longer side (a longer sentence is a batch of its own). A new
    source length opens a new batch once the last is half full, so that nearly all batches need no source mask.
    """
    random = random_generator(seed, epoch, shard=shard)
    ties = np.argsort(random.random(len(source)), kind="stable")
    order = ties[np.argsort(combined_lengths(source, target)[0][ties], kind="stable")]
    runs = length_runs(source, target)
    bounds = batch_boundaries(runs.source + 1, runs.target + 1, runs.rows, budget)
    return [order[bounds[number] : bounds[number + 1]] for number in random.permutation(len(bounds) - 1)]


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


class Cursor(NamedTuple):
    """The place of a batch in the training: its epoch, the shard's index in that epoch's order, its position there."""

    epoch: int
    shard: int
    position: int


class BatchIterator:
    """The training batches of any epoch from any position on; `budget` as in `plan_batches`.

    Each shard of the corpus has a plan of its own, of which two are in memory; the order of the shards is new in every
    epoch. `sampling` is the strength of subword sampling (`Tokenizer.sample`); 0 turns it off. `links` make what
    attention is to learn in each batch. `noise` changes the texts, and cannot go with links.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        tokenizers: Tokenizers,
        budget: int,
        seed: int,
        sampling: float,
        links: TrainingLinks | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.pairs, self.tokenizers, self.budget, self.seed, self.sampling = pairs, tokenizers, budget, seed, sampling
        self.links, self.noise = links, noise or Noise()
        self.plan = lru_cache(2)(self.make_plan)

    def shard_number(self, epoch: int, shard: int) -> int:
        return int(np.random.default_rng((self.seed, epoch)).permutation(self.pairs.shard_count)[shard])

    def make_plan(self, epoch: int, shard: int = 0) -> list[np.ndarray]:
        """The rows of each batch of a shard in an epoch."""
        number = self.shard_number(epoch, shard)
        pairs = self.pairs.shard(number)
        return plan_batches(pairs.source_lengths, pairs.target_lengths, self.budget, self.seed, epoch, number)

    @cached_property
    def batch_counts(self) -> list[int]:
        return [count_batches(*self.pairs.length_runs(number), self.budget) for number in range(self.pairs.shard_count)]

    @property
    def batches_per_epoch(self) -> int:
        """How many batches all shards have together."""
        return sum(self.batch_counts)

    def existing_position(self, cursor: Cursor) -> Cursor:
        """The cursor itself, or the first batch of the next shard or epoch if its position is behind the last one."""
        while cursor.position >= self.batch_counts[self.shard_number(cursor.epoch, cursor.shard)]:
            epochs, shard = divmod(cursor.shard + 1, self.pairs.shard_count)
            cursor = Cursor(cursor.epoch + epochs, shard, 0)
        return cursor

    def batch(self, epoch: int, shard: int, position: int) -> Batch:
        """Batch `position` of a shard in `epoch`, with newly sampled pieces when subword sampling is on."""
        number = self.shard_number(epoch, shard)
        pairs, rows = self.pairs.shard(number), self.plan(epoch, shard)[position]
        both = pairs.sentences("source", rows), pairs.sentences("target", rows)
        if not (self.sampling or self.noise or self.links):
            return collate(*both)
        texts = [pairs.texts(row) for row in rows]
        sources, targets = (side.rows() for side in both)
        if self.sampling or self.noise:
            seed = int(random_generator(self.seed, epoch, position, shard=number).integers(2**31))
            sources, targets = self.variation.vary(texts, (sources, targets), seed)
        batch = collate(sources, targets)
        if self.links is None:
            return batch
        protected = zip(*self.tokenizers.protect_pairs(texts), strict=True)
        encoded = [
            [text.encoded(ids.tolist()) for text, ids in zip(side, rows_of_ids, strict=True)]
            for side, rows_of_ids in zip(protected, (sources, targets), strict=True)
        ]
        return batch._replace(links=self.links.batch(encoded[0], encoded[1], [pairs.line(int(row)) for row in rows]))

    @cached_property
    def variation(self) -> Variation:
        return Variation(self.tokenizers, self.sampling, self.noise, longest_sides(self.pairs))

    def describe_batch(self, epoch: int, shard: int, position: int) -> str:
        """A batch for error messages: its number, its shard and epoch, and the corpus lines of its first pairs."""
        pairs = self.pairs.shard(self.shard_number(epoch, shard))
        lines = ", ".join(str(pairs.line(int(row))) for row in self.plan(epoch, shard)[position][:5])
        of_shard = f" of shard {shard + 1}" if self.pairs.shard_count > 1 else ""
        return f"batch {position + 1}{of_shard} of epoch {epoch + 1} (corpus lines {lines}, …)"

    def skip(self, cursor: Cursor, count: int = 1) -> Cursor:
        """The place `count` batches later; its position may be the end of its shard."""
        for _ in range(count):
            cursor = self.existing_position(cursor)
            cursor = cursor._replace(position=cursor.position + 1)
        return cursor

    def stream(
        self, cursor: Cursor, rank: int = 0, world_size: int = 1, pinned: bool = False
    ) -> Iterator[tuple[Cursor, Batch]]:
        """Yield (cursor, batch): of the batches from `cursor` on every `world_size`-th, from the `rank`-th on, epoch
        after epoch without end.

        A thread builds the next batch while the last one is trained on; `pinned`: in page-locked memory, from which it
        is copied to a GPU asynchronously. A batch depends on its cursor alone, so a stream may be dropped at any time
        and another begun at the same batch.
        """

        def build_later(cursor: Cursor, count: int) -> tuple[Cursor, Batch]:
            cursor = self.existing_position(self.skip(cursor, count))
            batch = self.batch(*cursor)
            return cursor, batch.map(Tensor.pin_memory) if pinned else batch

        with ThreadPoolExecutor(1, "batches") as thread:
            future = thread.submit(build_later, cursor, rank)
            while True:
                cursor, batch = future.result()
                future = thread.submit(build_later, cursor, world_size)
                yield cursor, batch


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
