"""Fast weights by outer products and by the delta rule: against NumPy, finite differences, and
their laws."""

import numpy as np
import oracle_heads as oracle
import pytest
import torch
from test_transformer_family import HEADS, SIZE, TOLERANCE, attention_function, padding, three, unit
from torch import Tensor
from torch.testing import assert_close

from nmt.attention.fast_weights import CHUNK_COLUMNS, fast_weight_attention

RULES = {"outer products": False, "delta rule": True}
each_rule = pytest.mark.parametrize("delta", RULES.values(), ids=RULES)
each_side = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])


def rates_of(batch: int, rows: int, delta: bool) -> Tensor | None:
    """β [B H T] between 0 and 1."""
    return torch.rand(batch, HEADS, rows, dtype=torch.float64) if delta else None


def nothing(inputs: Tensor) -> Tensor:
    """W before the first column, in float32 at least."""
    size = inputs.size(3)
    return inputs.new_zeros(
        *inputs.shape[:2], size, size, dtype=torch.promote_types(inputs.dtype, torch.float32)
    )


@each_rule
@each_side
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_fast_weights_equal_the_oracle(delta, causal, dtype):
    """Sentences of 1 to 150 pieces in one batch: up to three chunks."""
    torch.manual_seed(1)
    lengths = [1, 2, CHUNK_COLUMNS - 1, CHUNK_COLUMNS, CHUNK_COLUMNS + 1, 150]
    inputs = [side.to(dtype) for side in three(6, 150)]
    rates = rates_of(6, 150, delta)
    mask = None if causal else padding(lengths)
    contexts, _ = fast_weight_attention(*inputs, nothing(inputs[0]), rates, mask, causal)
    assert contexts.dtype == dtype
    for row, length in enumerate(lengths):
        sides = [side[row, :, :length].double().numpy() for side in inputs]
        table = None if rates is None else rates[row, :, :length].numpy()
        wanted, _ = oracle.attention(
            "delta" if delta else "fast_weights", causal, 0, "none", table, *sides
        )
        np.testing.assert_allclose(
            contexts[row, :, :length].double(), wanted, rtol=0, atol=10 * TOLERANCE[dtype]
        )


@each_rule
@each_side
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_no_feature_is_too_large(delta, causal, scale):
    """Values and gradients are finite; what is read is at most the sum of the values' sizes."""
    torch.manual_seed(1)
    query, key = (
        (unit(2, HEADS, 130, SIZE).sign() * scale).float().requires_grad_() for _ in range(2)
    )
    value = unit(2, HEADS, 130, SIZE).float()
    rates = rates_of(2, 130, delta)
    reads, _ = fast_weight_attention(query, key, value, nothing(value), rates, None, causal)
    assert reads.isfinite().all() and (reads.abs() <= value.abs().sum(2, keepdim=True) + 1e-4).all()
    reads.sum().backward()
    assert all(side.grad.isfinite().all() for side in (query, key))


def test_autocast_does_not_round_what_is_stored():
    """A thousand writes of 1 in bf16 would stop growing at 256."""
    function = attention_function("fast_weights", 4, 1, True)
    with torch.autocast("cpu", torch.bfloat16):
        zeros = torch.zeros(1, 1, 1000, 4)
        context, weights, state = function(
            zeros, zeros, torch.ones(1, 1, 1000, 4), None, None, True
        )
    assert weights is None and state.fast_weights.dtype == torch.float32
    assert_close(state.fast_weights, torch.full((1, 1, 4, 4), 250.0))
    assert_close(context[0, 0, -1], torch.full((4,), 250.0))
