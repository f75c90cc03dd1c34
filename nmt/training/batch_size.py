"""The padded positions of a batch where the configuration leaves them to the device, and batches that do not fit.

B batch, S source length, T target length.
"""

from collections.abc import Iterator

import numpy as np
import torch

from nmt.config.schema import Config
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import EOS
from nmt.models.base import EncoderDecoder
from nmt.training.distributed import World
from nmt.training.loss import training_loss
from nmt.training.precision import autocast
from nmt.training.state import TrainState

ON_CPU = 1024
PROBED = 2048  # positions of the batch whose memory is measured
SMALLEST, LARGEST = 256, 32768  # on a GPU
SHARE = 0.7  # of the free memory; the rest is for what a plan of other shapes wastes
OPTIMIZER = 2  # numbers that it keeps for each parameter, in float32


def choose_batch_tokens(
    config: Config, stored: TrainState | None, model: EncoderDecoder, dtype: torch.dtype, longest: int, world: World
) -> int:
    """train.batch_tokens; for null what the training was begun with, or else what this device has memory for.

    `longest`: positions of the longest sentence.
    """
    if config.train.batch_tokens is not None:
        return config.train.batch_tokens
    if stored is not None and stored.batch_tokens:
        return stored.batch_tokens
    device = next(model.parameters()).device
    if device.type != "cuda":
        return ON_CPU
    position = bytes_per_position(model, dtype, longest) * (2 if config.train.r_drop else 1)
    free = torch.cuda.mem_get_info(device)[0] - OPTIMIZER * 4 * sum(each.numel() for each in model.parameters())
    return int(world.broadcast(fitting(position, free)))


def fitting(bytes_per_position: float, free: float) -> int:
    """The largest power of two whose batches take at most SHARE of the free bytes, from SMALLEST to LARGEST."""
    tokens = LARGEST
    while tokens > SMALLEST and tokens * bytes_per_position > SHARE * free:
        tokens //= 2
    return tokens


def bytes_per_position(model: EncoderDecoder, dtype: torch.dtype, longest: int) -> float:
    """Memory of an update on a CUDA device for each padded position, in about PROBED of the longest sentences."""
    device, before = next(model.parameters()).device, 0
    rows = [np.full(max(1, longest - 1), EOS + 1)] * max(1, PROBED // longest)
    batch = collate(rows, rows).to(device)
    for _ in range(2):  # the first pass leaves the gradients, which do not grow with the batch
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        with autocast(device, dtype):
            decoded = model.train()(batch.source, batch.mask, batch.target)
            loss, _ = training_loss(model, decoded, batch.output, batch.real, smoothing=0.1)
        loss.backward()
        del decoded, loss
    peak = torch.cuda.max_memory_allocated(device)
    model.zero_grad()
    torch.cuda.empty_cache()
    return (peak - before) / batch.output.numel()


def split_batch(batch: Batch, parts: int) -> Iterator[Batch]:
    """A batch on the CPU in so many parts, in the order of its rows; fewer if it has fewer rows."""
    if parts == 1:
        yield batch
        return
    size, width = -(-len(batch.source) // parts), batch.output.size(1)
    real = torch.arange(batch.output.numel()) if batch.real is None else batch.real
    for start in range(0, len(batch.source), size):
        rows = slice(start, start + size)
        output, mask = batch.output[rows], None if batch.mask is None else batch.mask[rows]
        here = real[(real >= start * width) & (real < (start + size) * width)] - start * width
        links = None if batch.links is None else batch.links[rows]
        source_tokens = batch.source[rows].numel() if mask is None else int(mask.sum())
        places = None if len(here) == output.numel() else here
        yield Batch(batch.source[rows], mask, batch.target[rows], output, len(here), source_tokens, places, links)
