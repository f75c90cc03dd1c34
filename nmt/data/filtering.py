"""Which training pairs are left out, and what is counted about the others.

A pair is judged as a whole: both sides are dropped together, so that no later line loses its translation. Duplicates,
copies and pairs that are also in validation or test sets are counted and reported only; whether they are a fault
depends on the corpus. Sentences are stored as 64-bit hashes: among ten million pairs a chance collision is expected in
1 of 370,000 corpora.
"""

import itertools
import logging
import re
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy

from nmt.data.checks import PairChecks

logger = logging.getLogger("nmt")

HELD_PAIRS = 4_000_000  # whose hashes are held in memory, 64 MB
PARTS = 256
NO_LETTER = re.compile(r"[\W_]+")
# Faults that the preparation counts by itself, most of them as reasons for leaving pairs out.
COUNTED_ELSEWHERE = {"both sides blank", "one side blank", "too long", "lengths too unlike", "both sides equal"}
SLACK = 10  # characters added to both sides before their ratio is taken: "Ja." / "Yes, indeed." is a good pair


def rejection_reason(source: str, target: str, max_characters: int, max_length_ratio: float) -> str | None:
    """Why a pair is left out of training: blank, too long, or of too different lengths. None for a good pair."""
    blank = (not source.strip()) + (not target.strip())
    if blank:
        return "both sides blank" if blank == 2 else "one side blank"
    shorter, longer = sorted((len(source), len(target)))
    if longer > max_characters:
        return "too long"
    if (longer + SLACK) / (shorter + SLACK) > max_length_ratio:
        return "lengths too unlike"
    return None


def hash_text(text: str) -> int:
    """A 64-bit hash, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hash_letters(text: str) -> int:
    """A 64-bit hash of a sentence's letters and digits, without case and punctuation; 0 when it has none."""
    letters = NO_LETTER.sub("", text.casefold())
    return hash_text(letters) if letters else 0


class HeldOutSentences:
    """The sentences of the validation and test sets, by which such pairs are recognised in the training data."""

    def __init__(self) -> None:
        self.source: set[int] = set()
        self.target: set[int] = set()
        self.found: set[int] = set()  # those that training pairs have
        self.pairs: dict[str, list[tuple[int, int]]] = {}  # of each set, line by line

    def add(self, name: str, source: str, target: str) -> None:
        """Add the next pair of a validation or test set."""
        pair = hash_letters(source), hash_letters(target)
        self.source.add(pair[0])
        self.target.add(pair[1])
        self.pairs.setdefault(name, []).append(pair)

    def find(self, source: str, target: str) -> set[int]:
        """Which of its sentences the two are, apart from case and punctuation."""
        sides = (hash_letters(source), self.source), (hash_letters(target), self.target)
        return {each for each, held in sides if each and each in held}

    def found_lines(self, name: str) -> list[int]:
        """The lines of a set, from 1, of which both sides are `found`."""
        return [line for line, pair in enumerate(self.pairs.get(name, []), 1) if self.found.issuperset(pair)]


@dataclass
class PairCounts:
    """How many pairs of a set were read, kept, dropped or remarked on, with the file and line of the first of each."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by reason
    counted: dict[str, int] = field(default_factory=dict)  # pairs that were kept, by remark
    examples: dict[str, str] = field(default_factory=dict)  # reason or remark → FILE:LINE
    warnings: list[str] = field(default_factory=list)  # of `PairChecks`
    starts: list[tuple[int, str, str]] = field(default_factory=list)  # pairs read before each file, its name, a sign

    def start_file(self, path: Path | str, has_lines: bool = True) -> None:
        """The pairs that follow come from `path`, whose line n is pair n if it has lines."""
        self.starts.append((self.read, str(path), ":" if has_lines else ", pair "))

    def drop(self, reason: str, number: int) -> None:
        """Count pair `number` (in the order read, from 1) as left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self.add_example(reason, number)

    def count(self, remark: str, number: int, pairs: int = 1) -> None:
        """Count pairs that are remarked on, but kept; pair `number` is the first of them."""
        self.counted[remark] = self.counted.get(remark, 0) + pairs
        self.add_example(remark, number)

    def add_example(self, reason: str, number: int) -> None:
        """Store FILE:LINE of the first pair with this reason or remark."""
        if reason not in self.examples:
            self.examples[reason] = self.location(number)

    def location(self, number: int) -> str:
        """FILE:LINE of pair `number`, the source file; `FILE, pair N` where pairs are no lines."""
        pairs_before, path, sign = next(start for start in reversed(self.starts) if start[0] < number)
        return f"{path}{sign}{number - pairs_before}"

    def add_warnings(self, checks: PairChecks) -> None:
        """Store what the checks of all pairs have found, with FILE:LINE of the first."""
        self.warnings += [f"{self.location(finding.number)}: {finding.text}." for finding in checks.finish()]
        for kind, count in checks.faults.items():
            if kind not in COUNTED_ELSEWHERE:
                self.count(kind, count.first, count.pairs)

    def report_entry(self) -> dict[str, Any]:
        """The set's entry in report.json: its files, counts and examples."""
        names = ("read", "kept", "dropped", "counted", "examples", "warnings")
        return {"from": [path for _, path, _ in self.starts]} | {name: getattr(self, name) for name in names}


class DuplicateCounter:
    """Counts pairs that repeat an earlier one, both sides to the letter, in a bounded amount of memory.

    After every HELD_PAIRS pairs their hashes go to files in `folder`, a file for each value of the hash's first byte.
    Equal hashes are in the same file, so that the files are counted one by one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hashes = array("Q")
        self.numbers = array("Q")

    def add(self, value: int, number: int) -> None:
        """Add the hash of a pair and its number in the order read. Raises OSError."""
        self.hashes.append(value)
        self.numbers.append(number)
        if len(self.hashes) >= HELD_PAIRS:
            self.write_parts()

    def write_parts(self) -> None:
        """Append the pairs in memory to the files, and forget them."""
        table = numpy.stack([numpy.asarray(self.hashes), numpy.asarray(self.numbers)], axis=1)
        part = table[:, 0] >> numpy.uint64(56)
        order = numpy.argsort(part, kind="stable")
        bounds = numpy.searchsorted(part[order], numpy.arange(PARTS + 1))
        for number, (start, end) in enumerate(itertools.pairwise(bounds.tolist())):
            with open(self.folder / f"hashes-{number}", "ab") as file:
                file.write(table[order[start:end]].tobytes())
        self.hashes, self.numbers = array("Q"), array("Q")

    def count(self) -> tuple[int, int]:
        """How many pairs repeat an earlier one, and the number of the first that does (0 when none does)."""
        if not (self.folder / "hashes-0").exists():
            return count_repeated(numpy.asarray(self.hashes), numpy.asarray(self.numbers))
        self.write_parts()
        repeated, firsts = 0, list[int]()
        for number in range(PARTS):
            path = self.folder / f"hashes-{number}"
            in_part, first = count_repeated(*numpy.fromfile(path, numpy.uint64).reshape(-1, 2).T)
            path.unlink()
            repeated, firsts = repeated + in_part, firsts + [first] * (first > 0)
        return repeated, min(firsts, default=0)


def count_repeated(hashes: numpy.ndarray, numbers: numpy.ndarray) -> tuple[int, int]:
    """How many hashes repeat an earlier one, and the number of the first that does (0 when none does)."""
    _, first = numpy.unique(hashes, return_index=True)
    repeated = numpy.ones(len(hashes), dtype=bool)
    repeated[first] = False
    indices = numpy.flatnonzero(repeated)
    return len(indices), int(numbers[indices[0]]) if len(indices) else 0


def log_report(report: dict[str, Any]) -> None:
    """Log how many pairs were read, kept, dropped and remarked on, each with the file and line of the first."""
    for name, entry in report["audit"].items():
        logger.info("%-20s %11s pairs read, %11s kept", name, f"{entry['read']:,}", f"{entry['kept']:,}")
        for group in ("dropped", "counted"):
            for reason, number in entry[group].items():
                logger.info("  %-7s %10s  %s, first: %s", group, f"{number:,}", reason, entry["examples"][reason])
        for part in entry["origins"] if len(entry["origins"]) > 1 or "skipped" in entry["origins"][0] else []:
            logger.info("  %s", describe_origin(part))


def describe_origin(part: dict[str, Any]) -> str:
    """What came from one origin of a set, on one line."""
    words = [f"from    {part['read']:>10,}  {part['origin']}, {part['lines']:,} lines"]
    words += [f"weight {part['weight']:g}"] if part.get("weight", 1) != 1 else []
    words += [f"{number:,} {reason}" for reason, number in (part["dropped"] | part.get("skipped", {})).items()]
    return ", ".join(words + [f"{key} {part[key]}" for key in ("revision", "license") if key in part])
