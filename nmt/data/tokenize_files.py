"""Tokenizes two corpus files by several processes.

Each process reads the files and encodes every N-th block of pairs; this process takes their blocks in turn. Order and
content do not depend on N.
"""

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow
from pyarrow import ipc

from nmt.data.dataset import SCHEMA
from nmt.data.parallel_text import read_pairs
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError

ROWS = 20_000  # pairs in a block; each process holds one in memory
BYTES_PER_PROCESS = 4 << 20  # of the source file; for less, another process does not pay
Files = tuple[Path, Path]
Block = tuple[pyarrow.RecordBatch, dict[str, int]]  # the pairs that are kept, how many had which outcome


@contextmanager
def tokenized_blocks(
    tokenizers: Tokenizers, files: Files, limit: int | None, processes: int | None = None
) -> Iterator[Iterator[Block]]:
    """The pairs of two files as ids, ROWS at a time in order; as a context manager, which ends the processes.

    Pairs without a piece on one side are left out, and with `limit` those with a longer side. `processes`: by default
    one for each processor.
    """
    if processes is None:
        processes = min(usable_processors(), 1 + files[0].stat().st_size // BYTES_PER_PROCESS)
    if processes == 1:
        yield encode_part(tokenizers, files, limit, 0, 1, -1)
        return
    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    with ExitStack() as stack:
        for part in range(processes):
            mine, theirs = context.Pipe(duplex=False)
            stack.callback(mine.close)
            pipes.append(mine)
            arguments = (tokenizers, files, limit, part, processes, theirs, list(pipes))
            process = context.Process(target=send_part, args=arguments, daemon=True)
            with warnings.catch_warnings():  # PyTorch's threads are idle, and a child does not use them
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            stack.callback(process.join)
            stack.callback(process.terminate)
            theirs.close()
        yield receive_in_turn(pipes)


def usable_processors() -> int:
    """As many as this process may use processors; 1 where processes cannot be forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def receive_in_turn(pipes: list[Connection]) -> Iterator[Block]:
    """The blocks of all processes in order; raises UserError when one is killed."""
    for number in count():
        try:
            kind, content, outcomes = pipes[number % len(pipes)].recv()
        except (EOFError, OSError):
            raise UserError("A process that tokenizes was killed, possibly because memory ran out.") from None
        if kind == "error":
            raise UserError(content)
        if kind == "end":
            return
        yield ipc.read_record_batch(pyarrow.py_buffer(content), SCHEMA), outcomes


def send_part(
    tokenizers: Tokenizers,
    files: Files,
    limit: int | None,
    part: int,
    parts: int,
    pipe: Connection,
    others: list[Connection],
) -> None:
    """In the new process: send the blocks of this part, then the end. SIGINT is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # while a child holds one of them open, no child notices that the parent has died
        other.close()
    try:
        try:
            for pairs, outcomes in encode_part(tokenizers, files, limit, part, parts, 1):
                pipe.send(("block", pairs.serialize().to_pybytes(), outcomes))
            pipe.send(("end", None, None))
        except UserError as error:
            pipe.send(("error", str(error), None))
    except ConnectionError:  # the parent has ended
        return


def encode_part(
    tokenizers: Tokenizers, files: Files, limit: int | None, part: int, parts: int, threads: int
) -> Iterator[Block]:
    """Blocks number part, part + parts, … of the files."""
    pairs = read_pairs(*files)
    for number in count():
        texts = list(islice(pairs, ROWS))
        if not texts:
            return
        if number % parts == part:
            yield encode_block(tokenizers, texts, number * ROWS + 1, limit, threads)


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
