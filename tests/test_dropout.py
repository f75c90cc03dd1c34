"""Dropout: unbiased, of the right share, silent in evaluation, the same from the same seed."""

import pytest
import torch
from torch.testing import assert_close

from nmt.models.dropout import Dropout

SHARES = [0.1, 0.2, 0.3, 0.5, 0.9]
MANY = 200_000


def drop(share: float, inputs: torch.Tensor, residual: torch.Tensor | None = None, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(share).train()(inputs, residual)


@pytest.mark.parametrize("share", SHARES)
def test_share_and_mean(share):
    dropped = drop(share, torch.ones(MANY))
    deviation = (share * (1 - share) / MANY) ** 0.5
    found = (dropped == 0).double().mean().item()
    assert abs(found - share) < 1 / 512 + 5 * deviation  # rounded to 1/256, and drawn
    assert abs(dropped.double().mean().item() - 1) < 5 * deviation / (1 - share)
    assert dropped.unique().numel() == 2


def test_the_scale_belongs_to_the_rounded_share():
    """0.1 · 256 = 25.6, so 26 of 256 are dropped and 256 / 230 remains; 128 of 256 are exactly half."""
    assert drop(0.1, torch.ones(MANY)).max().item() == pytest.approx(256 / 230)
    assert drop(0.5, torch.ones(MANY)).max().item() == 2.0


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_nothing_is_dropped_in_evaluation(share):
    inputs, residual = torch.randn(3, 5), torch.randn(3, 5)
    dropout = Dropout(share).eval()
    assert torch.equal(dropout(inputs), inputs)
    assert torch.equal(dropout(inputs, residual), residual + inputs)
    assert torch.equal(drop(0.0, inputs), inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_residual_is_added_to_the_same_draw(dtype):
    inputs, residual = torch.randn(7, 13, dtype=dtype), torch.randn(7, 13, dtype=dtype)
    both, one = drop(0.3, inputs, residual), drop(0.3, inputs)
    assert both.dtype == one.dtype == dtype
    assert_close(both, residual + one, atol=2e-2 if dtype == torch.bfloat16 else 1e-6, rtol=0)
    assert (one == 0).any() and (one != 0).any()


def test_the_seed_decides():
    inputs = torch.ones(3, 100)
    assert torch.equal(drop(0.5, inputs), drop(0.5, inputs))
    assert not torch.equal(drop(0.5, inputs), drop(0.5, inputs, seed=2))
    torch.manual_seed(1)
    dropout = Dropout(0.5).train()
    assert not torch.equal(dropout(inputs), dropout(inputs))  # nor is a draw used twice


def test_neighbours_are_independent():
    """One draw decides eight elements: each two of them are dropped together in a quarter of the draws."""
    dropped = (drop(0.5, torch.ones(MANY // 8, 8)) == 0).double()
    together = dropped.T @ dropped / len(dropped)
    wanted = torch.full((8, 8), 0.25).double() + torch.eye(8) * 0.25
    assert_close(together, wanted, atol=5 * (0.25 / len(dropped)) ** 0.5, rtol=0)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 3), (0, 4)])
def test_any_shape(shape):
    assert drop(0.5, torch.ones(shape)).shape == shape


def test_the_gradient_is_the_mask():
    inputs, residual = (torch.randn(40, 9, requires_grad=True) for _ in range(2))
    drop(0.3, inputs, residual).sum().backward()
    mask = drop(0.3, torch.ones(40, 9))
    assert torch.equal(inputs.grad, mask)
    assert torch.equal(residual.grad, torch.ones(40, 9))


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_the_smallest_and_the_largest_share_still_drop_some_and_keep_some(share):
    dropped = drop(share, torch.ones(MANY))
    assert dropped.isfinite().all() and (dropped == 0).any() and (dropped != 0).any()
