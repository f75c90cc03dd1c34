"""Attention rollout (Abnar & Zuidema 2020): where a column of the target looked, through all layers.

B batch, L layers, H heads, S source length, T target length.
"""

import torch
from torch import Tensor


def rollout(encoder: Tensor, decoder: Tensor, cross: Tensor) -> Tensor:
    """encoder [B L H S S], decoder [B L H T T], cross [B L H T S] → [B T S], rows sum to 1; heads are averaged.

    Encoder: R ← ½ (A + I) R from R = I. Decoder, from X = 0 and Y = I: X ← ½ (A + I) X, Y ← ½ (A + I) Y, then
    X ← ½ X + ½ C R, Y ← ½ Y. The rows of X are divided by their sums.
    """
    batch, _, _, target, source = cross.shape
    read = torch.eye(source, dtype=cross.dtype, device=cross.device).expand(batch, -1, -1)
    for looked in encoder.mean(2).unbind(1):
        read = 0.5 * (looked @ read + read)
    found = cross.new_zeros(batch, target, source)
    for own, looked in zip(decoder.mean(2).unbind(1), cross.mean(2).unbind(1), strict=True):
        found = 0.5 * (own @ found + found)
        found = 0.5 * (found + looked @ read)
    return found / found.sum(-1, keepdim=True).clamp_min(1e-12)
