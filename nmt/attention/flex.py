"""Attention whose scores depend on distance: a sliding window, ALiBi, relative positions.

distance = position of the query − position of the key, both counted from the start of the sentence.
There are two ways with the same result: explicit products, and on CUDA PyTorch's FlexAttention,
which is compiled.

B batch, H heads, T target length, P columns so far, K head size.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from nmt.attention.kernels import attend
from nmt.attention.projection import sum_dtype

log = logging.getLogger("nmt")

MIN_HEAD_SIZE = 16  # PyTorch's compiled kernel refuses a smaller K
# How often one function may be compiled. PyTorch's limit is 8, but FlexAttention is compiled for
# each layer, whose bias is its own
COMPILATIONS = 256
COMPILE_ERRORS = (
    torch._dynamo.exc.TorchDynamoException,
    torch._dynamo.exc.FailOnRecompileLimitHit,
)
given_up = False  # whether FlexAttention could not be compiled in this process


class Bias(nn.Module, ABC):
    """What a head adds to a score by distance.

    All biases are constructed from the number of heads, the largest distance with a bias of its
    own, and whether attention is causal.
    """

    def __init__(self, heads: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def values(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        """head and distance, integers that broadcast to one shape → biases of that shape."""


class Unbiased(Bias):
    """No bias: 0 for every head and distance."""

    def values(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.zeros_like(distance, dtype=dtype)


class Alibi(Bias):
    """−slope · |distance| with slope 2^(−8 h / H) for h = 1 … H (Press et al. 2022 §3).

    Deviations: The paper has only a decoder; in the encoder both directions cost the same. The
    formula is also used if H is not a power of two, where the paper's code takes slopes of the next
    power of two.
    """

    def values(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        slope = torch.exp2(-8 * (head + 1).to(dtype) / self.heads)
        return -slope * distance.abs()


class Relative(Bias):
    """A learned number for each head and each distance, which is clipped to ± M = `max_distance`.

    The table is [H 2M+1], or [H M+1] if attention is causal.

    As in Raffel et al. 2020 (T5) a number is added to the score. But here every distance has one,
    where T5 has logarithmic buckets, every layer has its own table, and the score is divided by √K
    before. Distances are clipped as in Shaw et al. 2018 §3.2, who add vectors to keys and values.
    """

    def __init__(self, heads: int, max_distance: int, causal: bool) -> None:
        super().__init__(heads, max_distance, causal)
        self.min_distance = 0 if causal else -max_distance
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(heads, self.max_distance - self.min_distance + 1))
        nn.init.normal_(self.table, std=0.02)

    def values(self, head: Tensor, distance: Tensor, dtype: torch.dtype) -> Tensor:
        index = distance.clamp(self.min_distance, self.max_distance) - self.min_distance
        return self.table[head, index].to(dtype)


BIASES: dict[str, type[Bias]] = {"none": Unbiased, "alibi": Alibi, "relative": Relative}


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Bias,
    window: int,
    causal: bool,
    real: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √K + bias where visible) v.

    query [B H T K], the last T of P columns; key, value [B H P K]; real [B P] | None, True where no
    padding is → contexts [B H T K], weights [B H T P].
    """
    key_position = torch.arange(key.size(2), device=query.device)  # [P]
    query_position = key_position[key_position.numel() - query.size(2) :]  # [T]
    distance = query_position[:, None] - key_position  # [T P]
    head = torch.arange(query.size(1), device=query.device)[:, None, None]  # [H 1 1]
    scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5  # [B H T P]
    dtype = sum_dtype(scores)
    scores = scores + bias.values(head, distance, dtype)
    mask = visibility_mask(distance, window, causal)
    if real is not None:
        mask = hide_padding(mask, real[:, None, query_position, None], real[:, None, None])
    return attend(scores, value, mask)


def visibility_mask(distance: Tensor, window: int, causal: bool) -> Tensor:
    """True where |distance| ≤ window (0: no limit) and, if causal, distance ≥ 0."""
    visible = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    if window:
        visible = visible & (distance.abs() <= window)
    return visible


def hide_padding(visible: Tensor, query_is_real: Tensor, key_is_real: Tensor) -> Tensor:
    """`visible` without keys that are padding.

    A query that is padding attends to all real keys, because its window may contain nothing but
    padding, and a softmax needs at least one score.
    """
    return key_is_real & (visible | ~query_is_real)


def make_score_mod(
    bias: Bias, window: int, causal: bool, real: Tensor | None
) -> Callable[..., Tensor]:
    """FlexAttention's `score_mod`: (score, sentence, head, query's and key's position) → score.

    It does to one score what `explicit_attention` does to all. Hidden scores become −∞ here, not by
    a block mask, because most sentences are shorter than one block of 128.
    """

    def score_mod(
        score: Tensor, sentence: Tensor, head: Tensor, query: Tensor, key: Tensor
    ) -> Tensor:
        distance = query - key
        visible = visibility_mask(distance, window, causal)
        if real is not None:
            visible = hide_padding(visible, real[sentence, query], real[sentence, key])
        return torch.where(visible, score + bias.values(head, distance, score.dtype), -float("inf"))

    return score_mod


def allow_compilations() -> None:
    """Let PyTorch compile one function for COMPILATIONS kinds of inputs."""
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, COMPILATIONS)


@cache
def compiled_flex_attention() -> Callable[..., Tensor]:
    """PyTorch's FlexAttention, compiled; the first call with a new shape takes seconds."""
    from torch.nn.attention.flex_attention import flex_attention  # slow to import

    allow_compilations()
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor]
) -> Tensor | None:
    """Contexts [B H T K] by FlexAttention; None without CUDA, for small heads, or if it fails."""
    if query.device.type != "cuda" or query.size(3) < MIN_HEAD_SIZE or given_up:
        return None
    try:
        return compiled_flex_attention()(query, key, value, score_mod=score_mod)
    except COMPILE_ERRORS as error:
        give_up_compiling(error)
        return None


def give_up_compiling(error: Exception) -> bool:
    """Stop using FlexAttention in this process, and warn; False if it was not in use."""
    global given_up
    if given_up or not compiled_flex_attention.cache_info().currsize:
        return False
    given_up = True
    log.warning(
        "FlexAttention cannot be compiled (%s); without it memory ∝ length² is needed.",
        first_lines(error),
    )
    return True


def first_lines(error: Exception) -> str:
    """The message of a compiler's error, without its traces."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].endswith("raised:"):
        return " ".join(lines[:2])
    return " ".join(lines[:1])
