"""How many rows a product has.

On a CPU PyTorch's bf16 products are oneDNN's, which compiles each anew for a number of rows that it has not met: half a
millisecond to two, as long as many of them take. Batches of sentences have ever new numbers of rows; so products are
over a multiple of ROWS, with rows of zeros at the end that nobody reads.
"""

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 64


def compiles(inputs: Tensor) -> bool:
    """Whether a product of these inputs, inside or outside autocast, is one that is compiled for its number of rows."""
    if inputs.device.type != "cpu":
        return False
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else inputs.dtype
    return low == torch.bfloat16


def even(inputs: Tensor) -> Tensor:
    """[M D] → [M' D], M' the next multiple of ROWS."""
    missing = -len(inputs) % ROWS
    return functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs


def evened(inputs: Tensor) -> Tensor:
    """[… D] → [M D] as one row of tokens, evened where that pays: few rows are of few numbers anyway."""
    rows = inputs.flatten(0, -2)
    return even(rows) if len(rows) > ROWS and compiles(inputs) else rows
