"""Forced decoding of a given target, which records its probabilities and attention weights.

Beam search runs the fused kernels, which return no weights. So heatmaps, links and alignment error
rates come from here, also for translations that search has found.

B batch, L layers, H heads, S source pieces, T target pieces.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.attention.rollout import rollout
from nmt.data.tokenizer import BOS
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder

MAX_COLUMNS = 1024  # target pieces whose logits are in memory at once

# The record of a pair grows with L · H · T · S, so chunks and batches of long pairs are smaller.
CHUNK_PAIRS = 1000  # pairs that are sorted by length and decoded together
CHUNK_CELLS = 1 << 19  # the sum of T · S over a chunk
# n·l² of a batch of n pairs padded to length l, since self-attention's weights are recorded too
BATCH_CELLS = 1 << 15

# How the weights of the layers become one table
METHODS = {
    "mean": "one layer, or the mean of several",
    "rollout": "through all layers and heads (Abnar & Zuidema 2020)",
}
# One layer, or the mean of several; from 0, or negative from the top
Layers = int | tuple[int, ...]
IdPair = tuple[Sequence[int], Sequence[int]]  # source and target, without </s>


class ForcedDecoding(NamedTuple):
    """What `force_decode` returns for a batch.

    S and T count </s>. Values at padded positions have no meaning.
    """

    log_probabilities: Tensor  # [B T]: of each output piece
    weights: Tensor | None  # [B L H T S]: of the attention over the source
    rollout: Tensor | None  # [B T S]: through all layers, if self-attention returns its weights
    p_t: Tensor | None  # [B T]: the centre of local attention, in source positions


@torch.inference_mode()
def force_decode(
    model: EncoderDecoder,
    source: Tensor,
    mask: Tensor | None,
    target: Tensor,
    output: Tensor,
    weights: bool = True,
) -> ForcedDecoding:
    """The log-probabilities of given targets and, with `weights`, the attention weights.

    source [B S], mask [B S] or None; target [B T]: the decoder's input, from <s>; output [B T]: the
    pieces it is to predict. `weights` need the explicit attention kernels, which are slower.
    """
    weights = weights and model.has_attention
    memory = model.encode(source, mask, weights)
    decoded = model.decode(target, model.start(memory), memory, weights)

    # The logits [B·T V] of a large batch would fill the memory, so they are computed in parts
    hidden = decoded.hidden.flatten(0, 1).split(MAX_COLUMNS)  # of [B·T D]
    outputs = output.flatten().split(MAX_COLUMNS)  # of [B·T]
    parts = []
    for columns, ids in zip(hidden, outputs, strict=True):
        logits = model.logits(columns).float()
        logits[:, BOS] = float("-inf")  # as in beam search
        parts.append(logits.log_softmax(-1).gather(1, ids[:, None]))
    log_probabilities = torch.cat(parts).view_as(output)  # [B T]

    encoder = memory.weights
    decoder = decoded.self_weights
    cross = decoded.weights
    through_layers = None
    if encoder is not None and decoder is not None and cross is not None:
        through_layers = rollout(encoder.float(), decoder.float(), cross.float())
    return ForcedDecoding(log_probabilities, cross, through_layers, decoded.p_t)


@dataclass
class AttentionRecord:
    """The forced decoding of one sentence pair: pieces, log-probabilities, attention weights."""

    source_pieces: list[str]
    target_pieces: list[str]
    log_probabilities: list[float]  # of each target piece, and of </s>
    weights: np.ndarray | None = None  # [L H T+1 S+1], </s> included on both sides
    # [T+1 S+1]: through all layers; None if self-attention returns no weights
    rollout: np.ndarray | None = None
    p_t: np.ndarray | None = None  # [T+1]: the centre of local attention, in source positions
    window_reach: float | None = None  # source positions of its window on either side of p_t

    @property
    def num_layers(self) -> int:
        """Layers whose weights are recorded; 0 without attention."""
        return 0 if self.weights is None else self.weights.shape[0]

    @property
    def num_heads(self) -> int:
        """Heads of each layer; 0 without attention."""
        return 0 if self.weights is None else self.weights.shape[1]

    def layer_weights(self, layer: Layers, head: int | None) -> np.ndarray:
        """The weights [T+1 S+1] of a layer or the mean of several; `head` None: of all heads.

        A layer above the last is the last one, a layer below the first is the first.
        """
        assert self.weights is not None
        if not isinstance(layer, int):
            return np.mean([self.layer_weights(single, head) for single in layer], axis=0)
        weights = self.weights[layer_index(layer, self.num_layers)]
        return weights.mean(0) if head is None else weights[head]

    def weight_table(self, method: str, layer: Layers, head: int | None) -> np.ndarray:
        """One table [T+1 S+1] by one of METHODS; layer and head are those of "mean".

        Raises UserError for a rollout that the model does not have.
        """
        if method == "mean":
            return self.layer_weights(layer, head)
        if self.rollout is None:
            raise UserError(
                "There is no attention rollout of this model: it needs the weights of "
                "self-attention."
            )
        return self.rollout


def layer_index(layer: int, num_layers: int) -> int:
    """The index of a layer from 0, where −1 is the last; out of range, the last or the first."""
    if layer < 0:
        layer += num_layers
    return min(max(layer, 0), num_layers - 1)


def pair_chunks(pairs: Iterable[IdPair]) -> Iterator[list[IdPair]]:
    """Consecutive pairs that are decoded together: at most CHUNK_PAIRS pairs and CHUNK_CELLS.

    A pair that is larger than this is a chunk of its own.
    """
    chunk: list[IdPair] = []
    cells = 0
    for source, target in pairs:
        size = (len(source) + 1) * (len(target) + 1)
        if chunk and (len(chunk) == CHUNK_PAIRS or cells + size > CHUNK_CELLS):
            yield chunk
            chunk = []
            cells = 0
        chunk.append((source, target))
        cells += size
    if chunk:
        yield chunk


def pair_batches(pairs: Sequence[IdPair], tokens: int) -> Iterator[list[int]]:
    """The indices of the pairs of each batch, longest pairs first.

    A batch of n pairs, all padded to length l, has n·l ≤ `tokens` and n·l² ≤ BATCH_CELLS. A pair
    that is larger than this is a batch of its own.
    """
    lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
    order = sorted(range(len(pairs)), key=lambda row: (-lengths[row], -len(pairs[row][0])))
    rows: list[int] = []
    for row in order:
        if rows:
            longest = lengths[rows[0]]
            if (len(rows) + 1) * longest > min(tokens, BATCH_CELLS // longest):
                yield rows
                rows = []
        rows.append(row)
    if rows:
        yield rows
