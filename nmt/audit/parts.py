"""The chunks of one origin, looked at by several processes; the result of each is a file, so that a kill loses little.

Only what a person reads is held: counts, and the first examples of each fault. The rest stays in the files.
"""

import json
import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.audit.reading import Chunk
from nmt.data.inspect.chunk import ChunkFaults, HeldOutHashes, inspect_chunk
from nmt.data.inspect.misaligned_blocks import MisalignedBlock
from nmt.data.inspect.pairs import Limits
from nmt.data.inspect.profile import Profile
from nmt.data.tokenize_files import usable_processors
from nmt.decode.parallel import end_with_parent
from nmt.errors import UserError
from nmt.files import open_atomic

LONGEST_EXAMPLE = 300  # characters
COLUMNS = ("kind", "number", "side", "misaligned", "exact", "near", "source", "target", "text")


@dataclass
class Settings:
    """What chunks are looked at with."""

    profile: Profile
    limits: Limits
    held_out: HeldOutHashes | None
    examples: int  # of each fault whose text is kept


@dataclass
class Part:
    """The result of a chunk."""

    path: Path
    first: int  # number of its first pair
    size: int
    counts: dict[str, int]
    examples: dict[str, list[dict[str, Any]]]  # number, side, texts
    misaligned: list[MisalignedBlock]

    def column(self, name: str) -> np.ndarray:
        """One of COLUMNS of its file."""
        with np.load(self.path, allow_pickle=False) as file:
            return file[name]


settings: Settings | None = None  # of a worker process


def start_worker(given: Settings, parent: int) -> None:
    """In a new process: keep the settings, and end when the parent does."""
    global settings
    end_with_parent(parent)
    settings = given


def run_worker(path: Path, chunk: Chunk) -> None:
    """In a worker process: look at a chunk and write the result."""
    assert settings is not None
    write_part(path, chunk, settings)


def write_part(path: Path, chunk: Chunk, given: Settings) -> None:
    """Look at a chunk and write the result to a file."""
    found = inspect_chunk(chunk.pairs, chunk.core, given.profile, given.limits, given.held_out)
    kinds = list(found.faults)
    lengths = [len(indices) for indices, _ in found.faults.values()]
    columns = {
        "kind": np.repeat(np.arange(len(kinds), dtype=np.uint8), lengths),
        "number": joined([indices for indices, _ in found.faults.values()], np.uint32) + np.uint32(chunk.first),
        "side": joined([sides for _, sides in found.faults.values()], np.int8),
        "misaligned": np.array([[each.first, each.last, each.shift] for each in found.misaligned], np.int64),
        "exact": found.exact,
        "near": found.near,
        "source": found.sequences[0],
        "target": found.sequences[1],
        "text": np.frombuffer(json.dumps(describe(chunk, found, given.examples)).encode(), np.uint8),
    }
    with open_atomic(path) as file:
        np.savez(file, **columns)


def joined(arrays: list[np.ndarray], kind: type) -> np.ndarray:
    """Arrays one after the other."""
    return np.concatenate([np.zeros(0, kind), *arrays]).astype(kind)


def describe(chunk: Chunk, found: ChunkFaults, examples: int) -> dict[str, Any]:
    """Counts, and the first examples of each fault with their texts."""
    core = chunk.pairs[chunk.core]
    shown = {
        kind: [
            {"number": chunk.first + index, "side": side, "texts": [text[:LONGEST_EXAMPLE] for text in core[index]]}
            for index, side in zip(indices[:examples].tolist(), sides[:examples].tolist(), strict=True)
        ]
        for kind, (indices, sides) in found.faults.items()
    }
    counts = {kind: len(indices) for kind, (indices, _) in found.faults.items()}
    return {"first": chunk.first, "size": chunk.size, "counts": counts, "examples": shown}


def read_part(path: Path) -> Part:
    """The result of a chunk from its file."""
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["text"].tobytes())
        first = about["first"] - 1
        rows = file["misaligned"].reshape(-1, 3).tolist()
    blocks = [MisalignedBlock(first + start, first + end, shift) for start, end, shift in rows]
    return Part(path, about["first"], about["size"], about["counts"], about["examples"], blocks)


def inspect_parts(chunks: Iterator[Chunk], folder: Path, given: Settings) -> Iterator[Part]:
    """The results of all chunks in order; those whose file is in `folder` are not looked at again.

    Raises UserError when a process is killed.
    """
    processes = usable_processors()
    waiting: deque[tuple[Path, Future[None] | None]] = deque()
    with ExitStack() as stack:
        pool = None
        for number, chunk in enumerate(chunks):
            path, future = folder / f"{number:06}.npz", None
            if not path.exists():
                if processes == 1 or (number == 0 and len(chunk.pairs) == chunk.size):
                    write_part(path, chunk, given)
                else:
                    pool = pool or stack.enter_context(start_pool(processes, given))
                    future = pool.submit(run_worker, path, chunk)
            waiting.append((path, future))
            if len(waiting) > 2 * processes:
                yield finish(*waiting.popleft())
        while waiting:
            yield finish(*waiting.popleft())


def start_pool(processes: int, given: Settings) -> ProcessPoolExecutor:
    """Processes that look at chunks."""
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(processes, context, start_worker, (given, os.getpid()))


def finish(path: Path, future: "Future[None] | None") -> Part:
    """Wait for a chunk and read its result."""
    try:
        if future is not None:
            future.result()
    except BrokenProcessPool:
        raise UserError("A process of the audit was killed, possibly because memory ran out.") from None
    return read_part(path)
