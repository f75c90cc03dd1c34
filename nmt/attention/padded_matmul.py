"""How many rows a product has.

On a CPU PyTorch's bf16 products are oneDNN's, which compiles each anew for a number of rows that it has not met: half a
millisecond to two, as long as many of them take. Batches of sentences have ever new numbers of rows; so products are
over a multiple of ROWS, with rows of zeros at the end that nobody reads.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 64
Product = Callable[[Tensor], Tensor]  # [… D] → [… O]


@dataclass
class LinearMap:
    """x Wᵀ + b, by weights that lie elsewhere: [… D] → [… O]."""

    weight: Tensor  # [O D]
    bias: Tensor | None = None  # [O]

    def __call__(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight, self.bias)


def compiles(inputs: Tensor) -> bool:
    """Whether a product of these inputs, inside or outside autocast, is one that is compiled for its number of rows."""
    if inputs.device.type != "cpu":
        return False
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else inputs.dtype
    return low == torch.bfloat16


def even(inputs: Tensor) -> Tensor:
    """[M D] → [M' D], M' the next multiple of ROWS."""
    missing = -len(inputs) % ROWS
    return functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs


def padded_matmul(product: Product, inputs: Tensor) -> Tensor:
    """product(inputs), [… D] → [… O], over evened rows where that pays: few rows are of few numbers anyway."""
    number = inputs.numel() // inputs.size(-1)
    if number <= ROWS or not compiles(inputs):
        return product(inputs)
    products = product(even(inputs.flatten(0, -2)))[:number]
    return products.view(*inputs.shape[:-1], products.size(-1))
