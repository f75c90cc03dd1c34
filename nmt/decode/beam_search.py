"""Beam search for any model, through `decode` alone.

N sentences still open, K hypotheses of each (one at first, then `beam`), V vocabulary, T pieces so
far. Row n·K + k of the batch is hypothesis k of sentence n. Score = log-probability / length^α,
</s> counted in both. A sentence is closed as soon as `beam` of its hypotheses have ended, or,
without early stopping, once the best open one has no better score than the worst of these; and at
its maximum length, where </s> is forced. Closed sentences leave the batch. Greedy search is beam 1.
<pad> and <s> are forbidden. <s> has no part in the softmax, in forced decoding neither; the
probability of <pad> is not given to the other pieces, so scores are those of forced decoding. The
papers speak of no forbidden pieces, and only Vaswani 2017 §6.1 of a limit.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.constraints import Constraint
from nmt.models.base import DecoderState, EncoderDecoder, Memory, select_rows

# `top_candidates` takes maxima over spans of the vocabulary of at most so many pieces
MAX_SPAN = 128


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α
    # of each piece, and of </s>
    log_probabilities: list[float] = field(default_factory=list, compare=False)


NBest = list[list[Hypothesis]]  # the n best of each sentence of a batch


@dataclass
class Beams:
    """The open hypotheses of the sentences that are still open; lists and arrays on the host,
    tensors on the device."""

    sentences: list[int]  # their indices in the input
    limits: list[int]  # maximum length of each, </s> counted
    ids: np.ndarray  # [N K T−1]: without <s>
    sums: np.ndarray  # [N K T−1]: the log-probability of a hypothesis up to each of its pieces
    last: Tensor  # [N K]: the newest piece
    scores: Tensor  # [N K]: log-probabilities
    state: DecoderState  # [N·K …]
    memory: Memory  # [N …]: shared by all hypotheses of a sentence
    device_limits: Tensor  # [N]: `limits`
    ended: Tensor  # [N beam]: the best scores of those that have ended, −∞ for those that have not
    constraints: Constraint | None

    @property
    def length(self) -> int:
        """T, of the hypotheses that end with the next piece, </s> counted."""
        return self.ids.shape[2] + 1


class Candidates(NamedTuple):
    """Hypotheses extended by one piece, the best of each sentence first; R of each sentence."""

    scores: Tensor  # [N R]: log-probabilities
    parents: Tensor  # [N R]: 0 … K-1
    tokens: Tensor  # [N R]


HostCandidates = tuple[np.ndarray, np.ndarray, np.ndarray]  # the same on the host


@torch.inference_mode()
def search(
    model: EncoderDecoder,
    source: Tensor,
    mask: Tensor | None,
    beam: int,
    alpha: float,
    limit: Tensor,
    constraints: Constraint | None = None,
    begin: Tensor | None = None,
    early_stopping: bool = True,
) -> NBest:
    """source [B S], mask [B S] | None, limit [B] → for each sentence at most `beam` hypotheses,
    best first.

    `begin` [B P]: the pieces that each hypothesis begins with; their log-probabilities count as 0,
    their length counts. `limit` is the maximum length of each hypothesis, </s> counted;
    `constraints` are those of <s>. A GPU is waited for once a column, in `to_host`, and gets
    nothing from the host but commands once the first column is begun.
    """
    memory = model.encode(source, mask)
    count = len(source)
    memory = memory._replace(
        static={name: tensor.contiguous() for name, tensor in memory.static.items()}
    )
    last = torch.full((count, 1), BOS, device=source.device)
    scores = torch.zeros(count, 1, device=source.device)
    ids = np.empty((count, 1, 0), np.int64)
    ended = torch.full((count, beam), float("-inf"), device=source.device)
    state = model.start(memory)
    if begin is not None:
        state = model.decode(torch.cat((last, begin[:, :-1]), 1), state, memory).state
        last = begin[:, -1:]
        ids = begin[:, None].cpu().numpy()
        if constraints is not None:
            rows = torch.arange(count, device=source.device)
            for column in begin.T:
                constraints = constraints.extend(
                    rows, torch.zeros_like(column[:, None]), column[:, None]
                )
    sums = np.zeros(ids.shape, np.float32)
    beams = Beams(
        list(range(count)),
        limit.tolist(),
        ids,
        sums,
        last,
        scores,
        state,
        memory,
        limit.to(source.device),
        ended,
        constraints,
    )
    finished: NBest = [[] for _ in range(count)]
    buffer: Tensor | None = None
    while beams.sentences:
        output = model.decode(beams.last.reshape(-1, 1), beams.state, beams.memory)
        beams.state = output.state
        logits = model.logits(output.hidden[:, -1])
        buffer = float32_buffer(logits, count * beam) if buffer is None else buffer
        best = expand(logits, beams, beam, buffer)
        still_open = open_candidates(best, beam)
        best = Candidates(*(part[:, :beam] for part in best))
        normalizer = beams.length**alpha
        ended = best.scores.masked_fill(best.tokens != EOS, float("-inf")) / normalizer
        beams.ended = torch.cat((beams.ended, ended), 1).topk(beam, 1).values
        worst = beams.ended[:, -1:]
        is_closed = (
            worst.isfinite() if early_stopping else worst >= still_open.scores[:, :1] / normalizer
        )
        still_open = still_open._replace(
            scores=still_open.scores.masked_fill(is_closed, float("-inf"))
        )
        (host_scores, parents, tokens), host_open = to_host(best, still_open)
        for row, rank in np.argwhere((tokens == EOS) & np.isfinite(host_scores)).tolist():
            hypotheses = finished[beams.sentences[row]]
            if len(hypotheses) < beam or not early_stopping:
                parent = parents[row, rank]
                total = float(host_scores[row, rank])
                of_pieces = np.diff([0.0, *beams.sums[row, parent].tolist(), total]).tolist()
                hypotheses.append(
                    Hypothesis(beams.ids[row, parent].tolist(), total / normalizer, of_pieces)
                )
        beams = advance(beams, still_open, host_open)
    return [
        sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam]
        for hypotheses in finished
    ]


def float32_buffer(logits: Tensor, rows: int) -> Tensor | None:
    """[rows V] in float32 for logits of lower precision on a CPU, None otherwise.

    A new tensor of many megabytes at every column would cost more in page faults than the softmax
    itself.
    """
    if logits.device.type != "cpu" or logits.dtype == torch.float32:
        return None
    return torch.empty(rows, logits.size(1))


def expand(logits: Tensor, beams: Beams, beam: int, buffer: Tensor | None = None) -> Candidates:
    """logits [N·K V] → the best 2·beam extensions of each sentence, of which at most `beam` end.

    <pad> and <s> are never written. A hypothesis at its limit can only end.
    """
    log_probabilities = masked_log_softmax(logits, buffer).view(*beams.scores.shape, -1)
    ends = log_probabilities[:, :, EOS]
    if beams.constraints is not None:
        ends = ends.clone()
        beams.constraints.apply(log_probabilities)
    candidates = top_candidates(beams.scores, log_probabilities, 2 * beam)
    if min(beams.limits) > beams.length:
        return candidates
    forced = forced_ends(beams.scores, ends, candidates)
    at_limit = beams.device_limits <= beams.length
    return Candidates(
        *(torch.where(at_limit[:, None], *pair) for pair in zip(forced, candidates, strict=True))
    )


def forced_ends(scores: Tensor, ends: Tensor, like: Candidates) -> Candidates:
    """Every hypothesis ended, best first; scores and log-probabilities of </s> [N K] → as many as
    `like`, others −∞."""
    sums, parents = (scores + ends).sort(1, descending=True)
    missing = (0, like.scores.size(1) - sums.size(1))
    sums = functional.pad(sums, missing, value=float("-inf"))
    parents = functional.pad(parents, missing)
    return Candidates(sums, parents, torch.full_like(like.tokens, EOS))


def masked_log_softmax(logits: Tensor, buffer: Tensor | None) -> Tensor:
    """logits [N·K V], in which <s> becomes −∞ → log-probabilities [N·K V] in float32, −∞ for <pad>
    and <s>.

    <s> has no part in the softmax: no target has it, and in an imported model its row may be a copy
    of that of </s>. On a CPU the result overwrites float32 logits or is written into `buffer` [≥
    N·K V].
    """
    logits[:, BOS] = float("-inf")
    if logits.device.type == "cpu":
        values = logits if buffer is None else buffer[: len(logits)].copy_(logits)
        log_probabilities = torch.log_softmax(values, -1, out=values)
    else:
        log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
    log_probabilities[:, PAD] = float("-inf")
    return log_probabilities


def top_candidates(scores: Tensor, log_probabilities: Tensor, count: int) -> Candidates:
    """The `count` largest of scores [N K 1] + log_probabilities [N K V], or all.

    On a CPU `topk` is slow and `amax` is fast. So the spans of the vocabulary with the largest
    maxima are selected first, which must contain the largest values, and then the largest values in
    these spans.
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


def open_candidates(candidates: Candidates, beam: int) -> Candidates:
    """The best `beam` that do not end."""
    scores = candidates.scores.masked_fill(candidates.tokens == EOS, float("-inf"))
    scores, order = scores.topk(min(beam, scores.size(1)), 1)
    return Candidates(
        scores, candidates.parents.gather(1, order), candidates.tokens.gather(1, order)
    )


def to_host(*candidates: Candidates) -> list[HostCandidates]:
    """The same on the host, in one copy; an integer below 2²⁴ is exact in float32, too."""
    parts = [part.to(each.scores.dtype) for each in candidates for part in each]
    copied = torch.stack(parts).cpu().numpy()
    scores, parents, tokens = copied.reshape(len(candidates), 3, *copied.shape[1:]).swapaxes(0, 1)
    return list(zip(scores, parents.astype(np.int64), tokens.astype(np.int64), strict=True))


def advance(beams: Beams, candidates: Candidates, host: HostCandidates) -> Beams:
    """The candidates as the new hypotheses of the sentences that stay open; `beams.state` is that
    after the step.

    A closed sentence has candidates of score −∞.
    """
    width = beams.scores.size(1)
    count = len(beams.sentences)
    length = beams.length
    still_open = [
        row
        for row, limit in enumerate(beams.limits)
        if np.isfinite(host[0][row, 0]) and length < limit
    ]
    sentences = beams.sentences
    limits = beams.limits
    memory = beams.memory
    device_limits = beams.device_limits
    ended = beams.ended
    keep = torch.arange(count, device=ended.device)
    if len(still_open) < count:
        sentences = [sentences[row] for row in still_open]
        limits = [limits[row] for row in still_open]
        # the same on the device
        is_closed = ~candidates.scores[:, 0].isfinite() | (device_limits <= length)
        keep = is_closed.byte().sort(stable=True).indices[: len(still_open)]
        memory = memory.rows(keep)
        candidates = Candidates(*(part[keep] for part in candidates))
        device_limits = device_limits[keep]
        ended = ended[keep]
    rows = (keep[:, None] * width + candidates.parents).flatten()  # N'·K' of the old batch
    parents, tokens = (part[still_open, :, None] for part in host[1:])
    ids = np.concatenate((np.take_along_axis(beams.ids[still_open], parents, 1), tokens), 2)
    sums = np.take_along_axis(beams.sums[still_open], parents, 1)
    sums = np.concatenate((sums, host[0][still_open, :, None]), 2)
    state = select_rows(beams.state, rows)
    last = candidates.tokens
    constraints = beams.constraints
    if constraints is not None:
        constraints = constraints.extend(keep, candidates.parents, last)
    return Beams(
        sentences,
        limits,
        ids,
        sums,
        last,
        candidates.scores,
        state,
        memory,
        device_limits,
        ended,
        constraints,
    )
