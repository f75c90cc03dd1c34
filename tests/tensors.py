"""Random tensors and batches for the tests of attention and models, and how equal they must be."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from conftest import VOCABULARY
from hypothesis import strategies as st
from torch import Tensor

from nmt.data.batches import Batch, collate
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import EOS
from nmt.decode.translator import Query

EXACT = {"atol": 1e-10, "rtol": 0}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}
GARBAGE = EOS + 1  # a piece of no `batch_of`, for places where nothing may be attended to
seeds = st.integers(0, 2**32 - 1)


def unit(*shape: int) -> Tensor:
    """Numbers between −1 and 1, in float64."""
    return 2 * torch.rand(shape, dtype=torch.float64) - 1


def visible(lengths: list[int]) -> Tensor:
    """[B S]: True where no padding is."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def batch_of(sources: list[int], targets: list[int], seed: int = 1) -> Batch:
    """Random sentences of so many pieces, </s> counted."""
    random = np.random.default_rng(seed)
    sides = []
    for lengths in (sources, targets):
        sides.append([random.integers(GARBAGE + 1, VOCABULARY, length - 1) for length in lengths])
    return collate(*sides)


def queries(sources: Iterable[Sequence[int] | np.ndarray]) -> list[Query]:
    """A search of each of these ids."""
    return [Query(Encoded(map(int, ids))) for ids in sources]


def uneven() -> Batch:
    """Four pairs of different lengths; the shortest source is </s> alone."""
    return batch_of([5, 1, 8, 3], [7, 4, 1, 6])
