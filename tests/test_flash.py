"""The fused road is really taken: flash attention runs in every layer, alone allowed, and changes nothing."""

from collections import Counter

import pytest
import torch
from conftest import VOCABULARY, small_config
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from nmt.data.tokenizer import PAD
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.train.loss import training_loss
from nmt.train.precision import autocast

FUSED = {
    "cpu": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "cuda": "aten::_scaled_dot_product_flash_attention",
}
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}  # bf16 takes the explicit road in training on a CPU
WITHIN = {"cpu": 1e-4, "cuda": 5e-2}
both_devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]
        ),
    ],
)


def train_once(model: EncoderDecoder, backend: SDPBackend, device: str) -> list[Tensor]:
    """Loss and gradients of sources that are all equally long, with no other kernel than `backend`."""
    torch.manual_seed(1)
    source, target = (torch.randint(PAD + 1, VOCABULARY, (6, length)).to(device) for length in (9, 7))
    with sdpa_kernel(backend), autocast(torch.device(device), DTYPE[device]):
        loss, _ = training_loss(model, model(source, None, target), target, PAD, 0.1)
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


@both_devices
def test_training_takes_flash_attention_in_every_layer(device):
    torch.manual_seed(0)
    config = small_config("transformer", (("dropout", 0.0),))
    model = build(config, VOCABULARY, VOCABULARY, True).to(device).train()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        found = train_once(model, SDPBackend.FLASH_ATTENTION, device)
    calls = Counter(event.name for event in seen.events())
    assert calls[FUSED[device]] == config.encoder_layers + 2 * config.decoder_layers
    wanted = train_once(model, SDPBackend.MATH, device)
    scale = max(float(value.abs().max()) for value in wanted[1:])
    for ours, theirs in zip(found[1:], wanted[1:], strict=True):
        assert float((ours - theirs).abs().max()) <= WITHIN[device] * scale
