"""How probable a model finds the references."""

import math
from typing import NamedTuple

import numpy as np
import torch

from nmt.alignments import max_pieces_per_side
from nmt.data.batches import collate, in_order
from nmt.data.tokenizer import PAD
from nmt.decode.forced_decoding import force_decode
from nmt.decode.translator import Translator
from nmt.evaluate.lengths import count_words

LOGITS = 1 << 24  # numbers in the table of one batch
LARGEST = 700.0  # exp of more is no float


class Perplexity(NamedTuple):
    """Sums over a test set."""

    total: float  # −log p in nats
    pieces: int  # of the target, </s> counted
    words: int  # of the references
    left_out: int = 0  # pairs that are too long

    @property
    def per_piece(self) -> float:
        """exp(total / pieces): comparable between runs that cut the target alike."""
        return math.exp(min(self.total / max(self.pieces, 1), LARGEST))

    @property
    def per_word(self) -> float:
        """exp(total / words), the </s> in the sum: comparable between all runs that can spell every word as it is."""
        return math.exp(min(self.total / max(self.words, 1), LARGEST))


@torch.inference_mode()
def measure_perplexity(translator: Translator, pairs: list[tuple[str, str]]) -> Perplexity:
    """Forced decoding of the references, cut into their most probable pieces, in fp32 whatever the training's format.

    A pair with a blank side is left out, and so is one that is too long to look at.
    """
    tokenizers, device = translator.tokenizers, translator.device
    cut = [side.encode_all([pair[n] for pair in pairs]) for n, side in enumerate(tokenizers)]
    sizes = [sorted((len(cut[0][row]), len(cut[1][row]))) for row in range(len(pairs))]
    longest = max_pieces_per_side(translator)
    whole = [row for row, (shorter, longer) in enumerate(sizes) if shorter and longer <= longest]
    both = [(np.asarray(cut[0][row]), np.asarray(cut[1][row])) for row in whole]
    words = sum(count_words(pairs[row][1]) for row in whole)
    lengths = np.array([max(len(source), len(target)) for source, target in both])
    total, pieces = 0.0, 0
    for rows in in_order(lengths, max(LOGITS // tokenizers.target.size, 1)):
        batch = collate([both[row][0] for row in rows], [both[row][1] for row in rows]).to(device)
        with torch.autocast(device.type, enabled=False):
            found = force_decode(translator.model, batch.source, batch.mask, batch.target, batch.output, weights=False)
        total -= found.log_probabilities.double()[batch.output != PAD].sum().item()
        pieces += batch.tokens
    return Perplexity(total, pieces, words, sum(longer > longest for _, longer in sizes))
