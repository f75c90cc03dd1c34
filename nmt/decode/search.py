"""Beam search for any model, through `decode` alone.

N sentences still open, K beam, V vocabulary, T pieces so far. Row n·K + k of the batch is hypothesis k of sentence n.
Score = log-probability / length^α, </s> counted in both. A sentence is closed as soon as K of its hypotheses have
ended, or at its maximum length, where </s> is forced; closed sentences leave the batch. Greedy search is K = 1.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.attention.rollout import rollout
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.models.base import EncoderDecoder, Memory, State, select

CHUNK = 1024  # columns of forced decoding whose logits exist at the same time
SPAN = 128  # at most so many pieces of the vocabulary have one maximum in `best`


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α


@dataclass
class Beams:
    """The open hypotheses of the sentences that are still open."""

    sentences: list[int]  # their places in the input
    tokens: Tensor  # [N K T], beginning with <s>
    scores: Tensor  # [N K]: log-probabilities
    state: State
    memory: Memory  # [N …]: one for all hypotheses of a sentence
    limit: Tensor  # [N]: most pieces, </s> counted


@torch.inference_mode()
def search(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, beam: int, alpha: float, limit: Tensor
) -> list[list[Hypothesis]]:
    """source [B S], mask [B S] | None, limit [B] → for each sentence at most `beam` hypotheses, best first."""
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    beams = open_beams(model, source, mask, beam, limit)
    while beams.sentences:
        decoded = model.decode(beams.tokens[:, :, -1].reshape(-1, 1), beams.state, beams.memory)
        scores, parents, tokens = extend(model.logits(decoded.hidden[:, -1]), beams)
        collect(finished, beams, scores, parents, tokens, alpha)
        beams = advance(beams, decoded.state, scores, parents, tokens, finished)
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in finished]


def open_beams(model: EncoderDecoder, source: Tensor, mask: Tensor | None, beam: int, limit: Tensor) -> Beams:
    """K copies of <s> for each sentence; only the first may be extended in the first step."""
    memory = model.encode(source, mask)
    rows = torch.arange(len(source), device=source.device).repeat_interleave(beam)
    scores = torch.full((len(source), beam), float("-inf"), device=source.device)
    scores[:, 0] = 0.0
    tokens = torch.full((len(source), beam, 1), BOS, device=source.device)
    state = select(model.start(memory), rows)
    return Beams(list(range(len(source))), tokens, scores, state, memory, limit.to(source.device))


def extend(logits: Tensor, beams: Beams) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 K best one-piece extensions: scores, parents (0 … K-1), tokens, each [N 2K]; at most K of them end.

    <pad> and <s> are never written, and at the limit only </s> is.
    """
    log_probabilities = logits.log_softmax(-1, dtype=torch.float32).view(*beams.scores.shape, -1)  # [N K V]
    log_probabilities[:, :, PAD] = log_probabilities[:, :, BOS] = float("-inf")
    last = beams.limit <= beams.tokens.size(2)
    if bool(last.any()):
        ending = log_probabilities[last][:, :, EOS].clone()
        log_probabilities[last] = float("-inf")
        log_probabilities[last, :, EOS] = ending
    return best(beams.scores, log_probabilities, 2 * beams.scores.size(1))


def best(scores: Tensor, log_probabilities: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """The largest of scores [N K 1] + log_probabilities [N K V]: sums, parents, tokens, each [N number].

    They stand in the `number` spans of the vocabulary with the largest maxima: `topk` is slow on a CPU, `amax` is not.
    """
    beam, vocabulary = log_probabilities.shape[1:]
    width = next(width for width in range(min(SPAN, vocabulary), 0, -1) if vocabulary % width == 0)
    spans = log_probabilities.unflatten(2, (-1, width))  # [N K C W]
    maxima = (scores[:, :, None] + spans.amax(3)).flatten(1)  # [N K·C]
    chosen = maxima.topk(min(number, maxima.size(1)), dim=1).indices
    parents = chosen // spans.size(2)
    inside = spans.flatten(1, 2).gather(1, chosen[:, :, None].expand(-1, -1, width))  # [N number W]
    sums, index = (scores.gather(1, parents)[:, :, None] + inside).flatten(1).topk(number, dim=1)
    span, place = index // width, index % width
    tokens = chosen.gather(1, span) % spans.size(2) * width + place
    return sums, parents.gather(1, span), tokens


def collect(
    finished: list[list[Hypothesis]], beams: Beams, scores: Tensor, parents: Tensor, tokens: Tensor, alpha: float
) -> None:
    """Keep the hypotheses among the K best extensions that end here."""
    beam, length = beams.scores.size(1), beams.tokens.size(2)
    ends = (tokens[:, :beam] == EOS) & scores[:, :beam].isfinite()
    for row, rank in ends.nonzero().tolist():
        found = finished[beams.sentences[row]]
        if len(found) < beam:
            ids = beams.tokens[row, parents[row, rank], 1:].tolist()
            found.append(Hypothesis(ids, scores[row, rank].item() / length**alpha))


def advance(
    beams: Beams,
    state: State,
    scores: Tensor,
    parents: Tensor,
    tokens: Tensor,
    finished: list[list[Hypothesis]],
) -> Beams:
    """The K best that go on, of the sentences that stay open."""
    beam, length = beams.scores.size(1), beams.tokens.size(2)
    going = scores.masked_fill(tokens == EOS, float("-inf"))
    scores, order = going.topk(beam, dim=1)
    parents, tokens = parents.gather(1, order), tokens.gather(1, order)
    limits = beams.limit.tolist()
    stay = [
        row for row, sentence in enumerate(beams.sentences) if len(finished[sentence]) < beam and limits[row] > length
    ]
    keep = torch.tensor(stay, dtype=torch.long, device=scores.device)
    rows = keep[:, None] * beam + parents[keep]  # [N' K] of the old batch
    grown = torch.cat((beams.tokens.flatten(0, 1)[rows], tokens[keep][:, :, None]), 2)
    memory = beams.memory if len(stay) == len(beams.sentences) else beams.memory.rows(keep)
    sentences = [beams.sentences[row] for row in stay]
    return Beams(sentences, grown, scores[keep], select(state, rows.flatten()), memory, beams.limit[keep])


class Forced(NamedTuple):
    """A finished target under forced decoding."""

    log_probabilities: Tensor  # [B T], of each output piece
    weights: Tensor | None  # [B L H T S]: where each layer and head looked
    rollout: Tensor | None  # [B T S]: the same through all layers, where self-attention told its weights
    centre: Tensor | None  # [B T]: p_t of local attention


@torch.inference_mode()
def forced(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, target: Tensor, output: Tensor, weights: bool = True
) -> Forced:
    """target [B T] as input, output [B T] as what it should write → how likely that is, and where the model looked.

    The explicit road over a finished target: how pictures and alignments are made, after beam search too.
    """
    looks = weights and model.attends
    memory = model.encode(source, mask, looks)
    decoded = model.decode(target, model.start(memory), memory, looks)
    rolled = None
    if memory.weights is not None and decoded.self_weights is not None and decoded.weights is not None:
        seen = memory.weights, decoded.self_weights, decoded.weights
        rolled = rollout(*(one.float() for one in seen))
    likely = log_probabilities(model, decoded.hidden, output)
    return Forced(likely, decoded.weights, rolled, decoded.centre)


def log_probabilities(model: EncoderDecoder, hidden: Tensor, output: Tensor) -> Tensor:
    """hidden [B T D], output [B T] → [B T]; the logits of no more than CHUNK columns exist at the same time."""
    columns = zip(hidden.flatten(0, 1).split(CHUNK), output.flatten().split(CHUNK), strict=True)
    found = [model.logits(some).float().log_softmax(-1).gather(1, ids[:, None]) for some, ids in columns]
    return torch.cat(found).view_as(output)
