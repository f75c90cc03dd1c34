"""The audit of all sets of a configuration, from its sources to a folder with report.json and
audit.html.

The folder goes by the content of the files, the thresholds and the code: the same command finds a
finished audit. Chunks of pairs are looked at by several processes. In memory are two hashes of each
pair, counts, and the first examples of each fault.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nmt.audit.faults import CHUNK, HeldOutHashes, inspect_chunk
from nmt.audit.profile import SAMPLE, Profile, learn_profile
from nmt.audit.report import OTHER_LANGUAGES, UNMATCHED, Fault, SetReport, page, place
from nmt.config.schema import DataConfig
from nmt.data import corpus, sources
from nmt.data.checks import Pair
from nmt.data.checksums import read_json, write_json
from nmt.data.files import atomic_folder, open_atomic
from nmt.data.inspect.language import describe_languages
from nmt.data.inspect.lines import Lines
from nmt.data.inspect.misaligned_blocks import MIN_PAIRS, MisalignedBlock, chunks, merge
from nmt.data.origin import Origin
from nmt.data.processes import map_in_order, usable_processors
from nmt.data.tables import Skipped
from nmt.errors import UserError
from nmt.runs.provenance import code_digest
from nmt.view.progress import Progress

THRESHOLDS = ("max_characters", "max_length_ratio", *corpus.AUDIT_KEYS)
LANGUAGE_SAMPLE = 4000  # pairs by which the languages of an origin are told
LONGEST_EXAMPLE = 300  # characters
MISALIGNED = "in a misaligned block"
# With these a pair can be learnt from: training removes the characters, and headings, lists and
# variants are text.
SPELLING = {"byte order mark", "invisible characters", "unusual spaces", "near duplicate"}
SPELLING |= {"looks tokenized", "all in capitals", "no capital letters", "unpaired quote"}
MOST_BLOCKS = 20  # misaligned ones that are shown


def audit(data: DataConfig, root: Path) -> tuple[Path, list[SetReport]]:
    """Look at all pairs; returns the folder of the results, and them. Raises UserError; then no
    folder is there."""
    inputs = corpus.corpus_inputs(data, root / "digests.json")
    recipe = {"code": code_digest(__name__), "data": asdict(data), "inputs": inputs}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=str).encode()).hexdigest()
    folder = root / f"audit-{digest[:10]}"
    if not folder.is_dir():
        sets = sources.find_sets(data, root / "downloads")
        with atomic_folder(folder) as temporary:
            with (temporary / "all.tsv").open("w", encoding="utf-8") as every:
                reports = Auditor(data, every).run(sets)
            write_json(temporary / "report.json", {"sets": [asdict(report) for report in reports]})
            about = {
                f"data.{name}": str(getattr(data, name))
                for name in ("train", "valid", "test", *THRESHOLDS)
            }
            (temporary / "audit.html").write_text(page(reports, about), encoding="utf-8")
    content = read_json(folder / "report.json")
    if content is None:
        raise UserError(f"{folder} is damaged; delete it, and the audit is made again.")
    for entry in content["sets"]:
        entry["faults"] = {kind: Fault(**fault) for kind, fault in entry["faults"].items()}
    return folder, [SetReport(**entry) for entry in content["sets"]]


def write_clean(
    data: DataConfig, root: Path, folder: Path, prefix: str
) -> tuple[int, Counter[str]]:
    """Write the training pairs of an audit in `folder` that pass to PREFIX.LANGUAGE, the others to
    PREFIX.rejected.tsv.

    Those have their reasons and their place before both sentences. Returns how many pass, and how
    many do not by their first reason. A pair passes without a fault, or with those of SPELLING.
    Line breaks and tabs become spaces.
    """
    faults: dict[str, list[str]] = {}  # by place
    with (folder / "all.tsv").open(encoding="utf-8") as every:
        for name, kind, where in (line.rstrip("\n").split("\t", 2) for line in every):
            if name == "train" and kind not in SPELLING:
                faults.setdefault(where, []).append(kind)
    kept = 0
    rejected = Counter[str]()
    with ExitStack() as stack:
        *sides, others = (
            stack.enter_context(open_atomic(path)) for path in clean_files(data, prefix)
        )
        for origin in sources.find_sets(data, root / "downloads")["train"]:
            for number, pair in enumerate(Reader(origin).pairs(), 1):
                places = dict.fromkeys(place(origin, number, side) for side in (0, 1))
                reasons = [kind for each in places for kind in faults.get(each, ())]
                texts = [
                    re.sub(r"[\t\r\n]", " ", text).encode(errors="surrogateescape") for text in pair
                ]
                if reasons:
                    rejected[reasons[0]] += 1
                    others.write(
                        b"\t".join(
                            [", ".join(reasons).encode(), next(iter(places)).encode(), *texts]
                        )
                        + b"\n"
                    )
                    continue
                kept += 1
                for file, text in zip(sides, texts, strict=True):
                    file.write(text + b"\n")
    return kept, rejected


def clean_files(data: DataConfig, prefix: str) -> list[Path]:
    """What `write_clean` writes."""
    return [Path(f"{prefix}.{ending}") for ending in (data.source, data.target, "rejected.tsv")]


@dataclass
class Reader:
    """The pairs of an origin, and what came with them; what is damaged is read as far as possible,
    not refused."""

    origin: Origin
    lines: list[int] = field(default_factory=lambda: [0, 0])  # of both files
    skipped: Skipped = field(default_factory=Skipped)

    def pairs(self) -> Iterator[Pair]:
        """The pairs, up to the end of the shorter of two files. Bytes that are not UTF-8 become
        lone surrogates."""
        if self.origin.sides is None:
            yield from self.origin.pairs(self.skipped, "surrogateescape")
            return
        for pair in zip_longest(*(file.lines() for file in self.origin.sides)):
            for side, line in enumerate(pair):
                self.lines[side] += line is not None
            if None not in pair:
                source, target = (
                    line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")
                    for line in pair
                )
                yield source, target


class Auditor:
    """The audit of the sets of a configuration, held-out sets first; `every` gets all pairs with a
    fault."""

    def __init__(self, data: DataConfig, every: TextIO) -> None:
        self.data = data
        self.every = every
        self.examples = data.audit_examples
        self.codes = (data.source, data.target)
        self.held_out = HeldOutHashes()
        self.profile: Profile | None = None  # of the first training text, for sets that are small

    def run(self, sets: dict[str, list[Origin]]) -> list[SetReport]:
        self.profile = self.learn(sets["train"][0])
        reports = [
            self.audit_set(name, origins)
            for name, origins in sets.items()
            if name != "train" and origins
        ]
        return [self.audit_set("train", sets["train"]), *reports]

    def learn(self, origin: Origin) -> Profile:
        """What is usual in the first pairs of an origin; if they are few, languages are those of
        the training text.

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
        report = SetReport(name)
        befores = list[int]()
        hashes = list[tuple[np.ndarray, np.ndarray]]()
        # about how many pairs; None where lines do not tell it
        counts = [origin.count() for origin in origins]
        total = None if None in counts else sum(count or 0 for count in counts)
        with Progress(total, "pair", f"audit of {name}") as bar:
            for origin in origins:
                profile = self.learn(origin)
                reader = Reader(origin)
                blocks = list[MisalignedBlock]()
                befores.append(report.pairs)
                held_out = self.held_out if name == "train" else None
                work = partial(inspect_chunk, profile, self.data, held_out)
                for found in map_in_order(
                    work, chunks(reader.pairs(), CHUNK), usable_processors(), "audits"
                ):
                    for kind, places in found.faults.items():
                        shown = [
                            {
                                "place": place(origin, number, side),
                                "texts": list(map(readable, found.texts[number])),
                            }
                            for number, side in places[: self.examples]
                        ]
                        self.add(report, kind, [place(origin, *each) for each in places], shown)
                    blocks += found.misaligned
                    hashes.append((found.exact, found.near))
                    if name != "train":
                        self.held_out.add(found.sequences)
                    report.pairs += len(found.exact)
                    bar.update(len(found.exact))
                for block in merge(blocks):
                    remark = f"to {block.last}, {block.size} pairs: {block.describe()}"
                    lines = [place(origin, number) for number in range(block.first, block.last + 1)]
                    self.add(
                        report,
                        MISALIGNED,
                        lines,
                        [{"place": lines[0], "remark": remark}],
                        MOST_BLOCKS,
                    )
                self.add_origin(report, reader, profile, report.pairs - befores[-1])

        def locate(number: int) -> str:
            index = max(index for index, before in enumerate(befores) if before < number)
            return place(origins[index], number - befores[index])

        for kind, numbers in find_repeated(*map(np.concatenate, zip(*hashes, strict=True))).items():
            shown = [
                {"place": locate(later), "remark": f"repeats {locate(earlier)}"}
                for later, earlier in numbers[:, : self.examples].T.tolist()
            ]
            self.add(report, kind, list(map(locate, numbers[0].tolist())), shown)
        return report

    def add(
        self,
        report: SetReport,
        kind: str,
        places: list[str],
        shown: list[dict[str, Any]],
        least: int = 0,
    ) -> None:
        """Count and write the pairs with a fault, of which some are shown, `least` at the least."""
        report.add(kind, len(places), shown, max(self.examples, least))
        self.every.writelines(f"{report.name}\t{kind}\t{place}\n" for place in places)

    def add_origin(self, report: SetReport, reader: Reader, profile: Profile, pairs: int) -> None:
        origin, (source, target) = reader.origin, reader.lines
        unmatched = place(origin, min(source, target) + 1, int(target > source))
        entry = {"place": unmatched, "remark": f"{source:,} and {target:,} lines"}
        report.add(UNMATCHED, abs(source - target), [entry], self.examples)
        for reason, count in reader.skipped.items():
            report.add(
                f"no pair: {reason}",
                count,
                [{"place": str(origin.place), "remark": "record"}],
                self.examples,
            )
        about: dict[str, Any] = {"origin": origin.word, "pairs": pairs}
        for habit, values in (
            ("tokenized", profile.spaced),
            ("in small letters", profile.few_capitals),
        ):
            if any(values):
                sides = zip(("source", "target"), values, strict=True)
                about[habit] = " and ".join(side for side, value in sides if value)
        sample = list(islice(Reader(origin).pairs(), LANGUAGE_SAMPLE))
        if problem := describe_languages(sample, origin.languages or self.codes):
            about["problem"] = problem
            report.add(
                OTHER_LANGUAGES,
                pairs,
                [{"place": place(origin, 1), "remark": problem}],
                self.examples,
            )
        report.origins.append(about)


def readable(text: str) -> str:
    """The beginning of a text, its bytes that are not UTF-8 as \\udc80 and the like."""
    return text[:LONGEST_EXAMPLE].encode(errors="backslashreplace").decode()


def find_repeated(exact: np.ndarray, near: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers of the pairs, from 1, that repeat an earlier one, and of that one [2 found], by
    these hashes.

    Equal pairs have equal near hashes; a near hash of 0 is none.
    """
    numbers = np.arange(1, len(exact) + 1)

    def firsts(hashes: np.ndarray) -> np.ndarray:
        _, index, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        first: np.ndarray = numbers[index][inverse]
        return first

    to_the_letter = firsts(exact)
    alike = firsts(np.where(near == 0, exact, near))
    is_new = to_the_letter == numbers
    return {
        "duplicate": np.stack([numbers, to_the_letter])[:, ~is_new],
        "near duplicate": np.stack([numbers, alike])[:, is_new & (alike != numbers)],
    }
