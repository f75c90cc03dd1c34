"""Fisher information: how much each weight decides about the translations of a text.

With it two models are averaged: each parameter is taken mostly from the model whose text depends
more on it (Matena & Raffel 2022 §2.2).
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from nmt.data.batches import Batch
from nmt.models.base import EncoderDecoder
from nmt.training.loss import select_tokens


def fisher_information(
    model: EncoderDecoder, batches: Iterable[Batch], seed: int = 1
) -> dict[str, Tensor]:
    """F_i = E[(∂ log p(y) / ∂w_i)²] for each weight, the mean over the target tokens.

    The source and the tokens before y are those of the text; y is drawn from the model, so that F
    is not the empirical Fisher information (Kunstner et al. 2019). The gradients of the tokens of a
    batch are independent, and their mean is 0. So the expected square of their sum is the expected
    sum of their squares, and a batch needs only one backward pass.

    The model is in evaluation mode and has no frozen weights; the batches are on its device.
    """
    generator = torch.Generator(model.output.weight.device).manual_seed(seed)
    weights = dict(model.named_parameters())
    information = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    tokens = 0
    for batch in batches:
        memory = model.encode(batch.source, batch.mask)
        decoded = model.decode(batch.target, model.start(memory), memory)
        hidden = select_tokens(decoded.hidden, batch.real)  # [N D]
        log_probabilities = model.logits(hidden).float().log_softmax(-1)  # [N V]
        probabilities = log_probabilities.detach().exp()
        drawn = torch.multinomial(probabilities, 1, generator=generator)  # [N 1]
        loss = -log_probabilities.gather(1, drawn).sum()
        gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        for name, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                information[name] += gradient**2
        tokens += len(hidden)
    return {name: total / tokens for name, total in information.items()}
