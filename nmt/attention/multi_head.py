"""Multi-head attention (Vaswani 2017 §3.2.2).

B batch, H heads, S source length, T target length, D model size, K = D / H head size.
"""

import torch
from torch import Tensor, nn

from nmt.attention.cpu import call_with_padded_rows
from nmt.attention.kernels import scaled_dot_product
from nmt.attention.projection import LinearMap, Projection


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_H) W^O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V).

    The three input projections are one matrix, so that self-attention needs one product. `dropout`
    is the probability with which a weight is zeroed in training. Deviation: all four projections
    have biases, which are 0 at first.
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.heads = heads
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(3 * size, size))
        self.bias = nn.Parameter(torch.zeros(3 * size))
        self.output = nn.Linear(size, size)
        for part in self.weight.chunk(3):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def project_all(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """[B T D] → query, key, value [B H T K] of self-attention."""
        return self.project(inputs, 0, 3)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, ...]:
        """[B S D] → key, value [B H S K] of cross-attention, once per sentence."""
        return self.project(memory, 1, 3)

    def project_query(self, inputs: Tensor) -> Tensor:
        """[B T D] → query [B H T K] of cross-attention."""
        return self.project(inputs, 0, 1)[0]

    def project(self, inputs: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """[B T D] → [B H T K] for each of query, key, value (0, 1, 2) in `first` … `last` − 1."""
        projected = call_with_padded_rows(self.projection(first, last), inputs)
        batch, length, _ = projected.shape
        parts = projected.view(batch, length, last - first, self.heads, self.size // self.heads)
        # The backward pass of `unbind` writes the gradients into one tensor, without a copy
        return tuple(part.transpose(1, 2) for part in parts.unbind(2))  # [B T H K] → [B H T K]

    def projection(self, first: int, last: int) -> Projection:
        """The projection of `project` in one product: [… D] → [… (last − first)·D]."""
        part = slice(first * self.size, last * self.size)
        return LinearMap(self.weight[part], self.bias[part])

    def merge_heads(self, context: Tensor) -> Tensor:
        """Concat(head_1 … head_H) W^O: [B H T K] → [B T D]."""
        return call_with_padded_rows(self.output, context.transpose(1, 2).flatten(2))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Projected query [B H T K], key, value [B H S K], mask [B|1 1 T|1 S] | None → [B T D].

        Also returns the weights [B H T S], or None unless `weights`.
        """
        dropout = self.dropout if self.training else 0.0
        context, attention_weights = scaled_dot_product(
            query, key, value, mask, weights=weights, dropout=dropout
        )
        return self.merge_heads(context), attention_weights
