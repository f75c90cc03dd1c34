"""A chunk of pairs that is looked at as a whole: faults by kind, misaligned blocks, and the hashes of its pairs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from nmt.data.inspect.lines import Lines, is_in, mix
from nmt.data.inspect.misaligned_blocks import AROUND, MisalignedBlock, find_misaligned_blocks
from nmt.data.inspect.pairs import Limits, pair_faults, side_faults
from nmt.data.inspect.profile import Profile

Pair = tuple[str, str]
BOTH = 2  # stands for both sides, where 0 is the source and 1 the target
LEAKED, SIDE_LEAKED = "in valid or test", "a side in valid or test"
MISALIGNED = "in a misaligned block"


@dataclass
class Chunk:
    """Pairs that are looked at together, in their context."""

    pairs: list[Pair]
    core: slice  # of those that are not context
    first: int  # number of the first pair of the core, from 1

    @property
    def size(self) -> int:
        return self.core.stop - self.core.start


def chunks(pairs: Iterator[Pair], most: int) -> Iterator[Chunk]:
    """The pairs in chunks of at most `most`, with AROUND pairs of context before and after."""
    held, before, first = list(islice(pairs, most + AROUND)), 0, 1
    while len(held) > before:
        size = min(most, len(held) - before)
        yield Chunk(held, slice(before, before + size), first)
        first += size
        keep = max(0, before + size - AROUND)
        before = before + size - keep
        held = held[keep:]
        held += islice(pairs, before + most + AROUND - len(held))


@dataclass
class HeldOutHashes:
    """The sentences of validation and test sets: hashes of their words, and of both sides together."""

    sides: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.zeros(0, np.uint64),) * 2)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """Add the `sequences` of a set's lines; those without words are left out."""
        self.pairs = np.union1d(self.pairs, pair_hashes(source, target)[(source > 0) & (target > 0)])
        both = zip(self.sides, (source, target), strict=True)
        self.sides = tuple(np.union1d(old, new[new > 0]) for old, new in both)  # type: ignore[assignment]

    def faults(self, source: Lines, target: Lines) -> dict[str, np.ndarray]:
        """Which pairs of the training set are held out, and of which one side is."""
        hashes = source.words.sequences, target.words.sequences
        leaked = is_in(pair_hashes(*hashes), self.pairs)
        one_side = is_in(hashes[0], self.sides[0]) | is_in(hashes[1], self.sides[1])
        return {LEAKED: leaked, SIDE_LEAKED: one_side & ~leaked}


@dataclass
class ChunkFaults:
    """The faults of a chunk: for each kind the indices of the pairs and their sides; and what whole sets need."""

    faults: dict[str, tuple[np.ndarray, np.ndarray]]
    misaligned: list[MisalignedBlock]  # numbered from 1 in the chunk
    exact: np.ndarray  # hash of each pair, to the letter
    near: np.ndarray  # hash of each pair without case, punctuation and order; 0 where a side has no word
    sequences: tuple[np.ndarray, np.ndarray]  # of the words of both sides


def pair_hashes(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    return mix(mix(source) + target)


def inspect_chunk(
    pairs: list[Pair], core: slice, profile: Profile, limits: Limits, held_out: HeldOutHashes | None
) -> ChunkFaults:
    """Look at the pairs in `core`; those before and after it are context for misaligned blocks."""
    source, target = (Lines([pair[side] for pair in pairs[core]]) for side in (0, 1))
    found = {kind: (lines, BOTH) for kind, lines in pair_faults(profile, limits, source, target).items()}
    if held_out is not None:
        found |= {kind: (lines, BOTH) for kind, lines in held_out.faults(source, target).items()}
    faults = {kind: numbered([value]) for kind, value in found.items()}
    by_side = [side_faults(profile, limits, number, side) for number, side in enumerate((source, target))]
    for kind in by_side[0] | by_side[1]:
        faults[kind] = numbered([(side[kind], number) for number, side in enumerate(by_side) if kind in side])
    exact, bags = pair_hashes(source.hashes, target.hashes), (source.words.bags, target.words.bags)
    near = np.where((source.words.count > 0) & (target.words.count > 0), pair_hashes(*bags), 0)
    return ChunkFaults(
        {kind: found for kind, found in faults.items() if len(found[0])},
        core_misaligned_blocks(pairs, core, profile),
        exact,
        near.astype(np.uint64),
        (source.words.sequences, target.words.sequences),
    )


def numbered(masks: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
    """The sorted indices of the pairs with a fault, and the side of each: 0, 1 or BOTH."""
    side = np.full(len(masks[0][0]), -1, np.int8)
    for mask, number in masks:
        side[mask] = np.where(side[mask] >= 0, BOTH, number)
    indices = np.flatnonzero(side >= 0)
    return indices, side[indices]


def core_misaligned_blocks(pairs: list[Pair], core: slice, profile: Profile) -> list[MisalignedBlock]:
    """The misaligned blocks of a chunk, cut off at its ends."""
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    found = []
    for block in find_misaligned_blocks(profile, source, target):
        first, last = max(block.first - core.start, 1), min(block.last, core.stop) - core.start
        if first <= last:
            found.append(MisalignedBlock(first, last, block.shift))
    return found
