"""Beam search and sampling for any model, through `decode` alone.

N sentences still open, K hypotheses of each (one at first, then `beam`), V vocabulary. A column is
one target position; T is the number of the column that is being chosen, so hypotheses have T − 1
pieces so far. Row n·K + k of the batch is hypothesis k of sentence n.

The score of a hypothesis is log-probability / length^α, with </s> counted in both. A sentence is
closed as soon as `beam` of its hypotheses have ended. Without early stopping it is closed once its
best open hypothesis is no better than the worst of these. At its maximum length </s> is forced.
Closed sentences leave the batch. Greedy search is beam 1.

Sampling is search with beam 1 whose next piece is drawn (`sampling`). Each sample is a row of its
own, as a sentence is, so that it leaves the batch when it ends.

<pad> and <s> are forbidden. <s> has no part in the softmax, and none in forced decoding. The
probability of <pad> is not given to the other pieces, so scores are those of forced decoding. The
papers do not forbid pieces, and only Vaswani 2017 §6.1 limits the length.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.constraints import Constraint
from nmt.decode.sampling import Sampler
from nmt.models.base import DecoderState, EncoderDecoder, Memory, select_rows

MAX_SPAN = 128  # pieces in a span of the vocabulary of which `top_candidates` takes the maximum


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float  # log-probability / length^α
    # log_probabilities: of each piece, and of </s>
    log_probabilities: list[float] = field(default_factory=list, compare=False)


NBest = list[list[Hypothesis]]  # the n best of each sentence of a batch


@dataclass
class Beams:
    """The open hypotheses of the open sentences.

    Lists and arrays are on the host, tensors on the device.
    """

    sentences: list[int]  # N indices in the input
    limits: list[int]  # N maximum lengths, </s> counted
    ids: np.ndarray  # [N K T−1]: without <s>
    sums: np.ndarray  # [N K T−1]: the log-probability of a hypothesis up to each of its pieces
    last: Tensor  # [N K]: the newest piece
    scores: Tensor  # [N K]: total log-probabilities, not yet divided by length^α
    state: DecoderState  # [N·K …]
    memory: Memory  # [N …]: shared by all hypotheses of a sentence
    device_limits: Tensor  # [N]: `limits`
    ended: Tensor  # [N beam]: best scores, divided by length^α, of those that ended; else −∞
    constraint: Constraint | None
    sampler: Sampler | None

    @property
    def length(self) -> int:
        """T: the length, with </s>, of a hypothesis that ends in the column being chosen."""
        return self.ids.shape[2] + 1


class Candidates(NamedTuple):
    """Hypotheses extended by one piece, the best of each sentence first; R of each sentence."""

    scores: Tensor  # [N R]: total log-probabilities, not yet divided by length^α
    parents: Tensor  # [N R]: 0 … K-1
    tokens: Tensor  # [N R]


class HostCandidates(NamedTuple):
    """Candidates on the host."""

    scores: np.ndarray
    parents: np.ndarray
    tokens: np.ndarray


@torch.inference_mode()
def search(
    model: EncoderDecoder,
    source: Tensor,
    mask: Tensor | None,
    beam: int,
    alpha: float,
    limit: Tensor,
    constraint: Constraint | None = None,
    begin: Tensor | None = None,
    early_stopping: bool = True,
    sampler: Sampler | None = None,
) -> NBest:
    """source [B S], mask [B S] | None, limit [B] → `beam` hypotheses a sentence or fewer.

    They come best first. `begin` [B P]: the pieces that each hypothesis begins with; their
    log-probabilities count as 0, their length counts. `limit` is the maximum length of each
    hypothesis, </s> counted; `constraint` is that of <s>.

    `sampler`: draws C samples of each sentence, with beam 1. Then `limit`, `constraint`, `begin`
    and the result are those of B·C samples; the samples of a sentence stand together.

    A GPU is waited for once a column, in `to_host`, and again to draw with `top_p`. After the first
    column the host sends it commands and no data.
    """
    memory = model.encode(source, mask)
    count = len(limit)
    if sampler is not None:
        sentences = torch.arange(len(source), device=source.device)
        memory = memory.rows(sentences.repeat_interleave(count // len(source)))
    beams = start_beams(model, memory, beam, limit, constraint, begin, sampler)
    finished: NBest = [[] for _ in range(count)]
    buffer: Tensor | None = None
    while beams.sentences:
        # Decode one column of all hypotheses.
        output = model.decode(beams.last.reshape(-1, 1), beams.state, beams.memory)
        beams.state = output.state
        logits = model.logits(output.hidden[:, -1])  # [N·K V]
        if buffer is None:
            buffer = float32_buffer(logits, count * beam)

        # Expand: the best 2·beam extensions of each sentence. At most `beam` of them end, so at
        # least `beam` stay open, unless a limit is reached.
        extensions = expand(logits, beams, beam, buffer)  # [N 2·beam]

        # Choose: the best `beam` that stay open, and the best `beam` of all, which may end.
        still_open = open_candidates(extensions, beam)  # [N beam]
        best = Candidates(
            extensions.scores[:, :beam],
            extensions.parents[:, :beam],
            extensions.tokens[:, :beam],
        )

        # End: the best `beam` scores of the hypotheses of each sentence that have ended.
        normalizer = beams.length**alpha
        ended = best.scores.masked_fill(best.tokens != EOS, float("-inf")) / normalizer
        beams.ended = torch.cat((beams.ended, ended), 1).topk(beam, 1).values

        # Close the sentences whose search is over (see above): −∞ for their open candidates tells
        # `advance` to drop them.
        worst = beams.ended[:, -1:]  # [N 1]
        if early_stopping:
            is_closed = worst.isfinite()
        else:
            is_closed = worst >= still_open.scores[:, :1] / normalizer
        open_scores = still_open.scores.masked_fill(is_closed, float("-inf"))
        still_open = still_open._replace(scores=open_scores)

        # Record the hypotheses that ended, on the host.
        host_best, host_open = to_host(best, still_open)
        is_ended = (host_best.tokens == EOS) & np.isfinite(host_best.scores)  # [N beam]
        for row, rank in np.argwhere(is_ended).tolist():
            hypotheses = finished[beams.sentences[row]]
            if len(hypotheses) < beam or not early_stopping:
                parent = host_best.parents[row, rank]
                total = float(host_best.scores[row, rank])
                ids = beams.ids[row, parent].tolist()
                of_pieces = np.diff([0.0, *beams.sums[row, parent].tolist(), total]).tolist()
                hypotheses.append(Hypothesis(ids, total / normalizer, of_pieces))

        # Advance: the open candidates are the hypotheses of the next column.
        beams = advance(beams, still_open, host_open)
    for hypotheses in finished:
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
    return [hypotheses[:beam] for hypotheses in finished]


def start_beams(
    model: EncoderDecoder,
    memory: Memory,
    beam: int,
    limit: Tensor,
    constraint: Constraint | None,
    begin: Tensor | None,
    sampler: Sampler | None,
) -> Beams:
    """One hypothesis of each sentence: <s>, and the pieces of `begin` [B P]."""
    count = len(memory.values)
    device = memory.values.device
    static = {name: tensor.contiguous() for name, tensor in memory.static.items()}
    memory = memory._replace(static=static)
    state = model.start(memory)
    last = torch.full((count, 1), BOS, device=device)
    ids = np.empty((count, 1, 0), np.int64)
    if begin is not None:
        state = model.decode(torch.cat((last, begin[:, :-1]), 1), state, memory).state
        last = begin[:, -1:]
        ids = begin[:, None].cpu().numpy()
    if begin is not None and constraint is not None:
        rows = torch.arange(count, device=device)
        for column in begin.T:
            tokens = column[:, None]
            constraint = constraint.extend(rows, torch.zeros_like(tokens), tokens)
    return Beams(
        sentences=list(range(count)),
        limits=limit.tolist(),
        ids=ids,
        sums=np.zeros(ids.shape, np.float32),
        last=last,
        scores=torch.zeros(count, 1, device=device),
        state=state,
        memory=memory,
        device_limits=limit.to(device),
        ended=torch.full((count, beam), float("-inf"), device=device),
        constraint=constraint,
        sampler=sampler,
    )


def float32_buffer(logits: Tensor, rows: int) -> Tensor | None:
    """[rows V] in float32 for logits of lower precision on a CPU, None otherwise.

    A new tensor of many megabytes at every column would cost more in page faults than the softmax
    itself.
    """
    if logits.device.type != "cpu" or logits.dtype == torch.float32:
        return None
    return torch.empty(rows, logits.size(1))


def expand(logits: Tensor, beams: Beams, beam: int, buffer: Tensor | None) -> Candidates:
    """logits [N·K V] → the best 2·beam extensions of each sentence, of which at most `beam` end.

    Of a sample, the extension that is drawn. <pad> and <s> are never written. A hypothesis at its
    limit can only end.
    """
    log_probabilities = masked_log_softmax(logits, buffer).view(*beams.scores.shape, -1)  # [N K V]
    ends = log_probabilities[:, :, EOS]  # [N K]
    if beams.constraint is not None:
        ends = ends.clone()
        beams.constraint.apply(log_probabilities)
    if beams.sampler is None:
        candidates = top_candidates(beams.scores, log_probabilities, 2 * beam)
    else:
        of_sample = log_probabilities[:, 0]  # [N V]
        tokens = beams.sampler.draw(of_sample, beams.length - 1)  # [N 1]
        sums = beams.scores + of_sample.gather(1, tokens)
        candidates = Candidates(sums, torch.zeros_like(tokens), tokens)
    if min(beams.limits) > beams.length:
        return candidates
    forced = forced_ends(beams.scores, ends, candidates)
    at_limit = (beams.device_limits <= beams.length)[:, None]
    return Candidates(
        torch.where(at_limit, forced.scores, candidates.scores),
        torch.where(at_limit, forced.parents, candidates.parents),
        torch.where(at_limit, forced.tokens, candidates.tokens),
    )


def forced_ends(scores: Tensor, ends: Tensor, like: Candidates) -> Candidates:
    """scores and log-probabilities of </s> [N K] → every hypothesis ended, best first.

    There are as many candidates as in `like`; those that are too many have the score −∞.
    """
    sums, parents = (scores + ends).sort(1, descending=True)
    missing = (0, like.scores.size(1) - sums.size(1))
    sums = functional.pad(sums, missing, value=float("-inf"))
    parents = functional.pad(parents, missing)
    return Candidates(sums, parents, torch.full_like(like.tokens, EOS))


def masked_log_softmax(logits: Tensor, buffer: Tensor | None) -> Tensor:
    """logits [N·K V] → log-probabilities [N·K V] in float32, −∞ for <pad> and <s>.

    <s> has no part in the softmax: no target has it, and in an imported model its row may be a copy
    of that of </s>. Its logits become −∞. On a CPU the result overwrites float32 logits, or is
    written into `buffer` [≥ N·K V].
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
    """The `count` best sums (or all, if fewer) of scores [N K] and log_probabilities [N K V].

    On a CPU `topk` is slow and `amax` is fast. So the vocabulary is divided into C spans of W
    pieces. The `count` spans with the largest maxima must contain the `count` largest values.
    """
    vocabulary = log_probabilities.size(2)
    width = next(width for width in range(MAX_SPAN, 0, -1) if vocabulary % width == 0)
    spans = log_probabilities.unflatten(2, (-1, width))  # [N K C W]
    num_spans = spans.size(2)  # C

    # The best R spans of each sentence
    maxima = (scores[:, :, None] + spans.amax(3)).flatten(1)  # [N K·C]
    best_spans = maxima.topk(min(count, maxima.size(1)), 1).indices  # [N R]
    parents = best_spans // num_spans

    # The best pieces in these spans
    rows = best_spans[:, :, None].expand(-1, -1, width)  # [N R W]
    values = spans.flatten(1, 2).gather(1, rows)  # [N R W]
    sums = (scores.gather(1, parents)[:, :, None] + values).flatten(1)  # [N R·W]
    sums, index = sums.topk(min(count, sums.size(1)), 1)  # [N count], of R·W

    # Each piece by its span in the vocabulary and its place there
    span = index // width  # [N count], of R
    tokens = best_spans.gather(1, span) % num_spans * width + index % width
    return Candidates(sums, parents.gather(1, span), tokens)


def open_candidates(candidates: Candidates, beam: int) -> Candidates:
    """The best `beam` that do not end."""
    scores = candidates.scores.masked_fill(candidates.tokens == EOS, float("-inf"))
    scores, order = scores.topk(min(beam, scores.size(1)), 1)
    parents = candidates.parents.gather(1, order)
    tokens = candidates.tokens.gather(1, order)
    return Candidates(scores, parents, tokens)


def to_host(*candidates: Candidates) -> list[HostCandidates]:
    """Candidates copied to the host, all in one tensor.

    Integers travel as float32, which is exact below 2²⁴.
    """
    stacked = []
    for scores, parents, tokens in candidates:
        stacked.append(torch.stack((scores, parents.to(scores.dtype), tokens.to(scores.dtype))))
    copied = torch.stack(stacked).cpu().numpy()  # [candidates 3 N R]
    result = []
    for scores, parents, tokens in copied:
        result.append(HostCandidates(scores, parents.astype(np.int64), tokens.astype(np.int64)))
    return result


def advance(beams: Beams, candidates: Candidates, host: HostCandidates) -> Beams:
    """The beams of the next column: the candidates of the sentences that stay open.

    `beams.state` must include the column just decoded. Closed sentences have scores of −∞.
    """
    width = beams.scores.size(1)  # K
    count = len(beams.sentences)  # N
    memory = beams.memory
    device_limits = beams.device_limits
    ended = beams.ended
    sampler = beams.sampler

    # The rows of the sentences that stay open: N' of N
    open_rows = []
    for row, limit in enumerate(beams.limits):
        if np.isfinite(host.scores[row, 0]) and beams.length < limit:
            open_rows.append(row)

    # The same on the device, which gets no index from the host
    keep = torch.arange(count, device=ended.device)
    if len(open_rows) < count:
        is_closed = ~candidates.scores[:, 0].isfinite() | (device_limits <= beams.length)
        keep = is_closed.byte().sort(stable=True).indices[: len(open_rows)]
        memory = memory.rows(keep)
        device_limits = device_limits[keep]
        ended = ended[keep]
        if sampler is not None:
            sampler = sampler.rows(keep)
        candidates = Candidates(
            candidates.scores[keep], candidates.parents[keep], candidates.tokens[keep]
        )

    # Their hypotheses on the host: the parent's pieces, and one more
    parents = host.parents[open_rows, :, None]  # [N' K' 1]
    tokens = host.tokens[open_rows, :, None]
    scores = host.scores[open_rows, :, None]
    ids = np.take_along_axis(beams.ids[open_rows], parents, 1)  # [N' K' T−1]
    sums = np.take_along_axis(beams.sums[open_rows], parents, 1)

    # The same on the device: rows of the parents in the old batch
    rows = (keep[:, None] * width + candidates.parents).flatten()  # [N'·K']
    state = select_rows(beams.state, rows)
    constraint = beams.constraint
    if constraint is not None:
        constraint = constraint.extend(keep, candidates.parents, candidates.tokens)
    return Beams(
        sentences=[beams.sentences[row] for row in open_rows],
        limits=[beams.limits[row] for row in open_rows],
        ids=np.concatenate((ids, tokens), 2),
        sums=np.concatenate((sums, scores), 2),
        last=candidates.tokens,
        scores=candidates.scores,
        state=state,
        memory=memory,
        device_limits=device_limits,
        ended=ended,
        constraint=constraint,
        sampler=sampler,
    )
