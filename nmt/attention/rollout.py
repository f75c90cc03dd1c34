"""Attention rollout (Abnar & Zuidema 2020 §3) for encoder and decoder: one weight matrix from those
of all layers.

B batch, L layers, H heads, S source length, T target length.
"""

import torch
from torch import Tensor


def rollout(encoder: Tensor, decoder: Tensor, cross: Tensor) -> Tensor:
    """How much of each target column comes from each source piece, followed through every layer;
    rows sum to 1.

    encoder [B L H S S], decoder [B L H T T], cross [B L H T S] (Memory.weights,
    DecoderOutput.self_weights and .weights of a whole sentence) → [B T S]. A is the mean over
    heads, and half of a layer's output is its input (the residual connection). Encoder: R ← ½(A +
    I) R from R = I. Decoder, from X = 0 (what comes from the source) and Y = I (what comes from the
    target): X ← ½(A_self + I) X and Y likewise, then X ← ½X + ½ A_cross R and Y ← ½Y, layer by
    layer. The result is X with its rows renormalised; Y is what X lacks to 1 before that, so it
    need not be computed. The paper rolls out an encoder alone.
    """
    source = torch.eye(encoder.size(-1), dtype=encoder.dtype, device=encoder.device)
    for layer in encoder.mean(2).unbind(1):
        source = (layer @ source + source) / 2
    from_source = torch.zeros_like(cross[:, 0, 0])
    for self_weights, cross_weights in zip(
        decoder.mean(2).unbind(1), cross.mean(2).unbind(1), strict=True
    ):
        from_source = (self_weights @ from_source + from_source) / 2
        from_source = (from_source + cross_weights @ source) / 2
    return from_source / from_source.sum(-1, keepdim=True)
