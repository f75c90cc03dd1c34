"""Products over a multiple of ROWS_PER_KERNEL rows are the same products."""

import pytest
import torch
from torch.testing import assert_close

from nmt.attention import cpu
from nmt.attention.cpu import padded_matmul
from nmt.training.loss import LinearCrossEntropy

BF16 = torch.bfloat16


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 256, 257, 530])
def test_the_loss_does_not_depend_on_padded_rows(tokens, monkeypatch):
    """In several chunks and groups."""
    monkeypatch.setattr("nmt.training.loss.GRADIENT_ELEMENTS", 50 * 300)
    torch.manual_seed(1)
    hidden = torch.randn(tokens, 16)
    weight = torch.randn(50, 16)
    bias = torch.randn(50)
    target = torch.randint(0, 50, (tokens,))
    results = []
    for rows in (64, 1):
        monkeypatch.setattr(cpu, "ROWS_PER_KERNEL", rows)
        inputs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
        with torch.autocast("cpu", BF16):
            loss, nll = LinearCrossEntropy.apply(*inputs, target, 0.1, 0.0)
        assert nll.shape == (tokens,)
        results.append((loss.detach(), nll, *torch.autograd.grad(loss, inputs)))
    for padded, plain in zip(*results, strict=True):
        assert_close(padded, plain, atol=1e-2 * float(plain.abs().max()), rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize("shape", [(1, 30, 4), (3, 30, 4), (128, 4)])
def test_a_padded_product_is_the_product(shape, dtype):
    inputs = torch.randn(shape).to(dtype)
    assert torch.equal(padded_matmul(lambda rows: rows[..., :2] * 3, inputs), inputs[..., :2] * 3)
