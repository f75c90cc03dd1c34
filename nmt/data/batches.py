"""How the sentence pairs of a corpus become batches.

1. The pairs are sorted by their lengths, so that the pairs of a batch have similar ones and little
   of it is padding (`plan_batches`). Ties and the order of the batches are random.
2. With noise or subword sampling the lengths are new in each epoch. Then the pairs of some
   successive batches, a window, are varied together and divided into batches again (`WindowPlan`).
3. `collate` makes tensors of the pairs of a batch.
4. `BatchIterator` builds the batches of every epoch, and of every shard of a large corpus.

The batches of an epoch are a function of the lengths, the budget, the seed and the epoch alone. A
training can therefore resume in the middle of an epoch from three numbers (`Cursor`): the epoch,
the shard's index in the order of that epoch, and the position in the shard's plan.

B batch, S source length, T target length.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.augmentation import Ids, Noise, Variation, VariedPair
from nmt.data.dataset import (
    ParallelDataset,
    Sentences,
    TrainingPairs,
    combined_lengths,
    join,
    length_runs,
    longest_sides,
)
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers
from nmt.data.training_links import TrainingLinks

WINDOW_ROWS = 32_768  # about how many pairs are varied and divided into batches together
INTERLEAVED = 8  # windows that take turns
AHEAD = 4  # batches that are built before they are needed


class Batch(NamedTuple):
    """Token ids of some pairs.

    A source ends in </s>. A target begins with <s> as input and ends in </s> as output.
    """

    source: Tensor  # [B S]
    mask: Tensor | None  # [B S], True at tokens; None when all sources are equally long
    target: Tensor  # [B T], the decoder's input
    output: Tensor  # [B T], the tokens it is to predict
    tokens: int  # target tokens, with </s>, without padding
    source_tokens: int  # source tokens, with </s>, without padding
    real: Tensor | None  # [tokens], places of tokens in the flat `output`; None without padding
    links: Tensor | None = None  # [B T S], what attention is to learn; None without such links

    def to(self, device: torch.device) -> "Batch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same batch with every tensor changed."""
        fields: Any = [change(value) if isinstance(value, Tensor) else value for value in self]
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
    sources = sources if isinstance(sources, Sentences) else join(sources)
    targets = targets if isinstance(targets, Sentences) else join(targets)
    rows = np.arange(len(sources.lengths))

    source = padded(sources, 1)  # [B S]
    source[rows, sources.lengths] = EOS
    output = padded(targets, 1)  # [B T]
    target = np.roll(output, 1, axis=1)  # its last column, all padding, becomes the first one
    target[:, 0] = BOS
    output[rows, targets.lengths] = EOS

    mask = real = None
    source_tokens = int(sources.lengths.sum()) + len(rows)
    if source_tokens < source.size:
        mask = torch.from_numpy(positions(sources.lengths + 1))
    tokens = int(targets.lengths.sum()) + len(rows)
    if tokens < output.size:
        real = torch.from_numpy(np.flatnonzero(positions(targets.lengths + 1)))
    return Batch(
        torch.from_numpy(source),
        mask,
        torch.from_numpy(target),
        torch.from_numpy(output),
        tokens,
        source_tokens,
        real,
    )


def split_batch(batch: Batch, parts: int) -> Iterator[Batch]:
    """The parts of a batch on the CPU, in the order of its rows; fewer if it has fewer rows."""
    if parts == 1:
        yield batch
        return
    size = -(-len(batch.source) // parts)  # rows of a part
    width = batch.output.size(1)  # T
    real = torch.arange(batch.output.numel()) if batch.real is None else batch.real
    for start in range(0, len(batch.source), size):
        rows = slice(start, start + size)
        source = batch.source[rows]
        output = batch.output[rows]
        mask = None if batch.mask is None else batch.mask[rows]
        # The flat places of its tokens, counted from the first row of the part
        is_inside = (real >= start * width) & (real < (start + size) * width)
        places = real[is_inside] - start * width
        yield Batch(
            source=source,
            mask=mask,
            target=batch.target[rows],
            output=output,
            tokens=len(places),
            source_tokens=source.numel() if mask is None else int(mask.sum()),
            real=None if len(places) == output.numel() else places,
            links=None if batch.links is None else batch.links[rows],
        )


def pad(rows: Sequence[Ids]) -> Tensor:
    """Sentences as one tensor of token ids [B longest], filled up with PAD."""
    return torch.from_numpy(padded(join(rows)))


def padded(sentences: Sentences, extra: int = 0) -> np.ndarray:
    """The sentences as [B longest + extra], int64, filled up with PAD."""
    lengths = sentences.lengths
    longest = int(lengths.max())
    table = np.full((len(lengths), longest + extra), PAD, dtype=np.int64)
    table[:, :longest][positions(lengths)] = sentences.ids
    return table


def positions(lengths: np.ndarray) -> np.ndarray:
    """[B longest], True at the positions of each sentence, False behind its end."""
    return np.arange(lengths.max()) < lengths[:, None]


def random_generator(*numbers: int, shard: int) -> np.random.Generator:
    """A generator for these numbers and a shard.

    Shard 0 has that of the numbers alone, as a corpus that is not divided.
    """
    return np.random.default_rng((*numbers, shard) if shard else numbers)


def plan_batches(
    source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """The row numbers of each batch of a shard in an epoch.

    `source` and `target` are the lengths of the rows in pieces. A batch has at most `budget`
    positions on its longer side, padding included; only a longer sentence, which is a batch of its
    own, has more. A new source length opens a new batch once the last one is half full, so that
    nearly all batches need no source mask.
    """
    random = random_generator(seed, epoch, shard=shard)
    batches = sorted_batches(source, target, budget, random)
    return [batches[number] for number in random.permutation(len(batches))]


def sorted_batches(
    source: np.ndarray, target: np.ndarray, budget: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The batches of `plan_batches`, from short sentences to long ones."""
    ties = np.argsort(random.random(len(source)), kind="stable")
    order = ties[np.argsort(combined_lengths(source, target)[0][ties], kind="stable")]
    return split_sorted(order, source, target, budget)


def split_sorted(
    order: np.ndarray, source: np.ndarray, target: np.ndarray, budget: int
) -> list[np.ndarray]:
    """The row numbers of each batch; `order` has the rows sorted by their lengths."""
    runs = length_runs(source, target)
    bounds = batch_boundaries(runs.source + 1, runs.target + 1, runs.rows, budget)
    return [order[start:stop] for start, stop in pairwise(bounds)]


class BatchPairs(NamedTuple):
    """The ids of the pairs of a batch, and their rows; a merged pair has the row of its first."""

    rows: list[int]
    sources: Sentences
    targets: Sentences


class WindowPlan(NamedTuple):
    """The batches of a shard in an epoch in which noise and sampling change the lengths of pairs.

    A window is `size` successive batches by the stored lengths. Its pairs are varied together and
    divided into as many batches by their new lengths. INTERLEAVED windows take turns: if the number
    of processes divides INTERLEAVED, each process has windows of its own to vary.
    """

    batches: list[np.ndarray]  # rows
    size: int
    places: list[int]  # of each position of the epoch: window · size + batch in the window

    @classmethod
    def make(
        cls, batches: list[np.ndarray], rows: int, random: np.random.Generator
    ) -> "WindowPlan":
        # Windows of about WINDOW_ROWS rows, but at least two of them
        count = len(batches)
        size = max(1, min(count * WINDOW_ROWS // max(1, rows), count // 2))

        # The whole windows in random order; what is left over is the last one
        windows = random.permutation(count // size).tolist()
        if count % size:
            windows.append(count // size)

        # The batches of a window in random order
        orders = []
        for window in windows:
            first = window * size
            orders.append(first + random.permutation(min(size, count - first)))

        # A batch of each of INTERLEAVED windows in turn
        places: list[int] = []
        for start in range(0, len(orders), INTERLEAVED):
            for turn in zip_longest(*orders[start : start + INTERLEAVED]):
                places += [int(place) for place in turn if place is not None]
        return cls(batches, size, places)

    def window(self, number: int) -> list[np.ndarray]:
        return self.batches[number * self.size : (number + 1) * self.size]


def divide(pairs: Sequence[VariedPair], count: int, budget: int) -> list[BatchPairs]:
    """Pairs in exactly `count` batches, made as `plan_batches` makes them."""
    source = np.array([len(pair.source) for pair in pairs])
    target = np.array([len(pair.target) for pair in pairs])
    order = np.argsort(combined_lengths(source, target)[0], kind="stable")

    # Too many batches: a larger budget. Too few: the batch of most pairs is cut in half.
    batches = split_sorted(order, source, target, budget)
    while len(batches) > count:
        budget += -(-budget // 32)
        batches = split_sorted(order, source, target, budget)
    while len(batches) < count:
        most = max(range(len(batches)), key=lambda number: len(batches[number]))
        batches[most : most + 1] = np.array_split(batches[most], 2)

    divided = []
    for places in batches:
        sources, targets, rows = zip(*[pairs[place] for place in places], strict=True)
        divided.append(BatchPairs(list(rows), join(sources), join(targets)))
    return divided


def count_batches(source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int) -> int:
    """How many batches the plan of rows with these LengthRuns has, whatever its seed and epoch."""
    return len(batch_boundaries(source + 1, target + 1, rows, budget)) - 1


def batch_boundaries(
    source: np.ndarray, target: np.ndarray, rows: np.ndarray, budget: int
) -> np.ndarray:
    """The boundaries between the batches of sorted rows, 0 and the end included.

    Run k has rows[k] rows of source length source[k] and target length target[k]. All batches of a
    run are computed at once, because a large corpus has far fewer runs than rows.
    """
    bounds: list[int] = []
    start = 0  # of the run
    # The open batch: its rows, its longest side, its first source length
    size = 0
    longest = 0
    first = 0
    for source_length, target_length, count in zip(
        source.tolist(), target.tolist(), rows.tolist(), strict=True
    ):
        # How many rows the open batch may have if rows of this run join it
        new_longest = max(longest, source_length, target_length)
        capacity = budget // new_longest if size else 0
        if source_length != first:
            # Rows of another source length only fill it up to its half
            is_half_full = 2 * longest * size >= budget
            half = -(-budget // (2 * new_longest))
            capacity = 0 if is_half_full else min(capacity, max(size + 1, half))
        joining = min(count, max(0, capacity - size))
        if joining:
            size += joining
            longest = new_longest

        # The other rows are in new batches, the last of which stays open
        if joining < count:
            longest = max(source_length, target_length)
            first = source_length
            full_size = max(1, budget // longest)
            bounds.extend(range(start + joining, start + count, full_size))
            size = (count - joining - 1) % full_size + 1
        start += count
    return np.array([*bounds, start])


class Cursor(NamedTuple):
    """The place of a batch in the training."""

    epoch: int
    shard: int  # an index in the order that the shards have in this epoch
    position: int  # in the plan of the shard


@dataclass(eq=False)
class BatchIterator:
    """The training batches of any epoch from any position on; `budget` as in `plan_batches`.

    Each shard of the corpus has a plan of its own; two plans are in memory. The order of the shards
    is new in every epoch. `sampling` is the strength of subword sampling (`Tokenizer.sample`); 0
    turns it off. `links` tell what attention is to learn in each batch. `noise` changes the texts,
    and cannot go with links.
    """

    pairs: TrainingPairs
    tokenizers: Tokenizers
    budget: int
    seed: int
    sampling: float
    links: TrainingLinks | None = None
    noise: Noise = Noise()

    def __post_init__(self) -> None:
        self.plan = lru_cache(2)(self.make_plan)
        self.window_plan = lru_cache(2)(self.make_window_plan)
        self.varied_window = lru_cache(INTERLEAVED)(self.vary_window)

    def shard_number(self, epoch: int, shard: int) -> int:
        """The number of the shard that is at index `shard` in the order of an epoch."""
        order = np.random.default_rng((self.seed, epoch)).permutation(self.pairs.shard_count)
        return int(order[shard])

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
        """The cursor; if its shard has no such position, the first of the next shard or epoch."""
        while cursor.position >= self.batch_counts[self.shard_number(cursor.epoch, cursor.shard)]:
            epochs, shard = divmod(cursor.shard + 1, self.pairs.shard_count)
            cursor = Cursor(cursor.epoch + epochs, shard, 0)
        return cursor

    def shard_at(self, cursor: Cursor) -> ParallelDataset:
        return self.pairs.shard(self.shard_number(cursor.epoch, cursor.shard))

    def batch(self, cursor: Cursor) -> Batch:
        """The batch at this place, with noise and new pieces where these are on."""
        rows, sources, targets = self.sentences(cursor)
        batch = collate(sources, targets)
        if self.links is None:
            return batch
        pairs = self.shard_at(cursor)
        protected = self.tokenizers.protect_pairs([pairs.texts(row) for row in rows])
        encoded_sources = []
        encoded_targets = []
        for (source, target), source_ids, target_ids in zip(
            protected, sources.rows(), targets.rows(), strict=True
        ):
            encoded_sources.append(source.encoded(source_ids.tolist()))
            encoded_targets.append(target.encoded(target_ids.tolist()))
        lines = [pairs.line(row) for row in rows]
        return batch._replace(links=self.links.batch(encoded_sources, encoded_targets, lines))

    @cached_property
    def variation(self) -> Variation:
        return Variation(self.tokenizers, self.sampling, self.noise, longest_sides(self.pairs))

    def sentences(self, cursor: Cursor) -> BatchPairs:
        epoch, shard, position = cursor
        if self.sampling or self.noise:
            plan = self.window_plan(epoch, shard)
            window, number = divmod(plan.places[position], plan.size)
            return self.varied_window(epoch, shard, window)[number]
        pairs = self.shard_at(cursor)
        rows = self.plan(epoch, shard)[position]
        sources = pairs.sentences("source", rows)
        targets = pairs.sentences("target", rows)
        return BatchPairs(rows.tolist(), sources, targets)

    def vary_window(self, epoch: int, shard: int, window: int) -> list[BatchPairs]:
        """The batches of a window, by their new lengths."""
        number = self.shard_number(epoch, shard)
        batches = self.window_plan(epoch, shard).window(window)
        seed = int(random_generator(self.seed, epoch, window, shard=number).integers(2**31))
        pairs = self.pairs.shard(number)
        varied = self.variation.vary(pairs, np.concatenate(batches), len(batches), seed)
        return divide(varied, len(batches), self.budget)

    def describe_batch(self, cursor: Cursor) -> str:
        """A batch for error messages: its number and the corpus lines of its first pairs."""
        epoch, shard, position = cursor
        pairs = self.shard_at(cursor)
        rows = self.sentences(cursor).rows
        lines = ", ".join(str(pairs.line(row)) for row in rows[:5])
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
        """Yield (cursor, batch), epoch after epoch without end.

        A process gets every `world_size`-th batch, beginning with the `rank`-th from `cursor` on. A
        thread builds AHEAD batches while the last one is trained on. `pinned` puts them in
        page-locked memory, from which they are copied to a GPU asynchronously. A batch depends on
        its cursor alone, so a stream may be dropped at any time and another begun at the same
        batch.
        """

        def build_next(count: int) -> tuple[Cursor, Batch]:
            nonlocal cursor
            cursor = self.existing_position(self.skip(cursor, count))
            batch = self.batch(cursor)
            if pinned:
                batch = batch.map(Tensor.pin_memory)
            return cursor, batch

        thread = ThreadPoolExecutor(1, "batches")
        futures = deque([thread.submit(build_next, rank)])
        for _ in range(AHEAD - 1):
            futures.append(thread.submit(build_next, world_size))
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
    """Row numbers in batches for search and scoring, the longest rows first.

    A batch has at most `budget` positions, padding included.
    """
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    batches = []
    start = 0
    while start < len(order):
        rows = max(1, int(budget // (sorted_lengths[start] + 1)))
        batches.append(order[start : start + rows])
        start += rows
    return batches
