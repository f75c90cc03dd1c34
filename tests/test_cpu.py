"""Products over a multiple of ROWS_PER_KERNEL rows are the same products."""

import pytest
import torch
from conftest import VOCABULARY, small_config
from torch.testing import assert_close

from nmt.attention import cpu
from nmt.attention.cpu import padded_matmul
from nmt.data.tokenizer import PAD
from nmt.models.build import build
from nmt.training.loss import LinearCrossEntropy, training_loss

BF16 = torch.bfloat16


def loss_and_gradients(sentences: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Of a small Transformer in bf16; 9 source and 7 target pieces a sentence."""
    torch.manual_seed(1)
    config = small_config("transformer", (("dropout", 0.0), ("hidden_size", 32), ("feed_forward_size", 64)))
    model = build(config, VOCABULARY, VOCABULARY, True)
    source, target = (torch.randint(PAD + 1, VOCABULARY, (sentences, length)) for length in (9, 7))
    with torch.autocast("cpu", BF16):
        loss, _ = training_loss(model, model(source, None, target), target, None, 0.1)
    loss = loss / target.numel()
    return loss.detach(), list(torch.autograd.grad(loss, list(model.parameters())))


def test_training_with_padded_rows_has_the_same_loss_and_gradients(monkeypatch):
    loss, gradients = loss_and_gradients(29)
    monkeypatch.setattr(cpu, "ROWS_PER_KERNEL", 1)
    wanted_loss, wanted_gradients = loss_and_gradients(29)
    assert_close(loss, wanted_loss, atol=1e-3, rtol=0)
    scale = max(float(gradient.abs().max()) for gradient in wanted_gradients)
    for gradient, wanted in zip(gradients, wanted_gradients, strict=True):
        assert_close(gradient, wanted, atol=2e-2 * scale, rtol=0)


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 256, 257, 530])
def test_the_loss_does_not_depend_on_padded_rows(tokens, monkeypatch):
    """In several chunks and groups."""
    monkeypatch.setattr("nmt.training.loss.GRADIENT_ELEMENTS", 50 * 300)
    torch.manual_seed(1)
    hidden, weight, bias = torch.randn(tokens, 16), torch.randn(50, 16), torch.randn(50)
    target, results = torch.randint(0, 50, (tokens,)), []
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
