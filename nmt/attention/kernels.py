"""Two roads from scores to contexts: the explicit one, which shows its weights, and the fused one, which is fast.

B batch, H heads, S source length, T target length, K head size, M memory size.
A mask is boolean, True = may be looked at, and None when it would hide nothing.
"""

import torch
from torch import Tensor
from torch.nn import functional

MANY_QUERIES, MANY_SEQUENCES = 16, 16  # from which fused attention pays on a CPU, and up to which


def attend(
    scores: Tensor, values: Tensor, mask: Tensor | None = None, prior: Tensor | None = None, dropout: float = 0.0
) -> tuple:
    """weights = softmax(scores where mask) × prior; context = dropout(weights) · values.

    scores [… T S], values [… S M], mask and prior broadcast to scores → context [… T M], weights [… T S].
    The softmax runs in float32 at least. Every row of the mask must allow at least one position. The weights that are
    returned are those before dropout, whose rows still sum to 1.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    if prior is not None:
        weights = weights * prior
    kept = functional.dropout(weights, dropout) if dropout else weights
    return kept.to(values.dtype) @ values, weights


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    weights: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q kᵀ / √K) v (Vaswani 2017 eq. 1): [B H T K], [B H S K] twice → [B H T K], weights [B H T S] | None.

    `causal` counts back from the end: the last query sees every key, so it also holds with a filled cache (S > T).
    `dropout` is the share of the weights that is zeroed here and now.
    """
    seen = query.size(2) < key.size(2)
    if causal and query.size(2) == 1:
        causal = False  # the newest position sees everything before it
    if not weights and not prefers_explicit(query):
        if causal and (seen or mask is not None):
            mask, causal = join(mask, causal_mask(query, key)), False
        context = functional.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
        return context, None
    if causal:
        mask = join(mask, causal_mask(query, key))
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()  # `@` copies strided ones slowly
    scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
    context, looked = attend(scores, value, mask, dropout=dropout)
    return context, looked if weights else None


def prefers_explicit(query: Tensor) -> bool:
    """Where PyTorch's fused CPU attention is slower than matrix products and a softmax.

    Its bf16 backward is ten times slower; a few queries of many sequences, as in search, two to three times. With a
    float32 backward it is the faster one even there.
    """
    if query.device.type != "cpu":
        return False
    if query.requires_grad:
        return query.dtype == torch.bfloat16
    return query.size(2) < MANY_QUERIES and query.size(0) > MANY_SEQUENCES


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """[T S]: query t, counted from the end, sees every key that is not after it."""
    rows, columns = query.size(2), key.size(2)
    return torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril(columns - rows)


def join(mask: Tensor | None, other: Tensor) -> Tensor:
    """Both masks together."""
    return other if mask is None else mask & other
