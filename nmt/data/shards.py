"""The training pairs in one .arrow file or, for a large corpus, in several, of which two are open at a time."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy

from nmt.data.dataset import ParallelDataset
from nmt.data.plan import LengthRuns
from nmt.errors import UserError

OPEN_SHARDS = 2  # the one that is trained on and the next one


class ShardedDataset:
    """The pairs of several .arrow files, each opened when it is needed; `runs` are the lengths in each of them."""

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


def write_length_runs(path: Path, runs: list[LengthRuns]) -> None:
    """Write the lengths of all shards as an array [4 runs]: shard, source, target, rows."""
    columns = [numpy.stack([numpy.full(len(run.rows), number), *run]) for number, run in enumerate(runs)]
    numpy.save(path, numpy.concatenate(columns, axis=1))


def read_length_runs(path: Path, shards: int) -> list[LengthRuns]:
    """Read what `write_length_runs` wrote; raises UserError when it is damaged."""
    try:
        columns = numpy.load(path, allow_pickle=False)
        return [LengthRuns(*columns[1:, columns[0] == number]) for number in range(shards)]
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
