"""Beam search and sampling for any `EncoderDecoder`.

The total of a hypothesis is its log-probability, its score is total / length^α; both count </s>.
With early stopping a sentence is closed as soon as `beam` of its hypotheses have ended. Without it,
the search continues after that, until no open hypothesis has a better score than the `beam`-th
best of those that have ended. At its maximum length a hypothesis must end. Closed sentences leave
the batch. Greedy search is beam 1.

Sampling is search with beam 1 whose next piece is drawn (nmt/decode/sampling.py). Each sample has a
row of its own, as a sentence has, so that it leaves the batch when it ends.

<pad> and <s> are forbidden: <pad> after the softmax, so that its probability is lost, and <s>
before it. Forced decoding does the same, so scores are equal. The papers do not forbid pieces, and
only Vaswani 2017 §6.1 limits the length.

N open sentences, K hypotheses of each (one in the first column, then `beam`), V vocabulary. A
column is one target position. T is the number of the column that is being chosen, so hypotheses
have T − 1 pieces so far. Row n·K + k of the batch is hypothesis k of sentence n.
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

MAX_SPAN = 128  # the most pieces in a span of the vocabulary (`top_candidates`)


@dataclass
class Hypothesis:
    """A finished target, without <s> and </s>."""

    ids: list[int]
    score: float
    # Of each piece, and of </s>; 0 for the pieces of `begin`
    log_probabilities: list[float] = field(default_factory=list, compare=False)


NBest = list[list[Hypothesis]]  # the n best hypotheses of each sentence


@dataclass
class Beams:
    """The open hypotheses of the open sentences.

    Lists and arrays are on the host, tensors on the device.
    """

    sentences: list[int]  # N indices in the input
    limits: list[int]  # N maximum lengths, </s> counted
    ids: np.ndarray  # [N K T−1]: without <s>
    running_totals: np.ndarray  # [N K T−1]: the total of a hypothesis after each of its pieces
    last: Tensor  # [N K]: the newest piece
    totals: Tensor  # [N K]
    state: DecoderState  # [N·K …]
    memory: Memory  # [N …]: shared by all hypotheses of a sentence
    device_limits: Tensor  # [N]: `limits`
    ended: Tensor  # [N beam]: the best scores of hypotheses that have ended; −∞ if there are fewer
    constraint: Constraint | None
    sampler: Sampler | None

    @property
    def length(self) -> int:
        """T: the length, with </s>, of a hypothesis that ends in the column being chosen."""
        return self.ids.shape[2] + 1


class Candidates(NamedTuple):
    """Hypotheses extended by one piece: R of each sentence, best first."""

    totals: Tensor  # [N R]; −∞: not a candidate
    parents: Tensor  # [N R]: the hypotheses that are extended, 0 … K − 1
    tokens: Tensor  # [N R]: the new pieces


class HostCandidates(NamedTuple):
    """Candidates on the host."""

    totals: np.ndarray
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
    """The best hypotheses of each sentence, best first, at most `beam` of each.

    source [B S], mask [B S] or None. `limit` [B]: the maximum length of a hypothesis, </s> counted.
    `constraint`: its state after <s>, with one hypothesis of each sentence. `begin` [B P]: the
    pieces that each hypothesis begins with; they count in its length, and not in its total.

    `sampler` draws C samples of each sentence, with beam 1. Then `limit`, `constraint`, `begin` and
    the result have B·C rows, in which the samples of a sentence are adjacent.

    The host waits for a GPU once a column, in `to_host`, and once or more to draw with `top_p`.
    After the first column it sends commands and no data.
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

        # Expand: the best 2·beam extensions of each sentence. At most one of each hypothesis ends,
        # so at least `beam` stay open, unless a limit is reached or a constraint allows fewer. A
        # sampler draws one extension.
        extensions = expand(logits, beams, beam, buffer)  # [N 2·beam], or [N 1] with a sampler

        # Choose: the best `beam` that stay open, and the best `beam` of all, which may end.
        still_open = open_candidates(extensions, beam)  # [N beam]
        best = Candidates(
            extensions.totals[:, :beam],
            extensions.parents[:, :beam],
            extensions.tokens[:, :beam],
        )

        # End: the best `beam` scores of the hypotheses of each sentence that have ended.
        normalizer = beams.length**alpha
        ended = best.totals.masked_fill(best.tokens != EOS, float("-inf")) / normalizer
        beams.ended = torch.cat((beams.ended, ended), 1).topk(beam, 1).values

        # Close the sentences whose search is over. Totals of −∞ tell `advance` to drop them.
        worst = beams.ended[:, -1:]  # [N 1]
        if early_stopping:
            is_closed = worst.isfinite()
        else:
            is_closed = worst >= still_open.totals[:, :1] / normalizer
        open_totals = still_open.totals.masked_fill(is_closed, float("-inf"))
        still_open = still_open._replace(totals=open_totals)

        # Record the hypotheses that ended, on the host.
        host_best, host_open = to_host(best, still_open)
        is_ended = (host_best.tokens == EOS) & np.isfinite(host_best.totals)  # [N beam]
        for row, rank in np.argwhere(is_ended).tolist():
            hypotheses = finished[beams.sentences[row]]
            if early_stopping and len(hypotheses) == beam:
                continue  # more have ended in this column than were wanted
            parent = host_best.parents[row, rank]
            total = float(host_best.totals[row, rank])
            totals = [0.0, *beams.running_totals[row, parent].tolist(), total]
            log_probabilities = np.diff(totals).tolist()
            ids = beams.ids[row, parent].tolist()
            hypotheses.append(Hypothesis(ids, total / normalizer, log_probabilities))

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
    """One hypothesis of each sentence: <s>, and the pieces of `begin` [N P]."""
    count = len(memory.values)  # N
    device = memory.values.device
    # Transposed views, which every column would copy, are copied once
    static = {name: tensor.contiguous() for name, tensor in memory.static.items()}
    memory = memory._replace(static=static)
    state = model.start(memory)
    last = torch.full((count, 1), BOS, device=device)
    ids = np.empty((count, 1, 0), np.int64)
    if begin is not None:
        target = torch.cat((last, begin[:, :-1]), 1)  # [N P]
        state = model.decode(target, state, memory).state
        last = begin[:, -1:]  # [N 1]
        ids = begin[:, None].cpu().numpy()
    if begin is not None and constraint is not None:
        rows = torch.arange(count, device=device)
        for column in begin.T:
            tokens = column[:, None]  # [N 1]
            parents = torch.zeros_like(tokens)
            constraint = constraint.extend(rows, parents, tokens)
    return Beams(
        sentences=list(range(count)),
        limits=limit.tolist(),
        ids=ids,
        running_totals=np.zeros(ids.shape, np.float32),
        last=last,
        totals=torch.zeros(count, 1, device=device),
        state=state,
        memory=memory,
        device_limits=limit.to(device),
        ended=torch.full((count, beam), float("-inf"), device=device),
        constraint=constraint,
        sampler=sampler,
    )


def float32_buffer(logits: Tensor, rows: int) -> Tensor | None:
    """Where `masked_log_softmax` writes its result on a CPU, [rows V] in float32.

    None where it needs no such place. A new tensor of many megabytes at every column would cost
    more in page faults than the softmax itself.
    """
    if logits.device.type != "cpu" or logits.dtype == torch.float32:
        return None
    return torch.empty(rows, logits.size(1))


def expand(logits: Tensor, beams: Beams, beam: int, buffer: Tensor | None) -> Candidates:
    """logits [N·K V] → the best 2·beam extensions of each sentence, or the one that is drawn.

    A hypothesis at its limit can only end.
    """
    log_probabilities = masked_log_softmax(logits, buffer).view(*beams.totals.shape, -1)  # [N K V]
    ends = log_probabilities[:, :, EOS]  # [N K]
    if beams.constraint is not None:
        ends = ends.clone()  # at its limit a hypothesis ends in spite of the constraint
        beams.constraint.apply(log_probabilities)
    if beams.sampler is None:
        candidates = top_candidates(beams.totals, log_probabilities, 2 * beam)
    else:
        of_samples = log_probabilities[:, 0]  # [N V]
        tokens = beams.sampler.draw(of_samples, beams.length - 1)  # [N 1]
        totals = beams.totals + of_samples.gather(1, tokens)
        candidates = Candidates(totals, torch.zeros_like(tokens), tokens)
    if min(beams.limits) > beams.length:
        return candidates
    forced = forced_ends(beams.totals, ends, candidates)
    at_limit = (beams.device_limits <= beams.length)[:, None]  # [N 1]
    return Candidates(
        torch.where(at_limit, forced.totals, candidates.totals),
        torch.where(at_limit, forced.parents, candidates.parents),
        torch.where(at_limit, forced.tokens, candidates.tokens),
    )


def masked_log_softmax(logits: Tensor, buffer: Tensor | None) -> Tensor:
    """logits [N·K V] → log-probabilities [N·K V] in float32, −∞ for <pad> and <s>.

    <s> has no part in the softmax: no target has it, and in an imported model its row may be a copy
    of that of </s>. `logits` are overwritten. On a CPU the result is in `buffer` [≥ N·K V], or in
    `logits` if it is None.
    """
    logits[:, BOS] = float("-inf")
    if logits.device.type == "cpu":
        values = logits if buffer is None else buffer[: len(logits)].copy_(logits)
        log_probabilities = torch.log_softmax(values, -1, out=values)
    else:
        log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
    log_probabilities[:, PAD] = float("-inf")
    return log_probabilities


def top_candidates(totals: Tensor, log_probabilities: Tensor, count: int) -> Candidates:
    """The `count` best sums (or all, if fewer) of totals [N K] and log_probabilities [N K V].

    On a CPU `topk` is slow and `amax` is fast. So the vocabulary is divided into C spans of W
    pieces. The `count` spans with the largest maxima must contain the `count` largest values.
    """
    vocabulary = log_probabilities.size(2)
    width = next(width for width in range(MAX_SPAN, 0, -1) if vocabulary % width == 0)  # W
    spans = log_probabilities.unflatten(2, (-1, width))  # [N K C W]
    num_spans = spans.size(2)  # C

    # The best M spans of each sentence, of all its hypotheses
    maxima = (totals[:, :, None] + spans.amax(3)).flatten(1)  # [N K·C]
    best_spans = maxima.topk(min(count, maxima.size(1)), 1).indices  # [N M]: k·C + c
    parents = best_spans // num_spans

    # The best pieces in these spans
    index = best_spans[:, :, None].expand(-1, -1, width)  # [N M W]
    values = spans.flatten(1, 2).gather(1, index)  # [N M W]
    sums = (totals.gather(1, parents)[:, :, None] + values).flatten(1)  # [N M·W]
    best_sums, places = sums.topk(min(count, sums.size(1)), 1)  # [N R]: m·W + w

    # The id of a piece is c·W + w
    ranks = places // width  # [N R]: m
    spans_of_best = best_spans.gather(1, ranks) % num_spans  # [N R]: c
    tokens = spans_of_best * width + places % width
    return Candidates(best_sums, parents.gather(1, ranks), tokens)


def forced_ends(totals: Tensor, ends: Tensor, like: Candidates) -> Candidates:
    """totals [N K], log-probabilities of </s> [N K] → every hypothesis ended, best first.

    There are as many candidates as in `like`; those beyond K have the total −∞.
    """
    ended, parents = (totals + ends).sort(1, descending=True)
    missing = (0, like.totals.size(1) - ended.size(1))
    ended = functional.pad(ended, missing, value=float("-inf"))  # [N R]
    parents = functional.pad(parents, missing)
    return Candidates(ended, parents, torch.full_like(like.tokens, EOS))


def open_candidates(candidates: Candidates, beam: int) -> Candidates:
    """The best `beam` that do not end."""
    totals = candidates.totals.masked_fill(candidates.tokens == EOS, float("-inf"))
    totals, order = totals.topk(min(beam, totals.size(1)), 1)
    parents = candidates.parents.gather(1, order)
    tokens = candidates.tokens.gather(1, order)
    return Candidates(totals, parents, tokens)


def to_host(*candidates: Candidates) -> list[HostCandidates]:
    """Candidates copied to the host in one tensor, so that it waits only once.

    Integers are copied as float32, which is exact below 2²⁴.
    """
    stacked = []
    for totals, parents, tokens in candidates:
        stacked.append(torch.stack((totals, parents.to(totals.dtype), tokens.to(totals.dtype))))
    copied = torch.stack(stacked).cpu().numpy()  # [candidates 3 N R]
    result = []
    for totals, parents, tokens in copied:
        result.append(HostCandidates(totals, parents.astype(np.int64), tokens.astype(np.int64)))
    return result


def advance(beams: Beams, candidates: Candidates, host: HostCandidates) -> Beams:
    """The beams of the next column: the candidates of the N' sentences that stay open, K' of each.

    `beams.state` must include the column just decoded. Closed sentences have totals of −∞.
    """
    width = beams.totals.size(1)  # K
    count = len(beams.sentences)  # N
    memory = beams.memory
    device_limits = beams.device_limits
    ended = beams.ended
    sampler = beams.sampler

    # The rows of the sentences that stay open
    open_rows = []
    for row, limit in enumerate(beams.limits):
        if np.isfinite(host.totals[row, 0]) and beams.length < limit:
            open_rows.append(row)

    # The same rows on the device: it computes them again, since the host sends it no data
    keep = torch.arange(count, device=ended.device)  # [N']
    if len(open_rows) < count:
        is_closed = ~candidates.totals[:, 0].isfinite() | (device_limits <= beams.length)
        # Open rows first; `nonzero` would make the host wait
        keep = is_closed.byte().sort(stable=True).indices[: len(open_rows)]
        memory = memory.rows(keep)
        device_limits = device_limits[keep]
        ended = ended[keep]
        if sampler is not None:
            sampler = sampler.rows(keep)
        candidates = Candidates(
            candidates.totals[keep], candidates.parents[keep], candidates.tokens[keep]
        )

    # Their hypotheses on the host: the parent's pieces, and one more
    parents = host.parents[open_rows, :, None]  # [N' K' 1]
    tokens = host.tokens[open_rows, :, None]
    totals = host.totals[open_rows, :, None]
    ids = np.take_along_axis(beams.ids[open_rows], parents, 1)  # [N' K' T−1]
    running_totals = np.take_along_axis(beams.running_totals[open_rows], parents, 1)

    # Their states on the device: those of the parents' rows in the old batch
    rows = (keep[:, None] * width + candidates.parents).flatten()  # [N'·K']
    state = select_rows(beams.state, rows)
    constraint = beams.constraint
    if constraint is not None:
        constraint = constraint.extend(keep, candidates.parents, candidates.tokens)
    return Beams(
        sentences=[beams.sentences[row] for row in open_rows],
        limits=[beams.limits[row] for row in open_rows],
        ids=np.concatenate((ids, tokens), 2),  # [N' K' T]
        running_totals=np.concatenate((running_totals, totals), 2),
        last=candidates.tokens,
        totals=candidates.totals,
        state=state,
        memory=memory,
        device_limits=device_limits,
        ended=ended,
        constraint=constraint,
        sampler=sampler,
    )
