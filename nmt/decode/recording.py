"""Forced decoding of pairs with a model and its tokenizers, as records for links, heatmaps and tables.

L layers, H heads, S source pieces, T target pieces.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches import collate
from nmt.data.tokenizer import Tokenizers
from nmt.decode.forced_decoding import AttentionRecord, IdPair, force_decode
from nmt.models.base import EncoderDecoder


def attention_tensors(
    model: EncoderDecoder, device: torch.device, pair: IdPair
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """The weights of one pair: encoder [L H S S], decoder [L H T T] and cross attention [L H T S], </s> counted.

    Encoder and decoder are None for a model without self-attention.
    """
    source, target = (np.asarray(side, dtype=np.int64) for side in pair)
    batch = collate([source], [target]).to(device)
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        memory = model.encode(batch.source, batch.mask, weights=True)
        output = model.decode(batch.target, model.start(memory), memory, weights=True)
    assert output.weights is not None
    encoder, decoder = (
        None if each is None else each[0].float().cpu() for each in (memory.weights, output.self_weights)
    )
    return encoder, decoder, output.weights[0].float().cpu()


def record_batch(
    model: EncoderDecoder, tokenizers: Tokenizers, device: torch.device, pairs: Sequence[IdPair]
) -> list[AttentionRecord]:
    """Forced decoding of one batch; the padding is removed from the records.

    Always in float32: in bf16 two nearly equal weights can change their order with the batch, and the links of a
    pair must not depend on the other pairs.
    """
    batch = collate(*([np.asarray(pair[side], dtype=np.int64) for pair in pairs] for side in (0, 1)))
    batch = batch.to(device)
    with torch.autocast(device.type, enabled=False):
        decoded = force_decode(model, batch.source, batch.mask, batch.target, batch.output)
    log_probabilities, weights, rollout, p_t = (
        None if tensor is None else tensor.float().cpu().numpy() for tensor in decoded
    )
    assert log_probabilities is not None
    records = []
    for row, (source, target) in enumerate(pairs):
        height, width = len(target) + 1, len(source) + 1
        records.append(
            AttentionRecord(
                tokenizers.source.pieces(source),
                tokenizers.target.pieces(target),
                log_probabilities[row, :height].tolist(),
                None if weights is None else weights[row, :, :, :height, :width].copy(),
                None if rollout is None else rollout[row, :height, :width].copy(),
                None if p_t is None else p_t[row, :height].copy(),
                None if p_t is None else model.window_reach,
            )
        )
    return records
