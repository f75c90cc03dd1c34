"""Batches of sentence pairs of similar length.

B batch, S source length, T target length. The batches of an epoch are a pure function of (lengths,
budget, seed, epoch) for each shard of the corpus, so that a training resumes in the middle of an
epoch from three numbers: the epoch, the shard's index in the order of that epoch, and the position
in the shard's plan. Noise and subword sampling change the lengths: their pairs are batched in
windows (`WindowPlan`).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import chain, pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.augmentation import Ids, Noise, Variation, VariedPair
from nmt.data.dataset import (
    Sentences,
    TrainingPairs,
    combined_lengths,
    join,
    length_runs,
    longest_sides,
)
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers
from nmt.data.training_links import TrainingLinks

# pairs whose noise and sampled pieces are drawn, and which are divided into batches, together
WINDOW_ROWS = 32_768
INTERLEAVED = 8  # windows that take turns
AHEAD = 4  # batches that are made before they are needed


class Batch(NamedTuple):
    """Token ids of some pairs; sources end in </s>, targets begin with <s> as input and end in </s>
    as output."""

    source: Tensor  # [B S]
    mask: Tensor | None  # [B S], None when all sources are equally long
    target: Tensor  # [B T], the decoder's input
    output: Tensor  # [B T], the tokens it is to predict
    tokens: int  # target tokens, </s> counted, padding not
    source_tokens: int  # source tokens, </s> counted, padding not
    # [tokens], the places of the real tokens in `output`, flattened; None where all are real
    real: Tensor | None
    # [B T S], what attention is to learn; None without guided alignment
    links: Tensor | None = None

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

    The decoder's first input is <s>. In figure 1 of Sutskever 2014 it is the <EOS> that ends the
    source; here the encoder has read that one.
    """
    sources, targets = (
        side if isinstance(side, Sentences) else join(side) for side in (sources, targets)
    )
    source, output = (padded(side.ids, side.lengths, 1) for side in (sources, targets))
    target = np.roll(output, 1, axis=1)
    target[:, 0] = BOS
    rows = np.arange(len(source))
    source[rows, sources.lengths] = output[rows, targets.lengths] = EOS
    source_tokens, tokens = (int(side.lengths.sum()) + len(rows) for side in (sources, targets))
    mask = (
        None if source_tokens == source.size else torch.from_numpy(positions(sources.lengths + 1))
    )
    real = (
        None
        if tokens == output.size
        else torch.from_numpy(np.flatnonzero(positions(targets.lengths + 1)))
    )
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
    """A generator for these numbers and a shard; for shard 0 that of the numbers alone, as for an
    undivided corpus."""
    return np.random.default_rng((*numbers, shard) if shard else numbers)


def plan_batches(
    source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """The row numbers of each batch of a shard in an epoch.

    Rows are sorted by both lengths, ties and the order of batches shuffled. source and target are
    lengths in pieces. A batch has at most `budget` padded positions on its longer side (a longer
    sentence is a batch of its own). A new source length opens a new batch once the last is half
    full, so that nearly all batches need no source mask.
    """
    random = random_generator(seed, epoch, shard=shard)
    batches = sorted_batches(source, target, budget, random)
    return [batches[number] for number in random.permutation(len(batches))]


def sorted_batches(
    source: np.ndarray, target: np.ndarray, budget: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The batches of `plan_batches` by their lengths."""
    ties = np.argsort(random.random(len(source)), kind="stable")
    order = ties[np.argsort(combined_lengths(source, target)[0][ties], kind="stable")]
    runs = length_runs(source, target)
    bounds = batch_boundaries(runs.source + 1, runs.target + 1, runs.rows, budget)
    return [order[start:stop] for start, stop in pairwise(bounds)]


class RowsOfIds(NamedTuple):
    """The ids of the pairs of a batch, and their rows, of merged pairs the first one."""

    rows: list[int]
    sources: Sentences
    targets: Sentences


class WindowPlan(NamedTuple):
    """The batches of a shard in an epoch whose pairs get other lengths, by noise and subword
    sampling.

    A window is `size` successive batches by the lengths that are stored. Its pairs are varied
    together and divided into as many batches by their new lengths. INTERLEAVED windows take turns,
    so that of N processes, N dividing INTERLEAVED, each has windows of its own to vary.
    """

    batches: list[np.ndarray]  # rows
    size: int
    places: list[int]  # of each position: window · size + batch in it

    @classmethod
    def make(
        cls, batches: list[np.ndarray], rows: int, random: np.random.Generator
    ) -> "WindowPlan":
        count = len(batches)
        size = max(1, min(count * WINDOW_ROWS // max(1, rows), count // 2))
        windows = [
            *random.permutation(count // size).tolist(),
            *([count // size] if count % size else []),
        ]
        orders = [
            first * size + random.permutation(min(size, count - first * size)) for first in windows
        ]
        turns = (
            zip_longest(*orders[start : start + INTERLEAVED])
            for start in range(0, len(orders), INTERLEAVED)
        )
        return cls(
            batches,
            size,
            [int(place) for turn in chain(*turns) for place in turn if place is not None],
        )

    def window(self, number: int) -> list[np.ndarray]:
        return self.batches[number * self.size : (number + 1) * self.size]


def divide(pairs: Sequence[VariedPair], count: int, budget: int) -> list[RowsOfIds]:
    """Pairs in `count` batches as `plan_batches` makes them, with a larger budget where that is
    needed."""
    lengths = np.array([(len(pair.source), len(pair.target)) for pair in pairs])
    order = np.argsort(combined_lengths(*lengths.T)[0], kind="stable")
    runs = length_runs(*lengths.T)
    while (
        len(bounds := batch_boundaries(runs.source + 1, runs.target + 1, runs.rows, budget))
        > count + 1
    ):
        budget += -(-budget // 32)
    batches = [order[start:stop] for start, stop in pairwise(bounds)]
    while len(batches) < count:
        most = max(range(len(batches)), key=lambda number: len(batches[number]))
        batches[most : most + 1] = np.array_split(batches[most], 2)
    by_column = (list(zip(*(pairs[row] for row in rows), strict=True)) for rows in batches)
    return [
        RowsOfIds(list(rows), join(sources), join(targets)) for sources, targets, rows in by_column
    ]


def count_batches(source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int) -> int:
    """How many batches the plan of rows with these LengthRuns has, whatever its seed and epoch."""
    return len(batch_boundaries(source + 1, target + 1, rows, budget)) - 1


def batch_boundaries(
    source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int
) -> np.ndarray:
    """The boundaries between the batches of sorted rows, the end included, computed run by run.

    Run k has rows[k] rows of source length source[k] and target length target[k].
    """
    bounds: list[int] = []
    # of the run; of the open batch: its rows, longest side, first source
    start = 0
    size = 0
    longest = 0
    first = 0
    for source_length, target_length, count in zip(
        source.tolist(), target.tolist(), rows.tolist(), strict=True
    ):
        new_longest = max(longest, source_length, target_length)
        capacity = budget // new_longest if size else 0
        if source_length != first:  # may fill a batch up to its half
            half = -(-budget // (2 * new_longest))
            capacity = min(capacity, max(size + 1, half)) if 2 * longest * size < budget else 0
        joining = min(count, max(0, capacity - size))
        if joining:
            size = size + joining
            longest = new_longest
        if joining < count:
            longest = max(source_length, target_length)
            first = source_length
            full_size = max(1, budget // longest)
            bounds.extend(range(start + joining, start + count, full_size))
            size = (count - joining - 1) % full_size + 1
        start += count
    return np.array([*bounds, start])


class Cursor(NamedTuple):
    """The place of a batch in the training: its epoch, the shard's index in that epoch's order, its
    position there."""

    epoch: int
    shard: int
    position: int


class BatchIterator:
    """The training batches of any epoch from any position on; `budget` as in `plan_batches`.

    Each shard of the corpus has a plan of its own, of which two are in memory; the order of the
    shards is new in every epoch. `sampling` is the strength of subword sampling
    (`Tokenizer.sample`); 0 turns it off. `links` make what attention is to learn in each batch.
    `noise` changes the texts, and cannot go with links.
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
        self.pairs = pairs
        self.tokenizers = tokenizers
        self.budget = budget
        self.seed = seed
        self.links = links
        self.sampling = sampling
        self.noise = noise or Noise()
        self.plan = lru_cache(2)(self.make_plan)
        self.window_plan = lru_cache(2)(self.make_window_plan)
        self.varied_window = lru_cache(INTERLEAVED)(self.vary_window)

    def shard_number(self, epoch: int, shard: int) -> int:
        return int(
            np.random.default_rng((self.seed, epoch)).permutation(self.pairs.shard_count)[shard]
        )

    def make_plan(self, epoch: int, shard: int = 0) -> list[np.ndarray]:
        """The rows of each batch of a shard in an epoch."""
        number = self.shard_number(epoch, shard)
        pairs = self.pairs.shard(number)
        return plan_batches(
            pairs.source_lengths, pairs.target_lengths, self.budget, self.seed, epoch, number
        )

    def make_window_plan(self, epoch: int, shard: int = 0) -> WindowPlan:
        number = self.shard_number(epoch, shard)
        pairs = self.pairs.shard(number)
        random = random_generator(self.seed, epoch, shard=number)
        batches = sorted_batches(pairs.source_lengths, pairs.target_lengths, self.budget, random)
        return WindowPlan.make(batches, len(pairs.source_lengths), random)

    @cached_property
    def batch_counts(self) -> list[int]:
        return [
            count_batches(*self.pairs.length_runs(number), self.budget)
            for number in range(self.pairs.shard_count)
        ]

    @property
    def batches_per_epoch(self) -> int:
        """How many batches all shards have together."""
        return sum(self.batch_counts)

    def existing_position(self, cursor: Cursor) -> Cursor:
        """The cursor itself, or the first batch of the next shard or epoch if its position is
        behind the last one."""
        while cursor.position >= self.batch_counts[self.shard_number(cursor.epoch, cursor.shard)]:
            epochs, shard = divmod(cursor.shard + 1, self.pairs.shard_count)
            cursor = Cursor(cursor.epoch + epochs, shard, 0)
        return cursor

    def batch(self, epoch: int, shard: int, position: int) -> Batch:
        """Batch `position` of a shard in `epoch`, with new pieces where there is subword sampling
        or noise."""
        pairs = self.pairs.shard(self.shard_number(epoch, shard))
        rows, sources, targets = self.sentences(epoch, shard, position)
        batch = collate(sources, targets)
        if self.links is None:
            return batch
        protected = zip(
            *self.tokenizers.protect_pairs([pairs.texts(row) for row in rows]), strict=True
        )
        encoded = [
            [text.encoded(ids.tolist()) for text, ids in zip(texts, side.rows(), strict=True)]
            for texts, side in zip(protected, (sources, targets), strict=True)
        ]
        return batch._replace(
            links=self.links.batch(encoded[0], encoded[1], [pairs.line(row) for row in rows])
        )

    @cached_property
    def variation(self) -> Variation:
        return Variation(self.tokenizers, self.sampling, self.noise, longest_sides(self.pairs))

    def sentences(self, epoch: int, shard: int, position: int) -> RowsOfIds:
        if self.sampling or self.noise:
            plan = self.window_plan(epoch, shard)
            window, number = divmod(plan.places[position], plan.size)
            return self.varied_window(epoch, shard, window)[number]
        pairs = self.pairs.shard(self.shard_number(epoch, shard))
        rows = self.plan(epoch, shard)[position]
        return RowsOfIds(
            rows.tolist(), pairs.sentences("source", rows), pairs.sentences("target", rows)
        )

    def vary_window(self, epoch: int, shard: int, window: int) -> list[RowsOfIds]:
        """The batches of a window, by their new lengths."""
        number = self.shard_number(epoch, shard)
        batches = self.window_plan(epoch, shard).window(window)
        seed = int(random_generator(self.seed, epoch, window, shard=number).integers(2**31))
        varied = self.variation.vary(
            self.pairs.shard(number), np.concatenate(batches), len(batches), seed
        )
        return divide(varied, len(batches), self.budget)

    def describe_batch(self, epoch: int, shard: int, position: int) -> str:
        """A batch for error messages: its number, its shard and epoch, and the corpus lines of its
        first pairs."""
        pairs = self.pairs.shard(self.shard_number(epoch, shard))
        lines = ", ".join(
            str(pairs.line(row)) for row in self.sentences(epoch, shard, position)[0][:5]
        )
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
        """Yield (cursor, batch): of the batches from `cursor` on every `world_size`-th, from the
        `rank`-th on, epoch after epoch without end.

        A thread builds AHEAD batches while the last one is trained on; `pinned`: in page-locked
        memory, from which they are copied to a GPU asynchronously. A batch depends on its cursor
        alone, so a stream may be dropped at any time and another begun at the same batch.
        """

        def build_next(count: int) -> tuple[Cursor, Batch]:
            nonlocal cursor
            cursor = self.existing_position(self.skip(cursor, count))
            batch = self.batch(*cursor)
            return cursor, batch.map(Tensor.pin_memory) if pinned else batch

        thread = ThreadPoolExecutor(1, "batches")
        futures = deque(
            thread.submit(build_next, count) for count in (rank, *[world_size] * (AHEAD - 1))
        )
        try:
            while True:
                built = futures.popleft().result()
                futures.append(thread.submit(build_next, world_size))
                yield built
        finally:
            for future in futures:
                future.cancel()
            thread.shutdown()


def batches_by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row numbers in batches, longest rows first, at most `budget` padded positions each; for
    search and scoring."""
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    batches = []
    start = 0
    while start < len(order):
        rows = max(1, int(budget // (sorted_lengths[start] + 1)))
        batches.append(order[start : start + rows])
        start += rows
    return batches
