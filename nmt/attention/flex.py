"""Attention whose scores are changed by distance before the softmax: a sliding window, ALiBi, relative positions.

B batch, H heads, S source length, T target length, P columns so far, K head size. distance = position of the query −
position of the key, both counted from the start of the sentence. There are two roads with the same numbers: PyTorch's
FlexAttention, compiled, on CUDA where it can be; and the explicit one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from nmt.attention.kernels import attend

SMALLEST_HEAD = 16  # PyTorch's compiled kernel refuses a smaller K


class Bias(nn.Module, ABC):
    """What a head adds to a score at a distance; made from the number of heads, the clip, and whether it is causal."""

    @abstractmethod
    def at(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        """head and distance, integers that broadcast to one shape → what is added there."""


class Unbiased(Bias):
    """Nothing is added."""

    def __init__(self, heads: int, max_distance: int, causal: bool) -> None:
        super().__init__()

    def at(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.zeros_like(distance, dtype=dtype)


class Alibi(Bias):
    """−slope · |distance| with slope 2^(−8 h / H) for h = 1 … H (Press et al. 2022 §3).

    Deviations: the paper has a decoder alone; in the encoder both directions cost the same. Where H is no power of two
    the formula is used as it stands; the paper's code picks slopes of the next power of two.
    """

    def __init__(self, heads: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads

    def at(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        slope = torch.exp2(-8 * (head + 1).to(dtype) / self.heads)
        return -slope * distance.abs()


class Relative(Bias):
    """A learned number for each head and distance, clipped to ± M: in each layer a table [H 2M + 1], [H M + 1] causal.

    Like Raffel et al. 2020 (T5) a scalar on the score, but with one row for each distance, not for logarithmic
    buckets, and a table in every layer; clipped like Shaw et al. 2018 §3.2, whose rows are vectors added to keys and
    values.
    """

    def __init__(self, heads: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.least, self.most = 0 if causal else -max_distance, max_distance
        self.table = nn.Parameter(torch.empty(heads, self.most - self.least + 1))
        nn.init.normal_(self.table, std=0.02)

    def at(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        return self.table[head, distance.clamp(self.least, self.most) - self.least].to(dtype)


BIASES: dict[str, type[Bias]] = {"none": Unbiased, "alibi": Alibi, "relative": Relative}


def explicit(
    query: Tensor, key: Tensor, value: Tensor, bias: Bias, window: int, causal: bool, real: Tensor | None
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √K + bias where visible) v; query [B H T K], the last T of P columns; key, value [B H P K].

    real [B P] | None, True where no padding is → contexts [B H T K], weights [B H T P].
    """
    columns = torch.arange(key.size(2), device=query.device)
    rows = columns[columns.numel() - query.size(2) :]
    distance = rows[:, None] - columns
    head = torch.arange(query.size(1), device=query.device)[:, None, None]
    scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
    scores = scores + bias.at(head, distance, torch.promote_types(scores.dtype, torch.float32))
    mask = visible(distance, window, causal)
    if real is not None:
        mask = among_real(mask, real[:, None, rows, None], real[:, None, None])
    return attend(scores, value, mask)


def visible(distance: Tensor, window: int, causal: bool) -> Tensor:
    """|distance| ≤ window (0: no limit), and, if causal, distance ≥ 0."""
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    return seen & (distance.abs() <= window) if window else seen


def among_real(seen: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """What is seen where rows and columns of padding are False; a row of padding sees all that is real.

    Its own window may hold nothing but padding, and a softmax over nothing is none.
    """
    return column & (seen | ~row)


def modified(bias: Bias, window: int, causal: bool, real: Tensor | None) -> Callable[..., Tensor]:
    """The same rule for one score, as FlexAttention wants it: (score, sentence, head, row, column) → score.

    What is not visible becomes −∞ here rather than through a block mask: sentences seldom fill one block of 128.
    """

    def modify(score: Tensor, sentence: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        distance = row - column
        seen = visible(distance, window, causal)
        if real is not None:
            seen = among_real(seen, real[sentence, row], real[sentence, column])
        return torch.where(seen, score + bias.at(head, distance, score.dtype), -float("inf"))

    return modify


def compilable(device: str, head_size: int) -> bool:
    """Whether FlexAttention can be compiled for heads of this size on this type of device."""
    return device == "cuda" and head_size >= SMALLEST_HEAD and known()


@cache
def known() -> bool:
    """Whether this PyTorch has FlexAttention with biases that are learnt, as it does since 2.6."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return version >= (2, 6) and find_spec("torch.nn.attention.flex_attention") is not None


@cache
def compiled() -> Callable[..., Tensor]:
    """PyTorch's FlexAttention; the first call of a shape takes seconds."""
    from torch.nn.attention.flex_attention import flex_attention  # slow to import

    return torch.compile(flex_attention, dynamic=True)
