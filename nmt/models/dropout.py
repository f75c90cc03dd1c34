"""Dropout that is cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.cpu import dropout_mask

UNDECIDED = 0.1  # while it is not known how long a training is


class Dropout(nn.Module):
    """Zeroes each element with a probability in training and scales the rest up (Srivastava 2014);
    may add a residual.

    In every model, recurrent ones too, the probability is rounded to 1/256 … 255/256 on a CPU, so
    0.1 drops 0.1016; the scale is that of the rounded one. None: UNDECIDED, until `set_dropout` is
    called.
    """

    def __init__(self, probability: float | None) -> None:
        super().__init__()
        self.probability = UNDECIDED if probability is None else probability

    def forward(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """dropout(inputs), or residual + dropout(inputs)."""
        if not self.training or not self.probability:
            return inputs if residual is None else residual + inputs
        if inputs.device.type != "cpu":
            dropped = functional.dropout(inputs, self.probability)
            return dropped if residual is None else residual + dropped
        mask = dropout_mask(inputs, self.probability)
        return inputs * mask if residual is None else torch.addcmul(residual, inputs, mask)


def set_dropout(model: nn.Module, probability: float | None) -> None:
    """Set the probability of all Dropout modules of a model; None: UNDECIDED."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.probability = UNDECIDED if probability is None else probability
