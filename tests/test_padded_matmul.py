"""Products over a multiple of ROWS rows are the same products."""

import pytest
import torch
from conftest import VOCABULARY, small_config
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.attention import padded_matmul as module
from nmt.attention.padded_matmul import even, padded_matmul
from nmt.data.tokenizer import PAD
from nmt.models.build import build
from nmt.train.loss import LinearCrossEntropy, training_loss

BF16 = torch.bfloat16
PRODUCTS = ("aten.mm.default", "aten.addmm.default")


class Products(TorchDispatchMode):
    """The sizes of all products of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function) in PRODUCTS:
            self.sizes.append(tuple(size for one in args[-2:] for size in one.shape))
        return function(*args, **(kwargs or {}))


def train(number: int) -> tuple[torch.Tensor, list[torch.Tensor], set[int]]:
    """Loss and gradients of a small Transformer in bf16, and the sizes of its products that are not the model's."""
    torch.manual_seed(1)
    config = small_config("transformer", (("dropout", 0.0), ("size", 32), ("feed_forward", 64)))
    model = build(config, VOCABULARY, VOCABULARY, True)
    source, target = (torch.randint(PAD + 1, VOCABULARY, (number, length)) for length in (9, 7))
    with torch.autocast("cpu", BF16), Products() as products:
        loss, _ = training_loss(model, model(source, None, target), target, PAD, 0.1)
    loss = loss / target.numel()
    with products:
        gradients = list(torch.autograd.grad(loss, list(model.parameters())))
    return loss.detach(), gradients, {size for one in products.sizes for size in one} - {32, 64, 96, VOCABULARY}


def test_training_makes_few_kinds_of_products(monkeypatch):
    """29, 30 and 31 sentences of 9 and 7 pieces: 261 to 279 and 203 to 217 rows, all of them 320 and 256."""
    seen = [train(number)[2] for number in (29, 30, 31)]
    assert seen == [{320, 256}] * 3
    monkeypatch.setattr(module, "ROWS", 1)
    assert train(29)[2] == {261, 203}


def test_training_is_the_same(monkeypatch):
    loss, gradients, _ = train(29)
    monkeypatch.setattr(module, "ROWS", 1)
    wanted, others, _ = train(29)
    assert_close(loss, wanted, atol=1e-3, rtol=0)
    scale = max(float(one.abs().max()) for one in others)
    for one, other in zip(gradients, others, strict=True):
        assert_close(one, other, atol=2e-2 * scale, rtol=0)


@pytest.mark.parametrize("number", [1, 63, 64, 65, 256, 257, 530])
def test_the_loss_of_an_evened_number_of_tokens(number, monkeypatch):
    """In several chunks and groups; the rows that fill up count for nothing."""
    monkeypatch.setattr("nmt.train.loss.GRADIENT_ELEMENTS", 50 * 300)
    torch.manual_seed(1)
    hidden, weight, bias = torch.randn(number, 16), torch.randn(50, 16), torch.randn(50)
    target, found = torch.randint(0, 50, (number,)), []
    for size in (64, 1):
        monkeypatch.setattr(module, "ROWS", size)
        inputs = [one.clone().requires_grad_() for one in (hidden, weight, bias)]
        with torch.autocast("cpu", BF16):
            loss, likelihood = LinearCrossEntropy.apply(*inputs, target, 0.1)
        assert likelihood.shape == (number,)
        found.append((loss.detach(), likelihood, *torch.autograd.grad(loss, inputs)))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-2 * float(other.abs().max()), rtol=0)


def test_what_is_evened():
    low, seen = torch.ones(3, 30, 4, dtype=BF16), []

    def product(inputs: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(inputs.shape))
        assert inputs.flatten(0, -2)[90:].sum() == 0
        return inputs[..., :2] * 3

    for inputs in (low, low[:1], low.float()):  # the second is few, the third is not compiled for its rows
        found = padded_matmul(product, inputs)
        assert found.shape == (*inputs.shape[:2], 2) and (found == 3).all()
    with torch.autocast("cpu", BF16):
        padded_matmul(product, low.float())
    assert seen == [(128, 4), (1, 30, 4), (3, 30, 4), (128, 4)]
    assert even(torch.ones(128, 4)).shape == (128, 4)
