"""Beam search for any model, through `decode` alone.

N sentences still open, K hypotheses of each (one at first, then `beam`), V vocabulary, T pieces so far. Row n·K + k of
the batch is hypothesis k of sentence n. Score = log-probability / length^α, </s> counted in both. A sentence is closed
as soon as `beam` of its hypotheses have ended, or at its maximum length, where </s> is forced; closed sentences leave
the batch. Greedy search is beam 1. <pad> and <s> are forbidden: their probability is not given to the other pieces, so
scores are those of forced decoding. The papers speak of no forbidden pieces, and only Vaswani 2017 §6.1 of a limit.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.constraints import Constraints
from nmt.models.base import DecoderState, EncoderDecoder, Memory

MAX_SPAN = 128  # `top_candidates` takes maxima over spans of the vocabulary of at most so many pieces


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α


NBest = list[list[Hypothesis]]  # the n best of each sentence of a batch


def pack_nbest(nbest: NBest) -> list[int]:
    """The n best of each sentence as 64-bit integers: numbers, lengths, ids, and the bits of the scores."""
    values = [len(nbest)]
    for hypotheses in nbest:
        values.append(len(hypotheses))
        for hypothesis in hypotheses:
            values += [int(np.float64(hypothesis.score).view(np.int64)), len(hypothesis.ids), *hypothesis.ids]
    return values


def unpack_nbest(values: Iterator[int]) -> NBest:
    """The next list that `pack_nbest` packed."""

    def hypothesis() -> Hypothesis:
        score, length = float(np.int64(next(values)).view(np.float64)), next(values)
        return Hypothesis(list(itertools.islice(values, length)), score)

    return [[hypothesis() for _ in range(next(values))] for _ in range(next(values))]


@dataclass
class Beams:
    """The open hypotheses of the sentences that are still open."""

    sentences: list[int]  # their indices in the input
    limits: list[int]  # maximum length of each, </s> counted
    tokens: Tensor  # [N K T], beginning with <s>
    scores: Tensor  # [N K]: log-probabilities
    state: DecoderState  # [N·K …]
    memory: Memory  # [N …]: shared by all hypotheses of a sentence
    constraints: Constraints | None = None


class Candidates(NamedTuple):
    """Hypotheses extended by one piece, the best of each sentence first; R of each sentence."""

    scores: Tensor  # [N R]: log-probabilities
    parents: Tensor  # [N R]: 0 … K-1
    tokens: Tensor  # [N R]


@torch.inference_mode()
def search(
    model: EncoderDecoder,
    source: Tensor,
    mask: Tensor | None,
    beam: int,
    alpha: float,
    limit: Tensor,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """source [B S], mask [B S] | None, limit [B] → for each sentence at most `beam` hypotheses, best first.

    `limit` is the maximum length of each hypothesis, </s> counted; `constraints` are those of <s>.
    """
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    beams, buffer = initial_beams(model, source, mask, limit), None
    beams.constraints = constraints
    while beams.sentences:
        output = model.decode(beams.tokens[:, :, -1].reshape(-1, 1), beams.state, beams.memory)
        beams.state = output.state
        logits = model.logits(output.hidden[:, -1])
        if buffer is None:
            buffer = float32_buffer(logits, len(source) * beam)
        candidates = expand(logits, beams, beam, buffer)
        collect_finished(finished, beams, candidates, beam, alpha)
        beams = advance(model, finished, beams, open_candidates(candidates, beam), beam)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in finished]


def initial_beams(model: EncoderDecoder, source: Tensor, mask: Tensor | None, limit: Tensor) -> Beams:
    """One hypothesis for each sentence: <s>."""
    memory, count = model.encode(source, mask), len(source)
    memory = memory._replace(static={name: tensor.contiguous() for name, tensor in memory.static.items()})
    tokens = torch.full((count, 1, 1), BOS, device=source.device)
    scores = torch.zeros(count, 1, device=source.device)
    return Beams(list(range(count)), limit.tolist(), tokens, scores, model.start(memory), memory)


def float32_buffer(logits: Tensor, rows: int) -> Tensor | None:
    """[rows V] in float32 for logits of lower precision on a CPU, None otherwise.

    A new tensor of many megabytes at every column would cost more in page faults than the softmax itself.
    """
    if logits.device.type != "cpu" or logits.dtype == torch.float32:
        return None
    return torch.empty(rows, logits.size(1))


def expand(logits: Tensor, beams: Beams, beam: int, buffer: Tensor | None = None) -> Candidates:
    """logits [N·K V] → the best 2·beam extensions of each sentence, of which at most `beam` end.

    <pad> and <s> are never written. A hypothesis at its limit can only end.
    """
    log_probabilities = masked_log_softmax(logits, buffer).view(*beams.scores.shape, -1)
    length = beams.tokens.size(2)
    if at_limit := [row for row, limit in enumerate(beams.limits) if limit <= length]:
        end = log_probabilities[at_limit, :, EOS]
    if beams.constraints is not None:
        beams.constraints.apply(log_probabilities, beams.tokens)
    if at_limit:
        log_probabilities[at_limit] = float("-inf")
        log_probabilities[at_limit, :, EOS] = end
    return top_candidates(beams.scores, log_probabilities, 2 * beam)


def masked_log_softmax(logits: Tensor, buffer: Tensor | None) -> Tensor:
    """logits [N·K V] → log-probabilities [N·K V] in float32, −∞ for <pad> and <s>.

    On a CPU the result overwrites float32 logits or is written into `buffer` [≥ N·K V].
    """
    if logits.device.type == "cpu":
        values = logits if buffer is None else buffer[: len(logits)].copy_(logits)
        log_probabilities = torch.log_softmax(values, -1, out=values)
    else:
        log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
    log_probabilities[:, PAD] = log_probabilities[:, BOS] = float("-inf")
    return log_probabilities


def top_candidates(scores: Tensor, log_probabilities: Tensor, count: int) -> Candidates:
    """The `count` largest of scores [N K 1] + log_probabilities [N K V], or all.

    On a CPU `topk` is slow and `amax` is fast. So the spans of the vocabulary with the largest maxima are selected
    first, which must contain the largest values, and then the largest values in these spans.
    """
    vocabulary = log_probabilities.size(2)
    width = next(width for width in range(MAX_SPAN, 0, -1) if vocabulary % width == 0)
    spans = log_probabilities.unflatten(2, (-1, width))  # [N K C W]
    maxima = (scores[:, :, None] + spans.amax(3)).flatten(1)  # [N K·C]
    best_spans = maxima.topk(min(count, maxima.size(1)), 1).indices
    parents = best_spans // spans.size(2)
    values = spans.flatten(1, 2).gather(1, best_spans[:, :, None].expand(-1, -1, width))
    sums = (scores.gather(1, parents)[:, :, None] + values).flatten(1)
    sums, index = sums.topk(min(count, sums.size(1)), 1)
    span = index // width
    tokens = best_spans.gather(1, span) % spans.size(2) * width + index % width
    return Candidates(sums, parents.gather(1, span), tokens)


def collect_finished(
    finished: list[list[Hypothesis]], beams: Beams, candidates: Candidates, beam: int, alpha: float
) -> None:
    """Add those of the best `beam` candidates that end here to the finished hypotheses of their sentences."""
    length, (scores, parents, tokens) = beams.tokens.size(2), candidates
    ends = (tokens[:, :beam] == EOS) & scores[:, :beam].isfinite()
    for row, rank in ends.nonzero().tolist():
        hypotheses = finished[beams.sentences[row]]
        if len(hypotheses) < beam:
            ids = beams.tokens[row, parents[row, rank], 1:].tolist()
            hypotheses.append(Hypothesis(ids, scores[row, rank].item() / length**alpha))


def open_candidates(candidates: Candidates, beam: int) -> Candidates:
    """The best `beam` that do not end."""
    scores = candidates.scores.masked_fill(candidates.tokens == EOS, float("-inf"))
    scores, order = scores.topk(min(beam, scores.size(1)), 1)
    return Candidates(scores, candidates.parents.gather(1, order), candidates.tokens.gather(1, order))


def is_done(finished: list[Hypothesis], beam: int, length: int, limit: int) -> bool:
    """The stopping rule of a sentence: `beam` of its hypotheses have ended, or their length has reached the limit."""
    return len(finished) >= beam or length >= limit


def advance(
    model: EncoderDecoder, finished: list[list[Hypothesis]], beams: Beams, candidates: Candidates, beam: int
) -> Beams:
    """The candidates as the new hypotheses of the sentences that stay open; `beams.state` is that after the step."""
    width, length = beams.tokens.shape[1:]
    scores, parents, tokens = candidates
    still_open = [
        row
        for row, (sentence, limit) in enumerate(zip(beams.sentences, beams.limits, strict=True))
        if not is_done(finished[sentence], beam, length, limit)
    ]
    sentences, limits, memory = beams.sentences, beams.limits, beams.memory
    keep = torch.tensor(still_open, dtype=torch.long, device=scores.device)
    if len(still_open) < len(sentences):
        sentences, limits = [sentences[row] for row in still_open], [limits[row] for row in still_open]
        memory, scores, parents, tokens = memory.rows(keep), scores[keep], parents[keep], tokens[keep]
    rows = keep[:, None] * width + parents  # [N' K'] of the old batch
    extended = torch.cat((beams.tokens.flatten(0, 1)[rows], tokens[:, :, None]), 2)
    constraints = beams.constraints and beams.constraints.extend(keep, parents, extended)
    return Beams(sentences, limits, extended, scores, model.reorder(beams.state, rows.flatten()), memory, constraints)
