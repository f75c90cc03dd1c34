"""Positional encodings of the Transformer: sinusoidal (two kinds), learned, rotary, none.

Positions count from 0. `start` is that of the first column: an int, or a tensor of one element
where reading it from the device would block.

B batch, T length, D model size, H heads, K head size.
"""

import math
from abc import ABC

import torch
from torch import Tensor, nn

from nmt.attention.projection import sum_dtype
from nmt.errors import UserError, choose

Rotation = tuple[Tensor, Tensor]  # cosines, and sines with the signs that `rotate` needs, [T K]
Start = int | Tensor


class Positions(nn.Module, ABC):
    """Something added to the embeddings, or a rotation of queries and keys, or neither.

    All are constructed from model size, head size, and the number of positions that a table has.
    """

    def __init__(self, size: int, head_size: int, max_positions: int) -> None:
        super().__init__()

    @property
    def max_length(self) -> int | None:
        """The most positions of a sequence; None: any number."""
        return None

    def forward(self, embedded: Tensor, start: Start) -> Tensor:
        """embedded [B T D] → the same with positions added."""
        return embedded

    def rotation(self, start: Start, length: int, like: Tensor) -> Rotation | None:
        """What `rotate` needs for queries and keys of self-attention [T K]; None without rotation.

        `like` gives the device and the dtype, which is float32 at least.
        """
        return None


class Sinusoidal(Positions):
    """sin and cos of position / 10000^(2i/D), added (Vaswani 2017 §3.5)."""

    offset = 0  # what the formula has for position 0
    ends_at_longest = False  # see `sinusoids`

    def __init__(self, size: int, head_size: int, max_positions: int) -> None:
        super().__init__(size, head_size, max_positions)
        self.table = torch.empty(0, size)  # of positions from 0; made when they are needed

    def forward(self, embedded: Tensor, start: Start) -> Tensor:
        _, length, size = embedded.shape
        if isinstance(start, Tensor) or torch.compiler.is_compiling():
            first = self.offset + start
            return embedded + sinusoids(first, length, size, embedded, self.ends_at_longest)
        stop = start + length
        table = self.table
        is_like = table.dtype == embedded.dtype and table.device == embedded.device
        if len(table) < stop or not is_like:
            # Longer than needed, so that search seldom has to make it again, and outside inference
            # mode, so that training can also use it
            with torch.inference_mode(False):
                table = sinusoids(self.offset, 2 * stop, size, embedded, self.ends_at_longest)
            self.table = table  # another thread may put its own here
        return embedded + table[start:stop]


class FairseqSinusoidal(Sinusoidal):
    """sin and cos of (position + 2) / 10000^(i/(D/2 − 1)), as in fairseq, M2M-100 and NLLB-200."""

    offset = 2
    ends_at_longest = True


class Learned(Positions):
    """A row of a table for each position, added (Gehring et al. 2017 §3.1).

    Vaswani 2017 compares it in table 3, row E. Like the embeddings of the pieces, the table is
    initialised with standard deviation D^-½ and multiplied by √D.
    """

    def __init__(self, size: int, head_size: int, max_positions: int) -> None:
        super().__init__(size, head_size, max_positions)
        self.table = nn.Parameter(torch.empty(max_positions, size))
        nn.init.normal_(self.table, std=size**-0.5)

    @property
    def max_length(self) -> int:
        return len(self.table)

    def forward(self, embedded: Tensor, start: Start) -> Tensor:
        start = int(start)
        stop = start + embedded.size(1)
        if stop > self.max_length:
            raise UserError(
                f"A sentence has {stop} pieces or more, but this model has learned "
                f"model.max_positions={self.max_length} positions; shorten it, or train with a "
                "larger model.max_positions or other model.positions."
            )
        return embedded + math.sqrt(embedded.size(2)) * self.table[start:stop]


class Rotary(Positions):
    """Queries and keys are rotated by angles ∝ their position (Su et al. 2021 §3.2.2).

    A score then depends on the distance alone. Deviation: dimension i is paired with i + K/2, not
    with its neighbour (the same up to the order of the dimensions).
    """

    def __init__(self, size: int, head_size: int, max_positions: int) -> None:
        super().__init__(size, head_size, max_positions)
        self.head_size = head_size

    def rotation(self, start: Start, length: int, like: Tensor) -> Rotation | None:
        """(cos, cos) and (−sin, sin) of position · 10000^(−2i/K)."""
        dtype = sum_dtype(like)
        position = (start + torch.arange(length, device=like.device)).to(dtype)
        dimension = torch.arange(0, self.head_size, 2, device=like.device, dtype=dtype)
        angle = position[:, None] * 10000.0 ** (-dimension / self.head_size)  # [T K/2]
        cosine = angle.cos()
        sine = angle.sin()
        return torch.cat((cosine, cosine), 1), torch.cat((-sine, sine), 1)


class NoPositions(Positions):
    """No positions: the order comes from scores that depend on distance."""


def rotate(inputs: Tensor, rotation: Rotation) -> Tensor:
    """[B H T K] with each pair (x_i, x_{i + K/2}) rotated by its angle."""
    cosine, sine = rotation
    partner = inputs.roll(inputs.size(-1) // 2, -1)  # x_{i + K/2} at i, x_i at i + K/2
    return torch.addcmul(inputs * cosine, partner, sine).to(inputs.dtype)


def sinusoids(
    start: Start, length: int, size: int, like: Tensor, ends_at_longest: bool = False
) -> Tensor:
    """sin and cos of position / 10000^(2i/D), for the positions from `start` (Vaswani 2017 §3.5).

    → [T D], computed in float32 at least, then cast to the dtype of `like`. D is even.
    `ends_at_longest`: position / 10000^(i/(D/2 − 1)), so that the last wavelength is 2π · 10000
    itself, as in tensor2tensor and fairseq.
    """
    dtype = sum_dtype(like)
    position = (start + torch.arange(length, device=like.device)).to(dtype)  # [T]
    dimension = torch.arange(0, size, 2, device=like.device, dtype=dtype)  # [D/2], 2i
    longest = size - 2 if ends_at_longest else size
    frequency = torch.exp(dimension * (-math.log(10000.0) / longest))
    angle = position[:, None] * frequency  # [T D/2]
    return torch.cat((angle.sin(), angle.cos()), 1).to(like.dtype)


POSITIONS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "sinusoidal_fairseq": FairseqSinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "none": NoPositions,
}


def make_positions(name: str, size: int, heads: int, max_positions: int) -> Positions:
    """The positional encoding called `name`; raises UserError for an unknown name."""
    return choose("positions", name, POSITIONS)(size, size // heads, max_positions)
