"""Where a model looked at a pair, and how many pairs are looked at together.

L layers, H heads, S source pieces, T target pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.errors import UserError

LOOKS = 1000  # pairs that are sorted by length and looked at together
# What is kept of a pair grows with L · H · T · S, so windows and batches of long pairs are smaller.
WINDOW_CELLS = 1 << 19  # T · S of a window
BATCH_CELLS = 1 << 15  # max(T, S)² of a batch: self-attention's weights are there as well
Layers = int | tuple[int, ...]  # one layer, or several whose mean is taken; from 0, negative from the top
IdPair = tuple[Sequence[int], Sequence[int]]  # source and target, without </s>


@dataclass
class AttentionRecord:
    """One pair under forced decoding: what was written, how likely, and where the model looked."""

    source_pieces: list[str]
    target_pieces: list[str]
    log_probabilities: list[float]  # of each target piece, and of </s>
    weights: np.ndarray | None  # [L H T+1 S+1], </s> included on both sides
    rollout: np.ndarray | None = None  # [T+1 S+1]: through all layers; None where self-attention tells no weights
    centre: np.ndarray | None = None  # [T+1]: p_t of local attention, in source positions
    reach: float | None = None  # source positions that it sees on either side of p_t

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return 0 if self.weights is None else self.weights.shape[1]

    def chosen(self, layer: Layers, head: int | None) -> np.ndarray:
        """[T+1 S+1]: one head of a layer, or the mean of its heads; the mean of several layers.

        A layer too high or low is the last or first.
        """
        assert self.weights is not None
        if not isinstance(layer, int):
            return np.mean([self.chosen(one, head) for one in layer], axis=0)
        layers = len(self.weights)
        place = min(max(layer if layer >= 0 else layers + layer, 0), layers - 1)
        return self.weights[place].mean(0) if head is None else self.weights[place, head]

    def seen(self, method: str, layer: Layers, head: int | None) -> np.ndarray:
        """[T+1 S+1] by one of METHODS; `rollout` goes through all layers and heads, so layer and head mean nothing."""
        return METHODS[method](self, layer, head)

    def rolled(self, layer: Layers, head: int | None) -> np.ndarray:
        """[T+1 S+1]: attention rollout (Abnar & Zuidema 2020); raises UserError where there is none."""
        if self.rollout is None:
            raise UserError("There is no attention rollout of this model: it needs the weights of self-attention.")
        return self.rollout


METHODS: dict[str, Callable[[AttentionRecord, Layers, int | None], np.ndarray]] = {
    "mean": AttentionRecord.chosen,
    "rollout": AttentionRecord.rolled,
}


def windows(pairs: Iterable[IdPair]) -> Iterator[list[IdPair]]:
    """Pairs in order, as many as are looked at before the first is shown."""
    window: list[IdPair] = []
    cells = 0
    for source, target in pairs:
        size = (len(source) + 1) * (len(target) + 1)
        if window and (len(window) == LOOKS or cells + size > WINDOW_CELLS):
            yield window
            window, cells = [], 0
        window.append((source, target))
        cells += size
    if window:
        yield window


def look_batches(pairs: Sequence[IdPair], tokens: int) -> Iterator[list[int]]:
    """Rows to look at together, longest first: at most `tokens` padded positions and BATCH_CELLS squares of them."""
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
