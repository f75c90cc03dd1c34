"""The interface of all models: a source is encoded once, a target is decoded in chunks.

Law: decoding in chunks ≡ decoding the whole target, wherever it is split. So training (whole
sentences) and search (one column at a time) use the same `decode`. Search reorders hypotheses by
indexing the rows of the state, with `select_rows`.

B batch, N sentences, K hypotheses of each, S source length, T target length, P target columns so
far, M memory size, D model size, V vocabulary, L layers, H heads.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.hard import Reinforce
from nmt.attention.windows import Window

# What the decoder keeps from column to column; every tensor is batch-first
DecoderState = dict[str, Tensor]


class Memory(NamedTuple):
    """An encoded source. All hypotheses of a sentence share it, so search never reorders it.

    A memory of N rows serves a target of N·K rows: row n·K + k is hypothesis k of sentence n.
    """

    values: Tensor  # [B S M]
    mask: Tensor | None  # [B S], True = may be attended to; None when nothing is padded
    # What else is computed once per sentence: projected keys, final encoder states
    static: DecoderState
    # [B L H S S] of the encoder's self-attention; None without it, or if not requested
    weights: Tensor | None = None

    def rows(self, index: Tensor) -> "Memory":
        """The memory of these rows of the batch."""
        values = self.values.index_select(0, index)
        mask = None if self.mask is None else self.mask[index]
        static = select_rows(self.static, index)
        weights = None if self.weights is None else self.weights[index]
        return Memory(values, mask, static, weights)

    def lengths(self) -> Tensor:
        """[B]: each sentence's own length."""
        if self.mask is not None:
            return self.mask.sum(1)
        return torch.full((self.values.size(0),), self.values.size(1), device=self.values.device)


class HardAttentionSamples(NamedTuple):
    """The samples of hard attention in training, one position a column (Xu et al. 2015 §4.1)."""

    log_probability: Tensor  # [B T], of the sampled position
    entropy: Tensor  # [B T], of the distribution it was sampled from, in nats


class DecoderOutput(NamedTuple):
    """Hidden states and the state after them; weights only where they were requested."""

    hidden: Tensor  # [B T D], ready for `logits`
    # [B L H T S] of attention to the memory, or [B 1 1 T S] of the guided head alone
    weights: Tensor | None
    state: DecoderState  # after the last column
    self_weights: Tensor | None = None  # [B L H T P] of self-attention over all P columns so far
    p_t: Tensor | None = None  # [B T] of local attention, in source positions; with `weights` only
    samples: HardAttentionSamples | None = None  # of hard attention in training


class EncoderDecoder(nn.Module, ABC):
    """The interface between models and everything else."""

    output: nn.Linear  # hidden → logits over the target vocabulary
    # Whether guided alignment trains a head. Then `decode` returns its weights in training
    guided = False
    # The decoder step that learns the links of a word: the one that reads it ("input"), or the one
    # that predicts it ("output")
    guided_step = "input"
    reinforce: Reinforce  # the loss of hard attention's samples; only in models that return them

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        """source [B S] of token ids ending in </s>, mask [B S] | None → memory.

        `weights`: with the weights of self-attention, if there is any.
        """

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """The decoder's state before the first column."""

    @abstractmethod
    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        """target [B T] (any T ≥ 1) continues the columns that led to `state`.

        B may be a multiple of the memory's rows: the K hypotheses of a sentence share its memory.
        `weights`: with attention weights.
        """

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the memory, and `decode` can return weights."""
        return True

    @property
    def num_layers(self) -> int:
        """L of the weights that `decode(weights=True)` returns; 0 without attention."""
        return int(self.has_attention)

    @property
    def num_heads(self) -> int:
        """H of the weights that `decode(weights=True)` returns; 0 without attention."""
        return int(self.has_attention)

    @property
    def guides(self) -> bool:
        """Whether `decode` returns the guided head's weights [B 1 1 T S] without being asked."""
        return self.guided and self.training

    @property
    def guided_layer(self) -> int:
        """The layer whose head 0 is guided: the last but one (Garg et al. 2019 §4)."""
        return max(self.num_layers - 2, 0)

    @property
    def has_rollout(self) -> bool:
        """Whether encoder and decoder return self-attention's weights, as rollout needs."""
        return False

    @property
    def max_length(self) -> int | None:
        """The most positions of a source or target sentence, </s> counted; None: any number."""
        return None

    @property
    def window_reach(self) -> float | None:
        """Source positions on either side of p_t that local attention attends to; None: all."""
        return None

    def begin_update(self, batches: int) -> None:
        """Called before an update that is made from this many batches."""
        for module in self.modules():
            if isinstance(module, Window):
                module.count_batches(batches)

    def end_update(self, nll: Sequence[Tensor], skip: Tensor) -> None:
        """Called after an update, with the mean −log p of each batch.

        `skip` is 1 if the update was skipped, else 0.
        """
        if hasattr(self, "reinforce"):
            for mean_nll in nll:
                self.reinforce.update_baseline(-mean_nll, skip)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [… D] → unnormalised logits [… V], in a tensor that search may overwrite."""
        return self.output(hidden)

    def forward(
        self, source: Tensor, mask: Tensor | None, target: Tensor, weights: bool = False
    ) -> DecoderOutput:
        """Teacher forcing: encode source [B S], decode the whole target [B T]."""
        memory = self.encode(source, mask, weights)
        return self.decode(target, self.start(memory), memory, weights)


def select_rows(state: DecoderState, index: Tensor) -> DecoderState:
    """The state of these rows of the batch: search reorders, duplicates and drops hypotheses."""
    return {name: tensor.index_select(0, index) for name, tensor in state.items()}
