"""The fused kernel is used in every layer; that it changes nothing is a law of test_models.py."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from conftest import VOCABULARY, both_devices, small_config
from torch.profiler import ProfilerActivity, profile

from nmt.attention.kernels import SHORT
from nmt.data.tokenizer import PAD
from nmt.models.build import build
from nmt.training.precision import autocast, select_device

CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"
CUDA = {
    SHORT: "aten::_scaled_dot_product_efficient_attention",
    SHORT + 1: "aten::_scaled_dot_product_flash_attention",
}
# bf16 uses the explicit kernel in training on a CPU
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}


@both_devices
@pytest.mark.parametrize("length", CUDA)
def test_training_uses_fused_attention_in_every_layer(device, length):
    """Of sources of equal length; on a GPU the kernel depends on the length."""
    torch.manual_seed(0)
    config = replace(small_config("transformer", ()), dropout=0.0)
    model = build(config, VOCABULARY, VOCABULARY, True).to(device).train()
    source, target = torch.randint(PAD + 1, VOCABULARY, (2, 3, length), device=device)
    with (
        profile(activities=[ProfilerActivity.CPU]) as profiled,
        autocast(select_device(device), DTYPE[device]),
    ):
        model(source, None, target)
    calls = Counter(event.name for event in profiled.events())
    fused = CPU if device == "cpu" else CUDA[length]
    assert calls[fused] == config.encoder_layers + 2 * config.decoder_layers
