"""The kinds of self-attention of the Transformer, and what each carries from column to column.

B batch, H heads, T target length, P columns so far, K head size. Law: one call over all columns ≡ one call for each
piece, at every cut.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.flex import BIASES, compilable, compiled, explicit, modified
from nmt.attention.kernels import scaled_dot_product
from nmt.attention.linear import causal_linear, linear
from nmt.errors import choose


class KVCache(NamedTuple):
    """What self-attention carries: two batch-first tensors, under the names `parts`."""

    first: Tensor
    second: Tensor
    used: int | None = None  # columns that are filled, where spare ones follow that are written into


class SelfAttention(nn.Module, ABC):
    """From queries, keys and values of one sequence to contexts; causal in the decoder, where it continues a past."""

    parts: tuple[str, str] = ("key", "value")
    grows: bool = True  # the first part has a column for each column so far [B H P K], so its size tells how many

    def __init__(
        self, heads: int, causal: bool, dropout: float, sliding_window: int, bias: str, max_distance: int
    ) -> None:
        super().__init__()
        self.causal, self.dropout = causal, dropout

    def start(self, empty: Tensor) -> KVCache:
        """The past before the first column, given no column [B H 0 K]: no keys and no values."""
        return KVCache(empty, empty)

    @abstractmethod
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: KVCache | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        """query, key, value [B H T K], past of the decoder, mask [B 1 1 T] | None of the encoder.

        → contexts [B H T K], weights [B H T P] | None, the past after the last column; the encoder has no use for one,
        so it may be None there.
        """


class Softmax(SelfAttention):
    """softmax(q kᵀ / √K) v (Vaswani 2017 §3.2.1), on the fused road unless weights are asked for."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: KVCache | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        past = together(past, key, value)
        dropout = self.dropout if self.training else 0.0
        context, looked = scaled_dot_product(query, past.first, past.second, mask, self.causal, weights, dropout)
        return context, looked, past


class Linear(SelfAttention):
    """φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) (Katharopoulos 2020); its past is one matrix and one vector a head.

    Earlier columns are not kept, so the weights of a piece are over the columns of that piece alone (P = T).
    """

    parts = ("written", "total")
    grows = False

    def start(self, empty: Tensor) -> KVCache:
        batch, heads, _, size = empty.shape
        full = torch.promote_types(empty.dtype, torch.float32)
        first = empty.new_zeros(batch, heads, size, size, dtype=full)
        return KVCache(first, empty.new_zeros(batch, heads, size, dtype=full))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, past: KVCache | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        if not self.causal:
            return *linear(query, key, value, mask, weights), None
        written, total, _ = past or self.start(query[:, :, :0])
        context, looked, written, total = causal_linear(query, key, value, written, total, weights)
        return context, looked, KVCache(written, total)


class Flex(SelfAttention):
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
        self, query: Tensor, key: Tensor, value: Tensor, past: KVCache | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        past = together(past, key, value)
        key, value, _ = past
        real = None if mask is None else mask[:, 0, 0]
        whole = query.size(2) == key.size(2) > 1
        if whole and not weights and compilable(query.device.type, query.size(3)):
            rule = modified(self.bias, self.window, self.causal, real)
            return compiled()(query, key, value, score_mod=rule), None, past
        context, looked = explicit(query, key, value, self.bias, self.window, self.causal, real)
        return context, looked if weights else None, past


def together(past: KVCache | None, key: Tensor, value: Tensor) -> KVCache:
    """Keys and values of all columns so far; those of a past with room are written into it."""
    if past is None or not past.first.size(2):
        return KVCache(key, value)
    if past.used is None:
        return KVCache(torch.cat((past.first, key), 2), torch.cat((past.second, value), 2))
    return in_room(past.first, past.second, past.used, key, value)


def in_room(first: Tensor, second: Tensor, used: int, key: Tensor, value: Tensor) -> KVCache:
    """Keys and values in the room behind the first `used` columns, all of which they fill; else beside them."""
    if first.size(2) != used + key.size(2):
        return KVCache(torch.cat((first[:, :, :used], key), 2), torch.cat((second[:, :, :used], value), 2))
    first[:, :, used:], second[:, :, used:] = key, value
    return KVCache(first, second)


SELF_ATTENTIONS: dict[str, type[SelfAttention]] = {"softmax": Softmax, "linear": Linear, "flex": Flex}


def make_self_attention(
    name: str, heads: int, causal: bool, dropout: float, sliding_window: int, bias: str, max_distance: int
) -> SelfAttention:
    """The kind called `name`; raises UserError for an unknown name."""
    return choose("attention", name, SELF_ATTENTIONS)(heads, causal, dropout, sliding_window, bias, max_distance)
