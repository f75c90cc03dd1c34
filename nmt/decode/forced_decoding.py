"""Forced decoding: a given target is decoded piece by piece, and its probabilities and attention
weights are recorded.

Beam search runs the fused kernels, which return no weights; heatmaps, links and alignment error
rates come from here, for finished translations too. B batch, L layers, H heads, D model size, S
source pieces, T target pieces.
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

MAX_COLUMNS = 1024  # target pieces whose logits exist at the same time
CHUNK_PAIRS = 1000  # pairs that are sorted by length and decoded together
# What is kept of a pair grows with L · H · T · S, so chunks and batches of long pairs are smaller.
CHUNK_CELLS = 1 << 19  # T · S of a chunk
# max(T, S)² of a batch, because self-attention's weights are recorded as well
BATCH_CELLS = 1 << 15
# one layer, or several whose mean is taken; from 0, negative from the top
Layers = int | tuple[int, ...]
IdPair = tuple[Sequence[int], Sequence[int]]  # source and target, without </s>


class ForcedDecoding(NamedTuple):
    """What `force_decode` returns for a batch."""

    log_probabilities: Tensor  # [B T], of each output piece
    weights: Tensor | None  # [B L H T S], of the attention over the source
    # [B T S]: attention rollout through all layers, where self-attention returns its weights
    rollout: Tensor | None
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
    """source [B S], target [B T] as the decoder's input, output [B T] as what it should predict.

    With `weights` the explicit attention kernels run, and a model with attention returns its
    weights as well.
    """
    weights = weights and model.has_attention
    memory = model.encode(source, mask, weights)
    decoded = model.decode(target, model.start(memory), memory, weights)
    through_layers = None
    if (
        memory.weights is not None
        and decoded.self_weights is not None
        and decoded.weights is not None
    ):
        through_layers = rollout(
            memory.weights.float(), decoded.self_weights.float(), decoded.weights.float()
        )
    # The logits of at most MAX_COLUMNS columns exist at the same time.
    chunks = zip(
        decoded.hidden.flatten(0, 1).split(MAX_COLUMNS),
        output.flatten().split(MAX_COLUMNS),
        strict=True,
    )
    parts = []
    for columns, ids in chunks:
        logits = model.logits(columns).float()
        logits[:, BOS] = float("-inf")  # as in beam search
        parts.append(logits.log_softmax(-1).gather(1, ids[:, None]))
    log_probabilities = torch.cat(parts).view_as(output)
    return ForcedDecoding(log_probabilities, decoded.weights, through_layers, decoded.p_t)


@dataclass
class AttentionRecord:
    """One sentence pair under forced decoding: its pieces, their log-probabilities and the
    attention weights."""

    source_pieces: list[str]
    target_pieces: list[str]
    log_probabilities: list[float]  # of each target piece, and of </s>
    weights: np.ndarray | None = None  # [L H T+1 S+1], </s> included on both sides
    # [T+1 S+1]: through all layers; None where self-attention returns no weights
    rollout: np.ndarray | None = None
    p_t: np.ndarray | None = None  # [T+1]: the centre of local attention, in source positions
    window_reach: float | None = None  # source positions in the window on either side of p_t

    @property
    def num_layers(self) -> int:
        """Layers whose weights are recorded; 0 without attention."""
        return 0 if self.weights is None else self.weights.shape[0]

    @property
    def num_heads(self) -> int:
        """Heads of each layer; 0 without attention."""
        return 0 if self.weights is None else self.weights.shape[1]

    def layer_weights(self, layer: Layers, head: int | None) -> np.ndarray:
        """[T+1 S+1]: one head of a layer, or the mean of its heads; the mean of several layers.

        A layer above the last or below the first is the last or first.
        """
        assert self.weights is not None
        if not isinstance(layer, int):
            return np.mean([self.layer_weights(single, head) for single in layer], axis=0)
        weights = self.weights[layer_index(layer, self.num_layers)]
        return weights.mean(0) if head is None else weights[head]

    def read(self, method: str, layer: Layers, head: int | None) -> np.ndarray:
        """[T+1 S+1] by one of METHODS; raises UserError for a rollout where self-attention returns
        no weights."""
        if method == "mean":
            return self.layer_weights(layer, head)
        if self.rollout is None:
            raise UserError(
                "There is no attention rollout of this model: it needs the weights of "
                "self-attention."
            )
        return self.rollout


METHODS = {"mean": "one layer", "rollout": "through all layers and heads (Abnar & Zuidema 2020)"}


def layer_index(layer: int, num_layers: int) -> int:
    """The index from 0 of a layer that may be negative (-1 is the last); one out of range is the
    last or first."""
    return min(max(layer if layer >= 0 else num_layers + layer, 0), num_layers - 1)


def pair_chunks(pairs: Iterable[IdPair]) -> Iterator[list[IdPair]]:
    """Consecutive pairs that are decoded together: at most CHUNK_PAIRS, and at most CHUNK_CELLS
    unless it is one."""
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
    """Indices of pairs to decode in a batch, longest first: at most `tokens` padded positions and
    BATCH_CELLS squares.

    A pair that exceeds these bounds alone is a batch of its own.
    """
    lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
    rows: list[int] = []
    for row in sorted(range(len(pairs)), key=lambda row: (-lengths[row], -len(pairs[row][0]))):
        longest = lengths[rows[0]] if rows else 0
        if rows and (len(rows) + 1) * longest > min(tokens, BATCH_CELLS // longest):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
