"""Attention scores of a query and a key.

They are those of Luong 2015 §3.1, Bahdanau 2015 A.1.2, Vaswani 2017 §3.2.1 and others. A new score
is one class here and one line in SCORES (docs/design/extending.md).

B batch, S source length, T target length, D query size, M memory size, A key size.
"""

import logging
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.errors import UserError, choose

log = logging.getLogger("nmt")


class Score(nn.Module, ABC):
    """score(query, key) of every query with every source position.

    What depends on the memory alone is computed once, by `keys`. All scores are constructed from
    the sizes of query and memory, and model.max_positions, which only Location uses.
    """

    def keys(self, memory: Tensor) -> Tensor:
        """memory [B S M] → keys [B S A], which `forward` takes instead of it; once per sentence."""
        return memory

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query [B T D], keys [B S A] → scores [B T S]."""


class Dot(Score):
    """qᵀ k (Luong 2015 §3.1); both sides have the same size."""

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        require_same_size("dot", query_size, memory_size)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class ScaledDot(Score):
    """qᵀ k / √D (Vaswani 2017 eq. 1); both sides have the same size D."""

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        require_same_size("scaled_dot", query_size, memory_size)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2) / query.size(-1) ** 0.5


class General(Score):
    """qᵀ W k (Luong 2015 §3.1)."""

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        self.memory = nn.Linear(memory_size, query_size, bias=False)  # W

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class Additive(Score):
    """vᵀ tanh(W_q q + W_k k) (Bahdanau 2015 A.1.2), with as many hidden units as the query has."""

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, query_size, bias=False)  # W_q
        self.memory = nn.Linear(memory_size, query_size, bias=False)  # W_k
        self.energy = nn.Linear(query_size, 1, bias=False)  # v

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def hidden(self, query: Tensor, keys: Tensor) -> Tensor:
        """tanh(W_q q + W_k k): [B T S A]."""
        return torch.tanh(self.query(query)[:, :, None] + keys[:, None])

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.energy(self.hidden(query, keys)).squeeze(-1)


class AdditiveSum(Additive):
    """Σ tanh(W_q q + W_k k): the additive score with v = 1.

    Encyclopaedias abbreviate additive attention as softmax(tanh(W_Q Q + W_K K)) V. Every hidden
    unit has the same weight, and the score stays within ± the number of units.
    """

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__(query_size, memory_size, positions)
        del self.energy

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.hidden(query, keys).sum(-1)


class Concat(Additive):
    """vᵀ tanh(W [q; k]) (Luong 2015 §3.1): with W = [W_q W_k] this is the additive score."""


class ConcatIdentity(Concat):
    """vᵀ tanh(W_q q + k): the concat score with the identity as the memory's part of W.

    Luong's experiments with the concat score had this simplification; footnote 15 of Luong 2015
    names it as a possible reason for their poor results. Both sides have the same size.
    """

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__(query_size, memory_size, positions)
        require_same_size("concat_identity", query_size, memory_size)
        del self.memory

    def keys(self, memory: Tensor) -> Tensor:
        return memory


class Cosine(Score):
    """β cos(q, k) with a learned β > 0 (Graves 2014 eq. 5, content addressing).

    A zero vector has cosine 0. β = 10 eᵇ, where b is learned and 0 at first: a softmax of cosines
    alone, which are within ±1, would be nearly uniform. Deviation: one β for all steps, where the
    paper's controller emits one at each.
    """

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        require_same_size("cosine", query_size, memory_size)
        self.log_strength = nn.Parameter(torch.zeros(()))

    def keys(self, memory: Tensor) -> Tensor:
        return functional.normalize(memory, dim=-1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        strength = 10 * self.log_strength.exp()
        return strength * functional.normalize(query, dim=-1) @ keys.transpose(1, 2)


class Location(Score):
    """Row s of W q (Luong 2015 eq. 8): depends on the source position, not on the memory there.

    As printed, eq. 8 has a softmax over all rows of W, and the weights of a shorter sentence would
    sum to less than 1. Here the softmax is over the first S rows, the positions of the sentence.

    Positions past model.max_positions get no weight (footnote 6). If a local window contains only
    such positions, they get equal weights.
    """

    def __init__(self, query_size: int, memory_size: int, positions: int) -> None:
        super().__init__()
        self.position_scores = nn.Linear(query_size, positions, bias=False)
        self.warned = False

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = self.position_scores(query)  # [B T max_length]
        length = keys.size(1)
        max_length = self.position_scores.out_features
        if length <= max_length:
            return scores[:, :, :length]
        if not self.warned:
            log.warning(
                "A source has %d positions; location scores give none past "
                "model.max_positions=%d a weight.",
                length,
                max_length,
            )
            self.warned = True
        # Not −∞: in a window with only these positions the softmax would be NaN
        return functional.pad(scores, (0, length - max_length), value=torch.finfo(scores.dtype).min)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "concat": Concat,
    "concat_identity": ConcatIdentity,
    "additive": Additive,
    "additive_sum": AdditiveSum,
    "cosine": Cosine,
    "location": Location,
}


def make_score(name: str, query_size: int, memory_size: int, positions: int) -> Score:
    """The score called `name`; raises UserError for unknown names and wrong sizes."""
    return choose("score", name, SCORES)(query_size, memory_size, positions)


def require_same_size(name: str, query_size: int, memory_size: int) -> None:
    """Raise UserError unless both sizes are equal."""
    if query_size != memory_size:
        raise UserError(
            f"The score {name} needs query and memory of one size; here {query_size} and "
            f"{memory_size}."
        )
