"""Forced decoding of many pairs: order, batches, padding, and what is recorded of each."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import VOCABULARY
from hypothesis import given
from hypothesis import strategies as st

from nmt.attention.rollout import rollout
from nmt.config.schema import DecodeConfig
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import BOS, EOS, Tokenizers
from nmt.decode import forced_decoding
from nmt.decode.forced_decoding import (
    AttentionRecord,
    pair_batches,
    pair_chunks,
)
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError
from nmt.evaluate.extraction import (
    MAX_LENGTH_FACTOR,
    absolute_layers,
    layer_candidates,
    max_pieces_per_side,
)

PAIRS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(
        lambda pair: ([5] * pair[0], [6] * pair[1])
    )
)


def tokenizer_of(prefix: int) -> SimpleNamespace:
    """A tokenizer whose pieces are ▁5 ▁6 …: each a word, but the first `prefix` ones."""
    return SimpleNamespace(
        pieces=lambda ids: [f"▁{number}" for number in ids],
        prefix_length=lambda ids: prefix,
        placeholder_ids=(),
    )


def translator_of(model, max_pieces: int = 64, prefixes: tuple[int, int] = (0, 0)) -> Translator:
    decode = DecodeConfig(
        beam=2, length_penalty=1.0, max_length_ratio=1.0, max_length_extra=5, batch_tokens=8192
    )
    device = torch.device("cpu")
    both = Tokenizers(*map(tokenizer_of, prefixes))  # type: ignore[arg-type]
    return Translator(model, both, decode, max_pieces, device, torch.autocast("cpu", enabled=False))


def some_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    random = np.random.default_rng(1)
    lengths = [(0, 3), (3, 0), (0, 0), *random.integers(1, 9, (count - 3, 2)).tolist()]
    return [
        tuple(random.integers(4, VOCABULARY, length).tolist() for length in pair)
        for pair in lengths
    ]


def test_pairs_are_recorded_in_a_batch_as_alone(name, small_model, monkeypatch):
    translator = translator_of(small_model(name))
    pairs = some_pairs(24)
    alone = [translator.force_decode(pair) for pair in pairs]
    monkeypatch.setattr(forced_decoding, "CHUNK_PAIRS", 10)
    monkeypatch.setattr(forced_decoding, "BATCH_CELLS", 300)
    sizes = []
    force_decode_batch = Translator.force_decode_batch

    def counted(self, batch):
        sizes.append(len(batch))
        return force_decode_batch(self, batch)

    monkeypatch.setattr(Translator, "force_decode_batch", counted)
    batched = list(translator.force_decode_all(iter(pairs)))
    assert max(sizes) > 1 and len(sizes) > 3 and sum(sizes) == len(pairs)
    for expected, record, (source, target) in zip(alone, batched, pairs, strict=True):
        assert record.source_pieces == [f"▁{number}" for number in source]
        assert record.target_pieces == [f"▁{number}" for number in target]
        assert record.log_probabilities == pytest.approx(expected.log_probabilities, abs=1e-5)
        for part in ("weights", "rollout", "p_t"):
            wanted = getattr(expected, part)
            value = getattr(record, part)
            assert (wanted is None) == (value is None)
            if wanted is not None:
                np.testing.assert_allclose(value, wanted, atol=1e-6)
        if record.weights is not None:
            assert record.weights.shape[2:] == (len(target) + 1, len(source) + 1)


@pytest.mark.parametrize("architecture", ["transformer", "luong_local_p"])
def test_prefixes_are_not_recorded(architecture, small_model):
    """Two language tags on the source's side and one on the target's: </s> has their weights."""
    model = small_model(architecture)
    pair = [5, 6, 7, 8], [9, 10, 11]
    whole = translator_of(model).force_decode(pair)
    record = translator_of(model, prefixes=(2, 1)).force_decode(pair)
    assert (record.source_pieces, record.target_pieces) == (["▁7", "▁8"], ["▁10", "▁11"])
    assert record.log_probabilities == whole.log_probabilities[1:]
    if whole.p_t is not None:
        np.testing.assert_array_equal(record.p_t, whole.p_t[1:] - 2)
    for weights, all_weights in ((record.weights, whole.weights), (record.rollout, whole.rollout)):
        if all_weights is None:
            continue
        rows = all_weights[..., 1:, :]
        np.testing.assert_array_equal(weights[..., :-1], rows[..., 2:-1])
        np.testing.assert_allclose(weights[..., -1], rows[..., [0, 1, -1]].sum(-1))


@given(PAIRS, st.integers(1, 60), st.integers(1, 300))
def test_each_pair_is_in_one_batch_within_bounds(pairs, tokens, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forced_decoding, "BATCH_CELLS", cells)
        batches = list(pair_batches(pairs, tokens))
    lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
    assert sorted(row for rows in batches for row in rows) == list(range(len(pairs)))
    flat = [lengths[row] for rows in batches for row in rows]
    assert flat == sorted(flat, reverse=True)
    for rows in batches:
        longest = max(lengths[row] for row in rows)
        assert len(rows) == 1 or (len(rows) * longest <= tokens and len(rows) * longest**2 <= cells)


@given(PAIRS, st.integers(1, 7), st.integers(1, 300))
def test_windows_keep_the_order_within_bounds(pairs, most, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forced_decoding, "CHUNK_PAIRS", most)
        patch.setattr(forced_decoding, "CHUNK_CELLS", cells)
        windows = list(pair_chunks(iter(pairs)))
    assert [pair for window in windows for pair in window] == pairs
    for window in windows:
        size = sum((len(source) + 1) * (len(target) + 1) for source, target in window)
        assert len(window) == 1 or (len(window) <= most and size <= cells)
    for window, following in pairwise(windows):  # and as many as that allows
        size = sum((len(source) + 1) * (len(target) + 1) for source, target in following[:1])
        size += sum((len(source) + 1) * (len(target) + 1) for source, target in window)
        assert len(window) == most or size > cells


def test_the_mean_of_layers_by_hand():
    """Two layers of two heads over one word and </s>; -2 counts from the top, and a layer too high
    is the last."""
    weights = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]], [[[0.75, 0.25]], [[0.25, 0.75]]]])
    record = AttentionRecord(["a"], [], [], weights)
    assert record.layer_weights((0, 1), 0).tolist() == [[0.875, 0.125]]
    assert record.layer_weights((-2, 7), 1).tolist() == [[0.125, 0.875]]
    assert record.layer_weights((0, 1), None).tolist() == [[0.5, 0.5]]
    assert layer_candidates(3) == [0, 1, 2, (1, 2), (0, 1, 2)]
    assert absolute_layers((-1, -2), 3) == (2, 1)
    assert record.weight_table("mean", (0, 1), None).tolist() == [[0.5, 0.5]]
    with pytest.raises(UserError, match="needs the weights of self-attention"):
        record.weight_table("rollout", 0, None)
    record.rollout = weights[0, 0]
    assert record.weight_table("rollout", 0, None).tolist() == [[1.0, 0.0]]


def test_pairs_longer_than_the_learned_positions_are_refused(small_model):
    """64 is the translator's max_pieces; </s> has a position too."""
    assert (
        max_pieces_per_side(translator_of(small_model("transformer")))
        == 64 * MAX_LENGTH_FACTOR
        == 256
    )
    learned = translator_of(small_model("transformer_learned", max_positions=600), max_pieces=512)
    assert max_pieces_per_side(learned) == 599
    learned.force_decode(([5] * 599, [6] * 599))
    with pytest.raises(UserError, match="601 pieces or more"):
        learned.force_decode(([5] * 600, [6]))


def test_a_record_has_the_attention_that_its_model_describes(name, small_model):
    """num_layers, num_heads and has_rollout are those of a record; window_reach goes with p_t."""
    model = small_model(name)
    record = translator_of(model).force_decode(([5, 6], [7]))
    memory = model.encode(torch.tensor([[5, 6, EOS]]), None, model.has_attention)
    target = torch.tensor([[BOS, 7]])
    decoded = model.decode(target, model.start(memory), memory, model.has_attention)
    wanted = {"weights": decoded.weights, "p_t": decoded.p_t}
    if model.has_rollout:
        wanted["rollout"] = rollout(memory.weights, decoded.self_weights, decoded.weights)
    for part, of_batch in wanted.items():
        if of_batch is not None:
            np.testing.assert_allclose(getattr(record, part), of_batch[0].detach(), atol=1e-6)
    assert (model.num_layers, model.num_heads) == (record.num_layers, record.num_heads)
    assert model.has_attention == (record.weights is not None)
    assert model.has_rollout == (record.rollout is not None)
    assert (model.window_reach is not None) == (record.p_t is not None)


@pytest.mark.parametrize("begins", [[(), ()], [(7,), (7,)], [(7,), (8, 9)], [(), (8, 9)]])
def test_a_search_of_given_columns_has_the_score_of_a_free_one(begins, small_model, monkeypatch):
    """The pieces that name a language have no probability in either."""
    translator = translator_of(small_model("transformer"))
    placeholders = SimpleNamespace(placeholder_ids=(), size=VOCABULARY)
    both = Tokenizers(placeholders, placeholders)  # type: ignore[arg-type]
    monkeypatch.setattr(Tokenizers, "protects", False)
    translator = replace(translator, tokenizers=both)
    queries = []
    for begin, ids in zip(begins, ([5, 6], [9, 10, 11]), strict=True):
        queries.append(Query(Encoded(ids, begin=begin)))
    free = [hypotheses[0] for hypotheses in translator.search(queries)]
    forced = []
    for query, hypothesis in zip(queries, free, strict=True):
        forced.append(query._replace(template=[(piece,) for piece in hypothesis.ids]))
    given = [hypotheses[0] for hypotheses in translator.search(forced)]
    for begin, expected, found in zip(begins, free, given, strict=True):
        assert found.ids == expected.ids and tuple(found.ids[: len(begin)]) == begin
        assert found.score == pytest.approx(expected.score, abs=1e-5)


@pytest.mark.parametrize("begin", [0, 1, 3, 9])
def test_a_search_ends_with_the_learned_positions(begin, small_model, monkeypatch):
    """They hold the longest source and its longest translation, but no beginning beside these."""
    model = small_model("transformer_learned")
    positions = model.target_positions
    positions.table = torch.nn.Parameter(positions.table[:20].detach())
    translator = translator_of(model, max_pieces=14)
    side = SimpleNamespace(placeholder_ids=(), size=VOCABULARY)
    monkeypatch.setattr(Tokenizers, "protects", False)
    decode = replace(translator.decode, avoid_loops=False)
    translator = replace(translator, tokenizers=Tokenizers(side, side), decode=decode)  # type: ignore[arg-type]
    logits = model.logits
    without_end = torch.nn.functional.one_hot(torch.tensor(EOS), VOCABULARY) * -1e4
    monkeypatch.setattr(model, "logits", lambda hidden: logits(hidden) + without_end)
    source = Encoded([5] * 14, begin=(7,) * begin)
    ((first, *_),) = translator.search([Query(source)])
    assert len(first.ids) + 1 == 20
