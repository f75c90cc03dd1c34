"""What a comparison is given besides the names of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.runs.test_sets import GoldFiles


@dataclass(frozen=True)
class CompareOptions:
    """The test sets, the statistics and the output of one comparison; the command line's options in plain values."""

    runs_folder: Path = Path("runs")  # where the names of runs are looked up
    output: Path = Path("runs/compare")
    split: str | None = None  # test (all test sets), valid, or one test set of the corpus by name; None: test
    files: tuple[Path, list[Path]] | None = None  # source and references, instead of sets of the corpus
    gold: GoldFiles | None = None  # the links of `files`
    valid_gold: GoldFiles | None = None  # chooses layer and decoder step, instead of each run's validation set
    samples: int = 1000  # bootstrap resamples
    metrics: Sequence[str] = ()  # besides BLEU and chrF
    beam: int | None = None  # None: each run's own
    max_joined: int | None = None  # also score 2 to so many consecutive sentences joined into one input
    sentences: Sequence[int] | None = None  # lines of the first set, from 1, whose attention is drawn; None: short ones
