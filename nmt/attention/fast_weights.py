"""Fast weights: every column writes its key and value into a matrix W, and reads it by its query.

Schmidhuber 1992 writes by outer products, Schlag, Irie & Schmidhuber 2021 §4.2 by the delta rule.
Both are computed here in chunks of columns, in float32 at least, also under autocast. There are no
attention weights: those of outer products would not sum to 1, and those of the delta rule could be
negative.

Formulas have W and column vectors, as in the papers. The code has Wᵀ [K K], because queries and
keys are rows here: y = φ(q) Wᵀ.

B batch, H heads, T target length, C columns of a chunk, K head size.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.attention.linear import features
from nmt.attention.projection import sum_dtype

CHUNK_COLUMNS = 64  # C: columns that are computed together; most sentences are one chunk


class FastWeightState(NamedTuple):
    """The state of causal fast weights: the matrix after all columns so far."""

    fast_weights: Tensor  # [B H K K] = Wᵀ: a row for each feature of a key


def normalized_features(inputs: Tensor) -> Tensor:
    """features(x) / Σ_i features(x)_i: the sum normalisation of Schlag et al. 2021 §4.2.

    Its norm is at most 1, so the delta rule with a rate of at most 1 never amplifies what is
    stored.
    """
    positive = features(inputs)
    return positive / positive.sum(-1, keepdim=True)


def fast_weight_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    fast_weights: Tensor,
    rates: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = True,
) -> tuple[Tensor, Tensor]:
    """W_t = W_{t−1} + v_t φ(k_t)ᵀ; y_t = W_t φ(q_t), with φ = `normalized_features`.

    Given rates β, the delta rule: W_t = W_{t−1} + β_t (v_t − W_{t−1} φ(k_t)) φ(k_t)ᵀ.

    query, key, value [B H T K], `fast_weights` = Wᵀ before the first column [B H K K], rates
    [B H T], mask [B 1 1 T] | None (True = is written) → y [B H T K], Wᵀ after the last column.

    Without `causal` all pairs are written in the order of the sentence, then every query reads the
    last W. For outer products the order makes no difference. By the delta rule a later pair
    corrects what earlier ones stored. Schlag et al. define it for causal sequences alone.

    In a chunk that begins with W_0, W_t = W_0 + Σ_{i≤t} u_i φ(k_i)ᵀ, where u_i is v_i or given by
    `corrections` (Yang et al. 2024 §3). So a few matrix products replace a loop over columns.
    """
    dtype = sum_dtype(query)
    with torch.autocast(query.device.type, enabled=False):
        queries = normalized_features(query.to(dtype))
        keys = normalized_features(key.to(dtype))
        if mask is not None:
            keys = keys.masked_fill(~mask.transpose(2, 3), 0.0)  # a key of 0 writes nothing
        query_chunks = queries.split(CHUNK_COLUMNS, 2)  # [B H C K] each
        key_chunks = keys.split(CHUNK_COLUMNS, 2)
        value_chunks = value.to(dtype).split(CHUNK_COLUMNS, 2)
        if rates is not None:
            rate_chunks = rates.to(dtype).split(CHUNK_COLUMNS, 2)  # [B H C] each
        contexts = []
        chunks = zip(query_chunks, key_chunks, value_chunks, strict=True)
        for number, (q, k, v) in enumerate(chunks):
            u = v
            if rates is not None:
                u = corrections(k, v, rate_chunks[number][..., None], fast_weights)
            if causal:
                overlaps = (q @ k.transpose(2, 3)).tril()  # [B H C C]
                contexts.append(q @ fast_weights + overlaps @ u)
            fast_weights = fast_weights + k.transpose(2, 3) @ u  # [B H K K]
        context = torch.cat(contexts, 2) if causal else queries @ fast_weights
    return context.to(value.dtype), fast_weights


def corrections(keys: Tensor, values: Tensor, rates: Tensor, fast_weights: Tensor) -> Tensor:
    """u_t = β_t (v_t − W_{t−1} k_t): what the delta rule adds at each key of a chunk.

    Here k stands for φ(k). keys and values [B H C K], rates [B H C 1], `fast_weights` = W_0ᵀ →
    u [B H C K]. W_{t−1} contains the u_i before t, so (I + A) u = β (v − W_0 k) with
    A_ti = β_t k_t·k_i for i < t. This triangular system is the UT transform of Yang et al. 2024
    §3.2.
    """
    differences = rates * (values - keys @ fast_weights)  # β (v − W_0 k)
    if keys.size(2) == 1:
        return differences
    overlaps = (rates * (keys @ keys.transpose(2, 3))).tril(-1)  # A [B H C C]
    return torch.linalg.solve_triangular(overlaps, differences, upper=False, unitriangular=True)
