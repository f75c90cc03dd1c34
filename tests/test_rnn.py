"""LSTM and GRU over sequences: bf16 where it is faster, else float32, with the same numbers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from nmt.attention import cpu
from nmt.attention.cpu import has_bf16_units
from nmt.models.cells import run_rnn

LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU}
needs_units = pytest.mark.skipif(not has_bf16_units(), reason="this CPU has no units for bf16")
autocast = torch.autocast("cpu", torch.bfloat16)


def make(cell: str) -> tuple[nn.Module, torch.Tensor, tuple[torch.Tensor, ...]]:
    """A bidirectional layer, inputs, and a state that is not contiguous, as a decoder's."""
    torch.manual_seed(1)
    layer = LAYERS[cell](16, 16, batch_first=True, bidirectional=True)
    state = tuple(torch.randn(4, 2, 16).transpose(0, 1) for _ in range(2 if cell == "lstm" else 1))
    return layer, torch.randn(4, 6, 16, requires_grad=True), state


@pytest.fixture
def four_are_many(monkeypatch):
    """The four sentences of `make` are enough for bf16."""
    monkeypatch.setattr(cpu, "MANY_SENTENCES", 4)


@needs_units
@pytest.mark.parametrize("has_state", [False, True])
def test_bf16_is_float32_rounded(has_state, four_are_many):
    layer, inputs, state = make("lstm")
    state = state if has_state else None
    wanted, wanted_last = run_rnn(layer, inputs, state)
    with autocast:
        outputs, last = run_rnn(layer, inputs, state)
    assert not torch.equal(outputs, wanted) and all(part.dtype == torch.float32 for part in last)
    assert_close((outputs.float(), last), (wanted, wanted_last), atol=2e-2, rtol=0)
    weights = [inputs, *layer.parameters()]
    gradients = (torch.autograd.grad(result.float().sum(), weights) for result in (outputs, wanted))
    for rounded, exact in zip(*gradients, strict=True):
        assert_close(rounded, exact, atol=2e-2 * float(exact.abs().max()), rtol=0)


@pytest.mark.parametrize("reason", ["no units", "padding", "no autocast"])
@pytest.mark.parametrize("cell", LAYERS)
def test_otherwise_it_is_float32_to_the_last_bit(cell, reason, monkeypatch, four_are_many):
    layer, inputs, state = make(cell)
    lengths = torch.tensor([6, 2, 5, 6]) if reason == "padding" else None
    wanted = run_rnn(layer, inputs, state, lengths)
    if reason == "no units":
        monkeypatch.setattr(cpu, "has_bf16_units", lambda: False)
    with torch.autocast("cpu", torch.bfloat16, enabled=reason != "no autocast"):
        results = run_rnn(layer, inputs, state, lengths)
    assert_close(results, wanted, atol=0, rtol=0)
    assert results[0].dtype == torch.float32
