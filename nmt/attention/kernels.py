"""Attention in two ways: an explicit one, which returns its weights, and a fused one, for speed.

A mask is boolean, True = may be attended to, and None when it would hide nothing. That of
cross-attention may also be numbers to be added to the scores (`additive_mask`), but not together
with `causal`.

B batch, H heads, S source length, T target length, K head size, M memory size.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from nmt.attention.cpu import backward_in_one_thread, prefers_explicit_attention
from nmt.attention.projection import sum_dtype

SHORT = 128  # pieces of a sentence; see `kernel_choice`
MASK_ALIGNMENT = 16  # numbers; see `additive_mask`


def attend(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    prior: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """weights = softmax(scores where mask) × prior; context = dropout(weights) · values.

    scores [… T S], values [… S M] → context [… T M], weights [… T S]. mask and prior broadcast to
    scores. The softmax runs in float32 at least. Every row of the mask must allow at least one
    position. The weights that are returned are those before dropout. Their rows sum to 1, or to at
    most 1 with a prior.
    """
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    dtype = sum_dtype(scores)
    weights = backward_in_one_thread(scores.softmax(-1, dtype=dtype))
    if prior is not None:
        weights = weights * prior
    dropped = functional.dropout(weights, dropout) if dropout else weights
    context = dropped.to(values.dtype) @ values
    return context, weights


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    weights: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q kᵀ / √K) v (Vaswani 2017 eq. 1).

    query [B H T K], key, value [B H S K] → context [B H T K], weights [B H T S] | None.

    With `causal` the queries are those of the last T columns, also if a cache has earlier keys
    (S > T), so the last query attends to every key. `dropout` is the probability with which a
    weight is zeroed; outside training the caller leaves it at 0.
    """
    if query.size(2) == 1:
        causal = False  # it would hide nothing

    # Fused, without weights
    if not weights and not prefers_explicit_attention(query):
        if causal and (query.size(2) < key.size(2) or mask is not None):
            # PyTorch's own causal mask is for the first T keys, and excludes any other mask
            mask = combine_masks(mask, causal_mask(query, key))
            causal = False
        with kernel_choice(query, key):
            context = functional.scaled_dot_product_attention(
                query, key, value, mask, dropout, causal
            )
        return context, None

    # Explicit
    if causal:
        mask = combine_masks(mask, causal_mask(query, key))
    # `@` would copy what is not contiguous, too, but more slowly
    query = query.contiguous()
    key = key.contiguous()
    value = value.contiguous()
    scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5  # [B H T S]
    context, attention_weights = attend(scores, value, mask, dropout=dropout)
    if not weights:
        return context, None
    return context, attention_weights


def kernel_choice(query: Tensor, key: Tensor) -> AbstractContextManager[None]:
    """A context in which PyTorch takes the faster kernel for query [B H T K] and key [B H S K].

    Flash attention computes tiles of 128 queries. For shorter sentences the memory-efficient
    kernel, with tiles of 64, takes about half the time on a GPU. It needs a head size K that is a
    multiple of 8.
    Without gradients PyTorch chooses: search may run in several threads, which share the setting.
    """
    is_short = max(query.size(2), key.size(2)) <= SHORT
    has_kernel = query.device.type == "cuda" and query.size(3) % 8 == 0
    if has_kernel and is_short and torch.is_grad_enabled():
        return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return nullcontext()


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """[T S]: each of the last T of S columns may attend to the keys up to its own."""
    rows = query.size(2)
    columns = key.size(2)
    return torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril(columns - rows)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask [… S] as fused attention on a GPU adds it to the scores: 0, or −∞ where it is False.

    PyTorch converts a boolean mask in each layer. This one is converted once for all layers. Its
    rows are as far apart as the kernel needs them, else PyTorch would copy it.
    """
    length = mask.size(-1)
    stride = -(-length // MASK_ALIGNMENT) * MASK_ALIGNMENT
    rows = mask.new_zeros(*mask.shape[:-1], stride, dtype=dtype)
    return rows[..., :length].masked_fill_(~mask, float("-inf"))


def combine_masks(mask: Tensor | None, other: Tensor) -> Tensor:
    """True where both masks are; None hides nothing."""
    return other if mask is None else mask & other
