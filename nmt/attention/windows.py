"""Where a query may look at all: everywhere, or near one position (Luong 2015 §3.2).

B batch, S source length (padded), T target length, D query size. A window gives a mask (True = may be looked at),
perhaps a prior that multiplies the weights after the softmax, and the centre p_t if it has one. Positions s and t count
from 0, in the original order of the source even where the encoder reads it reversed. `length` is each sentence's own S,
</s> included, never the padded one.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.errors import choose

Seen = tuple[Tensor | None, Tensor | None, Tensor | None]  # mask [B|1 T|1 S], prior [B T S], centre p_t [B T]


class Window(nn.Module, ABC):
    """A mask, perhaps a prior and a centre, on top of any score.

    Made from the size of a query, the radius D in source positions, the batches over which a window may close, and the
    power of the size that a learned p_t's v_p is multiplied by.
    """

    reach: float | None = None  # positions seen on either side of p_t; None = all

    def count(self) -> None:
        """Called once for each batch of a training."""

    @abstractmethod
    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        """query [B T D], step [B T], length [B], mask [B S] | None, size = S → mask, prior, centre."""


class Global(Window):
    """Every position of the sentence."""

    def __init__(self, query_size: int, radius: int, closing: int, exponent: float) -> None:
        super().__init__()

    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        return None if mask is None else mask[:, None], None, None


class LocalMonotonic(Window):
    """local-m: p_t = t, and only [p_t − D, p_t + D] is seen (Luong 2015 §3.2).

    Deviation: p_t is at most S − 1 + D, where the window still holds the last source position; further on the paper's
    window is empty and its softmax undefined.
    """

    def __init__(self, query_size: int, radius: int, closing: int, exponent: float) -> None:
        super().__init__()
        self.reach: int = radius

    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        centre = torch.minimum(step, length[:, None] - 1 + self.reach)
        return near(centre, self.reach, length, size), None, centre.float()


class LocalPredictive(Window):
    """local-p: p_t = S · sigmoid(v_pᵀ tanh(W_p h_t)); |s − p_t| ≤ D; weights × exp(−(s − p_t)² / (2 (D/2)²)).

    As in the paper (Luong 2015 §3.2, eqs. 9 and 10) the product is not renormalised, so the weights sum to at most 1.
    Two deviations of the training, none of a model that was trained for N batches or more (docs/papers.md says what
    they are worth). v_p is size^exponent times what is learnt, by default size^(−3/4): the same functions, learnt more
    slowly, since AdamW moves every one of the `size` numbers by up to the learning rate at each update, and p_t ran to
    an end of the source, where sigmoid has no slope; with exponent 0 v_p itself is learnt. And D begins wide and closes
    over the first N batches, D · N / n at the n-th: p_t begins in the middle of every sentence, where a narrow window
    hides what attention must see to learn where to look. The count goes with the weights: a model looks as widely in
    use as it last did in training. N = 0: D from the start.
    """

    updates: Tensor

    def __init__(self, query_size: int, radius: int, closing: int, exponent: float) -> None:
        super().__init__()
        self.radius, self.closing = radius, closing
        self.hidden = nn.Linear(query_size, query_size, bias=False)
        self.slope = nn.Linear(query_size, 1, bias=False)
        self.scale = query_size**exponent
        if closing:
            self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def count(self) -> None:
        if self.closing:
            self.updates += 1

    @property
    def wide(self) -> Tensor | float:
        """How many times D the window still reaches; a tensor, so that a GPU need not be asked at every column."""
        return (self.closing / self.updates.clamp(min=1)).clamp(min=1.0) if self.closing else 1.0

    @property
    def reach(self) -> float:  # type: ignore[override]
        """D, or as much more as it still is."""
        return self.radius * float(self.wide)

    def centre(self, query: Tensor, length: Tensor) -> Tensor:
        """[B T D], [B] → p_t [B T], a real number in [0, S].

        In float32 at least, throughout: bf16 cannot count to 300, and moves the edge of the window by whole positions.
        """
        full = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            inner = torch.tanh(functional.linear(query.to(full), self.hidden.weight.to(full)))
            relative = functional.linear(inner, self.slope.weight.to(full)).squeeze(-1)
        return length[:, None] * torch.sigmoid(self.scale * relative)

    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        centre, reach = self.centre(query, length), self.radius * self.wide
        distance = torch.arange(size, device=query.device) - centre[:, :, None]
        prior = torch.exp(-(distance**2) / (2 * (reach / 2) ** 2))
        return near(centre, reach, length, size), prior, centre


def near(centre: Tensor, radius: Tensor | float, length: Tensor, size: int) -> Tensor:
    """|s − centre| ≤ radius and s < length: [B T], [B] → [B T S]."""
    position = torch.arange(size, device=centre.device)
    inside = (position - centre[:, :, None]).abs() <= radius
    return inside & (position < length[:, None, None])


WINDOWS: dict[str, type[Window]] = {"global": Global, "local_m": LocalMonotonic, "local_p": LocalPredictive}


def make_window(name: str, query_size: int, radius: int, closing: int, exponent: float = -0.75) -> Window:
    """The window called `name`; raises UserError for an unknown name."""
    return choose("window", name, WINDOWS)(query_size, radius, closing, exponent)
