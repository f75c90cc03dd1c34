"""Which source positions a query may attend to: all, or those around p_t (Luong 2015 §3.2).

A window gives a mask (True = may be attended to). It may also give a prior, which multiplies the
weights after the softmax, and its centre p_t. Source positions s and target positions t count from
0. Those of the source are in its original order, even if the encoder reads it reversed. `length` is
each sentence's own length with </s>, without padding.

In shapes: B batch, S padded source length, T target length, Q query size. In formulas, as in the
paper: S a sentence's own length, D the radius.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.projection import sum_dtype
from nmt.errors import choose


class WindowOutput(NamedTuple):
    """What a window does to the weights of each query."""

    mask: Tensor | None  # [B T|1 S]
    prior: Tensor | None  # [B T S]
    p_t: Tensor | None  # [B T], in source positions


class Window(nn.Module, ABC):
    """A mask, perhaps with a prior and p_t, on top of any score.

    All windows are constructed from the query size, the radius D in source positions, the number of
    batches over which it may narrow to D, and the power of the query size that multiplies v_p
    (LocalPredictive).
    """

    reach: float | None = None  # how many positions on either side of p_t it has; None: all

    def __init__(
        self, query_size: int, radius: int, narrowing_batches: int, exponent: float
    ) -> None:
        super().__init__()

    def count_batches(self, count: int) -> None:
        """Called before each update with its number of batches, with which a window may narrow."""

    @abstractmethod
    def forward(
        self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, padded_length: int
    ) -> WindowOutput:
        """query [B T Q], step [B T], length [B], mask [B S] | None, S → mask, prior, p_t.

        `mask` and `length` say the same: it is True where s < length.
        """


class Global(Window):
    """Every position of the sentence."""

    def forward(
        self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, padded_length: int
    ) -> WindowOutput:
        return WindowOutput(None if mask is None else mask[:, None], None, None)


class LocalMonotonic(Window):
    """local-m: p_t = t, and only [p_t − D, p_t + D] is attended to (Luong 2015 §3.2).

    Deviation: p_t is at most S − 1 + D, where the window still has the last source position. Beyond
    that the paper's window is empty and its softmax undefined.
    """

    def __init__(
        self, query_size: int, radius: int, narrowing_batches: int, exponent: float
    ) -> None:
        super().__init__(query_size, radius, narrowing_batches, exponent)
        self.reach: int = radius

    def forward(
        self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, padded_length: int
    ) -> WindowOutput:
        p_t = torch.minimum(step, length[:, None] - 1 + self.reach)
        return WindowOutput(
            within_radius(p_t, self.reach, length, padded_length), None, p_t.float()
        )


class LocalPredictive(Window):
    """local-p: p_t = S · sigmoid(v_pᵀ tanh(W_p h_t)); weights × exp(−(s − p_t)² / (2 (D/2)²)).

    Only |s − p_t| ≤ D is attended to. As in the paper (Luong 2015 §3.2, eqs. 9 and 10) the product
    is not renormalised, so the weights sum to at most 1.

    Training deviates in two ways. A model that was trained for at least N batches computes what the
    paper does (docs/reference/models.md).

    1. v_p is Q^exponent times a learned vector, by default Q^(−3/4). This can express the same
    functions, but learns them more slowly. AdamW moves each of the Q numbers by up to the learning
    rate at each update, so p_t would run to an end of the source, where the gradient of sigmoid
    vanishes. With exponent 0 v_p itself is learned.

    2. The window narrows to D over the first N batches: its radius is D · N / n in batch n. At
    first p_t is the middle of every sentence, and a small window there hides the positions that
    attention must learn to choose. The count is saved with the weights, so a model is used with the
    window of its last batch of training. With N = 0 the radius is D from the start.
    """

    updates: Tensor  # counts batches; checkpoints have this name

    def __init__(
        self, query_size: int, radius: int, narrowing_batches: int, exponent: float
    ) -> None:
        super().__init__(query_size, radius, narrowing_batches, exponent)
        self.radius = radius
        self.narrowing_batches = narrowing_batches
        self.hidden = nn.Linear(query_size, query_size, bias=False)  # W_p
        self.position_logit = nn.Linear(query_size, 1, bias=False)  # v_p / Q^exponent
        self.scale = query_size**exponent
        if narrowing_batches:
            self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def count_batches(self, count: int) -> None:
        if self.narrowing_batches:
            self.updates += count

    def current_radius(self, dtype: torch.dtype) -> Tensor | float:
        """max(D, D · N / n), or D if N = 0.

        The former is a tensor: to read it as a number, every column would wait for the device.
        """
        if not self.narrowing_batches:
            return self.radius
        factor = self.narrowing_batches / self.updates.clamp(min=1).to(dtype)
        return self.radius * factor.clamp(min=1.0)

    @property
    def reach(self) -> float:  # type: ignore[override]
        """The current radius as a number."""
        return float(self.current_radius(torch.float32))

    def predict_position(self, query: Tensor, length: Tensor) -> Tensor:
        """[B T Q], [B] → p_t [B T], a real number in [0, S].

        All of it is in float32 at least. bf16 cannot represent every integer up to 300, and would
        move the edge of the window by whole positions.
        """
        dtype = sum_dtype(query)
        with torch.autocast(query.device.type, enabled=False):
            hidden = torch.tanh(functional.linear(query.to(dtype), self.hidden.weight.to(dtype)))
            logit = functional.linear(hidden, self.position_logit.weight.to(dtype)).squeeze(-1)
        return length[:, None] * torch.sigmoid(self.scale * logit)

    def forward(
        self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, padded_length: int
    ) -> WindowOutput:
        p_t = self.predict_position(query, length)
        radius = self.current_radius(p_t.dtype)
        distance = torch.arange(padded_length, device=query.device) - p_t[:, :, None]  # [B T S]
        prior = torch.exp(-(distance**2) / (2 * (radius / 2) ** 2))
        return WindowOutput(within_radius(p_t, radius, length, padded_length), prior, p_t)


def within_radius(p_t: Tensor, radius: Tensor | float, length: Tensor, size: int) -> Tensor:
    """True where |s − p_t| ≤ radius and s < length: p_t [B T], length [B] → [B T S]."""
    position = torch.arange(size, device=p_t.device)
    inside = (position - p_t[:, :, None]).abs() <= radius  # [B T S]
    return inside & (position < length[:, None, None])


WINDOWS: dict[str, type[Window]] = {
    "global": Global,
    "local_m": LocalMonotonic,
    "local_p": LocalPredictive,
}


def make_window(
    name: str, query_size: int, radius: int, narrowing_batches: int, exponent: float
) -> Window:
    """The window called `name`; raises UserError for an unknown name."""
    return choose("window", name, WINDOWS)(query_size, radius, narrowing_batches, exponent)
