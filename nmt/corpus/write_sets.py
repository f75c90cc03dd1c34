"""Writes training, validation and test sets as two files of lines, and counts what came from where.

Several processes look at the training pairs, in chunks. This one reads the pairs and writes them;
the others answer in the order of reading, so the corpus does not depend on their number. Copies and
pairs that are also in validation or test sets are counted and reported only; whether they are a
fault depends on the corpus. Repeated pairs are found by `nmt audit`.
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
from nmt.corpus.checks import SAMPLE, SWAPPED, ChunkFaults, PairChecks
from nmt.corpus.filtering import HeldOutSentences, rejection_reason
from nmt.corpus.inspect.misaligned_blocks import Chunk, chunks
from nmt.corpus.link_files import NAME as LINKS
from nmt.corpus.link_files import find_link_files, with_links
from nmt.corpus.origin import Origin
from nmt.corpus.parallel_text import LineWriter
from nmt.corpus.processes import map_in_order, usable_processors
from nmt.corpus.tables import NO_COLUMN, Pair, Skipped
from nmt.corpus.tags import leading_tags
from nmt.corpus.training_plan import TrainingPlan, copies
from nmt.corpus.translation_memory import NO_PAIR
from nmt.errors import UserError

IN_TRAINING = "also in train"  # the remark on a held-out pair
CHUNK = 4000  # pairs that a process looks at together
MOST_SKIPPED = 0.5  # share of the records of an origin; if more are skipped, it is an error
MANY_SKIPPED = 0.1  # likewise, a warning
Item = TypeVar("Item")


@dataclass
class PairCounts:
    """How many pairs of a set were read, kept, dropped or remarked on, and where the first ones."""

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
        half. A corpus of several language pairs has records of other languages; these are neither.
        """
        skipped = Skipped()
        before = self.read
        kept = self.kept
        dropped = self.dropped.copy()
        self.starts.append((before, origin))
        for item in look(origin.pairs_with_progress(skipped)):
            self.read += 1
            yield item

        # The entry of the origin in the report
        read = self.read - before
        entry = {"origin": origin.word, "read": read, "lines": self.kept - kept}
        entry["dropped"] = dict(self.dropped - dropped)
        if skipped:
            entry["skipped"] = dict(skipped)
        self.origins.append(entry | origin.about)

        # Records that are no pair
        lost = skipped.total()
        records = read + lost
        reasons = ", ".join(f"{number:,} with {reason}" for reason, number in skipped.items())
        text = f"{lost:,} of {records:,} records are not pairs: {reasons}."
        if lost - skipped[NO_COLUMN] - skipped[NO_PAIR] >= MOST_SKIPPED * records:
            raise UserError(f"{origin.word} cannot be what is meant: {text}")
        if lost >= MANY_SKIPPED * records and not origin.languages:
            self.warnings.append(f"{origin.place}: {text}")

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        self.examples.setdefault(reason, self.location(self.read))

    def count(self, remark: str, number: int = 0, pairs: int = 1) -> None:
        """Count pairs with a remark; the first is pair `number`, by default the one read last."""
        self.counted[remark] += pairs
        self.examples.setdefault(remark, self.location(number or self.read))

    def location(self, number: int) -> str:
        """FILE:LINE of pair `number`, from 1; `FILE, pair N` where pairs are no lines."""
        before, origin = next(start for start in reversed(self.starts) if start[0] < number)
        return origin.location(number - before)

    def report_entry(self, checks: PairChecks, writer: "SetWriter") -> dict[str, Any]:
        """The set's entry in report.json, with what the checks of all pairs have found."""
        for finding in checks.findings():
            self.warnings.append(f"{self.location(finding.number)}: {finding.text}.")
        for kind, fault in checks.faults.items():
            if kind != SWAPPED:
                self.count(kind, fault.first, fault.pairs)
        entry = dict(vars(self))
        del entry["starts"]
        entry["sha256"] = {code: file.digest.hexdigest() for code, file in writer.files.items()}
        return entry


class SetWriter(ExitStack):
    """The two files of a set that is being written, by language; a context manager."""

    def __init__(self, name: str, data: DataConfig, folder: Path) -> None:
        super().__init__()
        self.files: dict[str, LineWriter] = {}
        for code in (data.source, data.target):
            self.files[code] = self.enter_context(LineWriter(folder / f"{name}.{code}"))

    def write(self, source: str, target: str, tag: str, counts: PairCounts) -> None:
        """Write a pair, with the tag of its origin before it, and count it as kept."""
        source_file, target_file = self.files.values()
        source_file.write(f"{tag} {source}" if tag else source)
        target_file.write(target)
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
    """Before origin `number`: learn what is usual in the first pairs of its languages' origins."""
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
                written = sum(file.file.tell() for file in writer.files.values())
                weight = plan.weight(number, written)
                links = link_files[number] if link_files else None
                judge = partial(self.judged, links=links, place=origin.place)
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
                entry = counts.origins[-1]
                check_part(entry, self.data)
                entry["weight"] = round(weight, 4)
        return counts.report_entry(self.checks, writer)

    def judged(
        self, pairs: Iterator[Pair], links: Path | None, place: str
    ) -> Iterator[tuple[Pair, str, Judgement]]:
        """Each pair with its line of the file `links` and a judgement. Raises UserError.

        Some chunks are read ahead; `waiting` are the pairs that have no judgement yet.
        """
        waiting = deque[tuple[Pair, str]]()

        def read() -> Iterator[Pair]:
            for item in with_links(pairs, links, place):
                waiting.append(item)
                yield item[0]

        answers = map_in_order(
            self.judge, chunks(read(), CHUNK), usable_processors(), "checks pairs"
        )
        for faults, judgements in answers:
            self.checks.note(faults)
            for judgement in judgements:
                yield *waiting.popleft(), judgement

    def judge(self, chunk: Chunk) -> tuple[ChunkFaults, list[Judgement]]:
        """The faults of a chunk, and the judgement about each of its pairs."""
        faults = self.checks.inspect(chunk)

        judgements = []
        for pair in chunk.pairs[chunk.core]:
            reason = rejection_reason(*pair, self.data) or self.plan.reason(*pair)
            held_out = set() if reason else self.held_out.find(*pair)
            judgements.append(Judgement(reason, held_out))
        return faults, judgements


def check_part(entry: dict[str, Any], data: DataConfig) -> None:
    """Raise UserError where no pair of an origin is left."""
    if entry["lines"]:
        return
    limits = {
        "too long": f" (data.max_characters={data.max_characters:g})",
        "lengths too unlike": f" (data.max_length_ratio={data.max_length_ratio:g})",
    }
    reasons = []
    hint = ""
    for reason, number in entry["dropped"].items():
        reasons.append(f"{number:,} {reason}{limits.get(reason, '')}")
        if "held" in reason:
            hint = (
                " Its sentences are too much alike to be split; give data.valid, and "
                "data.test=null."
            )
    raise UserError(
        f"No training pair is left of {entry['read']:,} in data.train={entry['origin']}: "
        f"{', '.join(reasons)}.{hint}"
    )
