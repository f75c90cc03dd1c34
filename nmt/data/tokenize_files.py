"""Tokenizes two corpus files by several processes, block by block; order and content do not depend on their number."""

from collections.abc import Generator, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path

import pyarrow
from pyarrow import ipc

from nmt.data.dataset import SCHEMA
from nmt.data.parallel_text import read_pairs
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tokenizer import Tokenizers

ROWS = 20_000  # pairs in a block; a few for each process are in memory
BYTES_PER_PROCESS = 4 << 20  # of the source file; for less, another process does not pay
Files = tuple[Path, Path]
Block = tuple[pyarrow.RecordBatch, dict[str, int]]  # the pairs that are kept, how many had which outcome
Texts = tuple[int, list[tuple[str, str]]]  # the line of the first pair, the pairs


def tokenized_blocks(
    tokenizers: Tokenizers, files: Files, limit: int | None, processes: int | None = None
) -> Generator[Block, None, None]:
    """The pairs of two files as ids, ROWS at a time in order.

    Pairs without a piece on one side are left out, and with `limit` those with a longer side. `processes`: by default
    one for each processor. Raises UserError for damaged files, and when a process is killed.
    """
    if processes is None:
        processes = min(usable_processors(), 1 + files[0].stat().st_size // BYTES_PER_PROCESS)
    encode = partial(serialized_block, tokenizers, limit, -1 if processes == 1 else 1)
    for content, outcomes in map_in_order(encode, read_blocks(files), processes, "tokenizes"):
        yield ipc.read_record_batch(pyarrow.py_buffer(content), SCHEMA), outcomes


def read_blocks(files: Files) -> Iterator[Texts]:
    """The pairs of the files, ROWS at a time."""
    pairs = read_pairs(*files)
    for number in count():
        if not (texts := list(islice(pairs, ROWS))):
            return
        yield number * ROWS + 1, texts


def serialized_block(
    tokenizers: Tokenizers, limit: int | None, threads: int, block: Texts
) -> tuple[bytes, dict[str, int]]:
    """One block as bytes, and the number of each outcome."""
    first_line, texts = block
    pairs, outcomes = encode_block(tokenizers, texts, first_line, limit, threads)
    return pairs.serialize().to_pybytes(), outcomes


def encode_block(
    tokenizers: Tokenizers, texts: list[tuple[str, str]], first_line: int, limit: int | None, threads: int
) -> Block:
    """One block: the pairs that are kept, with their ids and line numbers, and the number of each outcome."""
    sources, targets = zip(*([side.text for side in pair] for pair in tokenizers.protect_pairs(texts)), strict=True)
    ids = zip(
        tokenizers.source.encode_all(sources, threads), tokenizers.target.encode_all(targets, threads), strict=True
    )
    rows, outcomes = [], {"kept": 0, "too long": 0, "blank": 0}
    for line, (both, text) in enumerate(zip(ids, texts, strict=True), first_line):
        shorter, longer = sorted(map(len, both))
        outcome = "blank" if not shorter else "too long" if limit is not None and longer > limit else "kept"
        outcomes[outcome] += 1
        if outcome == "kept":
            rows.append((*both, *text, line))
    columns = zip(*rows, strict=True) if rows else [[]] * len(SCHEMA)
    arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pyarrow.record_batch(arrays, schema=SCHEMA), outcomes
