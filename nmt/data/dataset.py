"""Sentence pairs as token ids in memory-mapped Arrow files, which open in milliseconds.

The text is stored with the ids, for subword sampling and for displays. In a file above
MAX_MAPPED_BYTES the ids are read sentence by sentence instead of through the map: each access to a
mapped page makes up to 2 MiB of the file count as the program's memory, and a thousand accesses all
of it. A read costs 3 µs more.

The training pairs of a large corpus are in several files, called shards. Two of them are open at a
time. At first only the manifest and the table of lengths are read, some thousand rows for each
shard. A shard is opened, and its sha256 checked, when its plan is made.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import ipc

from nmt.corpus.checksums import Manifest
from nmt.errors import UserError

MAX_MAPPED_BYTES = 1 << 29
PAIRS_PER_SHARD = 2_000_000  # about so many at most; 0.5 to 1 GB, planned in 0.4 s
OPEN_SHARDS = 2  # the one that is trained on and the next one
SCHEMA = pyarrow.schema(
    {
        "source": pyarrow.list_(pyarrow.int32()),
        "target": pyarrow.list_(pyarrow.int32()),
        "source_text": pyarrow.string(),
        "target_text": pyarrow.string(),
        "line": pyarrow.int64(),  # in the corpus file, from 1
    }
)


class LengthRuns(NamedTuple):
    """Run k: rows[k] pairs of source[k] and target[k] pieces; sorted by both lengths, int64."""

    source: np.ndarray
    target: np.ndarray
    rows: np.ndarray


def combined_lengths(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int]:
    """Both lengths as one number, source × width + target, and the width.

    It sorts like the pair. For short sentences it has 16 bits, which NumPy sorts in linear time.
    """
    width = int(target.max(initial=0)) + 1
    height = int(source.max(initial=0)) + 1
    dtype = np.min_scalar_type(height * width)
    return source.astype(dtype) * dtype.type(width) + target.astype(dtype), width


def length_runs(source: np.ndarray, target: np.ndarray) -> LengthRuns:
    """How many rows there are of each pair of lengths, in the order in which a plan sorts them."""
    key, width = combined_lengths(source, target)
    keys, rows = np.unique(key, return_counts=True)
    return LengthRuns(*np.divmod(keys.astype(np.int64), width), rows)


class Sentences(NamedTuple):
    """The ids of some sentences, one after another, and how many each has."""

    ids: np.ndarray  # [N]
    lengths: np.ndarray  # [B], int64, their sum is N

    def rows(self) -> list[np.ndarray]:
        """The ids of each sentence."""
        bounds = pairwise([0, *np.cumsum(self.lengths).tolist()])
        return [self.ids[start:stop] for start, stop in bounds]


def join(rows: Sequence[np.ndarray]) -> Sentences:
    """Sentences from an array of ids for each."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Sentences(np.concatenate(rows), lengths)


class ParallelDataset:
    """The sentence pairs of one .arrow file; ids and texts are read on access.

    As the training pairs it is the only shard of its corpus. Raises UserError for a damaged file.
    """

    shard_count = 1

    def __init__(self, path: Path) -> None:
        try:
            mapped = pyarrow.memory_map(str(path))
            reader = ipc.open_file(mapped)
            self.blocks = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        self.starts = [0, *np.cumsum([block.num_rows for block in self.blocks]).tolist()]
        content = mapped.read_buffer()
        self.file = pyarrow.OSFile(str(path)) if mapped.size() > MAX_MAPPED_BYTES else None
        self.numbers = np.frombuffer(content, np.int32, content.size // 4)
        self.columns: dict[str, list[tuple[np.ndarray, int]]] = {}
        for side in ("source", "target"):
            columns = [block.column(side) for block in self.blocks]
            self.columns[side] = [list_column(column, content.address) for column in columns]
        self.source_lengths = self.lengths("source")
        self.target_lengths = self.lengths("target")

    def __len__(self) -> int:
        return self.starts[-1]

    def lengths(self, side: str) -> np.ndarray:
        """Pieces of every sentence, int32, without EOS: the differences of the offsets."""
        return np.concatenate([np.diff(offsets) for offsets, _ in self.columns[side]])

    def shard(self, number: int) -> "ParallelDataset":
        return self

    def length_runs(self, number: int) -> LengthRuns:
        return length_runs(self.source_lengths, self.target_lengths)

    def texts(self, index: int) -> tuple[str, str]:
        """The source and the target sentence as text, as in the corpus files."""
        return self.cell("source_text", index), self.cell("target_text", index)

    def line(self, index: int) -> int:
        """The line of a pair in the corpus files, from 1."""
        return self.cell("line", index)

    def cell(self, column: str, index: int) -> Any:
        block = bisect_right(self.starts, index) - 1
        return self.blocks[block].column(column)[index - self.starts[block]].as_py()

    def sentences(self, side: str, indices: np.ndarray) -> Sentences:
        """The ids of some sentences of "source" or "target", int32."""
        blocks = np.searchsorted(self.starts, indices, "right") - 1
        starts, lengths = np.empty((2, len(indices)), np.int64)
        for block in np.unique(blocks):
            in_block = np.flatnonzero(blocks == block)
            rows = indices[in_block] - self.starts[block]
            offsets, first = self.columns[side][block]
            starts[in_block] = first + offsets[rows].astype(np.int64)
            lengths[in_block] = offsets[rows + 1] - offsets[rows]
        if self.file is not None:
            parts = map(self.file.read_at, (4 * lengths).tolist(), (4 * starts).tolist())
            return Sentences(np.frombuffer(b"".join(parts), np.int32), lengths)
        before = np.cumsum(lengths) - lengths  # ids of the sentences before
        places = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return Sentences(self.numbers[places], lengths)


def list_column(column: pyarrow.ListArray, address: int) -> tuple[np.ndarray, int]:
    """The offsets of a list column, and the place of its values in the file, counted in int32.

    `address` is that of the file's memory map. Nothing is copied; `to_numpy` would import pandas.
    """
    _, offsets, _, values = column.buffers()
    place = (values.address - address) // 4
    return np.frombuffer(offsets, np.int32)[: len(column) + 1], place


class ShardedDataset:
    """The pairs of several .arrow files, each opened when it is needed.

    `runs` are the lengths in each file. `check` raises UserError for a file that is damaged.
    """

    def __init__(
        self, paths: list[Path], runs: list[LengthRuns], check: Callable[[Path], None]
    ) -> None:
        self.paths = paths
        self.runs = runs
        self.check = check
        self.shard_count = len(paths)
        self.shard = lru_cache(OPEN_SHARDS)(self.open_shard)

    def __len__(self) -> int:
        return sum(int(runs.rows.sum()) for runs in self.runs)

    def open_shard(self, number: int) -> ParallelDataset:
        self.check(self.paths[number])
        return ParallelDataset(self.paths[number])

    def length_runs(self, number: int) -> LengthRuns:
        """How many pairs of a shard have which lengths, without opening it."""
        return self.runs[number]


TrainingPairs = ParallelDataset | ShardedDataset


def longest_sides(pairs: TrainingPairs) -> tuple[int, int]:
    """Pieces of the longest source and of the longest target sentence."""
    runs = [pairs.length_runs(number) for number in range(pairs.shard_count)]
    source = max(int(run.source.max(initial=0)) for run in runs)
    target = max(int(run.target.max(initial=0)) for run in runs)
    return source, target


def number_of_shards(pairs: int) -> int:
    """Into how many shards so many training pairs are written."""
    return max(1, -(-pairs // PAIRS_PER_SHARD))


def shard_paths(folder: Path, name: str, shards: int) -> list[Path]:
    """NAME.arrow, or NAME-00000.arrow and so on if there are several."""
    if shards == 1:
        return [folder / f"{name}.arrow"]
    return [folder / f"{name}-{number:05}.arrow" for number in range(shards)]


def open_training_pairs(folder: Path) -> TrainingPairs:
    """The training pairs in a folder of ids; raises UserError when they are damaged."""
    manifest = Manifest(folder)
    if "train.arrow" in manifest.files:
        manifest.check(["train.arrow"])
        return ParallelDataset(folder / "train.arrow")
    paths = [
        folder / name
        for name in sorted(manifest.files)
        if name.startswith("train-") and name.endswith(".arrow")
    ]
    runs = read_length_runs(folder / "train-lengths.npy", len(paths))
    return ShardedDataset(paths, runs, lambda path: manifest.check([path.name]))


def write_length_runs(folder: Path, name: str, runs: list[LengthRuns]) -> None:
    """Write NAME-lengths.npy, an array [4 runs]: shard, source length, target length, rows."""
    columns = []
    for number, run in enumerate(runs):
        shard = np.full(len(run.rows), number)
        columns.append(np.stack([shard, *run]))
    np.save(folder / f"{name}-lengths.npy", np.concatenate(columns, axis=1))


def read_length_runs(path: Path, shards: int) -> list[LengthRuns]:
    """Read what `write_length_runs` wrote; raises UserError when it is damaged."""
    try:
        columns = np.load(path, allow_pickle=False)
        return [LengthRuns(*columns[1:, columns[0] == number]) for number in range(shards)]
    except (OSError, ValueError, TypeError, IndexError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
