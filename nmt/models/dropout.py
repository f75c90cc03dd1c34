"""Dropout that is cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.cpu import dropout_mask

UNDECIDED_DROPOUT = 0.1  # the probability until the length of the training is known


class Dropout(nn.Module):
    """In training, zeroes each element with a probability and scales the others up.

    This is dropout (Srivastava 2014). On a CPU the probability is rounded to 1/256 … 255/256, so
    0.1 becomes 0.1016. None: UNDECIDED_DROPOUT, until `set_dropout` is called.
    """

    def __init__(self, probability: float | None) -> None:
        super().__init__()
        self.probability = UNDECIDED_DROPOUT if probability is None else probability

    def forward(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """dropout(inputs), or residual + dropout(inputs)."""
        if self.training and self.probability:
            if inputs.device.type == "cpu":
                mask = dropout_mask(inputs, self.probability)
                if residual is not None:
                    return torch.addcmul(residual, inputs, mask)
                return inputs * mask
            inputs = functional.dropout(inputs, self.probability)
        if residual is None:
            return inputs
        return residual + inputs


def set_dropout(model: nn.Module, probability: float | None) -> None:
    """Set the probability of all Dropout modules of a model; None: UNDECIDED_DROPOUT."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.probability = UNDECIDED_DROPOUT if probability is None else probability
