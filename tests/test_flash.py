"""The fused kernel is used in every layer; that it changes nothing is a law of test_models.py.

On a GPU a Transformer computes what it computes on a CPU.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from conftest import MODELS, VOCABULARY, both_devices, small_config
from torch.profiler import ProfilerActivity, profile

from nmt.attention.kernels import SHORT
from nmt.data.tokenizer import PAD
from nmt.decode.beam_search import search
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


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("transformer")])
def test_a_gpu_computes_what_a_cpu_does(name):
    """Outputs, gradients and beam search over padded sources, in float32."""
    torch.manual_seed(0)
    model = build(small_config(name, ()), VOCABULARY, VOCABULARY, True).eval()
    source, target = torch.randint(PAD + 1, VOCABULARY, (2, 3, 9))
    mask = torch.arange(9) < torch.tensor([[9], [4], [6]])

    def results(device: str) -> tuple[torch.Tensor, list[torch.Tensor], list[list[int]]]:
        model.to(select_device(device))
        inputs = [each.to(device) for each in (source, mask, target)]
        model.zero_grad()
        hidden = model(*inputs).hidden
        hidden.square().sum().backward()
        gradients = [each.grad.cpu() for each in model.parameters() if each.grad is not None]
        limit = torch.full([3], 8)
        found = search(model, *inputs[:2], beam=3, alpha=1.0, limit=limit)
        return hidden.detach().cpu(), gradients, [best.ids for best, *_ in found]

    expected = results("cpu")
    torch.testing.assert_close(results("cuda"), expected, atol=1e-3, rtol=1e-3)
