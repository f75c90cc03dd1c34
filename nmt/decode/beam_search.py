"""Beam search for any model, through `decode` alone.

N sentences still open, K hypotheses of each (one at first, then `beam`), V vocabulary, T pieces so far. Row n·K + k of
the batch is hypothesis k of sentence n. Score = log-probability / length^α, </s> counted in both. A sentence is closed
as soon as `beam` of its hypotheses have ended, or at its maximum length, where </s> is forced; closed sentences leave
the batch. Greedy search is beam 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.attention.rollout import rollout
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.models.base import DecoderState, EncoderDecoder, Memory, select

CHUNK = 1024  # columns of forced decoding whose logits exist at the same time
SPAN = 128  # `largest` takes maxima over so many pieces of the vocabulary or fewer


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α


@dataclass
class Beams:
    """The open hypotheses of the sentences that are still open."""

    sentences: list[int]  # their places in the input
    limits: list[int]  # most pieces of each, </s> counted
    tokens: Tensor  # [N K T], beginning with <s>
    scores: Tensor  # [N K]: log-probabilities
    state: DecoderState  # [N·K …]
    memory: Memory  # [N …]: one for all hypotheses of a sentence
    table: list[Tensor]  # [≥ N·K V]: where a CPU keeps those of bf16 logits, once there are some; one for all columns


class Candidates(NamedTuple):
    """Hypotheses with one piece more, the best of each sentence first."""

    scores: Tensor  # [N 2·beam]: log-probabilities
    parents: Tensor  # [N 2·beam]: 0 … K-1
    tokens: Tensor  # [N 2·beam]


@torch.inference_mode()
def search(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, beam: int, alpha: float, limit: Tensor
) -> list[list[Hypothesis]]:
    """source [B S], mask [B S] | None, limit [B] → for each sentence at most `beam` hypotheses, best first."""
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    beams = open_beams(model, source, mask, limit)
    while beams.sentences:
        beams = step(model, finished, beams, beam, alpha)
    return ranked(finished)


def ranked(finished: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """Best first."""
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in finished]


def step(model: EncoderDecoder, finished: list[list[Hypothesis]], beams: Beams, beam: int, alpha: float) -> Beams:
    """One piece more of every open hypothesis."""
    decoded = model.decode(beams.tokens[:, :, -1].reshape(-1, 1), beams.state, beams.memory)
    extensions = extend(model.logits(decoded.hidden[:, -1]), beams, beam)
    collect(finished, beams, extensions, beam, alpha)
    return advance(finished, beams, going(extensions, beam), beam, decoded.state, model.reorder)


def open_beams(model: EncoderDecoder, source: Tensor, mask: Tensor | None, limit: Tensor) -> Beams:
    """One hypothesis for each sentence: <s>."""
    memory, number = model.encode(source, mask), len(source)
    memory = memory._replace(static={name: part.contiguous() for name, part in memory.static.items()})
    tokens = torch.full((number, 1, 1), BOS, device=source.device)
    scores = torch.zeros(number, 1, device=source.device)
    return Beams(list(range(number)), limit.tolist(), tokens, scores, model.start(memory), memory, [])


def extend(logits: Tensor, beams: Beams, beam: int) -> Candidates:
    """The best 2·beam extensions, of which at most `beam` end; <pad> and <s> are never written, at the limit only </s>.

    logits [N·K V].
    """
    log_probabilities = normalised(logits, beams.scores, beams.table)
    length = beams.tokens.size(2)
    if last := [row for row, limit in enumerate(beams.limits) if limit <= length]:
        ending = log_probabilities[last, :, EOS]
        log_probabilities[last] = float("-inf")
        log_probabilities[last, :, EOS] = ending
    return largest(beams.scores, log_probabilities, 2 * beam)


def normalised(logits: Tensor, scores: Tensor, table: list[Tensor]) -> Tensor:
    """logits [N·K V], scores [N K] → log-probabilities [N K V]; none for <pad> and <s>.

    On a CPU they take the place of float32 logits, or lie in `table`: a new tensor of many megabytes at every column
    costs more page faults than sums.
    """
    if logits.device.type == "cpu":
        rows = logits
        if logits.dtype != torch.float32:
            if not table or len(table[0]) < len(logits):
                table[:] = [torch.empty(logits.shape)]
            rows = table[0][: len(logits)].copy_(logits)
        log_probabilities = torch.log_softmax(rows, -1, out=rows).view(*scores.shape, -1)
    else:
        log_probabilities = logits.log_softmax(-1, dtype=torch.float32).view(*scores.shape, -1)
    log_probabilities[:, :, PAD] = log_probabilities[:, :, BOS] = float("-inf")
    return log_probabilities


def largest(scores: Tensor, log_probabilities: Tensor, number: int) -> Candidates:
    """The `number` largest of scores [N K 1] + log_probabilities [N K V], or all.

    On a CPU `topk` is slow and `amax` is not; so it is asked for the spans of the vocabulary with the largest maxima,
    in which the largest stand, and then for the largest in them.
    """
    vocabulary = log_probabilities.size(2)
    width = next(width for width in range(SPAN, 0, -1) if vocabulary % width == 0)
    spans = log_probabilities.unflatten(2, (-1, width))  # [N K C W]
    maxima = (scores[:, :, None] + spans.amax(3)).flatten(1)  # [N K·C]
    chosen = maxima.topk(min(number, maxima.size(1)), 1).indices
    parents = chosen // spans.size(2)
    inside = spans.flatten(1, 2).gather(1, chosen[:, :, None].expand(-1, -1, width))
    sums = (scores.gather(1, parents)[:, :, None] + inside).flatten(1)
    sums, place = sums.topk(min(number, sums.size(1)), 1)
    span = place // width
    tokens = chosen.gather(1, span) % spans.size(2) * width + place % width
    return Candidates(sums, parents.gather(1, span), tokens)


def collect(finished: list[list[Hypothesis]], beams: Beams, extensions: Candidates, beam: int, alpha: float) -> None:
    """Keep the hypotheses among the best `beam` extensions that end here."""
    length, (scores, parents, tokens) = beams.tokens.size(2), extensions
    ends = (tokens[:, :beam] == EOS) & scores[:, :beam].isfinite()
    for row, rank in ends.nonzero().tolist():
        found = finished[beams.sentences[row]]
        if len(found) < beam:
            ids = beams.tokens[row, parents[row, rank], 1:].tolist()
            found.append(Hypothesis(ids, scores[row, rank].item() / length**alpha))


def going(extensions: Candidates, beam: int) -> Candidates:
    """The best `beam` that do not end."""
    scores = extensions.scores.masked_fill(extensions.tokens == EOS, float("-inf"))
    scores, order = scores.topk(min(beam, scores.size(1)), 1)
    return Candidates(scores, extensions.parents.gather(1, order), extensions.tokens.gather(1, order))


def advance(
    finished: list[list[Hypothesis]],
    beams: Beams,
    going: Candidates,
    beam: int,
    state: DecoderState,
    reorder: Callable[[DecoderState, Tensor], DecoderState] = select,
) -> Beams:
    """Those that go on, of the sentences that stay open; `state` is that after the step."""
    width, length = beams.tokens.shape[1:]
    scores, parents, tokens = going
    stay = [
        row
        for row, (sentence, limit) in enumerate(zip(beams.sentences, beams.limits, strict=True))
        if len(finished[sentence]) < beam and limit > length
    ]
    sentences, limits, memory = beams.sentences, beams.limits, beams.memory
    keep = torch.tensor(stay, dtype=torch.long, device=scores.device)
    if len(stay) < len(sentences):
        sentences, limits = [sentences[row] for row in stay], [limits[row] for row in stay]
        memory, scores, parents, tokens = memory.rows(keep), scores[keep], parents[keep], tokens[keep]
    rows = keep[:, None] * width + parents  # [N' K'] of the old batch
    grown = torch.cat((beams.tokens.flatten(0, 1)[rows], tokens[:, :, None]), 2)
    return Beams(sentences, limits, grown, scores, reorder(state, rows.flatten()), memory, beams.table)


class ForcedDecoding(NamedTuple):
    """A finished target under forced decoding."""

    log_probabilities: Tensor  # [B T], of each output piece
    weights: Tensor | None  # [B L H T S]: where each layer and head looked
    rollout: Tensor | None  # [B T S]: the same through all layers, where self-attention told its weights
    centre: Tensor | None  # [B T]: p_t of local attention


@torch.inference_mode()
def force_decode(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, target: Tensor, output: Tensor, weights: bool = True
) -> ForcedDecoding:
    """target [B T] as input, output [B T] as what it should write → how likely that is, and where the model looked.

    The explicit road over a finished target: how pictures and alignments are made, after beam search too.
    """
    looks = weights and model.has_attention
    memory = model.encode(source, mask, looks)
    decoded = model.decode(target, model.start(memory), memory, looks)
    rolled = None
    if memory.weights is not None and decoded.self_weights is not None and decoded.weights is not None:
        seen = memory.weights, decoded.self_weights, decoded.weights
        rolled = rollout(*(one.float() for one in seen))
    likely = log_probabilities(model, decoded.hidden, output)
    return ForcedDecoding(likely, decoded.weights, rolled, decoded.p_t)


def log_probabilities(model: EncoderDecoder, hidden: Tensor, output: Tensor) -> Tensor:
    """hidden [B T D], output [B T] → [B T]; the logits of no more than CHUNK columns exist at the same time."""
    columns = zip(hidden.flatten(0, 1).split(CHUNK), output.flatten().split(CHUNK), strict=True)
    found = [model.logits(some).float().log_softmax(-1).gather(1, ids[:, None]) for some, ids in columns]
    return torch.cat(found).view_as(output)
