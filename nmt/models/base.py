"""The interface of all models: a source is encoded once, a target is decoded in chunks.

A column is one target position of all rows of a batch. Every model must fulfil this: decoding in
chunks of columns gives the same as decoding the whole target, wherever it is split. So training,
which decodes whole sentences, and search, which decodes one column at a time, use the same
`decode`. Search reorders hypotheses by `select_rows` of the state.

B rows of the target, N sentences with B / N hypotheses each, S source length, T target length, P
target columns so far, M memory size, D model size, V vocabulary, L layers, H heads.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.hard import Reinforce
from nmt.attention.windows import Window

# What the decoder keeps from column to column. Every tensor is batch-first
DecoderState = dict[str, Tensor]


class Memory(NamedTuple):
    """An encoded source. All hypotheses of a sentence share it, so search never reorders it.

    A memory of N rows serves a target of B rows: row n·B/N + i is hypothesis i of sentence n.
    """

    values: Tensor  # [N S M]
    mask: Tensor | None  # [N S], True = may be attended to; None when nothing is padded
    # What else is computed once per sentence, by name: projected keys, final encoder states
    static: dict[str, Tensor]
    # [N L H S S] of the encoder's self-attention; None if there is none, or if not requested
    weights: Tensor | None = None

    def rows(self, index: Tensor) -> "Memory":
        """The memory of these rows of the batch."""
        values = self.values.index_select(0, index)
        mask = None if self.mask is None else self.mask[index]
        static = select_rows(self.static, index)
        weights = None if self.weights is None else self.weights[index]
        return Memory(values, mask, static, weights)

    def lengths(self) -> Tensor:
        """[N]: the length of each sentence without padding."""
        if self.mask is not None:
            return self.mask.sum(1)
        return torch.full((self.values.size(0),), self.values.size(1), device=self.values.device)


class HardAttentionSamples(NamedTuple):
    """What REINFORCE needs of the position sampled for each column (Xu et al. 2015 §4.1)."""

    log_probability: Tensor  # [B T], of the sampled position
    entropy: Tensor  # [B T], of the distribution it was sampled from, in nats


class DecoderOutput(NamedTuple):
    """Hidden states, the decoder's state after them, and attention weights if requested."""

    hidden: Tensor  # [B T D], ready for `logits`
    # [B L H T S] of attention to the memory, or [B 1 1 T S] of the guided head alone
    weights: Tensor | None
    state: DecoderState  # after the last column
    self_weights: Tensor | None = None  # [B L H T P] of self-attention over all P columns so far
    p_t: Tensor | None = None  # [B T] of local attention, in source positions; None if no `weights`
    samples: HardAttentionSamples | None = None  # in training by REINFORCE


class EncoderDecoder(nn.Module, ABC):
    """A translation model as training, search and export see it."""

    output: nn.Linear  # hidden → logits over the target vocabulary
    guided = False  # whether guided alignment trains a head
    # The decoder step whose attention learns the links of a word: the one that reads the word
    # ("input", as in Chen et al. 2020; Garg et al. 2019 instead run the decoder again without a
    # causal mask), or the one that predicts it ("output")
    guided_step = "input"
    reinforce: Reinforce  # only models that are trained by REINFORCE have it

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        """source [B S] of token ids ending in </s>, mask [B S] | None → memory.

        `weights`: also return the weights of self-attention, if there is any.
        """

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """The decoder's state before the first column."""

    @abstractmethod
    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        """Decode target [B T], T ≥ 1, after the columns that led to `state`.

        B may be a multiple of the memory's rows: the K hypotheses of a sentence share its memory.
        `weights`: also return attention weights.
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
    def returns_guided_weights(self) -> bool:
        """Whether `decode` returns the guided head's weights [B 1 1 T S] without `weights`."""
        return self.guided and self.training

    @property
    def guided_layer(self) -> int:
        """The layer whose head 0 is guided: the last but one (Garg et al. 2019 §4)."""
        return max(self.num_layers - 2, 0)

    @property
    def has_rollout(self) -> bool:
        """Whether `encode` and `decode` can return self-attention weights, as rollout needs."""
        return False

    @property
    def max_length(self) -> int | None:
        """The longest source or target sentence, including </s>; None: any length."""
        return None

    @property
    def window_reach(self) -> float | None:
        """How many source positions on either side of p_t are attended to; None: all."""
        return None

    def begin_update(self, batches: int) -> None:
        """Prepare for an update from this many batches: some windows narrow with each batch."""
        for module in self.modules():
            if isinstance(module, Window):
                module.count_batches(batches)

    def end_update(self, mean_nlls: Sequence[Tensor], skip: Tensor) -> None:
        """After an update, move hard attention's baseline towards the mean log p of each batch.

        `mean_nlls`: the mean −log p of a target token, of each batch. `skip` is 1 if the update was
        skipped, else 0. It stays on the device.
        """
        if hasattr(self, "reinforce"):
            for mean_nll in mean_nlls:
                self.reinforce.update_baseline(-mean_nll, skip)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [… D] → logits [… V], in a tensor that search may overwrite."""
        return self.output(hidden)

    def forward(
        self, source: Tensor, mask: Tensor | None, target: Tensor, weights: bool = False
    ) -> DecoderOutput:
        """Teacher forcing: encode source [B S], decode the whole target [B T]."""
        memory = self.encode(source, mask, weights)
        return self.decode(target, self.start(memory), memory, weights)


def select_rows(state: DecoderState, index: Tensor) -> DecoderState:
    """These rows of the state, in this order: search reorders, repeats and drops hypotheses."""
    return {name: tensor.index_select(0, index) for name, tensor in state.items()}
