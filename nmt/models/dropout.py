"""Dropout that is cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Zeroes a share of its input in training and scales the rest up (Srivastava 2014), optionally adding a residual.

    On a CPU one 64-bit draw decides eight elements, each by one byte: an order of magnitude faster than a Bernoulli
    draw for each. So the share is rounded to 1/256 … 255/256 there; the scale uses the rounded one and stays unbiased,
    but for its own rounding in bf16.
    Bytes are compared as numbers of the input's own format, which PyTorch does faster than making booleans.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.threshold = min(max(round(256 * share), 1), 255) if share else 0

    def forward(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        if not self.training or not self.threshold:
            return inputs if residual is None else residual + inputs
        if inputs.device.type != "cpu":
            dropped = functional.dropout(inputs, self.share)
            return dropped if residual is None else residual + dropped
        keep = self.mask(inputs)
        return inputs * keep if residual is None else torch.addcmul(residual, inputs, keep)

    def mask(self, inputs: Tensor) -> Tensor:
        """0 or 1 / (1 − share) for each element."""
        draws = torch.empty((inputs.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        draws = draws.view(torch.uint8)[: inputs.numel()].view(inputs.shape)
        return draws.to(inputs.dtype).ge_(self.threshold).mul_(256 / (256 - self.threshold))
