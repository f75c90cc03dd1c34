"""Linear attention (Katharopoulos et al. 2020).

Its causal form is a fast weight programmer (Schmidhuber 1992). Sums are in float32 at least, also
under autocast.

B batch, H heads, S source length, T target length, C columns of a chunk, K head size.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.attention.projection import sum_dtype

LEAST_FEATURE = 1e-6  # so that no sum of φ(q)·φ(k) is 0
# C: columns of causal attention that are computed together. Nearly every sentence is one chunk
CHUNK_COLUMNS = 256


class LinearAttentionState(NamedTuple):
    """Sums over all columns so far (Katharopoulos 2020 eqs. 10 and 11)."""

    kv_sum: Tensor  # [B H K K] = Σ φ(k) vᵀ
    key_sum: Tensor  # [B H K] = Σ φ(k)


def features(inputs: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1 (Katharopoulos 2020 eq. 7), which is x + 1 above 0 and eˣ below.

    Deviation: φ is at least 1e-6, so that rows of weights sum to 1. The paper's code adds 1e-6 to
    the denominator instead.
    """
    return torch.where(inputs > 0, inputs + 1, inputs.clamp(max=0).exp()).clamp(min=LEAST_FEATURE)


def linear_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    """φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) over every key that the mask allows (eq. 5): time ∝ S.

    query [B H T K], key, value [B H S K], mask [B 1 1 S] | None → [B H T K], weights [B H T S] |
    None. φ(q)·φ(k) is not divided by √K, which would cancel. With `weights` the context is the
    product of the weights φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j) and the values, with the same result in
    time ∝ T · S.
    """
    dtype = sum_dtype(query)
    with torch.autocast(query.device.type, enabled=False):
        query_features = features(query.to(dtype))
        key_features = features(key.to(dtype))
        if mask is not None:
            key_features = key_features.masked_fill(~mask.transpose(2, 3), 0.0)
        if weights:
            scores = query_features @ key_features.transpose(2, 3)  # [B H T S]
            attention_weights = scores / scores.sum(-1, keepdim=True)
            context = attention_weights @ value.to(dtype)
            return context.to(value.dtype), attention_weights
        kv_sum = key_features.transpose(2, 3) @ value.to(dtype)  # [B H K K]
        key_sum = key_features.sum(2)[..., None]  # [B H K 1]
        context = (query_features @ kv_sum) / (query_features @ key_sum)
        return context.to(value.dtype), None


def causal_linear_attention(
    query: Tensor, key: Tensor, value: Tensor, state: LinearAttentionState, weights: bool = False
) -> tuple[Tensor, Tensor | None, LinearAttentionState]:
    """Linear attention of each query to the keys up to its own (Katharopoulos 2020 eqs. 8 to 12).

    query, key, value [B H T K], the state before these columns → contexts [B H T K], weights
    [B H T T] | None, the state after them. Each column writes the outer product φ(k) ⊗ v into fast
    weights and reads them with φ(q), as in Schmidhuber 1992, who has no denominator.

    Columns of one chunk attend to each other through a masked product, as in softmax attention. At
    the lengths of sentences that is cheaper than the paper's running sums, which store a [K K]
    matrix for each column or loop over columns. Of earlier chunks only the sums are kept, so memory
    is ∝ T.

    With `weights` the columns of this call are one chunk, and the weights are over them alone. A
    row sums to 1 minus the weight of the columns before this call.
    """
    dtype = sum_dtype(query)
    chunk = query.size(2) if weights else CHUNK_COLUMNS
    kv_sum = state.kv_sum
    key_sum = state.key_sum
    contexts = []
    attention_weights = None
    with torch.autocast(query.device.type, enabled=False):
        query_chunks = features(query.to(dtype)).split(chunk, 2)  # [B H C K] each
        key_chunks = features(key.to(dtype)).split(chunk, 2)
        value_chunks = value.to(dtype).split(chunk, 2)
        for q, k, v in zip(query_chunks, key_chunks, value_chunks, strict=True):
            scores = (q @ k.transpose(2, 3)).tril()  # [B H C C]
            denominator = scores.sum(-1, keepdim=True) + q @ key_sum[..., None]  # [B H C 1]
            contexts.append((scores @ v + q @ kv_sum) / denominator)  # [B H C K]
            kv_sum = kv_sum + k.transpose(2, 3) @ v
            key_sum = key_sum + k.sum(2)
            if weights:
                attention_weights = scores / denominator
        context = torch.cat(contexts, 2).to(value.dtype)
    return context, attention_weights, LinearAttentionState(kv_sum, key_sum)
