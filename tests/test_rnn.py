"""Whole-sequence LSTM and GRU: bf16 where it pays, float32 where not, the same numbers within each format."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from nmt.models import rnn
from nmt.models.rnn import multiplies_bf16, run_rnn

SELF_ATTENTIONS = {"lstm": nn.LSTM, "gru": nn.GRU}
needs_units = pytest.mark.skipif(not multiplies_bf16(), reason="this CPU has no units for bf16")
low = torch.autocast("cpu", torch.bfloat16)


def make(kind: str) -> tuple[nn.Module, torch.Tensor, tuple[torch.Tensor, ...]]:
    """A layer in both directions, inputs, and a past that is a view of something wider, as a decoder's is."""
    torch.manual_seed(1)
    layer = SELF_ATTENTIONS[kind](16, 16, batch_first=True, bidirectional=True)
    past = tuple(torch.randn(4, 2, 16).transpose(0, 1) for _ in range(2 if kind == "lstm" else 1))
    return layer, torch.randn(4, 6, 16, requires_grad=True), past


@pytest.fixture
def few_are_many(monkeypatch):
    """The four sentences of `make` are enough."""
    monkeypatch.setattr(rnn, "MANY", 4)


@needs_units
@pytest.mark.parametrize("begun", [False, True])
def test_bf16_is_float32_rounded(begun, few_are_many):
    layer, inputs, past = make("lstm")
    past = past if begun else None
    wanted, last = run_rnn(layer, inputs, past)
    with low:
        found, final = run_rnn(layer, inputs, past)
    assert not torch.equal(found, wanted) and all(part.dtype == torch.float32 for part in final)
    assert_close((found.float(), final), (wanted, last), atol=2e-2, rtol=0)
    weights = [inputs, *layer.parameters()]
    slopes = (torch.autograd.grad(outputs.float().sum(), weights) for outputs in (found, wanted))
    for ours, exact in zip(*slopes, strict=True):
        assert_close(ours, exact, atol=2e-2 * float(exact.abs().max()), rtol=0)


@needs_units
@pytest.mark.parametrize("kind", ["few sentences", "gru"])
def test_where_bf16_is_for_translating_alone(kind, monkeypatch):
    """Few sentences train slower in it; a GRU's gradients would be added up in it."""
    monkeypatch.setattr(rnn, "MANY", 5 if kind == "few sentences" else 1)
    layer, inputs, _ = make("gru" if kind == "gru" else "lstm")
    wanted, _ = run_rnn(layer, inputs)
    with low:
        trained = run_rnn(layer, inputs)[0]
        assert torch.equal(trained, wanted if kind == "gru" else wanted.bfloat16())
        with torch.no_grad():
            found, _ = run_rnn(layer, inputs)
    assert not torch.equal(found.bfloat16(), wanted.bfloat16())
    assert_close(found.float(), wanted, atol=2e-2, rtol=0)


@pytest.mark.parametrize("why", ["no units", "padding", "no autocast"])
@pytest.mark.parametrize("kind", SELF_ATTENTIONS)
def test_else_it_is_float32_to_the_last_bit(kind, why, monkeypatch, few_are_many):
    layer, inputs, past = make(kind)
    lengths = torch.tensor([6, 2, 5, 6]) if why == "padding" else None
    wanted = run_rnn(layer, inputs, past, lengths)
    if why == "no units":
        monkeypatch.setattr(rnn, "multiplies_bf16", lambda: False)
    with torch.autocast("cpu", torch.bfloat16, enabled=why != "no autocast"):
        found = run_rnn(layer, inputs.bfloat16().float(), past, lengths), run_rnn(layer, inputs, past, lengths)
    assert_close(found[1], wanted, atol=0, rtol=0)
    assert found[0][0].dtype == torch.float32
