"""The audit of all sets of a configuration, from its sources to a folder with report.json and audit.html.

The folder goes by the content of the files and the thresholds: the same command finds a finished audit, and continues
one that was interrupted. Chunks of pairs are looked at by several processes, and the result of each is a file. Only
what a person reads is held in memory: counts, and the first examples of each fault.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.audit.faults import MISALIGNED, HeldOutHashes, Limits, inspect_chunk, load_identifier
from nmt.audit.profile import SAMPLE, Profile, learn_profile
from nmt.audit.repeated import Hashes, find_repeated
from nmt.audit.report import OTHER_LANGUAGES, UNMATCHED, Fault, SetReport, page, place
from nmt.config.schema import DataConfig
from nmt.data import corpus, sources
from nmt.data.checks import Pair
from nmt.data.files import only_writer, open_atomic, report_write_errors, write_atomic
from nmt.data.inspect.language import describe_languages
from nmt.data.inspect.lines import Lines
from nmt.data.inspect.misaligned_blocks import MIN_PAIRS, Chunk, MisalignedBlock, chunks, merge
from nmt.data.origin import Origin
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tables import Skipped
from nmt.errors import UserError
from nmt.view.progress import Progress

THRESHOLDS = ("max_characters", "max_length_ratio", *corpus.AUDIT_KEYS)
CHUNK = 20_000  # pairs that are looked at together
LANGUAGE_SAMPLE = 4000  # pairs by which the languages of an origin are told
LONGEST_EXAMPLE = 300  # characters
VERSION = 4  # raise it when the audit finds something else
log = logging.getLogger("nmt")


def audit(data: DataConfig, root: Path) -> tuple[Path, list[SetReport]]:
    """Look at all pairs; returns the folder of the results, and them.

    Raises UserError; then nothing stays of a folder in which no chunk is finished.
    """
    recipe = {"version": VERSION, "data": asdict(data), "inputs": corpus.corpus_inputs(data, root / "digests.json")}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=str).encode()).hexdigest()
    folder = root / f"audit-{digest[:10]}"
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with only_writer(folder):
                if (reports := read_reports(folder)) is None:
                    sets = sources.find_sets(data, root / "downloads")
                    reports = Auditor(data, folder).run(sets)
                    write_reports(folder, reports, data)
                    shutil.rmtree(folder / "parts", ignore_errors=True)
        except UserError:
            if not any(folder.rglob("*.npz")) and not (folder / "report.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder, reports


def read_reports(folder: Path) -> list[SetReport] | None:
    try:
        entries = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        for entry in entries:
            entry["faults"] = {kind: Fault(**fault) for kind, fault in entry["faults"].items()}
        return [SetReport(**entry) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_reports(folder: Path, reports: list[SetReport], data: DataConfig) -> None:
    about = {f"data.{name}": str(getattr(data, name)) for name in ("train", "valid", "test", *THRESHOLDS)}
    write_atomic(folder / "audit.html", page(reports, about))
    text = json.dumps([asdict(report) for report in reports], indent=1, ensure_ascii=False)
    write_atomic(folder / "report.json", text.encode(errors="backslashreplace") + b"\n")


@dataclass
class Reader:
    """The pairs of an origin, and what came with them; what is damaged is read as far as possible, not refused."""

    origin: Origin
    lines: list[int] = field(default_factory=lambda: [0, 0])  # of both files
    skipped: Skipped = field(default_factory=Skipped)

    def pairs(self) -> Iterator[Pair]:
        """The pairs, up to the end of the shorter of two files. Bytes that are not UTF-8 become lone surrogates."""
        if self.origin.sides is None:
            yield from self.origin.pairs(self.skipped, "surrogateescape")
            return
        for pair in zip_longest(*(file.lines() for file in self.origin.sides)):
            for side, line in enumerate(pair):
                self.lines[side] += line is not None
            if None not in pair:
                source, target = (
                    line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape") for line in pair
                )
                yield source, target


class Settings(NamedTuple):
    profile: Profile
    limits: Limits
    held_out: HeldOutHashes | None
    examples: int  # of each fault whose text is kept


@dataclass
class Part:
    path: Path
    first: int  # number of its first pair
    size: int
    counts: dict[str, int]
    examples: dict[str, list[dict[str, Any]]]  # number, side, texts
    misaligned: list[MisalignedBlock]

    @classmethod
    def read(cls, path: Path) -> "Part":
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["text"].tobytes())
            rows = file["misaligned"].reshape(-1, 3).tolist()
        before = about["first"] - 1
        blocks = [MisalignedBlock(before + first, before + last, shift) for first, last, shift in rows]
        return cls(path, **about, misaligned=blocks)

    def column(self, name: str) -> np.ndarray:
        with np.load(self.path, allow_pickle=False) as file:
            return file[name]


def write_part(settings: Settings, numbered: tuple[Path, Chunk]) -> Path:
    """Look at a chunk and write the result to a file, unless it is there."""
    path, chunk = numbered
    if path.exists():
        return path
    found = inspect_chunk(chunk, settings.profile, settings.limits, settings.held_out)
    core, most = chunk.pairs[chunk.core], settings.examples
    examples = {
        kind: [
            {"number": chunk.first + index, "side": side, "texts": [text[:LONGEST_EXAMPLE] for text in core[index]]}
            for index, side in zip(indices[:most].tolist(), sides[:most].tolist(), strict=True)
        ]
        for kind, (indices, sides) in found.faults.items()
    }
    counts = {kind: len(indices) for kind, (indices, _) in found.faults.items()}
    about = {"first": chunk.first, "size": chunk.size, "counts": counts, "examples": examples}
    empty = (np.zeros(0, int), np.zeros(0, np.int8))
    indices, sides = (np.concatenate(column) for column in zip(empty, *found.faults.values(), strict=True))
    with open_atomic(path) as file:
        np.savez(
            file,
            kind=np.repeat(np.arange(len(counts), dtype=np.uint8), list(counts.values())),
            number=(indices + chunk.first).astype(np.uint32),
            side=sides,
            misaligned=np.array([[each.first, each.last, each.shift] for each in found.misaligned], np.int64),
            exact=found.exact,
            near=found.near,
            source=found.sequences[0],
            target=found.sequences[1],
            text=np.frombuffer(json.dumps(about).encode(), np.uint8),
        )
    return path


class OriginParts(NamedTuple):
    """An origin, the number of pairs of its set before it, and the results of its chunks."""

    origin: Origin
    before: int
    parts: list[Part]

    @property
    def misaligned(self) -> list[MisalignedBlock]:
        return merge([block for part in self.parts for block in part.misaligned])


class Auditor:
    """The audit of the sets of a configuration, held-out sets first."""

    def __init__(self, data: DataConfig, folder: Path) -> None:
        self.folder, self.examples = folder, data.audit_examples
        self.codes = (data.source, data.target)
        if data.audit_identifier:
            load_identifier(*self.codes)
        codes = self.codes if data.audit_identifier else None
        self.limits = Limits(data.max_characters, data.max_length_ratio, data.audit_deviation, codes)
        self.held_out = HeldOutHashes()
        self.profile: Profile | None = None  # of the first training text, for sets that are small

    def run(self, sets: dict[str, list[Origin]]) -> list[SetReport]:
        with report_write_errors(self.folder), (self.folder / "all.tsv").open("w", encoding="utf-8") as every:
            self.every = every
            self.profile = self.learn(sets["train"][0])
            reports = {name: self.audit_set(name, sets[name]) for name in sets if name != "train" and sets[name]}
            return [self.audit_set("train", sets["train"]), *reports.values()]

    def learn(self, origin: Origin) -> Profile:
        """What is usual in the first pairs of an origin; if they are few, languages are those of the training text.

        Raises UserError for an origin without pairs.
        """
        pairs = list(islice(Reader(origin).pairs(), SAMPLE))
        if not pairs:
            raise UserError(f"{origin.word} has no pair of sentences.")
        if len(pairs) < MIN_PAIRS and self.profile is not None:
            return self.profile
        found = learn_profile(*(Lines([pair[side] for pair in pairs]) for side in (0, 1)))
        if self.profile is None or len(pairs) == SAMPLE:
            return found
        return replace(found, languages=self.profile.languages, language=self.profile.language)

    def audit_set(self, name: str, origins: list[Origin]) -> SetReport:
        report, results = SetReport(name), list[OriginParts]()
        counts = [origin.count() for origin in origins]  # about how many pairs; None where lines do not tell it
        total = None if None in counts else sum(count or 0 for count in counts)
        with Progress(total, "pair", f"audit of {name}") as bar:
            for number, origin in enumerate(origins):
                profile, reader = self.learn(origin), Reader(origin)
                folder = self.folder / "parts" / f"{name}-{number}"
                folder.mkdir(parents=True, exist_ok=True)
                result, finished = OriginParts(origin, report.pairs, []), set(folder.iterdir())
                settings = Settings(profile, self.limits, self.held_out if name == "train" else None, self.examples)
                numbered = ((folder / f"{n:06}.npz", chunk) for n, chunk in enumerate(chunks(reader.pairs(), CHUNK)))
                for path in map_in_order(partial(write_part, settings), numbered, usable_processors(), "audits"):
                    result.parts.append(Part.read(path))
                    (bar.skip if path in finished else bar.update)(result.parts[-1].size)
                self.add_origin(report, reader, result, profile)
                results.append(result)
        self.add_repeated(report, results)
        self.list_pairs(report, results)
        if name != "train":
            for part in [part for result in results for part in result.parts]:
                self.held_out.add(part.column("source"), part.column("target"))
        return report

    def add_origin(self, report: SetReport, reader: Reader, result: OriginParts, profile: Profile) -> None:
        origin, most = result.origin, self.examples
        for part in result.parts:
            for kind, count in part.counts.items():
                examples = [
                    {"place": place(origin, each["number"], each["side"]), "texts": each["texts"]}
                    for each in part.examples[kind]
                ]
                report.add(kind, count, examples, most)
        blocks = [
            {"place": place(origin, each.first), "remark": f"to {each.last}, {each.size} pairs: {each.describe()}"}
            for each in result.misaligned
        ]
        report.add(MISALIGNED, sum(each.size for each in result.misaligned), blocks, max(most, 20))
        source, target = reader.lines
        entry = {
            "place": place(origin, min(source, target) + 1, int(target > source)),
            "remark": f"{source:,} and {target:,} lines",
        }
        report.add(UNMATCHED, abs(source - target), [entry], most)
        for reason, count in reader.skipped.items():
            report.add(f"no pair: {reason}", count, [{"place": str(origin.place), "remark": "record"}], most)
        pairs = sum(part.size for part in result.parts)
        about: dict[str, Any] = {"origin": origin.word, "pairs": pairs, "first": report.pairs + 1}
        for habit, values in (("tokenized", profile.spaced), ("in small letters", profile.few_capitals)):
            if any(values):
                about[habit] = " and ".join(
                    side for side, value in zip(("source", "target"), values, strict=True) if value
                )
        sample = list(islice(Reader(origin).pairs(), LANGUAGE_SAMPLE))
        if problem := describe_languages(sample, origin.languages or self.codes):
            about["problem"] = problem
            entry = {"place": place(origin, 1), "remark": problem}
            report.add(OTHER_LANGUAGES, pairs, [entry], len(report.origins) + 1)
        report.origins.append(about)
        report.pairs += pairs

    def add_repeated(self, report: SetReport, results: list[OriginParts]) -> None:

        def read() -> Iterator[Hashes]:
            for result in results:
                for part in result.parts:
                    numbers = np.arange(part.size) + result.before + part.first
                    yield part.column("exact"), part.column("near"), numbers

        def locate(number: int) -> str:
            result = next(each for each in reversed(results) if each.before < number)
            return place(result.origin, number - result.before)

        for kind, numbers in find_repeated(read, report.pairs).items():
            shown = [
                {"place": locate(later), "remark": f"repeats {locate(earlier)}"}
                for later, earlier in numbers[:, : self.examples].T.tolist()
            ]
            report.add(kind, numbers.shape[1], shown, self.examples)
            for later in numbers[0].tolist():
                self.every.write(f"{report.name}\t{kind}\t{locate(later)}\n")

    def list_pairs(self, report: SetReport, results: list[OriginParts]) -> None:
        """Write every pair with a fault to all.tsv: set, fault, place."""
        for result in results:
            for block in result.misaligned:
                for number in range(block.first, block.last + 1):
                    self.every.write(f"{report.name}\t{MISALIGNED}\t{place(result.origin, number)}\n")
            for part in result.parts:
                kinds = list(part.counts)
                columns = (part.column(name).tolist() for name in ("kind", "number", "side"))
                for kind, number, side in zip(*columns, strict=True):
                    self.every.write(f"{report.name}\t{kinds[kind]}\t{place(result.origin, number, side)}\n")
