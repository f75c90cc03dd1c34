"""Writes sentence pairs as token ids: a set as one .arrow file, large training sets as shards.

A pair goes to the shard that a hash of its line number gives, so that each shard is a random sample
of the corpus.
"""

import json
import logging
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import ipc

from nmt.corpus.files import report_write_errors
from nmt.corpus.inspect.lines import mix
from nmt.corpus.packed import PackedFile
from nmt.corpus.parallel_text import read_pairs
from nmt.corpus.processes import map_in_order, usable_processors
from nmt.data.dataset import SCHEMA, ParallelDataset, shard_paths, write_length_runs
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.view.progress import Progress

ROWS = 20_000  # pairs in a block; a few for each process are in memory
BYTES_PER_PROCESS = 4 << 20  # of the source file; for less, another process does not pay
BLOCKS_PER_WRITE = 10  # that are held in memory before their pairs are dealt to the shards
log = logging.getLogger("nmt")
Files = tuple[Path, Path]
Block = tuple[pyarrow.RecordBatch, Counter[str]]  # pairs that are kept, number of each outcome
Texts = tuple[int, list[tuple[str, str]]]  # the line of the first pair, the pairs


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

    Training pairs longer than max_pieces are left out, and in all sets pairs with a side without a
    piece. Raises UserError when a set ends up empty.
    """
    report: dict[str, dict[str, int]] = {}
    for name in sets:
        limit = None
        number = 1
        if name == "train":
            limit = max_pieces
            number = shards
        files = corpus / f"{name}.{source}", corpus / f"{name}.{target}"
        paths = shard_paths(folder, name, number)
        with (
            report_write_errors(folder),
            Progress(PackedFile(files[0]).count_lines(), "pair", f"tokenizing {name}") as bar,
            closing(tokenized_blocks(tokenizers, files, limit)) as blocks,
        ):
            counts = write_shards(paths, blocks, bar)
            if not counts["kept"]:
                wanted = "with text on both sides"
                if counts["too long"]:
                    wanted = f"with at most tokenizer.max_pieces={max_pieces} pieces"
                raise UserError(f"No pair of '{name}' is left {wanted}.")
            if len(paths) > 1:
                runs = [ParallelDataset(path).length_runs(0) for path in paths]
                write_length_runs(folder, name, runs)
        report[name] = {"kept": counts["kept"]}
        left_out = []
        for reason in ("too long", "blank"):
            report[name][reason] = counts[reason]
            if counts[reason]:
                left_out.append(f"{counts[reason]:,} {reason}")
        kept = f"{counts['kept']:,}"
        reasons = ", ".join(left_out) or "none"
        log.info("%-20s %11s pairs as ids; left out: %s", name, kept, reasons)
    with report_write_errors(folder):
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def write_shards(paths: list[Path], blocks: Iterator[Block], bar: Progress) -> Counter[str]:
    """Write each pair to the file that its line number gives; returns how many had which outcome.

    Raises OSError.
    """
    counts = Counter[str]()
    at_once = BLOCKS_PER_WRITE if len(paths) > 1 else 1
    with ExitStack() as stack:
        writers = [stack.enter_context(ipc.new_file(str(path), SCHEMA)) for path in paths]
        while held := list(islice(blocks, at_once)):
            filled = []
            for pairs, outcomes in held:
                counts.update(outcomes)
                bar.update(outcomes.total())
                if pairs.num_rows:
                    filled.append(pairs)
            table = pyarrow.Table.from_batches(filled, SCHEMA)
            numbers = mix(table.column("line").to_numpy()) % np.uint64(len(paths))
            for number, writer in enumerate(writers):
                chosen = pyarrow.array(np.flatnonzero(numbers == number))
                part = table.take(chosen).combine_chunks()
                if part.num_rows:
                    writer.write_table(part)
    return counts


def tokenized_blocks(
    tokenizers: Tokenizers, files: Files, limit: int | None, processes: int | None = None
) -> Generator[Block, None, None]:
    """The pairs of two files as ids, ROWS at a time in order.

    Pairs without a piece on one side are left out, and with `limit` those with a longer side.
    `processes`: by default one for each processor. Raises UserError for damaged files, and when a
    process is killed.
    """
    if processes is None:
        processes = min(usable_processors(), 1 + files[0].stat().st_size // BYTES_PER_PROCESS)
    threads = -1 if processes == 1 else 1  # of each process; -1: as many as processors
    encode = partial(encode_block, tokenizers, limit, threads)

    def read_blocks() -> Iterator[Texts]:
        pairs = read_pairs(*files)
        line = 1
        while texts := list(islice(pairs, ROWS)):
            yield line, texts
            line += len(texts)

    for content, outcomes in map_in_order(encode, read_blocks(), processes, "tokenizes"):
        yield ipc.read_record_batch(pyarrow.py_buffer(content), SCHEMA), outcomes


def encode_block(
    tokenizers: Tokenizers, limit: int | None, threads: int, block: Texts
) -> tuple[bytes, Counter[str]]:
    """The pairs of a block that are kept, as bytes, and how many pairs had which outcome."""
    first_line, texts = block
    protected = tokenizers.protect_pairs(texts)
    sources = tokenizers.source.encode_all([source.text for source, _ in protected], threads)
    targets = tokenizers.target.encode_all([target.text for _, target in protected], threads)
    rows = []
    outcomes = Counter[str]()
    encoded = zip(sources, targets, texts, strict=True)
    for line, (source, target, text) in enumerate(encoded, first_line):
        if not source or not target:
            outcomes["blank"] += 1
        elif limit is not None and max(len(source), len(target)) > limit:
            outcomes["too long"] += 1
        else:
            outcomes["kept"] += 1
            rows.append((source, target, *text, line))
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = list(map(pyarrow.array, columns, SCHEMA.types))
    return pyarrow.record_batch(arrays, schema=SCHEMA).serialize().to_pybytes(), outcomes
