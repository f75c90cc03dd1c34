"""A model prepared for search writes what the plain one writes."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from nmt.data.batches import collate
from nmt.decode.beam_search import search
from nmt.models import inference as room
from nmt.models.base import EncoderDecoder, select
from nmt.models.ensemble import Ensemble
from nmt.models.inference import can_pack, prepared

FP32, BF16 = torch.float32, torch.bfloat16


def uneven():
    random = np.random.default_rng(1)
    return collate(*([random.integers(8, 50, length) for length in lengths] for lengths in ([4, 7, 2], [6, 3, 5])))


@pytest.fixture(params=["packed", "turned", "plain"])
def packs(request, monkeypatch):
    """With oneDNN's layout where PyTorch has it, with the one for MKL, and with the model's own."""
    if request.param == "plain":
        monkeypatch.setattr(room, "can_pack", lambda like, dtype: False)
    elif not can_pack(torch.ones(1), FP32):
        pytest.skip("this PyTorch does not pack")
    monkeypatch.setattr(room, "turned_pays", lambda: request.param == "turned")


def logits(model: EncoderDecoder, dtype: torch.dtype) -> torch.Tensor:
    batch = uneven()
    with torch.inference_mode(), torch.autocast("cpu", BF16, enabled=dtype == BF16):
        return model.logits(model(batch.source, batch.mask, batch.target).hidden).float()


@pytest.mark.parametrize(("dtype", "most"), [(FP32, 1e-5), (BF16, 0.02)])
def test_prepared_weights_give_the_same_logits(name, small_model, packs, dtype, most):
    model = small_model(name).float()
    ready = prepared(model, dtype)
    assert_close(logits(ready, dtype), logits(model, dtype), atol=most, rtol=most)
    assert {parameter.dtype for parameter in model.parameters()} == {FP32}  # the plain one is left alone


def test_prepared_models_search_the_same(name, small_model, packs):
    model, batch = small_model(name).float(), uneven()
    for parameter in model.parameters():
        parameter.data *= 3  # untrained logits are nearly flat
    limits = torch.tensor([6, 9, 4])
    plain = search(model, batch.source, batch.mask, 3, 1.0, limits)
    ready = search(prepared(model, FP32), batch.source, batch.mask, 3, 1.0, limits)
    for one, other in zip(plain, ready, strict=True):
        assert [hypothesis.score for hypothesis in other] == pytest.approx([best.score for best in one], rel=1e-3)
        assert other[0].ids == one[0].ids


@pytest.fixture
def untimed():
    """No layout has been timed in this process, before and afterwards."""
    room.turned_pays.cache_clear()
    yield
    room.turned_pays.cache_clear()


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize(("share", "kind"), [(0.5, room.ColumnMajorLinear), (2.0, room.PackedLinear)])
def test_a_few_rows_of_float32_are_multiplied_in_the_faster_layout(monkeypatch, small_model, share, kind):
    """`share` of the other's time; once in a process, and never for bf16."""
    if not can_pack(torch.ones(1), FP32):
        pytest.skip("this PyTorch does not pack")
    monkeypatch.setattr(room, "least_seconds", lambda *ways: [share, 1.0])
    model = small_model("transformer").float()
    for dtype, wanted in [(FP32, kind), (BF16, room.PackedLinear)]:
        found = {
            type(one)
            for one in prepared(model, dtype).modules()
            if isinstance(one, (room.ColumnMajorLinear, room.PackedLinear))
        }
        assert found == {wanted}
        monkeypatch.setattr(room, "least_seconds", lambda *ways: pytest.fail("timed again"))


def test_prepared_models_drop_nothing(name, small_model, packs):
    """Modules that are made for search begin in training mode, as all modules do."""
    model = small_model(name, dropout=0.5).float()
    assert not any(module.training for module in prepared(model, FP32).modules())
    assert all(module.training for module in prepared(model.train(), FP32).modules())


def test_no_matrix_is_left_to_cast_at_every_step(small_model, packs):
    """In bf16 all but embeddings, norms and what counts in float32 is bf16 already; what is shared is not copied."""
    names = ("transformer", {}), ("bahdanau", {"window": "local_p"}), ("luong_global", {"layers": 2})
    model = Ensemble([small_model(name, **changes) for name, changes in names]).float().eval()
    ready = prepared(model, BF16)
    left = {name: parameter for name, parameter in ready.named_parameters() if parameter.dtype == FP32}
    known = ("embedding", "norm", "window", "encoder.layers")
    assert left and all(any(word in name for word in known) for name in left), sorted(left)
    own = dict(model.named_parameters())
    assert all(parameter is own[name] for name, parameter in left.items())


def test_hypotheses_of_a_sentence_share_its_memory(name, small_model):
    """K rows of target for each row of memory are as a memory repeated K times, looks included."""
    model, batch = small_model(name), uneven()
    memory, rows = model.encode(batch.source, batch.mask), torch.arange(3).repeat_interleave(2)
    target = torch.randint(8, 50, (6, 4), generator=torch.Generator().manual_seed(1))
    state = select(model.start(memory), rows)
    for weights in (False, True):
        together = model.decode(target, state, memory, weights)
        apart = model.decode(target, state, memory.rows(rows), weights)
        assert_close(together.hidden, apart.hidden, atol=1e-10, rtol=0)
        assert_close(together.state, apart.state, atol=1e-10, rtol=0)
        assert (together.weights is None) == (apart.weights is None)
        if together.weights is not None:
            assert_close(together.weights, apart.weights, atol=1e-10, rtol=0)
        assert_close(together.centre, apart.centre) if apart.centre is not None else None
