"""LoRA (Hu et al. 2021): fine-tuning that trains small matrices beside those of the model.

W x becomes W x + (α / R) B A x. W stays as it is, and A and B are trained. B is 0 at first, so the
model computes what it did. As in §4.1, α is one constant for all ranks, and A is Gaussian.
Deviations: All projections of attention and all layers of feed-forward are adapted, not those of
query and value alone (§4.2). Embeddings, output layer and norms are trained as without LoRA, where
the paper trains nothing else: words of a new field need them (train.freeze can leave them out). A
has the standard deviation D^-½, which the paper leaves open.

D input size, O output size, R rank, P parts of a stored matrix (query, key and value).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.projection import Projection
from nmt.models.layers import FeedForward

ALPHA = 16.0


class LowRank(nn.Module):
    """(α / R) B A for each of the P parts of a matrix [P·O D]."""

    def __init__(self, weight: Tensor, rank: int, parts: int = 1) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.down = nn.Parameter(weight.new_empty(parts, rank, columns))  # A [P R D]
        self.up = nn.Parameter(weight.new_zeros(parts, rows // parts, rank))  # B [P O R]
        self.scale = ALPHA / rank
        nn.init.normal_(self.down, std=columns**-0.5)

    def forward(self, outputs: Tensor, inputs: Tensor, first: int = 0, last: int = 1) -> Tensor:
        """outputs W x [… (last − first)·O], inputs x [… D] → W x + (α / R) B A x.

        `first` … `last` − 1 are the parts of W that made the outputs.
        """
        changes = []
        for down, up in zip(self.down[first:last], self.up[first:last], strict=True):
            low = self.scale * functional.linear(inputs, down)  # [… R]
            changes.append(functional.linear(low, up))  # [… O]
        change = changes[0] if len(changes) == 1 else torch.cat(changes, -1)
        return outputs + change

    def merged(self, weight: Tensor) -> Tensor:
        """weight W [P·O D] → W + (α / R) B A."""
        return weight + self.scale * (self.up @ self.down).flatten(0, 1)


class LoRALinear(nn.Linear):
    """A linear layer with LoRA."""

    def __init__(self, plain: nn.Linear, rank: int) -> None:
        nn.Module.__init__(self)  # makes no matrices, unlike super().__init__
        self.in_features = plain.in_features
        self.out_features = plain.out_features
        self.weight = plain.weight
        self.bias = plain.bias
        self.lora = LowRank(plain.weight, rank)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.lora(super().forward(inputs), inputs)


class LoRAMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention with LoRA: query, key, value and output each have an A and a B."""

    def __init__(self, plain: MultiHeadAttention, rank: int) -> None:
        nn.Module.__init__(self)
        self.size = plain.size
        self.heads = plain.heads
        self.dropout = plain.dropout
        self.weight = plain.weight
        self.bias = plain.bias
        self.output = LoRALinear(plain.output, rank)
        self.lora = LowRank(plain.weight, rank, parts=3)

    def projection(self, first: int, last: int) -> Projection:
        plain = super().projection(first, last)
        return lambda inputs: self.lora(plain(inputs), inputs, first, last)


def add_lora(model: nn.Module, rank: int) -> None:
    """Add LoRA to the linear layers of attention and feed-forward, and freeze their weights."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, MultiHeadAttention):
                child.requires_grad_(False)
                setattr(module, name, LoRAMultiHeadAttention(child, rank))
            elif isinstance(module, FeedForward) and isinstance(child, nn.Linear):
                child.requires_grad_(False)
                setattr(module, name, LoRALinear(child, rank))


def has_lora(model: nn.Module) -> bool:
    return any(isinstance(module, LowRank) for module in model.modules())
