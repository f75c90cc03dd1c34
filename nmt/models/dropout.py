"""Dropout that is cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.cpu import dropout_mask

UNDECIDED = 0.1  # while it is not known how long a training is


class Dropout(nn.Module):
    """Zeroes each element with a probability in training, scales the rest up (Srivastava 2014).

    On a CPU the probability is rounded to 1/256 … 255/256, so 0.1 drops 0.1016; the scale is that
    of the rounded one. None: UNDECIDED, until `set_dropout` is called.
    """

    def __init__(self, probability: float | None) -> None:
        super().__init__()
        self.probability = UNDECIDED if probability is None else probability

    def forward(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """dropout(inputs), or residual + dropout(inputs)."""
        dropped = inputs
        if self.training and self.probability:
            if inputs.device.type == "cpu":
                mask = dropout_mask(inputs, self.probability)
                if residual is not None:
                    return torch.addcmul(residual, inputs, mask)
                dropped = inputs * mask
            else:
                dropped = functional.dropout(inputs, self.probability)
        if residual is None:
            return dropped
        return residual + dropped


def set_dropout(model: nn.Module, probability: float | None) -> None:
    """Set the probability of all Dropout modules of a model; None: UNDECIDED."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.probability = UNDECIDED if probability is None else probability
