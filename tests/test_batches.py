"""Batches: every pair once, never more than the budget, and the same again from the same
numbers."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from corpora import pairs as sentence_pairs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.augmentation import Noise, Variation, VariedPair
from nmt.data.batches import (
    WINDOW_ROWS,
    BatchIterator,
    Cursor,
    WindowPlan,
    batches_by_length,
    collate,
    count_batches,
    divide,
    length_runs,
    plan_batches,
)
from nmt.data.dataset import Sentences, ShardedDataset, join
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers

BUDGETS = st.integers(1, 200)
SEEDS = st.integers(0, 2**32 - 1)


def columns(lengths: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(lengths, dtype=np.int32).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def plain_plan(
    source: np.ndarray, target: np.ndarray, budget: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """The same plan, simply: one sort, and row after row into batches."""
    random = np.random.default_rng((seed, epoch))
    order = np.lexsort((random.random(len(source)), target, source))
    bounds = plain_boundaries(source[order] + 1, target[order] + 1, budget)
    return [
        order[bounds[number] : bounds[number + 1]] for number in random.permutation(len(bounds) - 1)
    ]


def plain_boundaries(source: np.ndarray, target: np.ndarray, budget: int) -> list[int]:
    bounds = [0]
    longest = 0
    first = 0
    for row, (source_length, target_length) in enumerate(
        zip(source.tolist(), target.tolist(), strict=True)
    ):
        new_longest = max(longest, source_length, target_length)
        rows = row - bounds[-1]
        full = new_longest * (rows + 1) > budget
        changed = source_length != first and longest * rows * 2 >= budget
        if rows and (full or changed):
            bounds.append(row)
            new_longest = max(source_length, target_length)
        if row == bounds[-1]:
            first = source_length
        longest = new_longest
    return bounds + [len(source)] if len(source) else bounds


def corpus(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Many equal lengths, as in Multi30k."""
    random = np.random.default_rng(1)
    source = random.integers(5, 20, rows)
    return source, np.maximum(1, source + random.integers(-3, 4, rows))


def assert_within_budget(batches: list[np.ndarray], longer: np.ndarray, budget: int) -> None:
    """With </s>, and <s> or </s>; a longer sentence is a batch of its own."""
    for rows in batches:
        assert len(rows) == 1 or len(rows) * (longer[rows].max() + 1) <= budget


@settings(max_examples=100)
@given(
    st.integers(0, 200), st.sampled_from([3, 12, 300, 70_000]), BUDGETS, SEEDS, st.integers(0, 9)
)
def test_a_plan_equals_a_plan_built_row_by_row(rows, longest, budget, seed, epoch):
    """The same rows in the same batches in the same order, so that a run begun with the plain plan
    may continue; every row once, and as many batches as the lengths say."""
    # few lengths: many rows in a run; 8, 16, 32 and 64 bits for a pair of lengths
    lengths = np.random.default_rng(seed).integers(1, longest, (rows, 2), endpoint=True)
    source, target = lengths.T
    expected = plain_plan(source, target, budget, seed, epoch)
    batches = plan_batches(source, target, budget, seed, epoch)
    assert [rows.tolist() for rows in batches] == [rows.tolist() for rows in expected]
    assert sorted(np.concatenate([[], *batches])) == list(range(rows))
    assert_within_budget(batches, np.maximum(source, target), budget)
    runs = length_runs(source, target)
    assert count_batches(*runs, budget) == len(batches)
    in_order = np.repeat(np.stack(runs[:2], 1), runs.rows, axis=0)
    assert in_order.tolist() == sorted(lengths.tolist())


def test_collate_by_hand():
    batch = collate([np.array([9, 8]), np.array([7])], [np.array([4]), np.array([5, 6, 10])])
    assert batch.source.tolist() == [[9, 8, EOS], [7, EOS, PAD]]
    assert batch.mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target.tolist() == [[BOS, 4, PAD, PAD], [BOS, 5, 6, 10]]
    assert batch.output.tolist() == [[4, EOS, PAD, PAD], [5, 6, 10, EOS]]
    assert batch.tokens == 6 and batch.source_tokens == 5
    assert batch.real.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.padding == pytest.approx(1 - 11 / 14)
    even = collate([np.array([9, 8])] * 2, [np.array([4]), np.array([], dtype=np.int32)])
    assert even.mask is None and collate([np.array([9])] * 2, [np.array([4])] * 2).real is None
    assert even.target.tolist() == [[BOS, 4], [BOS, PAD]] and even.output.tolist() == [
        [4, EOS],
        [EOS, PAD],
    ]


class Rows:
    """One shard of pairs whose ids are derived from their row and from `first`, the number of its
    first row."""

    shard_count = 1

    def __init__(self, rows: int, first: int = 0) -> None:
        self.source_lengths, self.target_lengths = corpus(rows)
        self.first = first

    def shard(self, number: int) -> "Rows":
        return self

    def length_runs(self, number: int):
        return length_runs(self.source_lengths, self.target_lengths)

    def line(self, row: int) -> int:
        return self.first + row + 1

    def source(self, row: int) -> np.ndarray:
        return np.full(self.source_lengths[row], 4 + self.first + row, dtype=np.int32)

    def target(self, row: int) -> np.ndarray:
        return np.full(self.target_lengths[row], 1000 + self.first + row, dtype=np.int32)

    def sentences(self, side: str, rows: np.ndarray) -> Sentences:
        return join([getattr(self, side)(row) for row in rows])


class Shards(ShardedDataset):
    """Shards of such rows, two of them equal and one empty."""

    sizes = (100, 0, 60, 100)

    def __init__(self) -> None:
        self.rows = [Rows(size, sum(self.sizes[:number])) for number, size in enumerate(self.sizes)]
        super().__init__([], [], lambda path: None)
        self.shard_count = len(self.rows)
        self.runs = [rows.length_runs(0) for rows in self.rows]

    def open_shard(self, number: int) -> Rows:
        return self.rows[number]


def sharded() -> BatchIterator:
    return BatchIterator(Shards(), None, 200, 1, 0.0)


def rows_of(batch) -> list[int]:
    return (batch.source[:, 0] - 4).tolist()


def cursors(epochs: BatchIterator, first: Cursor, count: int) -> list[Cursor]:
    found = [epochs.existing_position(first)]
    while len(found) < count:
        found.append(epochs.existing_position(epochs.skip(found[-1])))
    return found


def test_an_epoch_of_shards_shows_every_pair_once_and_each_epoch_orders_them_anew():
    epochs = sharded()
    many = epochs.batches_per_epoch
    assert many == sum(len(plan_batches(*corpus(size), 200, 1, 0)) for size in Shards.sizes if size)
    places = cursors(epochs, Cursor(0, 0, 0), 4 * many)
    for epoch in range(4):
        of_epoch = places[epoch * many : (epoch + 1) * many]
        rows = [row for place in of_epoch for row in rows_of(epochs.batch(place))]
        assert sorted(rows) == list(range(260))
        assert {place.epoch for place in of_epoch} == {epoch}
    orders = [[epochs.shard_number(epoch, shard) for shard in range(4)] for epoch in range(4)]
    assert orders != orders[:1] * 4 and all(sorted(order) == [0, 1, 2, 3] for order in orders)
    plans = [np.concatenate(epochs.plan(0, orders[0].index(shard))).tolist() for shard in (0, 3)]
    assert plans[0] != plans[1] and sorted(plans[0]) == sorted(plans[1])


def test_a_batch_is_described_by_its_place_and_lines():
    epochs = sharded()
    shard = [epochs.shard_number(2, place) for place in range(4)].index(2)
    text = epochs.describe_batch(Cursor(2, shard, 1))
    lines = [row + 1 for row in rows_of(epochs.batch(Cursor(2, shard, 1)))]
    assert list(map(int, re.findall(r"\d+", text))) == [2, shard + 1, 3, *lines[:5]]


@pytest.mark.parametrize("size", [1, 3])
def test_the_streams_of_processes_are_one_stream_and_continue_from_any_cursor(size):
    """A new iterator at any batch, at the end of a shard too, gives what the first one gave from
    there on."""
    many = 2 * sharded().batches_per_epoch // size * size
    places = cursors(sharded(), Cursor(0, 0, 0), many)
    for index in range(0, many - size, 5):
        # as TrainState stores it
        stored = places[index - 1]._replace(position=places[index - 1].position + 1)
        start = stored if index else Cursor(0, 0, 0)
        streams = [sharded().stream(start, rank, size) for rank in range(size)]
        found = [next(stream) for _ in range(2) for stream in streams]
        for (cursor, batch), place in zip(found, places[index:], strict=False):
            assert cursor == place and rows_of(batch) == rows_of(sharded().batch(place))


class Texts:
    """Sentence pairs as text and pieces, in one shard."""

    shard_count = 1

    def __init__(self, tokenizers: Tokenizers, texts: list[tuple[str, str]]) -> None:
        self.every = texts
        encoded = zip(*tokenizers.encode_pairs(texts), strict=True)
        self.ids = {
            side: [np.array(ids, dtype=np.int32) for ids in every]
            for side, every in zip(("source", "target"), encoded, strict=True)
        }
        self.source_lengths, self.target_lengths = (
            np.array(list(map(len, side))) for side in self.ids.values()
        )

    def __len__(self) -> int:
        return len(self.every)

    def sentences(self, side: str, rows: np.ndarray) -> Sentences:
        return join([self.ids[side][row] for row in rows])

    def shard(self, number: int) -> "Texts":
        return self

    def length_runs(self, number: int):
        return length_runs(self.source_lengths, self.target_lengths)

    def texts(self, row: int) -> tuple[str, str]:
        return self.every[row]


@pytest.mark.parametrize("sampling, noise", [(0.5, Noise()), (0.0, Noise(typos=0.9))])
def test_pieces_and_noise_are_new_in_each_epoch_and_window_and_the_same_again(
    vocabularies, sampling, noise, monkeypatch
):
    monkeypatch.setattr("nmt.data.batches.WINDOW_ROWS", 8)
    tokenizers = vocabularies[True]
    line = "Der kleine Hund schläft nicht im Garten. " * 4  # so long that no two are the same
    texts = Texts(tokenizers, [*[(line, line)] * 48, (line * 3, line * 3)])
    first, again = (
        BatchIterator(texts, tokenizers, 500, 1, sampling, noise=noise) for _ in range(2)
    )

    def pieces(iterator: BatchIterator, epoch: int) -> list[list[list[int]]]:
        windows = range(iterator.batches_per_epoch // iterator.window_plan(epoch).size)
        return [
            sorted(
                pair.tolist()
                for batch in iterator.varied_window(epoch, 0, window)
                for pair in batch.sources.rows()
            )
            for window in windows
        ]

    found = [window for epoch in range(3) for window in pieces(first, epoch)]
    several = [window for window in found if len(window) > 1]
    assert len(several) >= 12
    assert all(several.count(window) == 1 for window in several)
    assert [window for epoch in range(3) for window in pieces(again, epoch)] == found


def test_the_two_sides_are_sampled_apart_and_stay_as_they_are_where_they_get_too_long(vocabularies):
    """A model with learned positions has no embedding beyond the longest sentence."""
    tokenizers = vocabularies[True]
    germans = [german for german, _ in sentence_pairs(900)]
    about_equal = [text for text in germans if 24 <= len(tokenizers.source.encode(text)) <= 26]
    texts = Texts(tokenizers, [(text, text) for text in about_equal])
    rows = np.arange(len(texts))
    bounded = BatchIterator(texts, tokenizers, 200, 1, 1.0).variation
    longest = texts.source_lengths.max()
    found = bounded.vary(texts, rows, len(rows), 1)
    free = replace(bounded, longest=(10**6, 10**6)).vary(texts, rows, len(rows), 1)
    kinds = set()
    for row, (pair, unbounded) in enumerate(zip(found, free, strict=True)):
        assert pair.row == unbounded.row == row
        too_long = tuple(len(side) > longest for side in unbounded[:2])
        kinds.add(too_long)
        wanted = [side[row] for side in texts.ids.values()] if any(too_long) else unbounded[:2]
        assert all(map(np.array_equal, pair[:2], wanted))
    assert kinds >= {(False, False), (False, True), (True, False)}
    equal = sum(np.array_equal(pair.source, pair.target) for pair in free)
    assert equal < len(free)


@pytest.mark.parametrize("least", [1, 5, 9, 12])
def test_merged_lines_are_their_pairs_and_leave_one_for_each_batch(vocabularies, least):
    tokenizers = vocabularies[True]
    every = sentence_pairs(12)
    texts = Texts(tokenizers, every)
    variation = Variation(tokenizers, 0.0, Noise(merge=0.99), (10**6, 10**6))
    sizes = set()
    for seed in range(20):
        found = variation.vary(texts, np.arange(12), least, seed)
        bounds = [*(pair.row for pair in found), 12]
        for pair, (start, stop) in zip(found, pairwise(bounds), strict=True):
            for side, tokenizer, lines in zip(
                pair, tokenizers, zip(*every, strict=True), strict=False
            ):
                assert tokenizer.decode(side) == " ".join(lines[start:stop])
        sizes.add(len(found))
    assert least <= min(sizes) <= max(least, 6)


@pytest.mark.parametrize(
    "budget, sampling, noise",
    [
        (400, 0.0, Noise(case=0.2, typos=0.1, copy=0.1)),
        (400, 0.3, Noise()),
        (1600, 0.0, Noise(typos=0.3, merge=0.2)),
    ],
)
def test_lines_that_noise_makes_longer_cost_little_padding(vocabularies, budget, sampling, noise):
    """Each pair comes once in an epoch, alone or merged, in batches that are planned by what its
    line has become."""
    tokenizers = vocabularies[True]
    every = sentence_pairs(900)
    texts = Texts(tokenizers, [*every, tuple(map(" ".join, zip(*every[:6], strict=True)))])
    clean, varied = (
        BatchIterator(texts, tokenizers, budget, 1, *each)
        for each in ((0.0, None), (sampling, None, noise))
    )
    many = varied.batches_per_epoch
    assert many == clean.batches_per_epoch == len(varied.window_plan(0).places)
    before, after = (
        [each.batch(Cursor(0, 0, position)) for position in range(many)] for each in (clean, varied)
    )
    assert any(
        not torch.equal(one.source, other.source) for one, other in zip(before, after, strict=True)
    )
    plan = varied.window_plan(0)
    rows = []
    for position, place in enumerate(plan.places):
        of_batch = varied.sentences(Cursor(0, 0, position)).rows
        assert set(of_batch) <= set(np.concatenate(plan.window(place // plan.size)))
        rows += of_batch
    assert len(set(rows)) == len(rows) and (len(rows) < 901 if noise.merge else len(rows) == 901)
    padding_before, padding_after = (
        1 - sum(batch.tokens for batch in some) / sum(batch.output.numel() for batch in some)
        for some in (before, after)
    )
    assert padding_after < padding_before + 0.05
    sizes = [max(batch.source.numel(), batch.output.numel()) for batch in after]
    assert sum(sizes) / many < 1.15 * budget


@given(st.integers(0, 300), st.integers(1, 3), SEEDS)
@example(0, 1, 1)  # an empty shard
def test_windows_take_turns_and_of_eight_processes_each_has_its_own(count, scale, seed):
    batches = [np.arange(number, number + 1) for number in range(count)]
    plan = WindowPlan.make(batches, count * 16_384 // 2**scale, np.random.default_rng(seed))
    assert sorted(plan.places) == list(range(count))
    whole = count // plan.size // 8 * 8 * plan.size  # positions in groups of eight whole windows
    for rank in range(8):
        windows = [place // plan.size for place in plan.places[rank:whole:8]]
        assert len(set(windows)) * plan.size == len(windows)


def test_every_window_and_every_batch_of_a_window_may_come_first():
    """Of five windows of four batches, and a smaller one, which is always the last."""
    batches = [np.arange(number, number + 1) for number in range(22)]
    first_batches = set()
    last_of_window = set()
    for seed in range(300):
        plan = WindowPlan.make(batches, 22 * WINDOW_ROWS // 4, np.random.default_rng(seed))
        assert plan.size == 4 and plan.places[5] // 4 == 5
        first_batches.add(plan.places[0])
        last_of_window.add([place for place in plan.places if place // 4 == 1][-1])
        assert [rows.tolist() for rows in plan.window(1)] == [[4], [5], [6], [7]]
    assert first_batches == set(range(20)) and last_of_window == {4, 5, 6, 7}


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80),
    st.data(),
    BUDGETS,
)
def test_a_window_is_divided_by_length_into_as_many_batches_as_it_had(lengths, data, budget):
    natural = count_batches(*length_runs(*columns(lengths)), budget)
    count = data.draw(st.just(natural) | st.integers(1, len(lengths)))
    ids = [[np.full(length, row) for length in pair] for row, pair in enumerate(lengths)]
    batches = divide([VariedPair(*pair, row) for row, pair in enumerate(ids)], count, budget)
    assert len(batches) == count and all(batch.rows for batch in batches)
    rows = [row for batch in batches for row in batch.rows]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths)
    for batch in batches:
        for row, *sides in zip(batch.rows, batch.sources.rows(), batch.targets.rows(), strict=True):
            assert [side.tolist() for side in sides] == [side.tolist() for side in ids[row]]
    if count >= natural:
        longer = np.array([max(pair) for pair in lengths])
        assert_within_budget([np.array(batch.rows) for batch in batches], longer, budget)


def test_merged_lines_never_leave_a_batch_empty(vocabularies):
    tokenizers = vocabularies[True]
    texts = Texts(tokenizers, [("Hallo. " * 60, "Hello. " * 60), *sentence_pairs(40)])
    varied = BatchIterator(texts, tokenizers, 100, 1, 0.0, None, Noise(merge=0.99))
    rows = [
        len(varied.batch(Cursor(0, 0, position)).source)
        for position in range(varied.batches_per_epoch)
    ]
    assert min(rows) > 0 and len(rows) <= sum(rows) < 41


@settings(max_examples=100)
@given(st.lists(st.integers(1, 40), max_size=50), BUDGETS)
@example([4] * 10, 12)  # </s> counts
def test_batches_in_order_hold_every_row_longest_first(lengths, budget):
    batches = batches_by_length(np.array(lengths, dtype=np.int64), budget)
    order = np.concatenate([[], *batches]).astype(int).tolist()
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[row] for row in order] == sorted(lengths, reverse=True)
    assert_within_budget(batches, np.array(lengths), budget)
    for rows, following in pairwise(batches):
        assert (len(rows) + 1) * (
            max(lengths[row] for row in rows) + 1
        ) > budget or not following.size
