"""What a hypothesis may not contain: loops, wrong placeholders, or other pieces than given ones.

A loop is a span of pieces that stands in a row more often than is allowed. Allowed are two times,
one if the span has LONG pieces or more, or as often as any span of the source stands in a row if
that is more: "ha ha ha" stays. The piece that would complete one repetition too many gets the
probability 0. With spans of MIDDLE to LONG − 1 pieces the last piece but one already gets it, since
the first piece of a loop may differ by its capital letter ("The part of the part of the part").

A placeholder of the source is written exactly once. While one is missing, it takes the place of
</s>, with the larger of both probabilities.

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

WINDOW = 32  # W: pieces in the longest span whose repetition is noticed
MIDDLE = 3  # a span of so many pieces is stopped one piece earlier
LONG = 8  # a span of so many pieces is not repeated at all

Column = tuple[int, ...]  # the pieces that may stand in it
Template = Sequence[Column]  # all columns of a sentence, without </s>


class Constraint(Protocol):
    """What the open hypotheses may write next. It starts with one hypothesis, <s>, a sentence."""

    def apply(self, log_probabilities: Tensor) -> None:
        """Change log_probabilities [N K V] in place."""

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> Constraint:
        """The state after one more piece, tokens [N' K'] behind hypotheses parents [N' K'].

        rows [N'] are the sentences that stay open.
        """


@dataclass
class LoopAndPlaceholderConstraint:
    """The `Constraint` of ordinary search: no loops, and each placeholder of the source once."""

    placeholders: Tensor  # [P]: their ids in the target vocabulary
    missing: Tensor  # [N K P]: still to be written
    runs: Tensor  # [N K W]: how many pieces at the end equal the piece 1, 2, … W before them
    history: Tensor  # [N K T]: the last pieces, at most W + 1
    most: Tensor  # [N W]: the longest `runs` that are allowed

    @classmethod
    def start(
        cls,
        source: Tensor,
        source_placeholders: Sequence[int],
        placeholders: Sequence[int],
        avoid_loops: bool = True,
    ) -> LoopAndPlaceholderConstraint:
        """The constraints of one hypothesis, <s>, for each sentence of source [B S].

        source includes padding and </s>.
        """
        count = len(source)
        device = source.device
        source_ids = torch.tensor(source_placeholders, dtype=torch.long, device=device)  # [P]
        missing = (source[:, None, :] == source_ids[:, None]).any(2)  # [B P]
        most = longest_allowed_runs(source_repeats(source))  # [B W]
        if not avoid_loops:
            most = torch.full_like(most, torch.iinfo(most.dtype).max)
        return cls(
            placeholders=torch.tensor(placeholders, dtype=torch.long, device=device),
            missing=missing[:, None],
            runs=torch.zeros(count, 1, WINDOW, dtype=torch.long, device=device),
            history=source.new_zeros(count, 1, 0),
            most=most,
        )

    def apply(self, log_probabilities: Tensor) -> None:
        # No piece that completes a loop
        window = min(WINDOW, self.history.size(2))
        if window:
            back = self.history[:, :, -window:].flip(2)  # the piece 1, 2, … before the next one
            loops = self.runs[:, :, :window] >= self.most[:, None, :window]
            # What completes no loop is pointed at <pad>, which has −∞ already
            log_probabilities.scatter_(2, back.masked_fill(~loops, PAD), float("-inf"))

        # The first missing placeholder in the place of </s>, and only missing placeholders
        if not len(self.placeholders):
            return
        values = log_probabilities[:, :, self.placeholders]  # [N K P]
        end = log_probabilities[:, :, EOS]  # [N K]
        is_waiting = self.missing.any(2)  # [N K]
        first = self.missing.int().argmax(2, keepdim=True)  # [N K 1]
        wanted = values.gather(2, first)[:, :, 0]
        wanted = torch.where(is_waiting, torch.maximum(wanted, end), wanted)
        values.scatter_(2, first, wanted[:, :, None])
        values = values.masked_fill(~self.missing, float("-inf"))
        log_probabilities[:, :, EOS] = end.masked_fill(is_waiting, float("-inf"))
        log_probabilities[:, :, self.placeholders] = values

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> LoopAndPlaceholderConstraint:
        index = rows[:, None], parents
        last = tokens[:, :, None]  # [N' K' 1]
        history = self.history[index]  # [N' K' T]
        runs = self.runs[index]  # [N' K' W]
        is_same = torch.zeros_like(runs, dtype=torch.bool)
        window = min(WINDOW, history.size(2))
        if window:
            is_same[:, :, :window] = history[:, :, -window:].flip(2) == last
        return LoopAndPlaceholderConstraint(
            placeholders=self.placeholders,
            missing=self.missing[index] & (last != self.placeholders),
            runs=torch.where(is_same, runs + 1, 0),
            history=torch.cat((history[:, :, -WINDOW:], last), 2),
            most=self.most[rows],
        )


@dataclass
class ForcedColumns:
    """The constraint that each column of a target holds its given piece, or one of several.

    The other pieces get the probability 0. The given ones keep theirs, so that scores are those of
    forced decoding. After its last column a sentence must be at its limit, where beam search writes
    </s>.
    """

    columns: Tensor  # [N C]: the row of `allowed` for each column
    allowed: Tensor  # [D V]: D different columns, True for the pieces that may stand in one
    length: int = 0  # pieces of the hypotheses so far

    @classmethod
    def start(
        cls, templates: Sequence[Template], vocabulary: int, device: torch.device
    ) -> ForcedColumns:
        numbers: dict[Column, int] = {}  # of the different columns
        width = max(map(len, templates))
        rows = []
        for template in templates:
            row = [numbers.setdefault(column, len(numbers)) for column in template]
            rows.append(row + [0] * (width - len(row)))
        allowed = torch.zeros(max(1, len(numbers)), vocabulary, dtype=torch.bool)
        for column, number in numbers.items():
            allowed[number, list(column)] = True
        return cls(torch.tensor(rows, dtype=torch.long).to(device), allowed.to(device))

    def apply(self, log_probabilities: Tensor) -> None:
        if self.length < self.columns.size(1):
            allowed = self.allowed[self.columns[:, self.length]]
            log_probabilities.masked_fill_(~allowed[:, None], float("-inf"))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> ForcedColumns:
        return ForcedColumns(self.columns[rows], self.allowed, self.length + 1)


def longest_allowed_runs(repeats: Tensor) -> Tensor:
    """repeats [N] of the sources → [N W]: the longest `runs` allowed, for each period 1 … W."""
    periods = torch.arange(1, WINDOW + 1, device=repeats.device)  # [W]
    repeats = repeats[:, None]
    allowed = torch.where(periods < LONG, repeats.clamp(min=2), repeats)  # [N W]
    is_middle = (periods >= MIDDLE) & (periods < LONG)
    return allowed * periods - 1 - is_middle.long()


# Allowed even if the source repeats nothing; other sources may allow more
ALLOWED_FOR_ANY_SOURCE: list[int] = longest_allowed_runs(torch.ones(1, dtype=torch.long))[
    0
].tolist()


def source_repeats(source: Tensor) -> Tensor:
    """source [B S] → [B]: the most times that a span of it stands in a row.

    A repetition that is cut short counts.
    """
    width = source.size(1)
    most = torch.ones(len(source), dtype=torch.long, device=source.device)
    positions = torch.arange(width, device=source.device)
    for period in range(1, min(WINDOW, width - 1) + 1):
        is_same = (source[:, period:] == source[:, :-period]) & (source[:, period:] != PAD)
        position = positions[: width - period]
        last_different = torch.where(is_same, -1, position).cummax(1).values
        run = (position - last_different).amax(1)  # [B]: the longest
        times = 1 + torch.div(run + period - 1, period, rounding_mode="floor")
        is_repetition = (run > 1) | (run == period)
        most = torch.maximum(most, torch.where(is_repetition, times, 1))
    return most


def has_loop(source: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether a target holds a loop, for a search that does not avoid them."""
    runs = longest_runs(ids)
    if not any(map(operator.gt, runs, ALLOWED_FOR_ANY_SOURCE)):
        return False
    repeats = source_repeats(torch.tensor([list(source) or [PAD]]))
    most = longest_allowed_runs(repeats)[0].tolist()
    return any(map(operator.gt, runs, most))


def longest_runs(ids: Sequence[int]) -> list[int]:
    """For each period 1, 2, …: the longest run of pieces equal to the piece one period before."""
    runs: list[int] = []
    if len(set(ids)) == len(ids):
        return runs
    for period in range(1, min(WINDOW, len(ids) - 1) + 1):
        longest = 0
        run = 0
        for piece, before in zip(ids[period:], ids, strict=False):
            run = run + 1 if piece == before else 0
            longest = max(longest, run)
        runs.append(longest)
    return runs
