"""From the weights of all layers to one picture: attention rollout (Abnar & Zuidema 2020 §3), for encoder and decoder.

B batch, L layers, H heads, S source length, T target length.
"""

import torch
from torch import Tensor


def rollout(encoder: Tensor, decoder: Tensor, cross: Tensor) -> Tensor:
    """How much each target column drew from each source piece, followed through every layer; rows sum to 1.

    encoder [B L H S S], decoder [B L H T T], cross [B L H T S] (Memory.weights, Decoded.self_weights and .weights of a
    whole sentence) → [B T S]. A is the mean over heads, and a layer passes on half of what it read as it stood (the
    residual connection). Encoder: R ← ½(A + I) R from R = I. Decoder, from X = 0 (drawn from the source) and Y = I
    (from the target): X ← ½(A_self + I) X and Y likewise, then X ← ½X + ½ A_cross R and Y ← ½Y, layer by layer. The
    picture is X with its rows renormalised; so Y, the target's own share, is what X lacks to 1 before that and need
    not be computed. The paper rolls out an encoder alone.
    """
    source = torch.eye(encoder.size(-1), dtype=encoder.dtype, device=encoder.device)
    for layer in encoder.mean(2).unbind(1):
        source = (layer @ source + source) / 2
    drawn = torch.zeros_like(cross[:, 0, 0])
    for itself, across in zip(decoder.mean(2).unbind(1), cross.mean(2).unbind(1), strict=True):
        drawn = (itself @ drawn + drawn) / 2
        drawn = (drawn + across @ source) / 2
    return drawn / drawn.sum(-1, keepdim=True)
