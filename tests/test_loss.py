"""The loss in chunks against PyTorch's own, and by hand."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from nmt.training import loss
from nmt.training.loss import token_losses

PAD = 0
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}


def case(bias: bool, dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, nn.Linear, Tensor]:
    """Ten tokens, two of them padding, over eleven pieces."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 5, 6, dtype=dtype) * scale
    output = nn.Linear(6, 11, bias=bias, dtype=dtype)
    target = torch.randint(1, 11, (2, 5))
    target[1, 3:] = PAD
    return hidden.requires_grad_(), output, target


def cross_entropy(
    hidden: Tensor, output: nn.Linear, target: Tensor, padding: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The smoothed loss and −Σ log p over all tokens but padding; `collate` finds them in a
    training."""
    real = (target.flatten() != padding).nonzero().squeeze(1)
    total, nll = token_losses(
        hidden, output, target, real if len(real) < target.numel() else None, smoothing
    )
    return total, nll.sum()


def results(hidden: Tensor, output: nn.Linear, total: Tensor) -> list[Tensor]:
    """The loss and its gradients, times 3 so that the backward pass has something to scale."""
    return [total.detach(), *torch.autograd.grad(3 * total, [hidden, *output.parameters()])]


@pytest.mark.parametrize(
    "chunk, elements, smoothing, bias",
    [(1, 33, 0.1, True), (3, 66, 0.0, True), (3, 0, 0.1, False), (256, 2**24, 0.1, True)],
)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_loss_and_gradients_are_pytorchs(monkeypatch, chunk, elements, smoothing, bias, dtype):
    """Eight tokens over eleven pieces: one chunk or several, and gradients of one, two, three or
    all chunks at once."""
    monkeypatch.setitem(loss.CHUNK_TOKENS, "cpu", chunk)
    monkeypatch.setattr(loss, "GRADIENT_ELEMENTS", elements)
    hidden, output, target = case(bias, dtype)
    total, nll = cross_entropy(hidden, output, target, PAD, smoothing)
    logits = output(hidden).flatten(0, 1)
    flat = target.flatten()
    options = {"ignore_index": PAD, "reduction": "sum"}
    expected = functional.cross_entropy(logits, flat, label_smoothing=smoothing, **options)
    tolerance = {"atol": TOLERANCE[dtype], "rtol": 0}
    assert_close(results(hidden, output, total), results(hidden, output, expected), **tolerance)
    assert_close(nll, functional.cross_entropy(logits, flat, **options).detach(), **tolerance)
    assert not nll.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_logits_are_finite(dtype):
    """Logits 10⁴, −10⁴, 0: right, 2 · 10⁴ off, 10⁴ off; gradients are softmax − onehot. Smoothed
    ones are finite."""
    output = nn.Linear(3, 3, bias=False, dtype=dtype)
    output.weight.data = torch.eye(3, dtype=dtype)
    hidden = torch.tensor([1e4, -1e4, 0.0], dtype=dtype).expand(1, 3, 3).clone().requires_grad_()
    total, nll = cross_entropy(hidden, output, torch.tensor([[0, 1, 2]]), -1, 0.0)
    big = hidden[0, 0, 0].item()  # 10⁴ as bf16 writes it
    assert total.item() == nll.item() == 3 * big
    total.backward()
    assert hidden.grad[0].tolist() == [[0, 0, 0], [1, -1, 0], [1, 0, -1]]
    hidden, output, target = case(True, torch.float32, scale=1e4)
    total, nll = cross_entropy(hidden, output, target, PAD, 0.1)
    assert all(value.isfinite().all() for value in [nll, *results(hidden, output, total)])


def test_autocast_computes_in_bf16_and_adds_up_in_float32():
    hidden, output, target = case(True, torch.float32)
    exact = results(hidden, output, cross_entropy(hidden, output, target, PAD, 0.1)[0])
    with torch.autocast("cpu", torch.bfloat16):
        low = results(hidden, output, cross_entropy(hidden, output, target, PAD, 0.1)[0])
    assert all(value.dtype == torch.float32 for value in low)
    assert_close(low, exact, atol=0.1, rtol=0.02)
    assert not torch.equal(low[1], exact[1])


@pytest.mark.parametrize("chunk,elements", [(2, 0), (4, 66)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_divergence_is_pytorchs(monkeypatch, chunk, elements, dtype):
    """R-Drop: two rows of hidden for each row of target, with padding; the loss of Liang 2021 by
    PyTorch's kl_div."""
    monkeypatch.setitem(loss.CHUNK_TOKENS, "cpu", chunk)
    monkeypatch.setattr(loss, "GRADIENT_ELEMENTS", elements)
    _, output, target = case(True, dtype)
    hidden = torch.randn(4, 5, 6, dtype=dtype, requires_grad=True)
    real = (target.flatten() != PAD).nonzero().squeeze(1)
    total, nll = token_losses(hidden, output, target, real, 0.1, 5.0)
    first, second = (
        functional.log_softmax(output(each).flatten(0, 1)[real], 1)
        for each in (hidden[::2], hidden[1::2])
    )
    expected = (
        5.0
        / 2
        * sum(
            functional.kl_div(a, b, reduction="sum", log_target=True)
            for a, b in ((first, second), (second, first))
        )
    )
    tokens = target.flatten()[real]
    for each in (hidden[::2], hidden[1::2]):
        logits = output(each).flatten(0, 1)[real]
        expected = expected + functional.cross_entropy(
            logits, tokens, label_smoothing=0.1, reduction="sum"
        )
    tolerance = {"atol": 10 * TOLERANCE[dtype], "rtol": 0}
    assert_close(results(hidden, output, total), results(hidden, output, expected), **tolerance)
    each_nll = torch.stack(
        [-first.gather(1, tokens[:, None]), -second.gather(1, tokens[:, None])], 1
    )
    assert_close(nll, each_nll.flatten().detach(), **tolerance)
