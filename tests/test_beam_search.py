"""Beam search against a search of one hypothesis at a time, and of one sentence at a time.

That hypotheses of every model have the scores of forced decoding: test_score.py.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nmt.data.batches import collate
from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.decode.beam_search import search, top_candidates
from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory

WORDS = (UNK, 4, 5)  # what may be written when the vocabulary has six pieces


class Table(EncoderDecoder):
    """Logits [N T V V] indexed by sentence (its first piece), step and last piece."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table
        self.output = nn.Identity()

    def encode(self, source: Tensor, mask: Tensor | None) -> Memory:
        return Memory(source[:, :1, None], None, {})

    def start(self, memory: Memory) -> DecoderState:
        return {"step": torch.zeros(len(memory.values), dtype=torch.long)}

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        steps = state["step"][:, None] + torch.arange(target.size(1))
        sentences = memory.values[:, :, 0].repeat_interleave(len(target) // len(memory.values), 0)
        return DecoderOutput(self.table[sentences, steps, target], None, {"step": steps[:, -1] + 1})


def random_table(
    sentences: int, steps: int, seed: int, scale: float = 2.0, pieces: int = 6
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(sentences, steps, pieces, pieces, generator=generator)


def sources(number: int) -> Tensor:
    return torch.arange(number)[:, None]


def without_bos(logits: Tensor) -> Tensor:
    """<s> is no piece that a target can have."""
    return logits.index_fill(-1, torch.tensor(BOS), float("-inf"))


def plain_search(
    table: Tensor, beam: int, alpha: float, limit: int, begin: list[int], early_stopping: bool
) -> list[tuple[float, list[int]]]:
    """As transformers' `generate` does it, hypothesis by hypothesis."""
    log_probabilities = without_bos(table.double()).log_softmax(-1).tolist()
    running = [(0.0, [BOS, *begin])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(len(begin) + 1, limit + 1):
        pieces = [EOS] if length == limit else [EOS, *WORDS]
        extended = []
        for score, ids in running:
            for piece in pieces:
                step = log_probabilities[length - 1][ids[-1]][piece]
                extended.append((score + step, [*ids, piece]))
        extended.sort(reverse=True)
        for score, ids in extended[:beam]:
            if ids[-1] == EOS:
                ended.append((score / length**alpha, ids[1:-1]))
        is_full = len(ended) >= beam
        if not early_stopping:
            ended = sorted(ended, reverse=True)
        ended = ended[:beam]
        running = [(score, ids) for score, ids in extended[: 2 * beam] if ids[-1] != EOS][:beam]
        if is_full and (early_stopping or not running):
            break
        if is_full and ended[-1][0] >= running[0][0] / length**alpha:
            break
    return sorted(ended, reverse=True)


@given(
    sentences=st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5)), min_size=1, max_size=3
    ),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 1.4]),
    beam=st.sampled_from([1, 2, 3, 4, 81]),
    begin=st.lists(st.sampled_from(WORDS), max_size=2),
    early_stopping=st.booleans(),
)
@settings(max_examples=100)
def test_search_is_that_of_one_hypothesis_at_a_time(sentences, alpha, beam, begin, early_stopping):
    """Sentences are closed at different times, and <pad> and <s> would be the best pieces.

    A beam of 81 finds every sentence that there is.
    """
    table = torch.cat([random_table(1, 7, seed) for seed, _ in sentences])
    table[..., [PAD, BOS]] += 6.0
    limits = [len(begin) + limit for _, limit in sentences]
    found = search(
        Table(table),
        sources(len(sentences)),
        None,
        beam,
        alpha,
        torch.tensor(limits),
        begin=torch.tensor([begin] * len(sentences)) if begin else None,
        early_stopping=early_stopping,
    )
    for row, limit, hypotheses in zip(table, limits, found, strict=True):
        wanted = plain_search(row, beam, alpha, limit, begin, early_stopping)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == pytest.approx([score for score, _ in wanted], abs=1e-5)
        texts = {tuple(hypothesis.ids) for hypothesis in hypotheses}
        assert texts == {tuple(ids) for _, ids in wanted}


def batch_of(lengths: list[int]):
    random = np.random.default_rng(1)
    ids = [random.integers(4, 50, length) for length in lengths]
    return collate(ids, ids)


def sharper(model: EncoderDecoder) -> EncoderDecoder:
    """Untrained logits are nearly flat and nothing ends; give them a deviation of 3, and a high
    logit to the end."""
    model.requires_grad_(False)
    for parameter in model.parameters():
        parameter *= 3
    batch = batch_of(LENGTHS)
    size = model.output.in_features
    model.output = nn.Linear(size, 50).double().requires_grad_(False)
    scale = model(batch.source, batch.mask, batch.target).hidden.square().mean().sqrt()
    nn.init.normal_(model.output.weight, std=3 / (size**0.5 * scale.item()))
    model.output.bias.zero_()[EOS] = 3.0
    return model


LENGTHS = [4, 1, 7, 2, 5, 3]


def test_a_sentence_is_translated_alone_as_in_a_batch(name, small_model):
    model = sharper(small_model(name))
    batch = batch_of(LENGTHS)
    limits = torch.tensor([9, 2, 5, 9, 1, 7])
    in_batch = search(model, batch.source, batch.mask, 3, 0.6, limits)
    for row, length in enumerate(LENGTHS):
        source = batch.source[row : row + 1, : length + 1]
        (alone,) = search(model, source, None, 3, 0.6, limits[row : row + 1])
        for hypothesis, wanted in zip(in_batch[row], alone, strict=True):
            assert hypothesis.ids == wanted.ids
            assert hypothesis.score == pytest.approx(wanted.score, abs=1e-5)


def test_the_best_of_spans_are_the_best_of_all():
    for vocabulary, beam in ((1, 3), (7, 1), (97, 3), (8000, 3)):
        totals = torch.randn(4, beam)
        table = torch.randn(4, beam, vocabulary)
        hypotheses = top_candidates(totals, table, 6)
        wanted, flat_indices = (
            (totals[:, :, None] + table).flatten(1).topk(min(6, beam * vocabulary), 1)
        )
        assert torch.equal(hypotheses.totals, wanted)
        assert torch.equal(hypotheses.parents * vocabulary + hypotheses.tokens, flat_indices)
