"""Writes training, validation and test sets as two files of lines each, and counts what came from
where.

Training pairs are looked at by several processes, in chunks. This one reads the pairs and writes
them; what the others answer is in the order read, so the corpus does not depend on their number.
Copies and pairs that are also in validation or test sets are counted and reported only; whether
they are a fault depends on the corpus. Repeated pairs are found by `nmt audit`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nmt.config.schema import DataConfig
from nmt.data.checks import SAMPLE, SWAPPED, ChunkFaults, PairChecks
from nmt.data.filtering import HeldOutSentences, rejection_reason
from nmt.data.inspect.misaligned_blocks import Chunk, chunks
from nmt.data.origin import Origin
from nmt.data.parallel_text import LineWriter
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tables import NO_COLUMN, Pair, Skipped
from nmt.data.tags import leading_tags
from nmt.data.training_links import NAME as LINKS
from nmt.data.training_links import find_link_files, with_links
from nmt.data.training_plan import TrainingPlan, copies
from nmt.data.translation_memory import NO_PAIR
from nmt.errors import UserError

IN_TRAINING = "also in train"  # the remark on a validation pair
CHUNK = 4000  # pairs that a process looks at together
MOST_SKIPPED = 0.5  # of the records of an origin; more are an error
MANY_SKIPPED = 0.1  # and a warning
Item = TypeVar("Item")


@dataclass
class PairCounts:
    """How many pairs of a set were read, kept, dropped or remarked on, with the file and line of
    the first of each."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # by reason
    counted: Counter[str] = field(default_factory=Counter)  # pairs that were kept, by remark
    examples: dict[str, str] = field(default_factory=dict)  # reason or remark → FILE:LINE
    warnings: list[str] = field(default_factory=list)
    origins: list[dict[str, Any]] = field(default_factory=list)  # what came from each
    starts: list[tuple[int, Origin]] = field(default_factory=list)  # pairs read before each origin

    def each(
        self, origin: Origin, look: Callable[[Iterator[Pair]], Iterator[Item]]
    ) -> Iterator[Item]:
        """What `look` makes of each pair of an origin, counted as `read`; it may read ahead.

        An origin that loses a tenth of its records is a warning; raises UserError where it loses
        half. Records of other languages are no error, and nothing to be said about a corpus of
        several language pairs.
        """
        skipped = Skipped()
        before = self.read
        kept = self.kept
        dropped = self.dropped.copy()
        self.starts.append((before, origin))
        for item in look(origin.pairs_with_progress(skipped)):
            self.read += 1
            yield item
        read = self.read - before
        lost = skipped.total()
        entry = {"origin": origin.word, "read": read, "lines": self.kept - kept}
        entry |= {"dropped": dict(self.dropped - dropped)} | (
            {"skipped": dict(skipped)} if skipped else {}
        )
        self.origins.append(entry | origin.about)
        reasons = ", ".join(f"{number:,} with {reason}" for reason, number in skipped.items())
        text = f"{lost:,} of {read + lost:,} records are no pair: {reasons}."
        if lost - skipped[NO_COLUMN] - skipped[NO_PAIR] >= MOST_SKIPPED * (read + lost):
            raise UserError(f"{origin.word} cannot be what is meant: {text}")
        if lost >= MANY_SKIPPED * (read + lost) and not origin.languages:
            self.warnings.append(f"{origin.place}: {text}")

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        self.examples.setdefault(reason, self.location(self.read))

    def count(self, remark: str, number: int = 0, pairs: int = 1) -> None:
        """Count pairs that are remarked on; the first is pair `number` (from 1), by default the one
        read last."""
        self.counted[remark] += pairs
        self.examples.setdefault(remark, self.location(number or self.read))

    def location(self, number: int) -> str:
        """FILE:LINE of pair `number`, the source file; `FILE, pair N` where pairs are no lines."""
        before, origin = next(start for start in reversed(self.starts) if start[0] < number)
        return f"{origin.place}{':' if origin.sides else ', pair '}{number - before}"

    def report_entry(self, checks: PairChecks, writer: "SetWriter") -> dict[str, Any]:
        """The set's entry in report.json, with what the checks of all pairs have found."""
        self.warnings += [
            f"{self.location(finding.number)}: {finding.text}." for finding in checks.findings()
        ]
        for kind, found in checks.faults.items():
            if kind != SWAPPED:
                self.count(kind, found.first, found.pairs)
        names = ("read", "kept", "dropped", "counted", "examples", "warnings", "origins")
        entry = {"from": [origin.place for _, origin in self.starts]} | {
            name: getattr(self, name) for name in names
        }
        return entry | {
            "sha256": {code: file.digest.hexdigest() for code, file in writer.files.items()}
        }


class SetWriter(ExitStack):
    """The two files of a set that is being written, by language; a context manager."""

    def __init__(self, name: str, data: DataConfig, folder: Path) -> None:
        super().__init__()
        languages = data.source, data.target
        self.files = {
            code: self.enter_context(LineWriter(folder / f"{name}.{code}")) for code in languages
        }

    def write(self, source: str, target: str, tag: str, counts: PairCounts) -> None:
        """Write a pair, with the tag of its origin before it, and count it as kept."""
        for file, sentence in zip(
            self.files.values(), (f"{tag} {source}" if tag else source, target), strict=True
        ):
            file.write(sentence)
        counts.kept += 1


def write_held_out_set(
    name: str,
    origins: list[Origin],
    data: DataConfig,
    folder: Path,
    held_out: HeldOutSentences,
    checks: PairChecks,
) -> dict[str, Any]:
    """Write every pair of a validation or test set; returns its entry in report.json.

    Raises UserError when a side of every pair is blank.
    """
    counts = PairCounts()
    with SetWriter(name, data, folder) as writer:
        for number, origin in enumerate(origins):
            prepare_checks(checks, origins, number)
            for source, target in counts.each(origin, checks.watch):
                if not (source.strip() and target.strip()):
                    counts.count("a side blank")
                held_out.add(name, source, target)
                writer.write(source, target, origin.tag, counts)
    if counts.counted["a side blank"] == counts.read:
        raise UserError(
            f"The set '{name}' has no pair of two sentences: one side of every line is blank."
        )
    return counts.report_entry(checks, writer)


def prepare_checks(checks: PairChecks, origins: Sequence[Origin], number: int) -> None:
    """Before origin `number`: learn what is usual from the first pairs of all origins of its
    languages."""
    languages = origins[number].languages
    if number == 0 or languages != origins[number - 1].languages:
        alike = (origin.pairs(Skipped()) for origin in origins if origin.languages == languages)
        checks.prepare(list(islice(chain.from_iterable(alike), SAMPLE)), languages)


class Judgement(NamedTuple):
    reason: str | None  # why it is left out
    held_out: set[int]  # the sentences of validation and test sets that it has, by their hashes


@dataclass
class TrainingSet:
    """Writes the training pairs that are not left out."""

    plan: TrainingPlan
    data: DataConfig
    held_out: HeldOutSentences
    checks: PairChecks

    def write(self, folder: Path) -> dict[str, Any]:
        """Write train.SOURCE, train.TARGET and the links; returns the set's entry in report.json.

        Raises UserError when no pair is left, in the whole or in one part of several.
        """
        counts = PairCounts()
        plan = self.plan
        link_files = find_link_files(self.data, plan.origins)
        with SetWriter("train", self.data, folder) as writer:
            link_writer = writer.enter_context(LineWriter(folder / LINKS)) if link_files else None
            for number, origin in enumerate(plan.origins):
                prepare_checks(self.checks, plan.origins, number)
                weight = plan.weight(
                    number, sum(file.file.tell() for file in writer.files.values())
                )
                judge = partial(
                    self.judged,
                    links=link_files[number] if link_files else None,
                    place=origin.place,
                )
                for (source, target), line, judgement in counts.each(origin, judge):
                    if judgement.reason:
                        counts.drop(judgement.reason)
                        continue
                    if source == target:
                        counts.count("both sides equal")
                    if judgement.held_out:
                        counts.count("also in valid or test")
                        self.held_out.found |= judgement.held_out
                    plan.found_tags.update(leading_tags(source))
                    times = copies(weight, source, target)
                    for _ in range(times):
                        writer.write(source, target, origin.tag, counts)
                        if link_writer:
                            link_writer.write(line)
                    if not times:
                        counts.drop("left out by its weight")
                check_part(counts.origins[-1], self.data)
                counts.origins[-1] |= {"weight": round(weight, 4)} | (
                    {"tag": origin.tag} if origin.tag else {}
                )
        return counts.report_entry(self.checks, writer)

    def judged(
        self, pairs: Iterator[Pair], links: Path | None, place: str
    ) -> Iterator[tuple[Pair, str, Judgement]]:
        """Each pair with its line of the file `links` and a judgement; some chunks are read ahead.
        Raises UserError."""
        read = deque[tuple[Pair, str]]()

        def reading() -> Iterator[Pair]:
            for item in with_links(pairs, links, place):
                read.append(item)
                yield item[0]

        parts = chunks(reading(), CHUNK)
        for found, judgements in map_in_order(
            self.judge, parts, usable_processors(), "checks pairs"
        ):
            self.checks.note(found)
            for judgement in judgements:
                yield *read.popleft(), judgement

    def judge(self, chunk: Chunk) -> tuple[ChunkFaults, list[Judgement]]:
        """The faults of a chunk, and the judgement about each of its pairs."""
        found = self.checks.inspect(chunk)
        limits = self.data.max_characters, self.data.max_length_ratio
        judgements = []
        for pair in chunk.pairs[chunk.core]:
            reason = rejection_reason(*pair, *limits) or self.plan.reason(*pair)
            judgements.append(Judgement(reason, set() if reason else self.held_out.find(*pair)))
        return found, judgements


def check_part(entry: dict[str, Any], data: DataConfig) -> None:
    if entry["lines"]:
        return
    keys = {"too long": "max_characters", "lengths too unlike": "max_length_ratio"}
    limits = {reason: f" (data.{key}={getattr(data, key):g})" for reason, key in keys.items()}
    reasons = ", ".join(
        f"{number:,} {each}{limits.get(each, '')}" for each, number in entry["dropped"].items()
    )
    alike = any("held" in reason for reason in entry["dropped"])
    hint = (
        (" Its sentences are too much alike to be split; give data.valid, and data.test=null.")
        if alike
        else ""
    )
    left = (
        f"No training pair is left of {entry['read']:,} in data.train={entry['origin']}: {reasons}."
    )
    raise UserError(left + hint)
