"""How well a query fits a key: the scores of Luong 2015 §3.1, Bahdanau 2015 A.1.2 and Vaswani 2017 §3.2.1.

B batch, S source length, T target length, D query size, M memory size, A key size.
A new score is one class here and one line in SCORES.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from nmt.errors import UserError, choose


class Score(nn.Module, ABC):
    """score(query, key) for every pair; whatever depends on the memory alone is computed once, in `keys`."""

    def keys(self, memory: Tensor) -> Tensor:
        """[B S M] → [B S A]: what `forward` wants instead of the raw memory, once per sentence."""
        return memory

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """[B T D], [B S A] → [B T S]."""


class Dot(Score):
    """qᵀ k (Luong 2015 §3.1); both sides have the same size."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        if query_size != memory_size:
            raise UserError(f"The dot scores need query and memory of one size; here {query_size} and {memory_size}.")

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class ScaledDot(Dot):
    """qᵀ k / √d (Vaswani 2017 eq. 1)."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().forward(query, keys) / query.size(-1) ** 0.5


class General(Score):
    """qᵀ W k (Luong 2015 §3.1)."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.memory = nn.Linear(memory_size, query_size, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class Additive(Score):
    """vᵀ tanh(W_q q + W_k k) (Bahdanau 2015 A.1.2), with as many hidden units as the query has."""

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, query_size, bias=False)
        self.memory = nn.Linear(memory_size, query_size, bias=False)
        self.energy = nn.Linear(query_size, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        mixed = torch.tanh(self.query(query)[:, :, None] + keys[:, None])  # [B T S A]
        return self.energy(mixed).squeeze(-1)


class Concat(Additive):
    """vᵀ tanh(W [q; k]) (Luong 2015 §3.1): W cut in two columns is the additive score, and is computed as such."""


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "concat": Concat,
    "additive": Additive,
}


def make_score(name: str, query_size: int, memory_size: int) -> Score:
    """The score called `name`; raises UserError for an unknown name or sizes that do not fit it."""
    return choose("score", name, SCORES)(query_size, memory_size)
