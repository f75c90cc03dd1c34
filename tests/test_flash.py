"""The fused road is really taken and changes nothing: neither logits nor gradients nor what a search writes."""

import copy
from collections import Counter
from dataclasses import replace

import pytest
import torch
from conftest import VOCABULARY, small_config
from test_beam_search import batch_of, sharper
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from nmt.attention import kernels
from nmt.data.tokenizer import PAD
from nmt.decode.beam_search import search
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.train.loss import training_loss
from nmt.train.precision import autocast

FUSED = {
    "cpu": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "cuda": "aten::_scaled_dot_product_flash_attention",
}
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}  # bf16 takes the explicit road in training on a CPU
# So many roundings (2⁻²⁴ and 2⁻⁸ of a number) the two roads may be apart, as a share of the length of a whole gradient.
# Where products alone are rounded, as in autocast, there are fewer than where sums are as well.
WITHIN = {"cpu": 64 * 2**-24, "cuda": 16 * 2**-8}
both_devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]
        ),
    ],
)


def train_once(model: EncoderDecoder, device: str, weights: bool) -> list[Tensor]:
    """Logits and all gradients of sources that are equally long; of fused kernels none but flash is allowed."""
    torch.manual_seed(1)
    source, target = (torch.randint(PAD + 1, VOCABULARY, (6, length)).to(device) for length in (9, 7))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), autocast(torch.device(device), DTYPE[device]):
        decoded = model(source, None, target, weights)
        loss, _ = training_loss(model, decoded, target, PAD, 0.1)
        logits = model.logits(decoded.hidden).detach().float()
    return [logits, *torch.autograd.grad(loss, list(model.parameters()))]


def furthest(found: list[Tensor], wanted: list[Tensor]) -> float:
    """max ‖found − wanted‖ / ‖wanted‖ over logits and the gradient of each parameter."""
    return max(float((one - other).norm() / other.norm()) for one, other in zip(found, wanted, strict=True))


@both_devices
def test_training_takes_flash_attention_in_every_layer(device, monkeypatch):
    """And gets the explicit road's logits and gradients. GELU: a ReLU turns a rounding at 0 into a slope of 0 or 1."""
    torch.manual_seed(0)
    config = replace(small_config("transformer", ()), dropout=0.0, activation="gelu")
    model = build(config, VOCABULARY, VOCABULARY, True).to(device).train()
    wanted = train_once(model, device, weights=True)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        found = train_once(model, device, weights=False)
    calls = Counter(event.name for event in seen.events())
    assert calls[FUSED[device]] == config.encoder_layers + 2 * config.decoder_layers
    assert furthest(found, wanted) <= WITHIN[device]
    fused = functional.scaled_dot_product_attention
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda query, *rest: fused(1.1 * query, *rest))
    assert furthest(train_once(model, device, weights=False), wanted) > WITHIN[device]  # it can be seen


def test_both_roads_write_the_same(name, small_model, monkeypatch):
    """Greedy and beam search, with the fused road at every call and with the explicit one."""
    monkeypatch.setattr(kernels, "prefers_explicit", lambda query: False)
    model, batch = sharper(small_model(name), end=1.0), batch_of([4, 1, 7, 2])
    if not model.has_attention:
        pytest.skip("it never looks, so it has one road")
    explicit = copy.copy(model)
    explicit.encode = lambda source, mask: model.encode(source, mask, weights=True)
    explicit.decode = lambda target, state, memory: model.decode(target, state, memory, weights=True)
    for beam in (1, 3):
        limits = torch.full((len(batch.source),), 6)
        found, wanted = (search(one, batch.source, batch.mask, beam, 1.0, limits) for one in (model, explicit))
        for best, others in zip(found, wanted, strict=True):
            assert [one.ids for one in best] == [one.ids for one in others]
            assert [one.score for one in best] == pytest.approx([one.score for one in others], abs=1e-5)
        assert max(len(one.ids) for best in found for one in best) > 1
