"""How many positions are searched at the same time, by the device, and batches that do not fit into its memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch

from nmt.config.schema import DecodeConfig

T = TypeVar("T")
ON_CPU = 8192  # source positions × beam
BYTES = 1 << 19  # of a GPU's memory for each; a big Transformer needs about 0.2 MB, with its logits


def with_batch_tokens(decode: DecodeConfig, device: torch.device) -> DecodeConfig:
    """The settings of search with decode.batch_tokens chosen by the device where it is null."""
    if decode.batch_tokens is not None:
        return decode
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    return replace(decode, batch_tokens=max(ON_CPU, memory // BYTES))


def in_parts(function: Callable[[slice], list[T]], count: int) -> list[T]:
    """function(slice(0, count)): a result for each of `count` sentences; in halves where the memory is too small."""
    try:
        return function(slice(0, count))
    except torch.OutOfMemoryError:
        if count == 1:
            raise
    torch.cuda.empty_cache()  # outside of the handler, which keeps the tensors of the failed search
    half = count // 2
    first = in_parts(function, half)
    return first + in_parts(lambda rows: function(slice(half + rows.start, half + rows.stop)), count - half)
