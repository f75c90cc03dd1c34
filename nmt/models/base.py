"""What every model is: something that reads a source once and writes a target in pieces of any length.

B batch, S source length, T target length, M memory size, D model size, V vocabulary, L layers, H heads.
Law: decoding in pieces ≡ decoding whole, at every cut. So training (whole sentences) and search (one column at a time)
use the same `decode`, and search reorders hypotheses by indexing the rows of the state (`reorder`).
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.hard import Reinforce

DecoderState = dict[str, Tensor]  # whatever the decoder carries; every tensor batch-first


class Memory(NamedTuple):
    """What a model keeps of a source, once for all hypotheses of a sentence, and so never reordered.

    A memory of N rows serves a target of N·K: row n·K + k is hypothesis k of sentence n.
    """

    values: Tensor  # [B S M]
    mask: Tensor | None  # [B S], True = may be looked at; None when nothing is padded
    fixed: DecoderState  # whatever else is computed once per sentence: projected keys, final encoder states
    weights: Tensor | None = None  # [B L H S S]: where self-attention looked, if there is any and it was asked for

    def rows(self, index: Tensor) -> "Memory":
        """The memory of these rows of the batch."""
        mask = None if self.mask is None else self.mask[index]
        weights = None if self.weights is None else self.weights[index]
        return Memory(self.values.index_select(0, index), mask, select(self.fixed, index), weights)

    def lengths(self) -> Tensor:
        """[B]: each sentence's own length."""
        if self.mask is not None:
            return self.mask.sum(1)
        return torch.full((self.values.size(0),), self.values.size(1), device=self.values.device)


class Policy(NamedTuple):
    """What hard attention drew in training: one position a column (Xu et al. 2015 §4.1)."""

    log_probability: Tensor  # [B T], of the position that was drawn
    entropy: Tensor  # [B T], of the distribution it was drawn from, in nats


class DecoderOutput(NamedTuple):
    """What `decode` returns."""

    hidden: Tensor  # [B T D], ready for `logits`
    weights: Tensor | None  # [B L H T S]: where each layer and head looked
    state: DecoderState  # after the last column
    self_weights: Tensor | None = None  # [B L H T P]: the same for self-attention over all P columns so far
    centre: Tensor | None = None  # [B T]: p_t of local attention, in source positions; with `weights` only
    policy: Policy | None = None  # of hard attention in training


class EncoderDecoder(nn.Module, ABC):
    """The interface between models and everything else."""

    output: nn.Linear  # hidden → logits over the target vocabulary
    reinforce: Reinforce  # how a policy learns; only of models whose `decode` returns one

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        """source [B S] of token ids ending in </s>, mask [B S] | None → memory; `weights` takes the explicit road."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """The decoder's state before the first column."""

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """The state of these rows of hypotheses, for one column more: `decode` may write into it, so once only.

        For search, in inference mode; `select` is what does the same anywhere.
        """
        return select(state, rows)

    @abstractmethod
    def decode(self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False) -> DecoderOutput:
        """target [B T] (any T ≥ 1) continues what led to `state`; `weights` takes the explicit road.

        Each row of memory serves as many rows of target as there are: the K hypotheses of a sentence look together.
        """

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the source, so that `decode` can return weights."""
        return True

    @property
    def num_layers(self) -> int:
        """L of the weights that `decode` returns; 0 without attention."""
        return int(self.has_attention)

    @property
    def num_heads(self) -> int:
        """H of the weights that `decode` returns; 0 without attention."""
        return int(self.has_attention)

    @property
    def has_rollout(self) -> bool:
        """Whether encoder and decoder return weights of self-attention too, as attention rollout needs them."""
        return False

    @property
    def max_length(self) -> int | None:
        """Most positions of a source or target, </s> counted; None where the model sets no limit."""
        return None

    @property
    def window_reach(self) -> float | None:
        """How many source positions are in the window of local attention on either side of p_t; None for global."""
        return None

    def logits(self, hidden: Tensor) -> Tensor:
        """[… D] → [… V], unnormalised; search writes into it, so it is no view of anything that is needed again."""
        return self.output(hidden)

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor, weights: bool = False) -> DecoderOutput:
        """Teacher forcing: the whole target at once."""
        memory = self.encode(source, mask, weights)
        return self.decode(target, self.start(memory), memory, weights)


def select(state: DecoderState, index: Tensor) -> DecoderState:
    """The state of these rows: how search reorders, duplicates and drops hypotheses of any model."""
    return {name: tensor.index_select(0, index) for name, tensor in state.items()}
