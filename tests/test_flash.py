"""The fused kernel is used in every layer; that it changes nothing is a law of test_models.py."""

from collections import Counter
from dataclasses import replace

import torch
from conftest import VOCABULARY, both_devices, small_config
from torch.profiler import ProfilerActivity, profile

from nmt.data.tokenizer import PAD
from nmt.models.build import build
from nmt.training.precision import autocast, select_device

FUSED = {
    "cpu": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "cuda": "aten::_scaled_dot_product_flash_attention",
}
# bf16 uses the explicit kernel in training on a CPU
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}


@both_devices
def test_training_uses_flash_attention_in_every_layer(device):
    """Of sources of equal length; PyTorch chooses the kernel."""
    torch.manual_seed(0)
    config = replace(small_config("transformer", ()), dropout=0.0)
    model = build(config, VOCABULARY, VOCABULARY, True).to(device).train()
    source, target = (
        torch.randint(PAD + 1, VOCABULARY, (6, length)).to(device) for length in (9, 7)
    )
    with (
        profile(activities=[ProfilerActivity.CPU]) as profiled,
        autocast(select_device(device), DTYPE[device]),
    ):
        model(source, None, target)
    calls = Counter(event.name for event in profiled.events())
    assert calls[FUSED[device]] == config.encoder_layers + 2 * config.decoder_layers
