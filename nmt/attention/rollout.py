"""Attention rollout (Abnar & Zuidema 2020 §3): one weight matrix from those of all layers.

B batch, L layers, H heads, S source length, T target length.
"""

import torch
from torch import Tensor


def rollout(encoder: Tensor, decoder: Tensor, cross: Tensor) -> Tensor:
    """How much of each target column comes from each source piece, through all layers.

    encoder [B L H S S], decoder [B L H T T], cross [B L H T S] of whole sentences (Memory.weights,
    DecoderOutput.self_weights and DecoderOutput.weights) → [B T S], whose rows sum to 1.

    A is the mean over heads, and half of a layer's output is its input (the residual connection).
    Encoder: R ← ½(A + I) R, from R = I.
    Decoder: X ← ½(A_self + I) X, then X ← ½X + ½ A_cross R, from X = 0. X is the part that comes
    from the source. What its rows lack to 1 comes from the target, so they are renormalised at the
    end. Deviation: the paper has only encoders.
    """
    # Encoder: R
    source = torch.eye(encoder.size(-1), dtype=encoder.dtype, device=encoder.device)  # [S S]
    for weights in encoder.mean(2).unbind(1):
        source = (weights @ source + source) / 2  # [B S S]

    # Decoder: X
    from_source = torch.zeros_like(cross[:, 0, 0])  # [B T S]
    layers = zip(decoder.mean(2).unbind(1), cross.mean(2).unbind(1), strict=True)
    for self_weights, cross_weights in layers:
        from_source = (self_weights @ from_source + from_source) / 2
        from_source = (from_source + cross_weights @ source) / 2
    return from_source / from_source.sum(-1, keepdim=True)
