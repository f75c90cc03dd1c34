"""The fused kernel is used, and changes neither logits nor gradients nor translations."""

from collections import Counter
from dataclasses import replace

import torch
from conftest import VOCABULARY, both_devices, small_config
from torch import Tensor
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from nmt.data.tokenizer import PAD
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training.loss import training_loss
from nmt.training.precision import autocast, select_device

FUSED = {
    "cpu": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "cuda": "aten::_scaled_dot_product_flash_attention",
}
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}  # bf16 uses the explicit kernel in training on a CPU
# Largest difference of the two kernels relative to the norm of a gradient, in roundings of 2⁻²⁴ and 2⁻⁸; fewer where
# products alone are rounded, as under autocast, than where sums are as well.
TOLERANCE = {"cpu": 64 * 2**-24, "cuda": 16 * 2**-8}


def train_once(model: EncoderDecoder, device: str, weights: bool) -> list[Tensor]:
    """Logits and all gradients of sources of equal length; PyTorch chooses the kernel, as in a training."""
    torch.manual_seed(1)
    source, target = (torch.randint(PAD + 1, VOCABULARY, (6, length)).to(device) for length in (9, 7))
    with autocast(select_device(device), DTYPE[device]):
        decoded = model(source, None, target, weights)
        loss, _ = training_loss(model, decoded, target, None, 0.1)
        logits = model.logits(decoded.hidden).detach().float()
    return [logits, *torch.autograd.grad(loss, list(model.parameters()))]


def largest_difference(tensors: list[Tensor], wanted: list[Tensor]) -> float:
    """max ‖t − wanted‖ / ‖wanted‖ over logits and the gradient of each parameter."""
    pairs = zip(tensors, wanted, strict=True)
    return max(float((tensor - other).norm() / other.norm()) for tensor, other in pairs)


@both_devices
def test_training_uses_flash_attention_in_every_layer(device, monkeypatch):
    """Logits and gradients equal the explicit kernel's. GELU: a ReLU turns a rounding into a gradient of 0 or 1."""
    torch.manual_seed(0)
    config = replace(small_config("transformer", ()), dropout=0.0, activation="gelu")
    model = build(config, VOCABULARY, VOCABULARY, True).to(device).train()
    wanted = train_once(model, device, weights=True)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        fused = train_once(model, device, weights=False)
    calls = Counter(event.name for event in profiled.events())
    assert calls[FUSED[device]] == config.encoder_layers + 2 * config.decoder_layers
    assert largest_difference(fused, wanted) <= TOLERANCE[device]
    kernel = functional.scaled_dot_product_attention
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda query, *rest: kernel(1.1 * query, *rest))
    assert (
        largest_difference(train_once(model, device, weights=False), wanted) > TOLERANCE[device]
    )  # a wrong kernel is detected
