"""The chunks of one origin, looked at by several processes; the result of each is a file, so that a kill loses little.

Only what a person reads is held: counts, and the first examples of each fault. The rest stays in the files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.files import open_atomic
from nmt.data.inspect.chunk import Chunk, ChunkFaults, HeldOutHashes, inspect_chunk
from nmt.data.inspect.misaligned_blocks import MisalignedBlock
from nmt.data.inspect.pairs import Limits
from nmt.data.inspect.profile import Profile
from nmt.data.processes import map_in_order, usable_processors

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
    numbered = ((folder / f"{number:06}.npz", chunk) for number, chunk in enumerate(chunks))
    yield from map(read_part, map_in_order(partial(finish_part, given), numbered, usable_processors(), "audits"))


def finish_part(given: Settings, numbered: tuple[Path, Chunk]) -> Path:
    """The file of a chunk, written unless it is there."""
    path, chunk = numbered
    if not path.exists():
        write_part(path, chunk, given)
    return path
