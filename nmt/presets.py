"""model=auto and tokenizer=auto: sizes, regularisation and schedule from the corpus and the time that is given.

The rules follow from trainings of 5,000, 29,000 and 160,000 pairs (docs/presets.md). Two numbers decide: how many pairs
there are, and how often a model of a given width can pass over them in the time.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config import Config
from nmt.data.corpus import read_report
from nmt.errors import UserError

log = logging.getLogger("nmt")

AUTO = "auto"
BASE = {"model": "transformer", "tokenizer": "unigram"}  # the files that `auto` changes
DEFAULT_MINUTES = 60.0  # what a training without train.max_minutes is taken to have
# Target positions a second of two cores (128 wide: 10,000), by width with its vocabulary; a GPU does about 50 times that.
WIDTHS = {128: 10_000.0, 256: 3_800.0, 512: 1_100.0}
GPU_SPEED = 50.0
CHARACTERS_PER_PIECE = 4.0
ENOUGH_PASSES = 25.0  # over the pairs: a wider model than one that makes so many learns less in the time
MANY_PASSES = 10.0  # over the pairs: with fewer, every sentence is still new, and dropout only slows it down


class Choice(NamedTuple):
    """KEY=VALUE and the reason in a few words."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Corpus:
    """What is decided from: training pairs, and the mean characters of the longer side."""

    pairs: int
    characters: float

    def passes(self, width: int, minutes: float) -> float:
        """How often a model of this width passes over all pairs in these minutes on two cores."""
        pieces = self.characters / CHARACTERS_PER_PIECE + 1
        return 60 * minutes * WIDTHS[width] / (pieces * max(1, self.pairs))


def read_corpus(folder: Path, languages: Sequence[str]) -> Corpus:
    """The size of a corpus folder, from its report and the sizes of its files."""
    pairs = read_report(folder)["audit"]["train"]["kept"]
    longest = max((folder / f"train.{language}").stat().st_size for language in languages)
    return Corpus(pairs, longest / max(1, pairs))
