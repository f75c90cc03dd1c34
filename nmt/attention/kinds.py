"""The kinds of self-attention of the Transformer, and what each carries from column to column.

B batch, H heads, T target length, P columns so far, K head size. Law: one call over all columns ≡ one call for each
piece, at every cut.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from nmt.attention.flex import BIASES, compilable, compiled, explicit, modified
from nmt.attention.kernels import scaled_dot_product
from nmt.attention.linear import causal_linear, linear
from nmt.errors import choose

Past = tuple[Tensor, Tensor]  # two tensors, batch-first, under the names `parts`


class Kind(nn.Module, ABC):
    """From queries, keys and values of one sequence to contexts; causal in the decoder, where it continues a past."""

    parts: tuple[str, str] = ("key", "value")
    grows: bool = True  # the first part has a column for each column so far [B H P K], so its size tells how many

    def __init__(
        self, heads: int, causal: bool, dropout: float, sliding_window: int, bias: str, max_distance: int
    ) -> None:
        super().__init__()
        self.causal, self.dropout = causal, dropout

    def start(self, empty: Tensor) -> Past:
        """The past before the first column, given no column [B H 0 K]: no keys and no values."""
        return empty, empty

    @abstractmethod
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: Past | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, Past | None]:
        """query, key, value [B H T K], past of the decoder, mask [B 1 1 T] | None of the encoder.

        → contexts [B H T K], weights [B H T P] | None, the past after the last column; the encoder has no use for one,
        so it may be None there.
        """


class Softmax(Kind):
    """softmax(q kᵀ / √K) v (Vaswani 2017 §3.2.1), on the fused road unless weights are asked for."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: Past | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, Past]:
        key, value = together(past, key, value)
        dropout = self.dropout if self.training else 0.0
        context, looked = scaled_dot_product(query, key, value, mask, self.causal, weights, dropout)
        return context, looked, (key, value)


class Linear(Kind):
    """φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) (Katharopoulos 2020); its past is one matrix and one vector a head.

    Earlier columns are not kept, so the weights of a piece are over the columns of that piece alone (P = T).
    """

    parts = ("written", "total")
    grows = False

    def start(self, empty: Tensor) -> Past:
        batch, heads, _, size = empty.shape
        full = torch.promote_types(empty.dtype, torch.float32)
        return empty.new_zeros(batch, heads, size, size, dtype=full), empty.new_zeros(batch, heads, size, dtype=full)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: Past | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, Past | None]:
        if not self.causal:
            return *linear(query, key, value, mask, weights), None
        written, total = past or self.start(query[:, :, :0])
        context, looked, written, total = causal_linear(query, key, value, written, total, weights)
        return context, looked, (written, total)


class Flex(Kind):
    """softmax(q kᵀ / √K + bias) v inside a sliding window; FlexAttention for whole sentences on CUDA.

    A piece that continues a past takes the explicit road there too: it is a few rows, of a new shape each time. So do
    heads and versions of PyTorch for which FlexAttention cannot be compiled. The numbers are the same.
    """

    def __init__(
        self, heads: int, causal: bool, dropout: float, sliding_window: int, bias: str, max_distance: int
    ) -> None:
        super().__init__(heads, causal, dropout, sliding_window, bias, max_distance)
        self.window = sliding_window
        self.bias = choose("bias", bias, BIASES)(heads, max_distance, causal)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: Past | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, Past]:
        key, value = together(past, key, value)
        real = None if mask is None else mask[:, 0, 0]
        whole = query.size(2) == key.size(2) > 1
        if whole and not weights and compilable(query.device.type, query.size(3)):
            rule = modified(self.bias, self.window, self.causal, real)
            return compiled()(query, key, value, score_mod=rule), None, (key, value)
        context, looked = explicit(query, key, value, self.bias, self.window, self.causal, real)
        return context, looked if weights else None, (key, value)


def together(past: Past | None, key: Tensor, value: Tensor) -> Past:
    """Keys and values of all columns so far."""
    if past is None or not past[0].size(2):
        return key, value
    return torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)


KINDS: dict[str, type[Kind]] = {"softmax": Softmax, "linear": Linear, "flex": Flex}


def make_kind(
    name: str, heads: int, causal: bool, dropout: float, sliding_window: int, bias: str, max_distance: int
) -> Kind:
    """The kind called `name`; raises UserError for an unknown name."""
    return choose("attention", name, KINDS)(heads, causal, dropout, sliding_window, bias, max_distance)
