"""A model whose matrices stand in bf16 already, for search."""

import copy

import torch
from torch import nn

from nmt.attention.multihead import MultiHead
from nmt.attention.windows import Window
from nmt.models.base import EncoderDecoder
from nmt.models.cells import ConditionalGRU

MULTIPLIED = (nn.Linear, MultiHead, ConditionalGRU)  # every parameter of theirs is a factor or a bias of a product


def lowered(model: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """What autocast to `dtype` would make of the weights at every step, made once; the numbers are the same.

    (In inference mode autocast keeps no cache of its casts.) All other tensors are shared with `model`, embeddings that
    are tied to the output among them. Windows keep their weights: they count positions in float32.
    """
    if dtype == torch.float32:
        return model
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    lower = copy.deepcopy(model, tensors)
    kept = {part for window in lower.modules() if isinstance(window, Window) for part in window.modules()}
    for module in lower.modules():
        if isinstance(module, MULTIPLIED) and module not in kept:
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(parameter.detach().to(dtype), requires_grad=False))
    return lower
