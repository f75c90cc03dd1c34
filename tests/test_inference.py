"""The copy of a model for search translates as the model does."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from nmt.attention import cpu
from nmt.data.batches import collate
from nmt.models import inference
from nmt.models.base import EncoderDecoder, select_rows
from nmt.models.inference import can_pack, inference_copy

FP32 = torch.float32
BF16 = torch.bfloat16


def uneven():
    random = np.random.default_rng(1)
    return collate(
        *(
            [random.integers(8, 50, length) for length in lengths]
            for lengths in ([4, 7, 2], [6, 3, 5])
        )
    )


@pytest.fixture(params=["packed", "column-major", "plain"])
def packs(request, monkeypatch):
    """With oneDNN's layout where PyTorch has it, with column-major matrices, and with the model's
    own."""
    if request.param == "plain":
        monkeypatch.setattr(inference, "can_pack", lambda like, dtype: False)
    elif not can_pack(torch.ones(1), FP32):
        pytest.skip("this PyTorch does not pack")
    monkeypatch.setattr(cpu, "column_major_is_faster", lambda: request.param == "column-major")


def logits(model: EncoderDecoder, dtype: torch.dtype) -> torch.Tensor:
    batch = uneven()
    with torch.inference_mode(), torch.autocast("cpu", BF16, enabled=dtype == BF16):
        return model.logits(model(batch.source, batch.mask, batch.target).hidden).float()


@pytest.mark.parametrize(("dtype", "tolerance"), [(FP32, 1e-5), (BF16, 0.02)])
def test_the_copy_has_the_same_logits(name, small_model, packs, dtype, tolerance):
    model = small_model(name).float()
    fast = inference_copy(model, dtype)
    assert_close(logits(fast, dtype), logits(model, dtype), atol=tolerance, rtol=tolerance)
    # the model itself is unchanged
    assert {parameter.dtype for parameter in model.parameters()} == {FP32}


def test_hypotheses_of_a_sentence_share_its_memory(name, small_model):
    """K rows of target for each row of memory give the same as a memory repeated K times, weights
    included."""
    model = small_model(name)
    batch = uneven()
    memory = model.encode(batch.source, batch.mask)
    rows = torch.arange(3).repeat_interleave(2)
    target = torch.randint(8, 50, (6, 4), generator=torch.Generator().manual_seed(1))
    state = select_rows(model.start(memory), rows)
    for weights in (False, True):
        shared = model.decode(target, state, memory, weights)
        repeated = model.decode(target, state, memory.rows(rows), weights)
        assert_close(shared.hidden, repeated.hidden, atol=1e-10, rtol=0)
        assert_close(shared.state, repeated.state, atol=1e-10, rtol=0)
        assert (shared.weights is None) == (repeated.weights is None)
        if shared.weights is not None:
            assert_close(shared.weights, repeated.weights, atol=1e-10, rtol=0)
        assert (shared.p_t is None) == (repeated.p_t is None)
        if shared.p_t is not None:
            assert_close(shared.p_t, repeated.p_t)
