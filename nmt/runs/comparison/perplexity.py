"""Perplexity of the references under forced decoding."""

import math
from typing import NamedTuple

import numpy as np
import torch

from nmt.evaluate.extraction import max_pieces_per_side
from nmt.data.batches import batches_by_length, collate
from nmt.data.tokenizer import PAD
from nmt.decode.forced_decoding import force_decode
from nmt.decode.translator import Translator
from nmt.evaluate.lengths import count_words

MAX_LOGITS = 1 << 24  # numbers in the logits of one batch
MAX_EXPONENT = 700.0  # exp of more overflows a float


class Perplexity(NamedTuple):
    """Sums over a test set."""

    nll: float  # −log p in nats
    pieces: int  # of the target, </s> counted
    words: int  # of the references
    left_out: int = 0  # pairs that are too long

    @property
    def per_piece(self) -> float:
        """exp(nll / pieces): comparable between systems with the same target tokenizer."""
        return math.exp(min(self.nll / max(self.pieces, 1), MAX_EXPONENT))

    @property
    def per_word(self) -> float:
        """exp(nll / words), </s> included in nll: comparable between all systems that can spell every word."""
        return math.exp(min(self.nll / max(self.words, 1), MAX_EXPONENT))


@torch.inference_mode()
def measure_perplexity(translator: Translator, pairs: list[tuple[str, str]]) -> Perplexity:
    """Force-decode the references, tokenized into their most probable pieces, in fp32 whatever the run's precision.

    A pair with a blank side is left out, and so is one that is too long for forced decoding.
    """
    tokenizers, device = translator.tokenizers, translator.device
    encoded = tokenizers.encode_pairs(pairs)
    shorter, longer = (np.array([end(map(len, ids)) for ids in encoded], dtype=np.int64) for end in (min, max))
    max_length = max_pieces_per_side(translator)
    rows = np.flatnonzero((shorter > 0) & (longer <= max_length))
    nll, pieces = 0.0, 0
    for indices in batches_by_length(longer[rows], max(MAX_LOGITS // tokenizers.target.size, 1)):
        sources, targets = ([np.asarray(encoded[row][side]) for row in rows[indices]] for side in (0, 1))
        batch = collate(sources, targets).to(device)
        with torch.autocast(device.type, enabled=False):
            decoded = force_decode(
                translator.model, batch.source, batch.mask, batch.target, batch.output, weights=False
            )
        nll -= decoded.log_probabilities.double()[batch.output != PAD].sum().item()
        pieces += batch.tokens
    words = sum(count_words(pairs[row][1]) for row in rows)
    return Perplexity(nll, pieces, words, int((longer > max_length).sum()))
