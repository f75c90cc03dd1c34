"""Additive scores (Bahdanau 2015 A.1.2) of every pair of one sequence's positions, for each head of a Transformer.

B batch, H heads, T target length, P columns so far, K head size.
"""

import torch
from torch import Tensor


def additive_scores(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """v_hᵀ tanh(q + k): query [B H T K], key [B H P K], v [H K] → [B H T P].

    The projections W^Q x and W^K x of multi-head attention are the paper's W_a s and U_a h. Every pair of positions has
    K hidden units, so memory grows with T · P · K; a dot product's grows with T · P.
    """
    heads_first = query.transpose(0, 1)[:, :, :, None] + key.transpose(0, 1)[:, :, None]  # [H B T P K]
    hidden = torch.tanh(heads_first)
    scores = hidden.flatten(1, 3) @ energy[:, :, None]  # [H B·T·P 1], one product for each head
    return scores.view(hidden.shape[:4]).transpose(0, 1)
