"""Writes training, validation and test sets as two files of lines each, and counts what came from where.

Training pairs are looked at by several processes, in chunks. This one reads the pairs and writes them; what the others
answer is in the order read, so the corpus does not depend on their number.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nmt.config.schema import DataConfig
from nmt.data.checks import SAMPLE, PairChecks
from nmt.data.filtering import DuplicateCounter, HeldOutSentences, PairCounts, rejection_reason
from nmt.data.inspect.chunk import Chunk, ChunkFaults, chunks
from nmt.data.origin import Origin, read_with_progress
from nmt.data.parallel_text import LineWriter
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tables import NO_COLUMN, Pair, Skipped
from nmt.data.tags import leading_tags
from nmt.data.training_links import NAME as LINKS
from nmt.data.training_links import find_link_files, with_links
from nmt.data.training_plan import TrainingPlan, copies
from nmt.data.translation_memory import NO_PAIR
from nmt.errors import UserError

CHUNK = 4000  # pairs that a process looks at together
MOST_SKIPPED = 0.5  # of the records of an origin; more are an error
MANY_SKIPPED = 0.1  # and a warning
Item = TypeVar("Item")
IN_TRAINING = "also in train"  # the remark on a validation pair


def write_training_set(
    plan: TrainingPlan,
    data: DataConfig,
    folder: Path,
    held_out: HeldOutSentences,
    duplicates: DuplicateCounter,
    checks: PairChecks,
) -> dict[str, Any]:
    """Write the training pairs that `TrainingFilter` keeps; returns the set's entry in report.json.

    Raises UserError when no pair is left, in the whole or in one part of several.
    """
    counts = PairCounts()
    parts = PartCounts(counts)
    link_files = find_link_files(data, plan.origins)
    with PairWriter("train", data, folder) as writer, ExitStack() as stack:
        if link_files:
            link_writer = LineWriter(folder / LINKS)
            stack.callback(link_writer.close)
        checks.prepare(first_pairs(plan.origins))
        training_filter = TrainingFilter(plan, data, held_out, checks)
        for number, origin in enumerate(plan.origins):
            links, weight = link_files[number] if link_files else None, plan.weight(number, writer.size)
            look = partial(training_filter.decide_all, links=links, place=origin.place)
            for (source, target), line, decision in parts.count(origin, look):
                if decision.reason:
                    counts.drop(decision.reason, counts.read)
                    continue
                if source == target:
                    counts.count("both sides equal", counts.read)
                if decision.held_out:
                    counts.count("also in valid or test", counts.read)
                    held_out.found |= decision.held_out
                duplicates.add(decision.hash, counts.read)
                plan.found_tags.update(leading_tags(source))
                for _ in range(times := copies(weight, source, target)):
                    writer.write(tagged(source, origin.tag), target, counts)
                    if links is not None:
                        link_writer.write(line)
                if not times:
                    counts.drop("left out by its weight", counts.read)
            check_part(parts.entries[-1], data)
            parts.entries[-1] |= {"weight": round(weight, 4)} | ({"tag": origin.tag} if origin.tag else {})
    repeated, first = duplicates.count()
    if repeated:
        counts.count("duplicates", first, repeated)
    counts.add_warnings(checks)
    return counts.report_entry() | {"sha256": writer.digests(), "origins": parts.entries}


def check_part(entry: dict[str, Any], data: DataConfig) -> None:
    """Raise UserError when no pair of a part is left."""
    if not entry["lines"]:
        keys = {"too long": "max_characters", "lengths too unlike": "max_length_ratio"}
        limits = {reason: f" (data.{key}={getattr(data, key):g})" for reason, key in keys.items()}
        dropped = entry["dropped"].items()
        reasons = ", ".join(f"{number:,} {reason}{limits.get(reason, '')}" for reason, number in dropped)
        alike = any("held" in reason for reason in entry["dropped"])
        hint = " Its sentences are too much alike to be split; give data.valid, and data.test=null." if alike else ""
        left = f"No training pair is left of {entry['read']:,} in data.train={entry['origin']}: {reasons}."
        raise UserError(left + hint)


def tagged(source: str, tag: str) -> str:
    """A sentence with the tag of its origin before it, if it has one."""
    return f"{tag} {source}" if tag else source


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
    parts = PartCounts(counts)
    with PairWriter(name, data, folder) as writer:
        for origin in origins:
            for source, target in parts.pairs(origin):
                if not (source.strip() and target.strip()):
                    counts.count("a side blank", counts.read)
                held_out.add(name, source, target)
                checks.add(source, target)
                writer.write(tagged(source, origin.tag), target, counts)
    if counts.counted.get("a side blank") == counts.read:
        raise UserError(f"The set '{name}' has no pair of two sentences: one side of every line is blank.")
    counts.add_warnings(checks)
    return counts.report_entry() | {"sha256": writer.digests(), "origins": parts.entries}


def count_in_training(entry: dict[str, Any], data: DataConfig, held_out: HeldOutSentences) -> None:
    """Count in the entry of the validation set the pairs of which both sides are in the training set."""
    if lines := held_out.found_lines("valid"):
        entry["counted"][IN_TRAINING] = len(lines)
        entry["examples"][IN_TRAINING] = f"valid.{data.source}:{lines[0]}"


class PairWriter:
    """The two files of a set that is being written; a context manager."""

    def __init__(self, name: str, data: DataConfig, folder: Path) -> None:
        self.files = {language: LineWriter(folder / f"{name}.{language}") for language in (data.source, data.target)}

    def write(self, source: str, target: str, counts: PairCounts) -> None:
        """Write a pair and count it as kept."""
        for writer, sentence in zip(self.files.values(), (source, target), strict=True):
            writer.write(sentence)
        counts.kept += 1

    def __enter__(self) -> "PairWriter":
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self.files.values():
            writer.close()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return sum(writer.file.tell() for writer in self.files.values())

    def digests(self) -> dict[str, str]:
        """The sha256 of both files, by language."""
        return {language: writer.digest.hexdigest() for language, writer in self.files.items()}


class Decision(NamedTuple):
    """About one pair."""

    reason: str | None  # why it is left out
    held_out: set[int]  # the sentences of validation and test sets that it has, by their hashes
    hash: int  # of both sides, to the letter


@dataclass
class TrainingFilter:
    """Decides which training pairs are kept; `checks` counts their faults, and is prepared."""

    plan: TrainingPlan
    data: DataConfig
    held_out: HeldOutSentences
    checks: PairChecks

    def decide_all(
        self, pairs: Iterator[Pair], links: Path | None, place: Path | str
    ) -> Iterator[tuple[Pair, str, Decision]]:
        """Each pair with its line of the file `links` and a decision; some chunks are read ahead. Raises UserError."""
        read = deque[tuple[Pair, str]]()

        def reading() -> Iterator[Pair]:
            for item in with_links(pairs, links, place):
                read.append(item)
                yield item[0]

        parts = chunks(reading(), CHUNK)
        for found, decisions in map_in_order(self.decide, parts, usable_processors(), "checks pairs"):
            self.checks.note(found, len(decisions))
            for decision in decisions:
                yield *read.popleft(), decision

    def decide(self, chunk: Chunk) -> tuple[ChunkFaults, list[Decision]]:
        """The faults of a chunk, and the decision about each of its pairs."""
        found = self.checks.inspect(chunk.pairs, chunk.core)
        limits = self.data.max_characters, self.data.max_length_ratio
        decisions = []
        for pair, value in zip(chunk.pairs[chunk.core], found.exact.tolist(), strict=True):
            reason = rejection_reason(*pair, *limits) or self.plan.reason(*pair)
            decisions.append(Decision(reason, set() if reason else self.held_out.find(*pair), value))
        return found, decisions


def first_pairs(origins: Sequence[Origin]) -> list[Pair]:
    """The pairs of a training text by which is told what is usual; raises UserError."""
    return list(islice(chain.from_iterable(origin.pairs(Skipped()) for origin in origins), SAMPLE))


class PartCounts:
    """What came from each origin of a set: counts that grow together with those of the whole set."""

    def __init__(self, counts: PairCounts) -> None:
        self.counts = counts
        self.entries: list[dict[str, Any]] = []

    def pairs(self, origin: Origin) -> Iterator[Pair]:
        """The pairs of an origin; `counts.read` is the number of the pair, from 1. `entries` gets what came."""
        return self.count(origin, iter)

    def count(self, origin: Origin, look: Callable[[Iterator[Pair]], Iterator[Item]]) -> Iterator[Item]:
        """What `look` makes of each pair of an origin, with the same counts; it may read ahead."""
        counts, skipped = self.counts, Skipped()
        counts.start_file(origin.place, origin.has_lines)
        read, kept, dropped = counts.read, counts.kept, dict(counts.dropped)
        for item in look(read_with_progress(origin, skipped)):
            counts.read += 1
            yield item
        lost = {reason: number - dropped.get(reason, 0) for reason, number in counts.dropped.items()}
        entry = {"origin": origin.word, "read": counts.read - read, "lines": counts.kept - kept, "first_line": kept + 1}
        entry |= {"dropped": {reason: number for reason, number in lost.items() if number}}
        entry |= {"skipped": dict(skipped)} if skipped else {}
        self.entries.append(entry | origin.about)
        self.check_skipped(origin, counts.read - read, skipped)

    def check_skipped(self, origin: Origin, read: int, skipped: Skipped) -> None:
        """Store a warning about an origin that loses a tenth of its records; raises UserError where it loses half.

        Records of other languages are no error, and nothing to be said about a corpus of several language pairs.
        """
        records = read + skipped.total()
        reasons = ", ".join(f"{number:,} with {reason}" for reason, number in skipped.items())
        text = f"{skipped.total():,} of {records:,} records are no pair: {reasons}."
        if skipped.total() - skipped[NO_COLUMN] - skipped[NO_PAIR] >= MOST_SKIPPED * records:
            raise UserError(f"{origin.word} cannot be what is meant: {text}")
        if skipped.total() >= MANY_SKIPPED * records and not origin.languages:
            self.counts.warnings.append(f"{origin.place}: {text}")
