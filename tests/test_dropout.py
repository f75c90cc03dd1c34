"""Dropout: unbiased, with the right probability, without effect in evaluation, the same from the
same seed."""

import pytest
import torch
from torch.testing import assert_close

from nmt.models.dropout import UNDECIDED_DROPOUT, Dropout, set_dropout

PROBABILITIES = [0.1, 0.5, 0.9]
MANY = 200_000


def drop(
    probability: float, inputs: torch.Tensor, residual: torch.Tensor | None = None, seed: int = 1
) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(probability).train()(inputs, residual)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_probability_and_mean(probability):
    dropped = drop(probability, torch.ones(MANY))
    deviation = (probability * (1 - probability) / MANY) ** 0.5
    fraction = (dropped == 0).double().mean().item()
    assert abs(fraction - probability) < 1 / 512 + 5 * deviation  # rounded to 1/256, and random
    assert abs(dropped.double().mean().item() - 1) < 5 * deviation / (1 - probability)
    assert dropped.unique().numel() == 2 and drop(probability, torch.ones(3, 3)).shape == (3, 3)
    for extreme in (0.001, 0.999):
        assert 0 < (drop(extreme, torch.ones(MANY)) == 0).sum() < MANY


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_residual_is_added_to_the_same_mask(dtype):
    inputs = torch.randn(7, 13, dtype=dtype)
    residual = torch.randn(7, 13, dtype=dtype)
    total = drop(0.3, inputs, residual)
    dropped = drop(0.3, inputs)
    assert total.dtype == dropped.dtype == dtype
    assert_close(
        total,
        residual + dropped,
        atol=2e-2 if dtype == torch.bfloat16 else 1e-6,
        rtol=8e-3 * (dtype == torch.bfloat16),
    )
    assert (dropped == 0).any() and (dropped != 0).any()


def test_the_gradient_is_the_mask():
    inputs, residual = (torch.randn(40, 9, requires_grad=True) for _ in range(2))
    drop(0.3, inputs, residual).sum().backward()
    mask = drop(0.3, torch.ones(40, 9))
    assert torch.equal(inputs.grad, mask)
    assert torch.equal(residual.grad, torch.ones(40, 9))


def test_the_probability_is_set_in_every_module():
    """None: as long as it is undecided."""
    inputs = torch.ones(MANY)
    model = torch.nn.Sequential(Dropout(None), torch.nn.Sequential(Dropout(0.5)))
    for given, wanted in ((None, UNDECIDED_DROPOUT), (0.0, 0.0), (0.9, 0.9)):
        set_dropout(model, given)
        for dropout in (model[0], model[1][0]):
            assert dropout.probability == wanted
    assert Dropout(None).probability == UNDECIDED_DROPOUT
    assert torch.equal(drop(0.0, inputs), inputs) and torch.equal(model.eval()(inputs), inputs)
    assert torch.equal(drop(0.0, inputs, inputs), 2 * inputs)
