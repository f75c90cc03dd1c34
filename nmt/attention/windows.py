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
    """A mask, perhaps a prior and a centre, on top of any score."""

    @abstractmethod
    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        """query [B T D], step [B T], length [B], mask [B S] | None, size = S → mask, prior, centre."""


class Global(Window):
    """Every position of the sentence."""

    def __init__(self, query_size: int, radius: int) -> None:
        super().__init__()

    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        return None if mask is None else mask[:, None], None, None


class LocalMonotonic(Window):
    """local-m: p_t = t, and only [p_t − D, p_t + D] is seen (Luong 2015 §3.2).

    Deviation: p_t is clamped to the last source position, since past the end of a short source the paper's window is
    empty and its softmax undefined.
    """

    def __init__(self, query_size: int, radius: int) -> None:
        super().__init__()
        self.radius = radius

    def forward(self, query: Tensor, step: Tensor, length: Tensor, mask: Tensor | None, size: int) -> Seen:
        centre = torch.minimum(step, length[:, None] - 1)
        return near(centre, self.radius, length, size), None, centre.float()


class LocalPredictive(Window):
    """local-p: p_t = S · sigmoid(v_pᵀ tanh(W_p h_t)); |s − p_t| ≤ D; weights × exp(−(s − p_t)² / (2 (D/2)²)).

    As in the paper (Luong 2015 §3.2, eqs. 9 and 10) the product is not renormalised, so the weights sum to at most 1.
    v_p is size^(−3/4) times what is learnt: the same functions, learnt more slowly. AdamW moves every one of the
    `size` numbers by up to the learning rate at each update, and without this p_t ran to an end of the source, where
    sigmoid has no slope, before attention had learnt where to look (docs/benchmarks.md).
    """

    def __init__(self, query_size: int, radius: int) -> None:
        super().__init__()
        self.radius = radius
        self.hidden = nn.Linear(query_size, query_size, bias=False)
        self.slope = nn.Linear(query_size, 1, bias=False)
        self.scale = query_size**-0.75

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
        centre = self.centre(query, length)
        distance = torch.arange(size, device=query.device) - centre[:, :, None]
        prior = torch.exp(-(distance**2) / (2 * (self.radius / 2) ** 2))
        return near(centre, self.radius, length, size), prior, centre


def near(centre: Tensor, radius: int, length: Tensor, size: int) -> Tensor:
    """|s − centre| ≤ radius and s < length: [B T], [B] → [B T S]."""
    position = torch.arange(size, device=centre.device)
    inside = (position - centre[:, :, None]).abs() <= radius
    return inside & (position < length[:, None, None])


WINDOWS: dict[str, type[Window]] = {"global": Global, "local_m": LocalMonotonic, "local_p": LocalPredictive}


def make_window(name: str, query_size: int, radius: int) -> Window:
    """The window called `name`; raises UserError for an unknown name."""
    return choose("window", name, WINDOWS)(query_size, radius)
