"""Writes sentence pairs as token ids: a set as one .arrow file, a large training set as several shards.

A pair goes to the shard that a hash of its line gives, so that each shard is a random sample of the corpus.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy
import pyarrow
from pyarrow import ipc

from nmt.data.dataset import SCHEMA, ParallelDataset
from nmt.data.files import report_write_errors
from nmt.data.packed import PackedFile
from nmt.data.shards import shard_paths, write_length_runs
from nmt.data.tokenize_files import Block, tokenized_blocks
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.view.progress import Progress

ROWS_PER_WRITE = 200_000  # pairs that are held in memory before they are dealt to the shards
logger = logging.getLogger("nmt")


def write_datasets(
    tokenizers: Tokenizers,
    corpus: Path,
    source: str,
    target: str,
    sets: list[str],
    max_pieces: int,
    folder: Path,
    shards: int = 1,
) -> None:
    """Write every set in `sets`, the training pairs in `shards` files, and report.json.

    Training and word pairs longer than max_pieces are left out; so is, in any set, a pair of which one side has no
    piece. Raises UserError when a set ends up empty.
    """
    report = {}
    for name in sets:
        counts = {"kept": 0, "too long": 0, "blank": 0}
        limit = max_pieces if name in ("train", "words") else None
        files = corpus / f"{name}.{source}", corpus / f"{name}.{target}"
        paths = shard_paths(folder, name, shards if name == "train" else 1)
        with (
            report_write_errors(folder),
            Progress(PackedFile(files[0]).count_lines(), "pair", f"tokenizing {name}") as bar,
            closing(tokenized_blocks(tokenizers, files, limit)) as blocks,
        ):
            write_shards(paths, kept_pairs(blocks, counts, bar))
        if not counts["kept"]:
            raise UserError(f"No pair of '{name}' is left with at most tokenizer.max_pieces={max_pieces} pieces.")
        if len(paths) > 1:
            with report_write_errors(folder):
                write_length_runs(folder, name, [ParallelDataset(path).length_runs(0) for path in paths])
        left_out = ", ".join(f"{number:,} {reason}" for reason, number in counts.items() if number and reason != "kept")
        in_shards = f" in {len(paths)} shards" if len(paths) > 1 else ""
        kept = f"{counts['kept']:,}"
        logger.info("%-20s %11s pairs as ids%s; left out: %s", name, kept, in_shards, left_out or "none")
        report[name] = counts
    with report_write_errors(folder):
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def kept_pairs(blocks: Iterator[Block], counts: dict[str, int], bar: Progress) -> Iterator[pyarrow.RecordBatch]:
    """The pairs of all blocks that are kept; `counts` gets the number of each outcome, `bar` their sum."""
    for pairs, outcomes in blocks:
        bar.update(sum(outcomes.values()))
        for outcome, number in outcomes.items():
            counts[outcome] += number
        if pairs.num_rows:
            yield pairs


def write_shards(paths: list[Path], batches: Iterator[pyarrow.RecordBatch]) -> None:
    """Write the pairs to one file, or divide them between several. Raises OSError."""
    with ExitStack() as stack:
        writers = [stack.enter_context(ipc.new_file(str(path), SCHEMA)) for path in paths]
        if len(writers) == 1:
            for batch in batches:
                writers[0].write_batch(batch)
            return
        held: list[pyarrow.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= ROWS_PER_WRITE:
                write_to_shards(writers, held)
                held = []
        write_to_shards(writers, held)


def write_to_shards(writers: list[ipc.RecordBatchFileWriter], held: list[pyarrow.RecordBatch]) -> None:
    """Write each pair to the file that its line number gives."""
    table = pyarrow.Table.from_batches(held, SCHEMA).combine_chunks()
    numbers = shard_numbers(table.column("line").to_numpy(), len(writers))
    for number, writer in enumerate(writers):
        writer.write_table(table.take(pyarrow.array(numpy.flatnonzero(numbers == number))))


def shard_numbers(lines: numpy.ndarray, shards: int) -> numpy.ndarray:
    """The shard of each line: a 64-bit hash of its number (splitmix64) modulo the number of shards."""
    mixed = lines.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> numpy.uint64(shift))) * numpy.uint64(factor)
    return (mixed ^ (mixed >> numpy.uint64(31))) % numpy.uint64(shards)
