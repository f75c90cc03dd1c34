"""What is decided about each training pair before it is written, in several processes.

This process reads the pairs and writes them; the others look at chunks of them. What they answer is in the order read,
so the corpus does not depend on their number.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from nmt.config.schema import DataConfig
from nmt.data.checks import SAMPLE, PairChecks
from nmt.data.filtering import HeldOutSentences, rejection_reason
from nmt.data.inspect.chunk import Chunk, ChunkFaults, chunks
from nmt.data.origin import Origin
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tables import Pair, Skipped
from nmt.data.training_links import with_links
from nmt.data.training_plan import TrainingPlan

CHUNK = 4000  # pairs that a process looks at together


class Decision(NamedTuple):
    """About one pair."""

    reason: str | None  # why it is left out
    held_out: set[int]  # the sentences of validation and test sets that it has, by their hashes
    hash: int  # of both sides, to the letter


@dataclass
class TrainingFilter:
    """Decides which training pairs are kept; `checks` counts their faults, and is prepared."""

    plan: TrainingPlan
    data: DataConfig
    held_out: HeldOutSentences
    checks: PairChecks

    def decide_all(
        self, pairs: Iterator[Pair], links: Path | None, place: Path | str
    ) -> Iterator[tuple[Pair, str, Decision]]:
        """Each pair with its line of the file `links` and a decision; some chunks are read ahead. Raises UserError."""
        read = deque[tuple[Pair, str]]()

        def reading() -> Iterator[Pair]:
            for item in with_links(pairs, links, place):
                read.append(item)
                yield item[0]

        parts = chunks(reading(), CHUNK)
        for found, decisions in map_in_order(self.decide, parts, usable_processors(), "checks pairs"):
            self.checks.note(found, len(decisions))
            for decision in decisions:
                yield *read.popleft(), decision

    def decide(self, chunk: Chunk) -> tuple[ChunkFaults, list[Decision]]:
        """The faults of a chunk, and the decision about each of its pairs."""
        found = self.checks.inspect(chunk.pairs, chunk.core)
        limits = self.data.max_characters, self.data.max_length_ratio
        decisions = []
        for pair, value in zip(chunk.pairs[chunk.core], found.exact.tolist(), strict=True):
            reason = rejection_reason(*pair, *limits) or self.plan.reason(*pair)
            decisions.append(Decision(reason, set() if reason else self.held_out.find(*pair), value))
        return found, decisions


def first_pairs(origins: Sequence[Origin]) -> list[Pair]:
    """The pairs of a training text by which is told what is usual; raises UserError."""
    return list(islice(chain.from_iterable(origin.pairs(Skipped()) for origin in origins), SAMPLE))
