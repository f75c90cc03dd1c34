"""The pairs as piece ids in memory-mapped Arrow files: opened in milliseconds, whatever the size of the corpus.

The text is kept beside the ids, for subword sampling and for displays. Ids of a file above MAPPED are read sentence by
sentence: one look at a mapped page makes up to 2 MiB of the file count as the program's memory, a thousand looks all of
it. A read costs 3 µs more.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy
import pyarrow
from pyarrow import ipc

from nmt.data.lines import read_pairs, writing
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError

ROWS = 50_000  # pairs in a record batch; also how many are held in memory while building
MAPPED = 1 << 29  # bytes
SCHEMA = pyarrow.schema(
    {
        "source": pyarrow.list_(pyarrow.int32()),
        "target": pyarrow.list_(pyarrow.int32()),
        "source_text": pyarrow.string(),
        "target_text": pyarrow.string(),
        "line": pyarrow.int64(),  # in the corpus file, from 1
    }
)
Row = tuple[list[int], list[int], str, str, int]
logger = logging.getLogger("nmt")


def build(
    tokenizers: Tokenizers, corpus: Path, source: str, target: str, sets: list[str], max_pieces: int, folder: Path
) -> None:
    """Write NAME.arrow for every set in `sets`, and report.json; raises UserError when a set ends up empty.

    Training pairs longer than max_pieces are left out; so is, in any set, a pair of which one side has no piece.
    """
    report = {}
    for name in sets:
        counts = {"kept": 0, "too long": 0, "blank": 0}
        most = max_pieces if name == "train" else None
        pairs = read_pairs(corpus / f"{name}.{source}", corpus / f"{name}.{target}")
        with writing(folder), ipc.new_file(str(folder / f"{name}.arrow"), SCHEMA) as writer:
            for rows in kept(encoded(tokenizers, pairs), most, counts):
                columns = zip(zip(*rows, strict=True), SCHEMA.types, strict=True)
                arrays = [pyarrow.array(column, kind) for column, kind in columns]
                writer.write_batch(pyarrow.record_batch(arrays, schema=SCHEMA))
        if not counts["kept"]:
            raise UserError(f"No pair of '{name}' is left with at most tokenizer.max_pieces={max_pieces} pieces.")
        left_out = ", ".join(f"{number:,} {why}" for why, number in counts.items() if number and why != "kept")
        logger.info("%-20s %11s pairs as ids; left out: %s", name, f"{counts['kept']:,}", left_out or "none")
        report[name] = counts
    with writing(folder):
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def encoded(tokenizers: Tokenizers, pairs: Iterator[tuple[str, str]]) -> Iterator[list[Row]]:
    """The pairs with their ids, many at a time."""
    line = 1
    while texts := list(islice(pairs, ROWS)):
        left, right = zip(*texts, strict=True)
        ids = zip(tokenizers.source.encode_all(left), tokenizers.target.encode_all(right), strict=True)
        yield [(*one, *text, number) for number, (one, text) in enumerate(zip(ids, texts, strict=True), line)]
        line += len(texts)


def kept(blocks: Iterator[list[Row]], most: int | None, counts: dict[str, int]) -> Iterator[list[Row]]:
    """The rows worth keeping, counted."""
    for block in blocks:
        rows = []
        for row in block:
            shorter, longer = sorted((len(row[0]), len(row[1])))
            fate = "blank" if not shorter else "too long" if most is not None and longer > most else "kept"
            counts[fate] += 1
            if fate == "kept":
                rows.append(row)
        if rows:
            yield rows


class ParallelDataset:
    """The pairs of one .arrow file; nothing is read before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            mapped = pyarrow.memory_map(str(path))
            reader = ipc.open_file(mapped)
            self.blocks = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        self.starts = [0, *numpy.cumsum([block.num_rows for block in self.blocks]).tolist()]
        file = pyarrow.OSFile(str(path)) if mapped.size() > MAPPED else None
        start = mapped.read_buffer(1).address
        self.columns = {
            side: [views(block.column(side), file, start) for block in self.blocks] for side in ("source", "target")
        }

    def __len__(self) -> int:
        return self.starts[-1]

    def __reduce__(self) -> tuple:
        return ParallelDataset, (self.path,)  # another process maps the file itself

    @cached_property
    def source_lengths(self) -> numpy.ndarray:
        """Pieces of every source sentence, int32, without EOS."""
        return self.lengths("source")

    @cached_property
    def target_lengths(self) -> numpy.ndarray:
        """Pieces of every target sentence, int32, without EOS."""
        return self.lengths("target")

    def source(self, index: int) -> numpy.ndarray:
        """The ids of a source sentence, read-only."""
        return self.ids("source", index)

    def target(self, index: int) -> numpy.ndarray:
        """The ids of a target sentence, read-only."""
        return self.ids("target", index)

    def texts(self, index: int) -> tuple[str, str]:
        """Both sentences as they stand in the corpus."""
        block, row = self.locate(index)
        return tuple(self.blocks[block].column(name)[row].as_py() for name in ("source_text", "target_text"))

    def line(self, index: int) -> int:
        """The line of the corpus file, from 1."""
        block, row = self.locate(index)
        return self.blocks[block].column("line")[row].as_py()

    def lengths(self, side: str) -> numpy.ndarray:
        """Differences of the offsets."""
        return numpy.concatenate([numpy.diff(offsets) for offsets, _ in self.columns[side]])

    def ids(self, side: str, index: int) -> numpy.ndarray:
        """A row of a list column."""
        block, row = self.locate(index)
        offsets, values = self.columns[side][block]
        return values[offsets[row] : offsets[row + 1]]

    def locate(self, index: int) -> tuple[int, int]:
        """Record batch and row of a pair."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        block = bisect_right(self.starts, index) - 1
        return block, index - self.starts[block]


class FileArray:
    """int32 numbers that begin at byte `place` of a file; a slice of them is read when it is asked for."""

    def __init__(self, file: pyarrow.NativeFile, place: int) -> None:
        self.file, self.place = file, place

    def __getitem__(self, rows: slice) -> numpy.ndarray:
        start, end = int(rows.start), int(rows.stop)
        return numpy.frombuffer(self.file.read_at(4 * (end - start), self.place + 4 * start), numpy.int32)


def views(
    column: pyarrow.ListArray, file: pyarrow.NativeFile | None, start: int
) -> tuple[numpy.ndarray, numpy.ndarray | FileArray]:
    """Offsets and values of a list column without a copy, and without `to_numpy`, which imports pandas.

    With a file, which is mapped at the address `start`, the values stay in it.
    """
    _, offsets, _, values = column.buffers()
    numbers = numpy.frombuffer(values, numpy.int32) if file is None else FileArray(file, values.address - start)
    return numpy.frombuffer(offsets, numpy.int32)[: len(column) + 1], numbers
