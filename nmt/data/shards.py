"""The training pairs in one .arrow file or, for a large corpus, in several, of which two are open at a time.

A start reads the manifest and the lengths in all shards, a table of some thousand rows for each; a shard is opened, and
its sha256 checked, when its plan is made.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy

from nmt.data.dataset import ParallelDataset
from nmt.data.manifest import Manifest
from nmt.data.plan import LengthRuns
from nmt.errors import UserError

PAIRS_PER_SHARD = 2_000_000  # about so many at most; 0.5 to 1 GB, planned in 0.4 s
OPEN_SHARDS = 2  # the one that is trained on and the next one


class ShardedDataset:
    """The pairs of several .arrow files, each opened when it is needed; `runs` are the lengths in each of them.

    `check` raises UserError for a file that is damaged.
    """

    def __init__(self, paths: list[Path], runs: list[LengthRuns], check: Callable[[Path], None]) -> None:
        self.paths, self.runs, self.check = paths, runs, check
        self.shard_count = len(paths)
        self.shard = lru_cache(OPEN_SHARDS)(self.open_shard)

    def __len__(self) -> int:
        return sum(int(runs.rows.sum()) for runs in self.runs)

    def open_shard(self, number: int) -> ParallelDataset:
        """The pairs of one shard, checked; raises UserError when it is damaged."""
        self.check(self.paths[number])
        return ParallelDataset(self.paths[number])

    def length_runs(self, number: int) -> LengthRuns:
        """How many pairs of a shard have which lengths, without opening it."""
        return self.runs[number]


TrainingPairs = ParallelDataset | ShardedDataset


def longest_sentence(pairs: TrainingPairs) -> int:
    """Pieces of the longest source or target sentence."""
    runs = [pairs.length_runs(number) for number in range(pairs.shard_count)]
    return max(int(side.max(initial=0)) for run in runs for side in (run.source, run.target))


def number_of_shards(pairs: int) -> int:
    """Into how many shards so many training pairs are written."""
    return max(1, -(-pairs // PAIRS_PER_SHARD))


def shard_paths(folder: Path, name: str, shards: int) -> list[Path]:
    """NAME.arrow, or NAME-00000.arrow and so on if there are several."""
    return [folder / (f"{name}-{number:05}.arrow" if shards > 1 else f"{name}.arrow") for number in range(shards)]


def open_training_pairs(folder: Path) -> TrainingPairs:
    """The training pairs in a folder of ids; raises UserError when they are damaged."""
    manifest = Manifest(folder)
    if "train.arrow" in manifest.files:
        manifest.check(["train.arrow"])
        return ParallelDataset(folder / "train.arrow")
    paths = [folder / name for name in sorted(manifest.files) if name.startswith("train-") and name.endswith(".arrow")]
    runs = read_length_runs(folder / "train-lengths.npy", len(paths))
    return ShardedDataset(paths, runs, lambda path: manifest.check([path.name]))


def write_length_runs(folder: Path, name: str, runs: list[LengthRuns]) -> None:
    """Write NAME-lengths.npy, an array [4 runs]: shard, source length, target length, rows."""
    columns = [numpy.stack([numpy.full(len(run.rows), number), *run]) for number, run in enumerate(runs)]
    numpy.save(folder / f"{name}-lengths.npy", numpy.concatenate(columns, axis=1))


def read_length_runs(path: Path, shards: int) -> list[LengthRuns]:
    """Read what `write_length_runs` wrote; raises UserError when it is damaged."""
    try:
        columns = numpy.load(path, allow_pickle=False)
        return [LengthRuns(*columns[1:, columns[0] == number]) for number in range(shards)]
    except (OSError, ValueError, TypeError, IndexError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
