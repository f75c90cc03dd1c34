"""Pseudo-rehearsal (Robins 1995): a model that is trained further keeps what it knew.

Its old text is not needed. Random inputs are learnt beside the new text, with the outputs that the
network had for them before. Here an input is a source and the beginning of a target, both of random
pieces, and the output is the distribution of the next piece, as in word-level distillation
(Kim & Rush 2016 §3.1).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from nmt.corpus.tags import OPUS_TAG
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.models.base import EncoderDecoder
from nmt.models.lora import without_lora

LENGTHS = (3, 20)  # pieces of a random source; a target has up to two more or fewer
SHARE = 1 / 3  # random positions for each position of new text
MOST_POSITIONS = 1024  # random ones of a batch
CHUNK = 64  # of them, whose distributions are in memory at a time


class Rehearsal:
    """Keeps what `parent` knows, the model as it was at the start.

    None: that is the model without its LoRA.
    """

    def __init__(
        self, parent: EncoderDecoder | None, tokenizers: Tokenizers, known_pieces: int = 0
    ) -> None:
        """Rehearse the first `known_pieces` ids (0: all) and the languages with tags among them."""
        self.parent = None if parent is None else parent.eval().requires_grad_(False)
        self.tokenizers = tokenizers
        known = known_pieces or max(tokenizer.size for tokenizer in tokenizers)
        self.pieces = [piece_probabilities(tokenizer, known) for tokenizer in tokenizers]
        tags = {tag for tag in tokenizers.source.prefixes if not OPUS_TAG.fullmatch(tag)}
        for tokenizer in tokenizers:
            for tag, ids in tokenizer.prefixes.items():
                if max(ids, default=0) >= known:
                    tags.discard(tag)
        self.tags = sorted(tags) or [""]

    def batch(self, generator: np.random.Generator, positions: int) -> Batch:
        """Random sentences of one length, behind the prefixes of a random tag.

        They have at most `positions` positions on either side, but at least one sentence.
        """
        source_length = int(generator.integers(LENGTHS[0], LENGTHS[1] + 1))
        target_length = max(1, source_length + int(generator.integers(-2, 3)))
        tag = generator.choice(self.tags)
        rows = max(1, positions // (max(source_length, target_length) + 1))
        sides = []
        lengths = (source_length, target_length)
        for tokenizer, pieces, length in zip(self.tokenizers, self.pieces, lengths, strict=True):
            ids = generator.choice(len(pieces), (rows, length), p=pieces)
            prefix = np.array(tokenizer.prefixes.get(tag, ()), ids.dtype)
            prefixes = np.tile(prefix, (rows, 1))
            sides.append(list(np.concatenate((prefixes, ids), 1)))
        return collate(*sides)

    @contextmanager
    def opened_parent(self, model: EncoderDecoder) -> Iterator[EncoderDecoder]:
        """The parent in evaluation mode; the model is as before after the block."""
        if self.parent is not None:
            yield self.parent
            return
        training = model.training
        try:
            with without_lora(model):
                yield model.eval()
        finally:
            model.train(training)

    def loss(self, model: EncoderDecoder, generator: np.random.Generator, positions: int) -> Tensor:
        """The mean of KL(parent ‖ model) over the next pieces of a random batch, in nats."""
        device = next(model.parameters()).device
        batch = self.batch(generator, min(MOST_POSITIONS, int(SHARE * positions))).to(device)
        inputs = (batch.source, batch.mask, batch.target)
        with torch.no_grad(), self.opened_parent(model) as parent:
            old = parent(*inputs).hidden.flatten(0, 1)  # [N D]
        new = model(*inputs).hidden.flatten(0, 1)  # [N D]
        output = model.output if self.parent is None else self.parent.output
        layer = (model.output.weight, model.output.bias)
        return LinearDivergence.apply(new, *layer, old, output) / len(new)


class LinearDivergence(Function):
    """Σ_n KL(p_n ‖ q_n) with q = softmax(h Wᵀ + b), and its gradients, a few rows at a time.

    p is the softmax of another layer over its own inputs, which is not trained. As in
    `LinearCrossEntropy`, the forward pass computes the gradients too: d KL / d logits = q − p.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        old_hidden: Tensor,
        old_output: nn.Linear,
    ) -> Tensor:
        """hidden [N D], weight [V D], bias [V], old_hidden [N D] → the divergence, summed."""
        needed: tuple[bool, ...] = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        divergence = hidden.new_zeros((), dtype=torch.float32)
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight) if needed[1] else None
        of_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
        for start in range(0, len(hidden), CHUNK):
            rows = slice(start, start + CHUNK)
            old = old_output(old_hidden[rows]).float().log_softmax(-1)  # [C V]
            new = functional.linear(hidden[rows], weight, bias).float().log_softmax(-1)  # [C V]
            probabilities = old.exp()
            divergence += (old.sub_(new).mul_(probabilities)).sum()
            gradient = new.exp_().sub_(probabilities)
            of_hidden[rows] = gradient.to(hidden.dtype) @ weight.to(hidden.dtype)
            if of_weight is not None:
                of_weight += gradient.to(hidden.dtype).t() @ hidden[rows]
            if of_bias is not None:
                of_bias += gradient.sum(0)
        ctx.save_for_backward(of_hidden, of_weight, of_bias)  # type: ignore[arg-type]
        return divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scaled = []
        for stored in ctx.saved_tensors:  # type: ignore[attr-defined]
            scaled.append(None if stored is None else stored * gradient)
        return *scaled, None, None


def piece_probabilities(tokenizer: Tokenizer, known: int) -> np.ndarray:
    """How probable each id is as a piece of text; 0 for special pieces and ids from `known` on.

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
