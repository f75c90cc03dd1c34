"""Linear projections by weights that another module owns."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

Projection = Callable[[Tensor], Tensor]  # [… D] → [… O]


@dataclass
class LinearMap:
    """x Wᵀ + b: [… D] → [… O]."""

    weight: Tensor  # [O D]
    bias: Tensor | None = None  # [O]

    def __call__(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight, self.bias)
