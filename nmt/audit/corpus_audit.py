"""Goes through all pairs of a configuration, originals untouched, and collects what is wrong with which.

The first SAMPLE pairs of training show how the corpus is written. Then every set is read in blocks of pairs, which
several processes look at; what is compared over all blocks (duplicates, held-out sentences, shifted lines) is collected
here, in the order read. Memory does not grow with the corpus, but for the sentences of validation and test sets.
"""

import signal
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from nmt.audit.block import PAIRS, BlockFaults, Limits, Pair, Sample, find_faults
from nmt.audit.stretches import Stretch, StretchFinder
from nmt.data.audit import PairCounts
from nmt.data.duplicates import FIRSTS, DuplicateCounter
from nmt.data.origin import Origin
from nmt.data.packed import PackedFile
from nmt.data.parallel_text import BYTE_ORDER_MARK
from nmt.data.tables import Skipped
from nmt.data.tokenize_files import usable_processors
from nmt.errors import UserError
from nmt.view.progress import Progress

SAMPLE = 30_000  # pairs of training, from which is learnt how the corpus is written
MIN_SAMPLE = 500  # without so many nothing is learnt
NOT_UTF8 = "not UTF-8"
UNEQUAL_FILES = "lines that only one file has"
DUPLICATE, NEAR_DUPLICATE = "duplicate", "near-duplicate: the same letters"
context: tuple[Limits, Sample | None]  # of a process of the pool
BOTH_HELD_OUT, ONE_HELD_OUT = "both sides also in valid or test", "one side also in valid or test"


@dataclass
class Example:
    """One pair with a fault."""

    location: str  # FILE:LINE, or FILE, pair N
    source: str
    target: str


@dataclass
class Fault:
    """What is wrong, with how many pairs, and the first of them."""

    name: str
    pairs: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass
class SetAudit:
    """The faults of one set."""

    name: str
    read: int
    faults: list[Fault]


class HeldOutHashes:
    """The letters of all validation and test sentences, as hashes."""

    def __init__(self) -> None:
        self.sides = [np.empty(0, np.uint64), np.empty(0, np.uint64)]

    def add(self, blocks: list[np.ndarray]) -> None:
        """Add the hashes of a set's blocks [pairs, 2]."""
        for side in (0, 1):
            hashes = np.unique(np.concatenate([self.sides[side], *(block[:, side] for block in blocks)]))
            self.sides[side] = hashes[hashes > 0]  # what has no letters is no sentence

    def find(self, hashes: np.ndarray) -> dict[str, np.ndarray]:
        """The pairs of a block whose sides are held out."""
        sides = [np.isin(hashes[:, side], self.sides[side]) for side in (0, 1)]
        return {
            BOTH_HELD_OUT: np.flatnonzero(sides[0] & sides[1]),
            ONE_HELD_OUT: np.flatnonzero(sides[0] ^ sides[1]),
        }


class SetAuditor:
    """Reads one set and collects its faults."""

    def __init__(self, name: str, sample: Sample | None, folder: Path) -> None:
        self.name, self.faults, self.added = name, dict[str, Fault](), 0
        self.counts = PairCounts()  # of what is read, which is ahead of what is added
        self.duplicates = DuplicateCounter(folder, columns=2)
        self.finder = StretchFinder(sample.evidence) if sample is not None else None
        self.hashes: list[np.ndarray] = []  # of a held-out set's sentences

    def read(self, origins: list[Origin]) -> Iterator[Pair]:
        """The pairs of a set; raises UserError for what cannot be read at all."""
        for origin in origins:
            self.counts.start_file(origin.place, origin.has_lines)
            for pair in self.read_lines(origin) if origin.has_lines else origin.pairs(Skipped()):
                self.counts.read += 1
                yield pair

    def read_lines(self, origin: Origin) -> Iterator[Pair]:
        """The pairs of two plain files, to the end of the shorter; what is no UTF-8 is a fault of its pair."""
        files = [PackedFile(path) for path in origin.files]
        for number, both in enumerate(zip_longest(*(file.lines() for file in files)), 1):
            if None in both:
                self.note(UNEQUAL_FILES, 1, [(self.counts.read + 1, ("", ""))])
                continue
            lines = [line.removesuffix(b"\n").removesuffix(b"\r") for line in both]
            if number == 1:
                lines = [line.removeprefix(BYTE_ORDER_MARK) for line in lines]
            source, target = (line.decode(errors="replace") for line in lines)
            if "\ufffd" in source + target and [source.encode(), target.encode()] != lines:
                self.note(NOT_UTF8, 1, [(self.counts.read + 1, (source, target))])
            yield source, target

    def add(self, pairs: list[Pair], block: BlockFaults, held_out: HeldOutHashes | None) -> None:
        """Add the next pairs with their faults; without `held_out` the set is a held-out one itself."""
        first, self.added = self.added + 1, self.added + len(pairs)
        faults = dict(block.faults)
        if held_out is not None:
            faults |= held_out.find(block.hashes[:, 2:])
        else:
            self.hashes.append(block.hashes[:, 2:])
        for name, rows in faults.items():
            self.note(name, len(rows), [(first + row, pairs[row]) for row in rows[:FIRSTS].tolist()])
        self.duplicates.add_all(block.hashes[:, 1::-1], first)
        if self.finder is not None:
            self.finder.add(*block.summaries)

    def note(self, name: str, pairs: int, examples: list[tuple[int, Pair]]) -> None:
        """Count pairs with a fault; of the first the number and the text are given."""
        if pairs:
            fault = self.faults.setdefault(name, Fault(name))
            fault.pairs += pairs
            for number, pair in examples[: FIRSTS - len(fault.examples)]:
                fault.examples.append(Example(self.counts.location(number), *pair))

    def finish(self) -> SetAudit:
        """All faults of the set, the most frequent first."""
        for name, (pairs, firsts) in zip((NEAR_DUPLICATE, DUPLICATE), self.duplicates.count(), strict=True):
            self.note(name, pairs, [(number, ("", "")) for number in firsts])
        for stretch in self.finder.finish() if self.finder is not None else []:
            self.note(describe(stretch), stretch.last - stretch.first + 1, [(stretch.first + 1, ("", ""))])
            last = self.faults[describe(stretch)].examples[-1]
            if " to " not in last.location:
                last.location += f" to {stretch.last + 1}"
        return SetAudit(self.name, self.added, sorted(self.faults.values(), key=lambda each: -each.pairs))


def describe(stretch: Stretch) -> str:
    """The fault of a stretch of pairs."""
    if stretch.shift is None:
        return "stretch of pairs that do not belong together"
    return f"shifted stretch: target line n {stretch.shift:+d} belongs to source line n"


def audit_corpus(sets: dict[str, list[Origin]], limits: Limits) -> Iterator[SetAudit]:
    """The audit of each set, training last; raises UserError."""
    sample, held_out = take_sample(sets["train"]), HeldOutHashes()
    with tempfile.TemporaryDirectory() as folder:
        for name in [*(name for name in sets if name != "train"), "train"]:
            auditor = SetAuditor(name, sample, Path(folder))
            blocks = blocks_of(auditor.read(sets[name]))
            with Progress(None, "pair", f"audit of {name}") as bar:
                for pairs, found in find_in_parallel(blocks, limits, sample):
                    auditor.add(pairs, found, held_out if name == "train" else None)
                    bar.update(len(pairs))
            if auditor.hashes:
                held_out.add(auditor.hashes)
            yield auditor.finish()


def take_sample(origins: list[Origin]) -> Sample | None:
    """What the first pairs of each part of training tell; None where they are too few."""
    pairs: list[Pair] = []
    for origin in origins:
        pairs += islice(SetAuditor("", None, Path()).read([origin]), SAMPLE // len(origins))
    return Sample(pairs) if len(pairs) >= MIN_SAMPLE else None


def blocks_of(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    """Lists of PAIRS pairs."""
    while block := list(islice(pairs, PAIRS)):
        yield block


def find_in_parallel(
    blocks: Iterator[list[Pair]], limits: Limits, sample: Sample | None
) -> Iterator[tuple[list[Pair], BlockFaults]]:
    """Each block with its faults, in order, found by as many processes as there are processors."""
    processes = usable_processors()
    first = list(islice(blocks, 2))
    if processes == 1 or len(first) < 2:
        yield from ((pairs, find_faults(pairs, limits, sample)) for pairs in chain(first, blocks))
        return
    pending: deque[tuple[list[Pair], Future[BlockFaults]]] = deque()
    try:
        with ProcessPoolExecutor(processes, get_context("fork"), begin_process, (limits, sample)) as pool:
            for pairs in chain(first, blocks):
                pending.append((pairs, pool.submit(find_here, pairs)))
                if len(pending) > 2 * processes:
                    pairs, found = pending.popleft()
                    yield pairs, found.result()
            while pending:
                pairs, found = pending.popleft()
                yield pairs, found.result()
    except BrokenProcessPool:
        raise UserError("A process of the audit was killed, possibly because memory ran out.") from None


def begin_process(limits: Limits, sample: Sample | None) -> None:
    """In a new process: store what all blocks need. SIGINT is left to the parent."""
    global context
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    context = limits, sample


def find_here(pairs: list[Pair]) -> BlockFaults:
    """The faults of a block, in a process of the pool."""
    return find_faults(pairs, *context)
