"""What a hypothesis may not contain: loops, wrong placeholders, or pieces other than given ones.

A span of pieces may be written twice in a row, one of LONG pieces or more only once. If some span
of the source stands there n times in a row, all spans may be written n times: "ha ha ha" stays.
More is a loop, and the piece that would complete it gets the probability 0. With MIDDLE to LONG − 1
pieces, the piece before that gets it already: in "The part of the part of the part of", the first
"The" differs from the others, so that the repetitions begin one piece late.

A placeholder of the source is written exactly once. While some are missing, </s> is forbidden, and
the first of them gets the larger one of its own probability and that of </s>.

These are deviations from plain beam search. A hypothesis that they do not change has the score of
forced decoding.

N open sentences, K hypotheses of each, P placeholders, W the longest period of a loop, V
vocabulary, S source pieces, T target pieces, C columns.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.data.tokenizer import EOS, PAD

WINDOW = 32  # W: pieces of the longest span whose repetition is noticed
MIDDLE = 3  # from so many pieces on, a loop is stopped one piece earlier
LONG = 8  # from so many pieces on, a span may not be repeated at all

Column = tuple[int, ...]  # the pieces that may stand in it
Template = Sequence[Column]  # all columns of a sentence, without </s>


class Constraint(Protocol):
    """What the open hypotheses may write next; at first there is one, <s>, of each sentence."""

    def apply(self, log_probabilities: Tensor) -> None:
        """Change log_probabilities [N K V] in place."""

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> Constraint:
        """The constraint after one more piece.

        rows [N']: the sentences that stay open. parents [N' K']: the hypotheses of each that are
        extended. tokens [N' K']: their new pieces.
        """


@dataclass
class LoopAndPlaceholderConstraint:
    """The constraint of ordinary search: no loops, and each placeholder of the source once."""

    placeholders: Tensor  # [P]: their ids in the target vocabulary
    missing: Tensor  # [N K P]: True for those still to be written
    # [N K W]: for each period 1 … W, how many pieces at the end equal the piece one period before
    runs: Tensor
    history: Tensor  # [N K T']: the last pieces, at most W
    allowed_runs: Tensor  # [N W]: the longest `runs` that are allowed

    @classmethod
    def start(
        cls,
        source: Tensor,
        source_placeholders: Sequence[int],
        placeholders: Sequence[int],
        avoid_loops: bool = True,
    ) -> LoopAndPlaceholderConstraint:
        """The constraint of one hypothesis, <s>, of each sentence of source [B S].

        source includes padding and </s>. The placeholders are given by their ids in the source
        vocabulary and, in the same order, by those in the target vocabulary.
        """
        count = len(source)
        device = source.device
        source_ids = torch.tensor(source_placeholders, dtype=torch.long, device=device)  # [P]
        missing = (source[:, None, :] == source_ids[:, None]).any(2)  # [B P]
        allowed_runs = longest_allowed_runs(source_repeats(source))  # [B W]
        if not avoid_loops:
            allowed_runs = torch.full_like(allowed_runs, torch.iinfo(allowed_runs.dtype).max)
        return cls(
            placeholders=torch.tensor(placeholders, dtype=torch.long, device=device),
            missing=missing[:, None],
            runs=torch.zeros(count, 1, WINDOW, dtype=torch.long, device=device),
            history=source.new_zeros(count, 1, 0),
            allowed_runs=allowed_runs,
        )

    def apply(self, log_probabilities: Tensor) -> None:
        # Forbid the pieces that make a run longer than is allowed
        length = self.history.size(2)  # T'
        if length:
            back = self.history.flip(2)  # [N K T']: the piece 1, 2, … back
            is_loop = self.runs[:, :, :length] >= self.allowed_runs[:, None, :length]
            # The others are replaced by <pad>, which has −∞ already
            forbidden = back.masked_fill(~is_loop, PAD)
            log_probabilities.scatter_(2, forbidden, float("-inf"))

        # Write missing placeholders, and no others; the first one in the place of </s>
        if not len(self.placeholders):
            return
        values = log_probabilities[:, :, self.placeholders]  # [N K P], a copy
        end = log_probabilities[:, :, EOS]  # [N K], a view
        # [N K 1]; 0 if none is missing, which is then forbidden below
        first = self.missing.int().argmax(2, keepdim=True)
        larger = torch.maximum(values.gather(2, first), end[:, :, None])  # [N K 1]
        values.scatter_(2, first, larger)
        values.masked_fill_(~self.missing, float("-inf"))
        log_probabilities[:, :, self.placeholders] = values
        end.masked_fill_(self.missing.any(2), float("-inf"))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> LoopAndPlaceholderConstraint:
        index = (rows[:, None], parents)
        last = tokens[:, :, None]  # [N' K' 1]
        history = self.history[index]  # [N' K' T']
        runs = self.runs[index]  # [N' K' W]
        is_same = torch.zeros_like(runs, dtype=torch.bool)
        length = history.size(2)
        if length:
            is_same[:, :, :length] = history.flip(2) == last
        return LoopAndPlaceholderConstraint(
            placeholders=self.placeholders,
            missing=self.missing[index] & (last != self.placeholders),
            runs=torch.where(is_same, runs + 1, 0),
            history=torch.cat((history, last), 2)[:, :, -WINDOW:],
            allowed_runs=self.allowed_runs[rows],
        )


@dataclass
class ForcedColumns:
    """The constraint that each column of a target holds its given piece, or one of several.

    The other pieces get the probability 0. The given ones keep theirs, so that scores are those of
    forced decoding. After its last column a sentence must be at its limit, where beam search writes
    </s>.
    """

    columns: Tensor  # [N C]: the row of each column in `allowed`
    allowed: Tensor  # [D V]: for D different columns, True for the pieces that may stand in them
    length: int = 0  # pieces of the hypotheses so far

    @classmethod
    def start(
        cls, templates: Sequence[Template], vocabulary: int, device: torch.device
    ) -> ForcedColumns:
        """The constraint of one hypothesis, <s>, of each sentence; `vocabulary` is V."""
        rows: dict[Column, int] = {}  # in `allowed`
        longest = max(map(len, templates))  # C
        columns = []
        for template in templates:
            of_template = [rows.setdefault(column, len(rows)) for column in template]
            columns.append(of_template + [0] * (longest - len(of_template)))
        allowed = torch.zeros(max(1, len(rows)), vocabulary, dtype=torch.bool)
        for column, row in rows.items():
            allowed[row, list(column)] = True
        return cls(torch.tensor(columns, dtype=torch.long).to(device), allowed.to(device))

    def apply(self, log_probabilities: Tensor) -> None:
        if self.length < self.columns.size(1):
            allowed = self.allowed[self.columns[:, self.length]]  # [N V]
            log_probabilities.masked_fill_(~allowed[:, None], float("-inf"))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> ForcedColumns:
        return ForcedColumns(self.columns[rows], self.allowed, self.length + 1)


def longest_allowed_runs(repeats: Tensor) -> Tensor:
    """repeats [N] of the sources → [N W]: the longest runs that are allowed, for each period 1 … W.

    A span of p pieces that stands t times in a row makes a run of (t − 1)·p.
    """
    periods = torch.arange(1, WINDOW + 1, device=repeats.device)  # [W]
    repeats = repeats[:, None]
    times = torch.where(periods < LONG, repeats.clamp(min=2), repeats)  # [N W]
    is_middle = (periods >= MIDDLE) & (periods < LONG)
    return times * periods - 1 - is_middle.long()


# For a source without repetitions; other sources allow runs of this length or longer
ALLOWED_FOR_ANY_SOURCE = longest_allowed_runs(torch.ones(1, dtype=torch.long))[0].tolist()


def source_repeats(source: Tensor) -> Tensor:
    """source [B S] → [B]: the most times that a span of it stands in a row.

    A repetition that is cut short counts.
    """
    width = source.size(1)
    most = torch.ones(len(source), dtype=torch.long, device=source.device)
    positions = torch.arange(width, device=source.device)
    for period in range(1, min(WINDOW, width - 1) + 1):
        # The longest run of pieces equal to the piece one period before
        is_same = (source[:, period:] == source[:, :-period]) & (source[:, period:] != PAD)
        # The run that ends at a position is as long as its distance to the last different piece
        index = positions[: width - period]
        last_different = torch.where(is_same, -1, index).cummax(1).values
        longest = (index - last_different).amax(1)  # [B]

        # A run of 1 is a repetition for period 1 alone; else it is a piece that occurs twice
        times = 1 + (longest + period - 1) // period
        is_repetition = (longest > 1) | (longest == period)
        most = torch.maximum(most, torch.where(is_repetition, times, 1))
    return most


def has_loop(source: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether a target has a loop, for a search that does not avoid them."""
    runs = longest_runs(ids)
    if not any(map(operator.gt, runs, ALLOWED_FOR_ANY_SOURCE)):
        return False
    repeats = source_repeats(torch.tensor([list(source) or [PAD]]))
    allowed_runs = longest_allowed_runs(repeats)[0].tolist()
    return any(map(operator.gt, runs, allowed_runs))


def longest_runs(ids: Sequence[int]) -> list[int]:
    """For each period 1, 2, …: the longest run of pieces equal to the piece one period before."""
    runs: list[int] = []
    if len(set(ids)) == len(ids):  # no piece stands twice
        return runs
    for period in range(1, min(WINDOW, len(ids) - 1) + 1):
        longest = 0
        run = 0
        for piece, before in zip(ids[period:], ids, strict=False):
            run = run + 1 if piece == before else 0
            longest = max(longest, run)
        runs.append(longest)
    return runs
