"""Pseudo-rehearsal (Robins 1995): a model that is trained further keeps what it knew.

Its old text is not needed. Random inputs are learnt beside the new text, with the outputs that the
model had for them before. Here an input is a source and the beginning of a target, both of random
pieces, and the output is the distribution of the next piece, as in word-level distillation
(Kim & Rush 2016 §3.1).

N target positions of all sentences, D model size.
"""

import numpy as np
import torch
from torch import Tensor

from nmt.corpus.tags import OPUS_TAG
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.models.base import EncoderDecoder
from nmt.training.loss import LinearDivergence

LENGTHS = (3, 20)  # pieces of a random source; a target has up to two more or fewer
SHARE = 1 / 3  # random positions for each position of new text
MOST_POSITIONS = 1024  # of a random batch


class Rehearsal:
    """The loss that keeps what the parent knows, which is the model before this training."""

    def __init__(
        self, parent: EncoderDecoder, tokenizers: Tokenizers, known_pieces: int = 0
    ) -> None:
        """Rehearse the first `known_pieces` ids (0: all) and the languages with tags among them."""
        self.parent = parent.eval().requires_grad_(False)
        self.tokenizers = tokenizers
        known = known_pieces or max(tokenizer.size for tokenizer in tokenizers)
        self.probabilities = [piece_probabilities(tokenizer, known) for tokenizer in tokenizers]
        tags = {tag for tag in tokenizers.source.prefixes if not OPUS_TAG.fullmatch(tag)}
        for tokenizer in tokenizers:
            for tag, ids in tokenizer.prefixes.items():
                if max(ids, default=0) >= known:
                    tags.discard(tag)
        self.tags = sorted(tags) or [""]  # "": no tag

    def batch(self, generator: np.random.Generator, positions: int) -> Batch:
        """Random pairs of one source length and one target length.

        Both sides begin with the prefixes of a random tag. There are at most `positions` positions
        on either side, prefixes not counted, but at least one pair.
        """
        source_length = int(generator.integers(LENGTHS[0], LENGTHS[1] + 1))
        target_length = max(1, source_length + int(generator.integers(-2, 3)))
        tag = generator.choice(self.tags)
        rows = max(1, positions // (max(source_length, target_length) + 1))
        sides = []
        lengths = (source_length, target_length)
        for tokenizer, probabilities, length in zip(
            self.tokenizers, self.probabilities, lengths, strict=True
        ):
            ids = generator.choice(tokenizer.size, (rows, length), p=probabilities)
            prefix = np.array(tokenizer.prefixes.get(tag, ()), ids.dtype)
            prefixes = np.tile(prefix, (rows, 1))
            sides.append(list(np.concatenate((prefixes, ids), 1)))
        return collate(*sides)

    def loss(self, model: EncoderDecoder, generator: np.random.Generator, positions: int) -> Tensor:
        """The mean of KL(parent ‖ model) over the next pieces of a random batch, in nats.

        `positions` are those of the new text, beside which the batch is learnt.
        """
        device = next(model.parameters()).device
        batch = self.batch(generator, min(MOST_POSITIONS, int(SHARE * positions))).to(device)
        inputs = (batch.source, batch.mask, batch.target)
        with torch.no_grad():
            old = self.parent(*inputs).hidden.flatten(0, 1)  # [N D]
        new = model(*inputs).hidden.flatten(0, 1)  # [N D]
        output = model.output
        total = LinearDivergence.apply(new, output.weight, output.bias, old, self.parent.output)
        return total / len(new)


def piece_probabilities(tokenizer: Tokenizer, known: int) -> np.ndarray:
    """How probable each id is as a piece of text; 0 for special pieces and ids from `known` on.

    It is proportional to exp(score) in a unigram model. In a BPE model the piece of rank r has the
    score 1 − r, and its probability is proportional to 1 / r (Zipf's law). Pieces with the score 0
    get 0, because added words have that score; so does the first piece of a BPE model.
    """
    sampler = tokenizer.sampler
    is_bpe = sampler.dropout
    weights = np.zeros(tokenizer.size)
    for piece, score in sampler.scores.items():
        if score < 0:
            weights[sampler.ids[piece]] = 1 / (1 - score) if is_bpe else np.exp(score)
    weights[known:] = 0
    return weights / weights.sum()
