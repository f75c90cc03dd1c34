"""Search in stretches, which CUDA graphs repeat, finds what search finds and asks the device nothing in between."""

from contextlib import nullcontext

import pytest
import torch
from conftest import MODELS, VOCABULARY, small_config
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import LENGTHS, Table, batch_of, random_table, sharper, sources
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nmt.data.tokenizer import EOS
from nmt.decode import stretches
from nmt.decode.beam_search import Beams, search
from nmt.decode.stretches import Stretch, search_in_stretches
from nmt.models.base import DecoderState, EncoderDecoder, select
from nmt.models.build import build
from nmt.models.ensemble import Ensemble
from nmt.models.inference import prepared

LIMITS = torch.tensor([9, 2, 5, 20, 1, 7])
NOT_STEADY = {"transformer_learned", "transformer_alibi", "transformer_relative", "transformer_sliding"}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


class Steady(Table):
    def steady(self, state: DecoderState, columns: int) -> DecoderState:
        return state


def same(found, wanted) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in other]
        assert_close(*(torch.tensor([h.score for h in some]) for some in (one, other)), atol=1e-5, rtol=0)


@pytest.fixture(params=[(64, 8), (4, 2)], ids=["one stretch", "several"])
def room(request, monkeypatch):
    """The second: stretches end before sentences do, so that a room is enlarged and begun again."""
    monkeypatch.setattr(stretches, "ROOM", request.param[0])
    monkeypatch.setattr(stretches, "READ", request.param[1])


@pytest.mark.parametrize("beam", [1, 3])
def test_stretches_find_what_search_finds(name, small_model, room, beam):
    model, batch = sharper(small_model(name)), batch_of(LENGTHS)
    words = batch.source, batch.mask, beam, 0.6, LIMITS
    same(search_in_stretches(model, *words), search(model, *words))


def test_an_ensemble_has_stretches_where_its_members_have(small_model, room):
    batch = batch_of(LENGTHS)
    members = [sharper(small_model(name)) for name in ("bahdanau", "transformer")]
    model = Ensemble(members).eval()
    words = batch.source, batch.mask, 3, 0.6, LIMITS
    same(search_in_stretches(model, *words), search(model, *words))
    assert has_stretches(model)
    assert not has_stretches(Ensemble([*members, sharper(small_model("transformer_alibi"))]).eval())


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    limits=st.lists(st.integers(1, 18), min_size=1, max_size=5),
    beam=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    levels=st.sampled_from([None, 3]),  # so few that scores are equal, as in bf16
)
def test_stretches_find_what_search_finds_in_any_table(seed, limits, beam, alpha, levels):
    table = random_table(len(limits), 100, seed)  # a sentence that is done goes on: at most to the end of its stretch
    model = Steady(table if levels is None else (table * levels).round() / levels)
    words = sources(len(limits)), None, beam, alpha, torch.tensor(limits)
    same(search_in_stretches(model, *words), search(model, *words))


def test_a_beam_that_is_not_full_yet_goes_column_by_column():
    """81 hypotheses of six pieces: 4, 20, 81 columns later."""
    words = sources(2), None, 81, 0.6, torch.tensor([4, 6])
    model = Steady(random_table(2, 100, 1))
    same(search_in_stretches(model, *words), search(model, *words))


def has_stretches(model: EncoderDecoder) -> bool:
    batch = batch_of(LENGTHS)
    return model.steady(model.start(model.encode(batch.source, batch.mask)), 3) is not None


def test_which_models_have_stretches(name, small_model):
    assert has_stretches(small_model(name)) == (name not in NOT_STEADY)


class Apart(TorchDispatchMode):
    """Nothing may go from one device to another."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs, found)) if isinstance(one, torch.Tensor) and one.dim()]
        assert {one.device.type for one in tensors} <= {"meta"}, function
        return found


STEADY = [(name, {}) for name in MODELS if name not in NOT_STEADY]
STEADY += [
    ("luong_local_p", {"closing": 9}),
    ("bahdanau", {"score": "cosine"}),
    ("bahdanau", {"score": "additive_sum"}),
]


@pytest.mark.parametrize(("name", "changes"), STEADY, ids=str)
def test_a_column_asks_the_device_nothing(name, changes, monkeypatch):
    """On the device `meta`, whose tensors have shapes and no numbers: an item, a truth or a copy to the host raises."""
    config = small_config(name, tuple(changes.items()))
    real = build(config, VOCABULARY, VOCABULARY, True).eval()
    with torch.inference_mode():
        memory = real.encode(batch_of(LENGTHS).source, None)
        state = real.steady(select(real.start(memory), torch.arange(6).repeat_interleave(3)), 8)
        memory, state = tree_map(
            lambda one: None if one is None else one.to("meta"), (memory._replace(mask=torch.ones(6, 8) > 0), state)
        )
        model, tokens = real.to("meta"), torch.ones(6, 3, 2, dtype=torch.long, device="meta")
        beams = Beams(list(range(6)), [9] * 6, tokens, torch.zeros(6, 3, device="meta"), state, memory, [])
        monkeypatch.setattr(torch.Tensor, "cpu", lambda self: self)  # what the host knows is not asked here
        monkeypatch.setattr(torch, "autocast", lambda *words, **options: nullcontext())  # `meta` has none
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)
        stretch = Stretch(model, beams, 3, 8)
        stretch.column()  # allocates what it writes into
        decode, after = model.decode, []
        monkeypatch.setattr(model, "decode", lambda *inputs: after.append(decode(*inputs)) or after[-1])
        with Apart():
            stretch.column()
    for key, tensor in after[0].state.items():
        assert (tensor.shape, tensor.dtype) == (stretch.state[key].shape, stretch.state[key].dtype)


def test_half_of_the_sentences_done_end_a_stretch(monkeypatch):
    """Sentence n ends after n + 1 pieces; 8 columns are read at once, of four sentences, then of two, then of one."""
    table = torch.zeros(4, 100, 6, 6)
    table[:, :, :, 4] = 9.0
    lengths = [3, 5, 12, 20]
    for sentence, length in enumerate(lengths):
        table[sentence, length, :, EOS] = 99.0
    rows = []
    column = Stretch.column
    monkeypatch.setattr(Stretch, "column", lambda self: rows.append(len(self.scores)) or column(self))
    found = search_in_stretches(Steady(table), sources(4), None, 1, 0.0, torch.full((4,), 50))
    assert [len(best[0].ids) for best in found] == lengths
    assert rows == [4] * 8 + [2] * 8 + [1] * 8


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("beam", [1, 3])
def test_recorded_columns_find_what_search_finds(name, small_model, room, beam, monkeypatch):
    model, batch = sharper(small_model(name)).cuda(), batch_of(LENGTHS).to(torch.device("cuda"))
    words, graphs = (batch.source, batch.mask, beam, 0.6, LIMITS), []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: graphs.append(self) or replay(self))
    same(search_in_stretches(model, *words), search(model, *words))
    assert bool(graphs) == (name not in NOT_STEADY and stretches.ROOM > stretches.WARM)


@pytest.mark.gpu
@needs_cuda
def test_recorded_columns_in_bf16(small_model):
    """As it is used: prepared, under autocast; two roads of rounding may choose differently, but score the same."""
    model, batch = sharper(small_model("transformer")).float().cuda(), batch_of(LENGTHS).to(torch.device("cuda"))
    words = batch.source, batch.mask, 3, 1.0, LIMITS
    with torch.autocast("cuda", torch.bfloat16):
        found, wanted = (way(prepared(model, torch.bfloat16), *words) for way in (search_in_stretches, search))
    for one, other in zip(found, wanted, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=0.05)
