"""The copy of a model for search translates as the model does."""

import pytest
import torch
from tensors import uneven
from torch.testing import assert_close

from nmt.models import inference
from nmt.models.base import EncoderDecoder
from nmt.models.inference import can_pack, inference_copy

FP32 = torch.float32
BF16 = torch.bfloat16


@pytest.fixture(params=["packed", "column-major", "plain"])
def packs(request, monkeypatch):
    """With oneDNN's layout where PyTorch has it, with column-major matrices, and with the model's
    own."""
    if request.param == "plain":
        monkeypatch.setattr(inference, "can_pack", lambda like, dtype: False)
    elif not can_pack(torch.ones(1), FP32):
        pytest.skip("this PyTorch does not pack")
    monkeypatch.setattr(inference, "IS_INTEL", request.param == "column-major")


def logits(model: EncoderDecoder, dtype: torch.dtype) -> torch.Tensor:
    batch = uneven()
    with torch.inference_mode(), torch.autocast("cpu", BF16, enabled=dtype == BF16):
        return model.logits(model(batch.source, batch.mask, batch.target).hidden).float()


@pytest.mark.parametrize(("dtype", "tolerance"), [(FP32, 1e-5), (BF16, 0.02)])
def test_the_copy_has_the_same_logits(name, small_model, packs, dtype, tolerance):
    model = small_model(name).float()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    fast = inference_copy(model, dtype)
    assert_close(logits(fast, dtype), logits(model, dtype), atol=tolerance, rtol=tolerance)
    assert not any(module.training for module in fast.modules())
    # The model itself is unchanged
    assert_close(model.state_dict(), before, atol=0, rtol=0)
