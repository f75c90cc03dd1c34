"""The audit of all sets of a configuration, from its sources to a folder with report.json and audit.html.

The folder goes by the content of the files and the thresholds: the same command finds a finished audit, and continues
one that was interrupted.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import numpy as np

from nmt.audit.parts import Part, Settings, inspect_parts
from nmt.audit.reading import Reader
from nmt.audit.repeated import find_repeated
from nmt.audit.report import Fault, SetReport, page, place
from nmt.config.schema import DataConfig
from nmt.data import corpus, sources
from nmt.data.files import report_write_errors, write_atomic
from nmt.data.inspect.chunk import BOTH, MISALIGNED, HeldOutHashes, chunks
from nmt.data.inspect.identifier import check_languages
from nmt.data.inspect.lines import Lines
from nmt.data.inspect.misaligned_blocks import merge
from nmt.data.inspect.pairs import Limits
from nmt.data.inspect.profile import MIN_PAIRS, SAMPLE, Profile, learn_profile
from nmt.data.inspect.side_language import describe_languages
from nmt.data.origin import Origin
from nmt.data.run_lock import only_writer
from nmt.errors import UserError
from nmt.view.progress import Progress

THRESHOLDS = ("max_characters", "max_length_ratio", *corpus.AUDIT_KEYS)
CHUNK = 20_000  # pairs that are looked at together
LANGUAGE_SAMPLE = 4000  # pairs by which the languages of an origin are told
VERSION = 3  # raise it when the audit finds something else
log = logging.getLogger("nmt")


def audit_folder(data: DataConfig, root: Path) -> Path:
    """The folder of the audit of these pairs; raises UserError for what cannot be read."""
    recipe = {"version": VERSION, "data": asdict(data), "inputs": corpus.corpus_inputs(data, root / "digests.json")}
    text = json.dumps(recipe, sort_keys=True, default=str)
    return root / f"audit-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def audit(data: DataConfig, root: Path) -> tuple[Path, list[SetReport]]:
    """Look at all pairs; returns the folder of the results, and them.

    Raises UserError; then nothing stays of a folder in which no chunk is finished.
    """
    folder = audit_folder(data, root)
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with only_writer(folder):
                if (reports := read_reports(folder)) is None:
                    sets = sources.find_sets(data, root / "downloads")
                    reports = Auditor(data, folder).run(sets)
                    write_reports(folder, reports, provenance(data))
                    shutil.rmtree(folder / "parts", ignore_errors=True)
        except UserError:
            if not any(folder.rglob("*.npz")) and not (folder / "report.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder, reports


def read_reports(folder: Path) -> list[SetReport] | None:
    """The results of a finished audit."""
    try:
        entries = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        for entry in entries:
            entry["faults"] = {kind: Fault(**fault) for kind, fault in entry["faults"].items()}
        return [SetReport(**entry) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def provenance(data: DataConfig) -> dict[str, str]:
    """What was looked at, and the thresholds."""
    words = {f"data.{name}": str(getattr(data, name)) for name in ("train", "valid", "test")}
    return words | {f"data.{name}": str(getattr(data, name)) for name in THRESHOLDS}


def write_reports(folder: Path, reports: list[SetReport], about: dict[str, str]) -> None:
    """Write audit.html and report.json."""
    write_atomic(folder / "audit.html", page(reports, about))
    text = json.dumps([asdict(report) for report in reports], indent=1, ensure_ascii=False)
    write_atomic(folder / "report.json", text.encode(errors="backslashreplace") + b"\n")


class Auditor:
    """The audit of the sets of a configuration, held-out sets first."""

    def __init__(self, data: DataConfig, folder: Path) -> None:
        self.folder, self.examples = folder, data.audit_examples
        self.codes = (data.source, data.target)
        codes = self.codes if data.audit_identifier else None
        if codes:
            check_languages(*codes)
        self.limits = Limits(data.max_characters, data.max_length_ratio, data.audit_deviation, codes)
        self.held_out = HeldOutHashes()
        self.profile: Profile | None = None  # of the first training text, for sets that are small

    def run(self, sets: dict[str, list[Origin]]) -> list[SetReport]:
        """The results of all sets, training first."""
        with report_write_errors(self.folder), (self.folder / "all.tsv").open("w", encoding="utf-8") as every:
            self.every = every
            self.profile = self.learn(Reader(sets["train"][0]))
            reports = {name: self.audit_set(name, sets[name]) for name in sets if name != "train" and sets[name]}
            return [self.audit_set("train", sets["train"]), *reports.values()]

    def learn(self, reader: Reader) -> Profile:
        """What is usual in the first pairs of an origin; if they are few, languages are those of the training text.

        Raises UserError for an origin without pairs.
        """
        pairs = list(islice(reader.pairs(), SAMPLE))
        if not pairs:
            raise UserError(f"{reader.origin.word} has no pair of sentences.")
        if len(pairs) < MIN_PAIRS and self.profile is not None:
            return self.profile
        found = learn_profile(*(Lines([pair[side] for pair in pairs]) for side in (0, 1)))
        if self.profile is None or len(pairs) == SAMPLE:
            return found
        return replace(found, languages=self.profile.languages, language=self.profile.language)

    def languages_problem(self, origin: Origin) -> str | None:
        """What is wrong with the languages of an origin's first pairs."""
        return describe_languages(list(islice(Reader(origin).pairs(), LANGUAGE_SAMPLE)), origin.languages or self.codes)

    def audit_set(self, name: str, origins: list[Origin]) -> SetReport:
        """Look at the pairs of one set."""
        report, parts = SetReport(name), list[tuple[Origin, int, list[Part]]]()
        held_out = self.held_out if name == "train" else None
        with Progress(total_pairs(origins), "pair", f"audit of {name}") as bar:
            for number, origin in enumerate(origins):
                profile, reader, before = self.learn(Reader(origin)), Reader(origin), report.pairs
                folder = self.folder / "parts" / f"{name}-{number}"
                folder.mkdir(parents=True, exist_ok=True)
                found, finished = [], set(folder.iterdir())
                settings = Settings(profile, self.limits, held_out, self.examples)
                for part in inspect_parts(chunks(reader.pairs(), CHUNK), folder, settings):
                    found.append(part)
                    (bar.skip if part.path in finished else bar.update)(part.size)
                report.add_origin(reader, found, profile, self.examples)
                report.add_languages(origin, report.pairs - before, self.languages_problem(origin))
                parts.append((origin, before, found))
        self.add_repeated(report, parts)
        self.list_pairs(report, parts)
        if name != "train":
            for _, _, found in parts:
                for part in found:
                    self.held_out.add(part.column("source"), part.column("target"))
        return report

    def add_repeated(self, report: SetReport, parts: list[tuple[Origin, int, list[Part]]]) -> None:
        """Find duplicates in the whole set."""

        def read() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            for _, before, found in parts:
                for part in found:
                    numbers = np.arange(part.size) + before + part.first
                    yield part.column("exact"), part.column("near"), numbers

        for kind, numbers in find_repeated(read, report.pairs).items():
            shown = [
                {"place": locate(parts, later), "remark": f"repeats {locate(parts, earlier)}"}
                for later, earlier in numbers[:, : self.examples].T.tolist()
            ]
            report.add(kind, numbers.shape[1], shown, self.examples)
            for later in numbers[0].tolist():
                self.every.write(f"{report.name}\t{kind}\t{locate(parts, later)}\n")

    def list_pairs(self, report: SetReport, parts: list[tuple[Origin, int, list[Part]]]) -> None:
        """Write every pair with a fault to all.tsv: set, fault, place."""
        for origin, _, found in parts:
            for block in merge([each for part in found for each in part.misaligned]):
                for number in range(block.first, block.last + 1):
                    self.every.write(f"{report.name}\t{MISALIGNED}\t{place(origin, number, BOTH)}\n")
            for part in found:
                kinds = list(part.counts)
                columns = (part.column(name).tolist() for name in ("kind", "number", "side"))
                for kind, number, side in zip(*columns, strict=True):
                    self.every.write(f"{report.name}\t{kinds[kind]}\t{place(origin, number, side)}\n")


def total_pairs(origins: list[Origin]) -> int | None:
    """About how many pairs there are; None where lines do not tell it."""
    counts = [origin.count() for origin in origins]
    return None if None in counts else sum(count or 0 for count in counts)


def locate(parts: list[tuple[Origin, int, list[Part]]], number: int) -> str:
    """FILE:LINE of a pair by its number in the set."""
    origin, before, _ = next(each for each in reversed(parts) if each[1] < number)
    return place(origin, number - before, BOTH)
