"""Looking at many pairs: order, batches, padding; what of it reaches a look."""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.alignments import Extractor, every_layer, from_below, limit
from nmt.alignments.extraction import LONGEST
from nmt.commands.heatmaps import readings
from nmt.config import DecodeConfig
from nmt.data.tokenizer import EOS, PAD
from nmt.decode import attention_record as look_module
from nmt.decode import beam_search as search_module
from nmt.decode.attention_record import look_batches, windows
from nmt.decode.beam_search import force_decode, log_probabilities
from nmt.decode.translator import AttentionRecord, Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import argmax_links
from nmt.models.base import DecoderOutput, EncoderDecoder, Memory

PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: ([5] * pair[0], [6] * pair[1])))


def translator_of(model, tokens: int = 8192) -> Translator:
    """A translator whose pieces are ▁5 ▁6 …: each a word."""
    tokenizer = SimpleNamespace(pieces=lambda ids: [f"▁{number}" for number in ids])
    decode = DecodeConfig(beam=2, length_penalty=1.0, max_ratio=1.0, max_extra=5, batch_tokens=tokens)
    device = torch.device("cpu")
    both = SimpleNamespace(source=tokenizer, target=tokenizer)
    return Translator(model, both, decode, 64, device, torch.autocast("cpu", enabled=False))  # type: ignore[arg-type]


def some_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    random = np.random.default_rng(1)
    lengths = [(0, 3), (3, 0), (0, 0), *random.integers(1, 9, (count - 3, 2)).tolist()]
    return [tuple(random.integers(4, VOCABULARY, length).tolist() for length in pair) for pair in lengths]


def test_a_batch_shows_what_one_by_one_shows(name, small_model, monkeypatch):
    translator, pairs = translator_of(small_model(name)), some_pairs(24)
    alone = [translator.look(*pair) for pair in pairs]
    monkeypatch.setattr(look_module, "LOOKS", 10)
    monkeypatch.setattr(look_module, "BATCH_CELLS", 300)
    sizes, look_batch = [], translator.look_batch

    def counted(some):
        sizes.append(len(some))
        return look_batch(some)

    monkeypatch.setattr(translator, "look_batch", counted)
    together = list(translator.looks(iter(pairs)))
    assert max(sizes) > 1 and len(sizes) > 3 and sum(sizes) == len(pairs)
    for one, other, (source, target) in zip(alone, together, pairs, strict=True):
        assert other.source_pieces == [f"▁{number}" for number in source] == one.source_pieces
        assert other.target_pieces == [f"▁{number}" for number in target] == one.target_pieces
        assert other.log_probabilities == pytest.approx(one.log_probabilities, abs=1e-5)
        for part in ("weights", "rollout", "centre"):
            wanted, found = getattr(one, part), getattr(other, part)
            assert (wanted is None) == (found is None)
            if wanted is not None:
                np.testing.assert_allclose(found, wanted, atol=1e-6)
        if one.weights is not None:
            assert one.weights.shape[2:] == (len(target) + 1, len(source) + 1)
            assert argmax_links(other.chosen(0, None)) == argmax_links(one.chosen(0, None))


@settings(max_examples=200, deadline=None)
@given(PAIRS, st.integers(1, 60), st.integers(1, 300))
def test_each_pair_sits_in_one_batch_within_bounds(pairs, tokens, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look_module, "BATCH_CELLS", cells)
        batches = list(look_batches(pairs, tokens))
    lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
    assert sorted(row for rows in batches for row in rows) == list(range(len(pairs)))
    flat = [lengths[row] for rows in batches for row in rows]
    assert flat == sorted(flat, reverse=True)
    for rows in batches:
        longest = max(lengths[row] for row in rows)
        assert len(rows) == 1 or (len(rows) * longest <= tokens and len(rows) * longest**2 <= cells)


@settings(max_examples=200, deadline=None)
@given(PAIRS, st.integers(1, 7), st.integers(1, 300))
def test_windows_keep_the_order_within_bounds(pairs, most, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look_module, "LOOKS", most)
        patch.setattr(look_module, "WINDOW_CELLS", cells)
        found = list(windows(iter(pairs)))
    assert [pair for window in found for pair in window] == pairs
    for window in found:
        size = sum((len(source) + 1) * (len(target) + 1) for source, target in window)
        assert len(window) == 1 or (len(window) <= most and size <= cells)


def test_a_window_reads_no_further_than_it_needs(monkeypatch):
    monkeypatch.setattr(look_module, "LOOKS", 2)
    read = []
    stream = windows((read.append(number) or ([5], [6])) for number in range(9))
    next(stream)
    assert len(read) == 3  # the one that did not fit any more included


def test_likelihoods_do_not_depend_on_the_chunk(small_model, monkeypatch):
    model = small_model("transformer")
    hidden, output = torch.randn(3, 5, 32, dtype=torch.float64), torch.randint(0, VOCABULARY, (3, 5))
    whole = log_probabilities(model, hidden, output)
    wanted = model.logits(hidden).log_softmax(-1).gather(2, output[..., None]).squeeze(2)
    torch.testing.assert_close(whole.double(), wanted, atol=1e-5, rtol=0)
    monkeypatch.setattr(search_module, "CHUNK", 4)
    torch.testing.assert_close(log_probabilities(model, hidden, output), whole)


class Told(EncoderDecoder):
    """Looks where it is told to; one layer, one head, no padding."""

    def __init__(self, encoder, decoder, cross) -> None:
        super().__init__()
        self.told = [torch.tensor(part)[None, None, None] for part in (encoder, decoder, cross)]
        self.output = torch.nn.Linear(2, 8)

    def encode(self, source, mask, weights=False):
        return Memory(torch.zeros(len(source), source.size(1), 2), mask, {}, self.told[0] if weights else None)

    def start(self, memory):
        return {}

    def decode(self, target, state, memory, weights=False):
        hidden, centre = torch.zeros(*target.shape, 2), torch.arange(target.size(1))[None] * 0.5
        if not weights:
            return DecoderOutput(hidden, None, {})
        return DecoderOutput(hidden, self.told[2], {}, self.told[1], centre)


def test_a_look_carries_rollout_and_centre():
    """R = ½ (A + I) = [[½ ½] [0 1]]; X = ½ C R, rows divided by their sums: (1 0) → (½ ½), (0 1) → (0 1)."""
    model = Told([[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    look = translator_of(model).look([5], [6])
    assert look.rollout is not None and look.centre is not None
    np.testing.assert_allclose(look.rollout, [[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(look.seen("rollout", 0, None), look.rollout)
    np.testing.assert_allclose(look.seen("mean", 0, None), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(look.centre, [0.0, 0.5])
    source, target = torch.tensor([[5, EOS]]), torch.tensor([[6, PAD]])
    assert force_decode(model, source, None, target, target, weights=False)[1:] == (None, None, None)


def test_a_look_without_rollout_says_so():
    with pytest.raises(UserError, match="needs the weights of self-attention"):
        AttentionRecord([], [], [0.0], np.ones((1, 1, 1, 1))).seen("rollout", 0, None)


def test_the_mean_of_layers_by_hand():
    """Two layers of two heads over one word and </s>; -2 counts from the top, and a layer too high is the last."""
    weights = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]], [[[0.75, 0.25]], [[0.25, 0.75]]]])
    look = AttentionRecord(["a"], [], [], weights)
    assert look.chosen((0, 1), 0).tolist() == [[0.875, 0.125]]
    assert look.chosen((-2, 7), 1).tolist() == [[0.125, 0.875]]
    assert look.chosen((0, 1), None).tolist() == [[0.5, 0.5]]
    assert every_layer(3) == [0, 1, 2, (1, 2), (0, 1, 2)]
    assert Extractor((1, 2), None, "reads").name() == ("1,2", "mean", "reads")


def test_no_pair_is_looked_at_that_a_model_has_no_places_for(small_model):
    """64 is the translator's max_pieces; </s> needs a place too."""
    assert limit(translator_of(small_model("transformer"))) == 64 * LONGEST == 256
    learned = translator_of(small_model("transformer_learned", max_positions=600))
    learned.max_pieces = 512
    assert limit(learned) == 599
    learned.look([5] * 599, [6] * 599)
    with pytest.raises(UserError, match="601 pieces or more"):
        learned.look([5] * 600, [6])


def test_layers_are_counted_from_below():
    assert [from_below(layer, 3) for layer in (0, -1, -3, -9, 2, 7)] == [0, 2, 0, 0, 2, 2]
    assert from_below((-1, -2), 3) == (2, 1)


def test_the_page_names_layers_as_they_are_counted_from_below():
    look = AttentionRecord(["▁a"], ["▁b"], [0.0, 0.0], np.full((3, 2, 2, 2), 0.5))
    found = readings(look, Extractor((-1, -2)), Namespace(heads=False))
    assert list(found) == [
        f"{name}, mean of 2 heads" for name in ("mean of layers 2,1", "layer 0", "layer 1", "layer 2")
    ]
    assert next(iter(readings(look, Extractor(-1, 1), Namespace(heads=False)))) == "layer 2, head 1"
