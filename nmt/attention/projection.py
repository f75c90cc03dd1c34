"""Linear projections whose weights belong to a module, and the dtypes of products and sums.

A column is one target position of all rows of a batch.

B batch, D input size, O output size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

Projection = Callable[[Tensor], Tensor]  # [… D] → [… O]


@dataclass
class LinearMap:
    """x Wᵀ + b: [… D] → [… O]."""

    weight: Tensor  # [O D]
    bias: Tensor | None = None  # [O]

    def __call__(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight, self.bias)


def to_autocast(inputs: Tensor) -> Tensor:
    """inputs in the dtype of products, which is autocast's if it is on for this device."""
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        return inputs.to(torch.get_autocast_dtype(device))
    return inputs


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which sums over a tensor are computed: its own, but at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


class CastForColumns(Function):
    """A weight's copy in a lower dtype, whose gradients are summed in the weight's own dtype.

    Autocast keeps its casts of whole parameters, but not of a slice, and sums the gradients of all
    uses in bf16.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, low: Tensor) -> Tensor:
        ctx.dtype = weight.dtype  # type: ignore[attr-defined]
        return low.view_as(low)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None  # type: ignore[attr-defined]


@dataclass
class ColumnMap:
    """x Wᵀ + b in a lower dtype, for one column after the other: [B D] → [B O]."""

    weights: tuple[Tensor, ...]  # W [O D], and b [O] if there is one
    low: tuple[Tensor, ...]  # the same in the dtype of products

    def __call__(self, inputs: Tensor) -> Tensor:
        parameters = map(CastForColumns.apply, self.weights, self.low)
        return functional.linear(inputs, *parameters)


def column_projection(weight: Tensor, bias: Tensor | None = None) -> Projection:
    """x Wᵀ + b for a loop over columns: what autocast would cast in each is cast here once."""
    weights = (weight,) if bias is None else (weight, bias)
    low = tuple(to_autocast(tensor.detach()) for tensor in weights)
    if low[0].dtype == weight.dtype:
        return LinearMap(weight, bias)
    if torch.is_grad_enabled():
        return ColumnMap(weights, low)
    return LinearMap(*low)
