"""What a hypothesis may not contain: loops, placeholders that are missing or written twice, or all
but given pieces.

N open sentences, K hypotheses of each, P placeholders, W the longest period of a loop, V
vocabulary, S source pieces, C columns.

A loop is a span of pieces that stands more often in a row than it may: twice, or once if it has
LONG pieces or more; always as often as any span of the source does, so that "ha ha ha" stays. The
piece that would complete one repetition too many gets the probability 0; of spans of three to LONG
− 1 pieces already the one before it, since the first piece of a loop may differ by its capital
letter ("The part of the part of the part"). A placeholder of the source is written exactly once:
before that, </s> gives way to the first that is missing, with the larger of both probabilities.
These are deviations from plain beam search; a hypothesis that none of them concerns has the score
of forced decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.data.tokenizer import EOS, PAD

WINDOW = 32  # W: pieces in the longest span whose repetition is noticed
# pieces of a span that is stopped earlier, and of one that is not repeated at all
MIDDLE = 3
LONG = 8

Column = tuple[int, ...]  # the pieces that may stand in it
Template = Sequence[Column]  # all columns of a sentence, without </s>


class Constraint(Protocol):
    """The state of a constraint of all open hypotheses; at first one, <s>, of each sentence."""

    def apply(self, log_probabilities: Tensor) -> None:
        """Change log_probabilities [N K V] in place."""

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> "Constraint":
        """The state after one piece more, tokens [N' K']; rows [N'] stay open, parents [N' K'] are
        hypotheses."""


@dataclass
class Constraints:
    """No loops, and each placeholder of the source once."""

    placeholders: Tensor  # [P]: their ids in the target vocabulary
    missing: Tensor  # [N K P]: still to be written
    runs: Tensor  # [N K W]: how many pieces at the end equal the piece 1, 2, … W before them
    history: Tensor  # [N K T]: the last pieces, at most W + 1
    most: Tensor  # [N W]: how many of them may

    @classmethod
    def start(
        cls,
        source: Tensor,
        source_placeholders: Sequence[int],
        placeholders: Sequence[int],
        avoid_loops: bool = True,
    ) -> "Constraints":
        """Those of one hypothesis, <s>, for each sentence of source [B S], padding and </s>
        included."""
        device = source.device
        own = torch.tensor(source_placeholders, dtype=torch.long, device=device)
        missing = (source[:, None, :] == own[:, None]).any(2)
        runs = torch.zeros(len(source), 1, WINDOW, dtype=torch.long, device=device)
        targets = torch.tensor(placeholders, dtype=torch.long, device=device)
        most = most_equal(source_repeats(source))
        if not avoid_loops:
            most = torch.full_like(most, torch.iinfo(most.dtype).max)
        return cls(targets, missing[:, None], runs, source.new_zeros(len(source), 1, 0), most)

    def apply(self, log_probabilities: Tensor) -> None:
        window = min(WINDOW, self.history.size(2))
        if window:
            back = self.history[:, :, -window:].flip(2)  # the piece 1, 2, … before the next one
            loops = self.runs[:, :, :window] >= self.most[:, None, :window]
            log_probabilities.scatter_(2, back.masked_fill(~loops, PAD), float("-inf"))
        if not len(self.placeholders):
            return
        values = log_probabilities[:, :, self.placeholders]
        waits = self.missing.any(2)
        first = self.missing.int().argmax(2, keepdim=True)
        end = log_probabilities[:, :, EOS]
        wanted = values.gather(2, first)[:, :, 0]
        values.scatter_(
            2, first, torch.where(waits, torch.maximum(wanted, end), wanted)[:, :, None]
        )
        log_probabilities[:, :, EOS] = end.masked_fill(waits, float("-inf"))
        log_probabilities[:, :, self.placeholders] = values.masked_fill(
            ~self.missing, float("-inf")
        )

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> "Constraints":
        runs, missing, history = (
            each[rows[:, None], parents] for each in (self.runs, self.missing, self.history)
        )
        last = tokens[:, :, None]
        window = min(WINDOW, history.size(2))
        same = torch.zeros_like(runs, dtype=torch.bool)
        if window:
            same[:, :, :window] = history[:, :, -window:].flip(2) == last
        history = torch.cat((history[:, :, -WINDOW:], last), 2)
        missing = missing & (last != self.placeholders)
        return Constraints(
            self.placeholders, missing, torch.where(same, runs + 1, 0), history, self.most[rows]
        )


@dataclass
class ForcedColumns:
    """The pieces of each column are given: one, or some of which the search chooses.

    The other pieces have the probability 0 and those that stay are not changed, so that scores are
    those of forced decoding. After its last column a sentence must be at its limit, where beam
    search writes </s>.
    """

    columns: Tensor  # [N C]: rows of `allowed`
    allowed: Tensor  # [different columns, V]
    length: int = 0  # pieces of the hypotheses so far

    @classmethod
    def start(
        cls, templates: Sequence[Template], vocabulary: int, device: torch.device
    ) -> "ForcedColumns":
        numbers: dict[Column, int] = {}
        width = max(map(len, templates))
        rows = [
            [numbers.setdefault(column, len(numbers)) for column in template]
            + [0] * (width - len(template))
            for template in templates
        ]
        allowed = torch.zeros(max(1, len(numbers)), vocabulary, dtype=torch.bool)
        for column, number in numbers.items():
            allowed[number, list(column)] = True
        return cls(torch.tensor(rows, dtype=torch.long).to(device), allowed.to(device))

    def apply(self, log_probabilities: Tensor) -> None:
        if self.length < self.columns.size(1):
            allowed = self.allowed[self.columns[:, self.length]]
            log_probabilities.masked_fill_(~allowed[:, None], float("-inf"))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> "ForcedColumns":
        return ForcedColumns(self.columns[rows], self.allowed, self.length + 1)


def most_equal(repeats: Tensor) -> Tensor:
    """repeats [N] of the source → [N W]: how many pieces in a row may equal the piece 1, 2, … W
    before them."""
    periods = torch.arange(1, WINDOW + 1, device=repeats.device)
    repeats = repeats[:, None]
    allowed = torch.where(periods < LONG, repeats.clamp(min=2), repeats)
    return allowed * periods - 1 - ((periods >= MIDDLE) & (periods < LONG)).long()


# What is allowed after any source.
ALWAYS_EQUAL: list[int] = most_equal(torch.ones(1, dtype=torch.long))[0].tolist()


def source_repeats(source: Tensor) -> Tensor:
    """source [B S] → [B]: the most times that a span of it stands in a row, a repetition that is
    cut short included."""
    width = source.size(1)
    most = torch.ones(len(source), dtype=torch.long, device=source.device)
    position = torch.arange(width, device=source.device)
    for period in range(1, min(WINDOW, width - 1) + 1):
        same = (source[:, period:] == source[:, :-period]) & (source[:, period:] != PAD)
        # the last place that differs
        before = torch.where(same, -1, position[: width - period]).cummax(1).values
        run = (position[: width - period] - before).amax(1)
        counts = 1 + torch.div(run + period - 1, period, rounding_mode="floor")
        most = torch.maximum(most, torch.where((run > 1) | (run == period), counts, 1))
    return most


def has_loop(source: Sequence[int], ids: Sequence[int]) -> bool:
    """Whether a target holds a loop, for a search that does not avoid them."""
    runs = longest_runs(ids)
    if not any(run > allowed for run, allowed in zip(runs, ALWAYS_EQUAL, strict=False)):
        return False
    most = most_equal(source_repeats(torch.tensor([list(source) or [PAD]])))[0].tolist()
    return any(run > allowed for run, allowed in zip(runs, most, strict=False))


def longest_runs(ids: Sequence[int]) -> list[int]:
    """For each period 1, 2, … how many pieces in a row equal the piece so many before them, at
    most."""
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
