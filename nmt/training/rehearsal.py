"""Pseudo-rehearsal (Robins 1995): a model that is trained further keeps what it knew, without any
text of its own.

Random inputs are learnt beside the new text, with the outputs that the network had for them before.
Here an input is a source and the beginning of a target, both of random pieces, and the output is
the distribution of the next piece, as in word-level distillation (Kim & Rush 2016 §3.1).
"""

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches import Batch, collate
from nmt.data.tags import OPUS_TAG
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.models.base import EncoderDecoder

LENGTHS = (3, 20)  # pieces of a random source; a target has up to two more or fewer
SHARE = 1 / 3  # random positions for each position of new text
MOST_POSITIONS = 1024  # random ones of a batch, whose distributions are in memory as a whole


class Rehearsal:
    """What is kept of `parent`, the model as it was at the start."""

    def __init__(
        self, parent: EncoderDecoder, tokenizers: Tokenizers, known_pieces: int = 0
    ) -> None:
        """Only the first `known_pieces` ids (0: all) and the languages whose tags are among them
        are rehearsed."""
        self.parent = parent.eval().requires_grad_(False)
        known = known_pieces or max(each.size for each in tokenizers)
        self.tokenizers = tokenizers
        self.pieces = [piece_probabilities(each, known) for each in tokenizers]
        unknown = {
            tag
            for each in tokenizers
            for tag, ids in each.prefixes.items()
            if max(ids, default=0) >= known
        }
        # the others are the same
        own = {tag for tag in tokenizers.source.prefixes if not OPUS_TAG.fullmatch(tag)}
        self.tags = sorted(own - unknown) or [""]

    def batch(self, generator: np.random.Generator, positions: int) -> Batch:
        """Random sentences of one length, so many positions at most; behind the prefixes of a
        random tag."""
        source_length = int(generator.integers(LENGTHS[0], LENGTHS[1] + 1))
        target_length = max(1, source_length + int(generator.integers(-2, 3)))
        tag = generator.choice(self.tags)
        rows = max(1, positions // (max(source_length, target_length) + 1))
        sides = []
        for tokenizer, pieces, length in zip(
            self.tokenizers, self.pieces, (source_length, target_length), strict=True
        ):
            ids = generator.choice(len(pieces), (rows, length), p=pieces)
            prefix = np.tile(np.array(tokenizer.prefixes.get(tag, ()), ids.dtype), (rows, 1))
            sides.append(list(np.concatenate((prefix, ids), 1)))
        return collate(*sides)

    def loss(self, model: EncoderDecoder, generator: np.random.Generator, positions: int) -> Tensor:
        """The mean of KL(parent ‖ model) over the next pieces of a random batch, in nats."""
        device = next(model.parameters()).device
        batch = self.batch(generator, min(MOST_POSITIONS, int(SHARE * positions))).to(device)
        with torch.no_grad():
            kept = self.parent.logits(self.parent(*batch[:3]).hidden).float().log_softmax(-1)
        found = model.logits(model(*batch[:3]).hidden).float().log_softmax(-1)
        return (kept.exp() * (kept - found)).sum(-1).mean()


def piece_probabilities(tokenizer: Tokenizer, known: int) -> np.ndarray:
    """How probable each id is as a piece of text, 0 for special pieces and from id `known` on.

    exp(score) in a unigram model; 1 / rank in a BPE model, whose scores are ranks (Zipf's law).
    """
    sampler = tokenizer.sampler
    vocabulary = sampler.vocabulary
    weights = np.zeros(tokenizer.size)
    for piece, score in vocabulary.scores.items():
        if score < 0:  # not a word that is a piece of its own
            weights[vocabulary.ids[piece]] = 1 / (1 - score) if sampler.dropout else np.exp(score)
    weights[known:] = 0
    return weights / weights.sum()
