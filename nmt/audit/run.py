"""The audit of all sets of a configuration, from its sources to a folder with report.json and
audit.html.

The folder goes by the content of the files, the thresholds and the code: the same command finds a
finished audit. Chunks of pairs are looked at by several processes. In memory are two hashes of each
pair, counts, and the first examples of each fault.
"""

import json
import re
import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, compress, islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nmt.audit.faults import CHUNK, HeldOutHashes, inspect_chunk
from nmt.audit.profile import SAMPLE, Profile, learn_profile
from nmt.audit.report import (
    HABITS,
    OTHER_LANGUAGES,
    UNMATCHED,
    Fault,
    SetReport,
    page,
)
from nmt.audit.translations import CHECKED, IMPROBABLE, SAMPLE_PAIRS, TranslationCheck
from nmt.config.schema import DataConfig
from nmt.corpus import corpus, sources
from nmt.corpus.checks import Pair
from nmt.corpus.checksums import read_json, text_digest, write_json
from nmt.corpus.files import atomic_folder, open_atomic
from nmt.corpus.inspect.language import describe_languages
from nmt.corpus.inspect.misaligned_blocks import MIN_PAIRS, MisalignedBlock, chunks, merge
from nmt.corpus.origin import Origin
from nmt.corpus.processes import map_in_order, usable_processors
from nmt.corpus.tables import Skipped
from nmt.errors import UserError
from nmt.runs.provenance import code_digest
from nmt.runs.run import Run
from nmt.view.progress import Progress

THRESHOLDS = ("max_characters", "max_length_ratio", *corpus.AUDIT_KEYS)
LANGUAGE_SAMPLE = 4000  # pairs by which the languages of an origin are told

MISALIGNED = "in a misaligned block"
# A pair with these faults can be learnt from: training removes the characters, and headings, lists
# and variants are text.
SPELLING = {"byte order mark", "invisible characters", "unusual spaces", "near duplicate"}
SPELLING |= {"looks tokenized", "all in capitals", "no capital letters", "unpaired quote"}
MOST_BLOCKS = 20  # misaligned ones that are shown


def audit(
    data: DataConfig, root: Path, forward: Run | None = None, backward: Run | None = None
) -> tuple[Path, list[SetReport]]:
    """Look at all pairs; returns the folder of the results, and the results.

    forward, backward: models of the corpus's direction and of the other one, which judge the pairs
    as well. Raises UserError, and then leaves no folder.
    """
    inputs = corpus.corpus_inputs(data, root / "digests.json")
    recipe: dict[str, Any] = {"code": code_digest(__name__), "data": asdict(data), "inputs": inputs}
    models = {"forward": forward, "backward": backward}
    for name, model in models.items():
        if model is not None:
            recipe[name] = [model.weights, model.provenance["computed"]]
    digest = text_digest(json.dumps(recipe, sort_keys=True, default=str))
    folder = root / f"audit-{digest[:10]}"
    if not folder.is_dir():
        sets = sources.find_sets(data, root / "downloads")
        check = None
        if forward or backward:
            check = TranslationCheck(forward, backward, folder.with_suffix(".parts"))
        with atomic_folder(folder) as temporary:
            with (temporary / "all.tsv").open("w", encoding="utf-8") as all_faults:
                reports = Auditor(data, all_faults, check).run(sets)
            write_json(temporary / "report.json", {"sets": [asdict(report) for report in reports]})
            names = ("train", "valid", "test", *THRESHOLDS)
            about = {f"data.{name}": str(getattr(data, name)) for name in names}
            about |= {name: model.name for name, model in models.items() if model is not None}
            (temporary / "audit.html").write_text(page(reports, about), encoding="utf-8")
        shutil.rmtree(folder.with_suffix(".parts"), ignore_errors=True)
    content = read_json(folder / "report.json")
    if content is None:
        raise UserError(f"{folder} is damaged; delete it, and the audit is made again.")
    reports = []
    for entry in content["sets"]:
        report = SetReport(**entry)
        report.faults = {kind: Fault(**fault) for kind, fault in entry["faults"].items()}
        reports.append(report)
    return folder, reports


def write_clean(
    data: DataConfig, root: Path, folder: Path, prefix: str
) -> tuple[int, Counter[str]]:
    """Divide the training pairs of an audit in `folder` into those that pass and the others.

    Pairs that pass have no fault, or only those of SPELLING; they are written to PREFIX.LANGUAGE.
    The others are written to PREFIX.rejected.tsv, with their reasons and their place before both
    sentences. Line breaks and tabs become spaces. Returns how many pass, and how many do not by
    their first reason.
    """
    faults: dict[str, list[str]] = {}  # by place
    with (folder / "all.tsv").open(encoding="utf-8") as all_faults:
        for line in all_faults:
            name, kind, where = line.rstrip("\n").split("\t", 2)
            if name == "train" and kind not in SPELLING:
                faults.setdefault(where, []).append(kind)
    kept = 0
    rejected = Counter[str]()
    source_path, target_path, rejected_path = clean_files(data, prefix)
    with (
        open_atomic(source_path) as source_file,
        open_atomic(target_path) as target_file,
        open_atomic(rejected_path) as rejected_file,
    ):
        for origin in sources.find_sets(data, root / "downloads")["train"]:
            for number, pair in enumerate(Reader(origin).pairs(), 1):
                source, target = map(on_one_line, pair)
                first = origin.location(number, 0)
                reasons: list[str] = []
                for where in dict.fromkeys((first, origin.location(number, 1))):
                    reasons += faults.get(where, ())
                if reasons:
                    rejected[reasons[0]] += 1
                    columns = [", ".join(reasons).encode(), first.encode(), source, target]
                    rejected_file.write(b"\t".join(columns) + b"\n")
                else:
                    kept += 1
                    source_file.write(source + b"\n")
                    target_file.write(target + b"\n")
    return kept, rejected


def on_one_line(text: str) -> bytes:
    return re.sub(r"[\t\r\n]", " ", text).encode(errors="surrogateescape")


def clean_files(data: DataConfig, prefix: str) -> list[Path]:
    """What `write_clean` writes."""
    return [Path(f"{prefix}.{ending}") for ending in (data.source, data.target, "rejected.tsv")]


@dataclass
class Reader:
    """Reads the pairs of an origin; what is damaged is read as far as possible, not refused."""

    origin: Origin
    lines: list[int] = field(default_factory=lambda: [0, 0])  # of both files
    skipped: Skipped = field(default_factory=Skipped)

    def pairs(self) -> Iterator[Pair]:
        """The pairs, up to the end of the shorter of two files.

        Bytes that are not UTF-8 become lone surrogates.
        """
        if self.origin.sides is None:
            yield from self.origin.pairs(self.skipped, "surrogateescape")
            return

        def decoded(line: bytes) -> str:
            return line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")

        source_file, target_file = self.origin.sides
        for source, target in zip_longest(source_file.lines(), target_file.lines()):
            self.lines[0] += source is not None
            self.lines[1] += target is not None
            if source is not None and target is not None:
                yield decoded(source), decoded(target)


class Auditor:
    """The audit of the sets of a configuration, held-out sets first.

    All pairs with a fault are written to the file `all_faults`.
    """

    def __init__(
        self, data: DataConfig, all_faults: TextIO, check: TranslationCheck | None = None
    ) -> None:
        self.data = data
        self.check = check
        self.all_faults = all_faults
        self.examples = data.audit_examples
        self.codes = (data.source, data.target)
        self.held_out = HeldOutHashes()
        self.profile: Profile | None = None  # of the first training text, for sets that are small

    def run(self, sets: dict[str, list[Origin]]) -> list[SetReport]:
        self.profile = self.learn(sets["train"][0])
        reports = []
        for name, origins in sets.items():
            if name != "train" and origins:
                reports.append(self.audit_set(name, origins))
        reports = [self.audit_set("train", sets["train"]), *reports]
        if self.check is not None:
            self.check.learn(evenly_spread(sets["train"], reports[0].pairs, SAMPLE_PAIRS))
            for report in reports:
                self.check_translations(report, sets[report.name], self.check)
        return reports

    def learn(self, origin: Origin) -> Profile:
        """What is usual in the first pairs of an origin.

        If they are few, the languages are those of the training text. Raises UserError for an
        origin without pairs.
        """
        pairs = list(islice(Reader(origin).pairs(), SAMPLE))
        if not pairs:
            raise UserError(f"{origin.word} has no pair of sentences.")
        if len(pairs) < MIN_PAIRS and self.profile is not None:
            return self.profile
        profile = learn_profile(pairs)
        if self.profile is None or len(pairs) == SAMPLE:
            return profile
        return replace(profile, languages=self.profile.languages, language=self.profile.language)

    def audit_set(self, name: str, origins: list[Origin]) -> SetReport:
        report = SetReport(name)
        starts = list[int]()  # pairs of the set before each origin
        hashes = list[tuple[np.ndarray, np.ndarray]]()
        counts = [origin.count() for origin in origins]  # None where lines do not tell it
        total = None if None in counts else sum(count or 0 for count in counts)
        with Progress(total, "pair", f"audit of {name}") as bar:
            for origin in origins:
                starts.append(report.pairs)
                self.audit_origin(report, origin, hashes, bar)

        def locate(number: int) -> str:
            index = bisect_left(starts, number) - 1
            return origins[index].location(number - starts[index])

        exact = np.concatenate([pair[0] for pair in hashes])
        near = np.concatenate([pair[1] for pair in hashes])
        for kind, (later, earlier) in find_repeated(exact, near).items():
            places = list(map(locate, later.tolist()))
            shown = [f"repeats {locate(number)}" for number in earlier[: self.examples].tolist()]
            self.add(report, kind, places, shown)
        return report

    def audit_origin(
        self,
        report: SetReport,
        origin: Origin,
        hashes: list[tuple[np.ndarray, np.ndarray]],
        bar: Progress,
    ) -> None:
        """Add the faults of an origin to the report, and the hashes of its pairs to `hashes`."""
        profile = self.learn(origin)
        reader = Reader(origin)
        blocks = list[MisalignedBlock]()
        before = report.pairs
        held_out = self.held_out if report.name == "train" else None
        work = partial(inspect_chunk, profile, self.data, held_out)
        parts = chunks(reader.pairs(), CHUNK)
        for audited in map_in_order(work, parts, usable_processors(), "audits"):
            for kind, pairs in audited.faults.items():
                places = [origin.location(number, side) for number, side in pairs]
                self.add(report, kind, places, audited.texts[kind])
            blocks += audited.misaligned
            hashes.append((audited.exact, audited.near))
            if report.name != "train":
                self.held_out.add(audited.sequences)
            report.pairs += len(audited.exact)
            bar.update(len(audited.exact))
        for block in merge(blocks):
            remark = f"to {block.last}, {block.size} pairs: {block.describe()}"
            places = [origin.location(number) for number in range(block.first, block.last + 1)]
            self.add(report, MISALIGNED, places, [remark], MOST_BLOCKS)
        self.add_origin(report, reader, profile, report.pairs - before)

    def check_translations(
        self, report: SetReport, origins: list[Origin], check: TranslationCheck
    ) -> None:
        """Add the pairs of a set that the models find improbable to its report."""
        with Progress(report.pairs, "pair", f"translations of {report.name}") as bar:
            for origin in origins:
                remaining = Reader(origin).pairs()
                first = 1
                while pairs := list(islice(remaining, CHECKED)):
                    rows, unjudged = check.judge(pairs)
                    places = [origin.location(first + row) for row in rows]
                    shown = [pairs[row] for row in rows[: self.examples]]
                    self.add(report, IMPROBABLE, places, shown)
                    report.unjudged += unjudged
                    first += len(pairs)
                    bar.update(len(pairs))

    def add(
        self,
        report: SetReport,
        kind: str,
        places: list[str],
        shown: Sequence[Pair | str],
        least: int = 0,
    ) -> None:
        """Count and write the pairs with a fault; at least `least` examples are kept."""
        report.add(kind, len(places), places, shown, max(self.examples, least))
        self.all_faults.writelines(f"{report.name}\t{kind}\t{place}\n" for place in places)

    def add_origin(self, report: SetReport, reader: Reader, profile: Profile, pairs: int) -> None:
        origin = reader.origin
        source, target = reader.lines
        unmatched = origin.location(min(source, target) + 1, int(target > source))
        remark = f"{source:,} and {target:,} lines"
        report.add(UNMATCHED, abs(source - target), [unmatched], [remark], self.examples)
        for reason, count in reader.skipped.items():
            report.add(f"no pair: {reason}", count, [origin.place], ["record"], self.examples)

        about: dict[str, Any] = {"origin": origin.word, "pairs": pairs}
        for habit in HABITS:
            of_sides = [habit in side.habits for side in profile.sides]
            if any(of_sides):
                about[habit] = " and ".join(compress(("source", "target"), of_sides))
        sample = list(islice(Reader(origin).pairs(), LANGUAGE_SAMPLE))
        problem = describe_languages(sample, origin.languages or self.codes)
        if problem:
            about["problem"] = problem
            report.add(OTHER_LANGUAGES, pairs, [origin.location(1)], [problem], self.examples)
        report.origins.append(about)


def evenly_spread(origins: list[Origin], count: int, most: int) -> list[Pair]:
    """At most `most` of the `count` pairs of these origins, in order."""
    step = -(-count // most)
    every = chain.from_iterable(Reader(origin).pairs() for origin in origins)
    return list(islice(every, 0, None, step))


def find_repeated(exact: np.ndarray, near: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers, from 1, of pairs that repeat an earlier one, and of the earlier one [2 found].

    Equal pairs have equal near hashes; a hash of 0 is none. Pairs with a blank side repeat nothing:
    they have a fault of their own.
    """
    is_blank = exact == 0
    numbers = np.arange(1, len(exact) + 1)

    def firsts(hashes: np.ndarray) -> np.ndarray:
        _, index, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        first: np.ndarray = numbers[index][inverse]
        return first

    to_the_letter = firsts(exact)
    alike = firsts(np.where(near == 0, exact, near))
    is_new = to_the_letter == numbers
    return {
        "duplicate": np.stack([numbers, to_the_letter])[:, ~is_new & ~is_blank],
        "near duplicate": np.stack([numbers, alike])[:, is_new & ~is_blank & (alike != numbers)],
    }
