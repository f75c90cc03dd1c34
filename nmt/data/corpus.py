"""Sentence pairs from the phrasebook, from PREFIX files or from Multi30k, written to one folder of plain text.

The folder holds train, valid and each test set as NAME.SOURCE and NAME.TARGET, UTF-8, one sentence a line, NAME.align
where gold alignments exist, and report.json. Training pairs that cannot be right are left out, as pairs; validation
and test sets are copied in full, because a score over a part of a set is not comparable. Everything streams.
"""

import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import DataConfig
from nmt.data import hub
from nmt.data.audit import DuplicateCounter, HeldOutSentences, PairCounts, log_report, rejection_reason
from nmt.data.checks import PairChecks
from nmt.data.digests import DigestCache
from nmt.data.parallel_text import LineWriter, find_file, read_pairs
from nmt.data.phrasebook import splits
from nmt.errors import UserError
from nmt.files import report_write_errors

Files = tuple[Path, Path]  # the source and the target file
IN_TRAINING = "also in train"  # the remark on a validation pair
logger = logging.getLogger("nmt")


def corpus_inputs(data: DataConfig, cache: Path) -> dict[str, Any]:
    """What the corpus depends on besides its configuration: the content of its files; raises UserError.

    `cache` is a JSON file with the sha256 of files that were hashed before.
    """
    groups = set_names(data)
    if data.kind == "multi30k":
        hub.check_sets(data.source, data.target, [name for group in groups.values() for name in group])
        return {"commit": hub.COMMIT}
    if data.kind == "phrasebook":
        check_phrasebook(data, groups)
        return splits.recipe()
    digests = DigestCache(cache)
    sets = {
        name: [[digests.digest(path) for path in pair] for pair in files]
        for name, files in local_files(data, groups).items()
    }
    digests.save()
    return sets


def build_corpus(data: DataConfig, folder: Path, downloads: Path) -> None:
    """Write the sets and report.json into an empty folder; raises UserError when the input is unusable."""
    with report_write_errors(folder), tempfile.TemporaryDirectory(dir=folder) as generated:
        sets = find_sets(data, downloads, Path(generated))
        held_out, audit = HeldOutSentences(), {}
        checks = {name: PairChecks() for name in sets if name != "train"}
        for name in checks:
            audit[name] = write_held_out_set(name, sets[name], data, folder, held_out, checks[name])
        found = held_out, DuplicateCounter(Path(generated)), PairChecks(checks["valid"])
        audit = {"train": write_training_set(sets["train"], data, folder, *found)} | audit
        count_in_training(audit["valid"], data, folder, held_out)
        if data.kind == "phrasebook":
            write_gold_alignments(audit, set_names(data), Path(generated), folder)
        digests = [digest for entry in audit.values() for digest in entry["sha256"].values()]
        report = {
            "source": data.source,
            "target": data.target,
            "sets": [name for name in sets if name not in ("train", "valid")],
            "corpus_hash": hashlib.sha256("".join(digests).encode()).hexdigest(),
            "audit": audit,
        }
        (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    log_report(report)


def set_names(data: DataConfig) -> dict[str, list[str]]:
    """The PREFIXes or set names of train, valid and each test set; raises UserError."""
    groups = {"train": as_list("train", data.train), "valid": as_list("valid", data.valid)}
    for prefix in as_list("test", data.test) if data.test is not None else []:
        name = Path(prefix).name
        if name in ("train", "valid"):
            raise UserError(f"data.test={prefix} cannot be named '{name}' like another set; rename or copy its files.")
        if name in groups:
            raise UserError(f"data.test names two sets '{name}'; a test set goes by the last part of its PREFIX.")
        groups[name] = [prefix]
    return groups


def as_list(role: str, value: Any) -> list[str]:
    """A string or list of strings as a list; raises UserError when it is neither or empty."""
    names = [value] if isinstance(value, str) else value
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) and name not in ("", "???") for name in names)
    ):
        also = " or data.test=null" if role == "test" else ""
        raise UserError(f"data.{role}={value} is not possible; give data.{role}=NAME or data.{role}=[NAME,NAME]{also}.")
    return names


def check_phrasebook(data: DataConfig, groups: dict[str, list[str]]) -> None:
    """Raises UserError for languages, sets or a number of pairs that the phrasebook does not have."""
    if {data.source, data.target} != {"de", "en"}:
        raise UserError(f"The phrasebook has no {data.source}-{data.target}; choose de and en, or en and de.")
    if not data.pairs:
        raise UserError("data.pairs=0 is not possible; it must be greater than 0.")
    for role, group in groups.items():
        for name in group:
            if name not in splits.SETS or (role != "train") == (name == "train"):
                raise UserError(
                    f"data: the phrasebook has no set '{name}' for {role}; it has {', '.join(splits.SETS)}."
                )


def write_gold_alignments(audit: dict[str, Any], groups: dict[str, list[str]], generated: Path, folder: Path) -> None:
    """Write NAME.align for the sets of which no pair was dropped, so that it belongs to the text line by line."""
    for name, group in groups.items():
        if audit[name]["kept"] == audit[name]["read"]:
            alignments = b"".join((generated / f"{part}.align").read_bytes() for part in group)
            (folder / f"{name}.align").write_bytes(alignments)


def find_sets(data: DataConfig, downloads: Path, generated: Path) -> dict[str, list[Files]]:
    """The files of train, valid and each test set, in this order; raises UserError.

    Multi30k is downloaded to `downloads` if need be, the phrasebook's sets are written to `generated`.
    """
    groups = set_names(data)
    if data.kind == "phrasebook":
        splits.write(generated, data.source, data.target, data.pairs, data.seed)
        return {
            name: [(generated / f"{part}.{data.source}", generated / f"{part}.{data.target}") for part in group]
            for name, group in groups.items()
        }
    if data.kind == "files":
        return local_files(data, groups)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    files = hub.download_sets(data.source, data.target, names, downloads)
    return {name: [files[part] for part in group] for name, group in groups.items()}


def local_files(data: DataConfig, groups: dict[str, list[str]]) -> dict[str, list[Files]]:
    """The files of every PREFIX; raises UserError for a missing one, and where source and target are the same file."""
    sets = {}
    for name, prefixes in groups.items():
        sets[name] = [(find_file(prefix, data.source), find_file(prefix, data.target)) for prefix in prefixes]
        for source, target in sets[name]:
            if source.samefile(target):
                raise UserError(f"{source} and {target} are the same file; one must be the other's translation.")
    return sets


def write_training_set(
    files: list[Files],
    data: DataConfig,
    folder: Path,
    held_out: HeldOutSentences,
    duplicates: DuplicateCounter,
    checks: PairChecks,
) -> dict[str, Any]:
    """Write the training pairs that `rejection_reason` accepts; returns the set's entry in report.json.

    Raises UserError when no pair is left.
    """
    counts = PairCounts()
    with PairWriter("train", data, folder) as writer:
        for source, target in read_counted(files, counts):
            checks.add(source, target)
            if reason := rejection_reason(source, target, data.max_characters, data.max_length_ratio):
                counts.drop(reason, counts.read)
                continue
            if source == target:
                counts.count("both sides equal", counts.read)
            if held_out.contains(source, target):
                counts.count("also in valid or test", counts.read)
            duplicates.add(source, target, counts.read)
            writer.write(source, target, counts)
    repeated, first = duplicates.count()
    if repeated:
        counts.count("duplicates", first, repeated)
    if not counts.kept:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts.dropped.items())
        raise UserError(f"No training pair is left of {counts.read:,} in data.train={data.train}: {reasons}.")
    counts.add_warnings(checks)
    return counts.report_entry() | {"sha256": writer.digests()}


def write_held_out_set(
    name: str, files: list[Files], data: DataConfig, folder: Path, held_out: HeldOutSentences, checks: PairChecks
) -> dict[str, Any]:
    """Write every pair of a validation or test set; returns its entry in report.json.

    Raises UserError when a side of every pair is blank.
    """
    counts = PairCounts()
    with PairWriter(name, data, folder) as writer:
        for source, target in read_counted(files, counts):
            if not (source.strip() and target.strip()):
                counts.count("a side blank", counts.read)
            held_out.add(source, target)
            checks.add(source, target)
            writer.write(source, target, counts)
    if counts.counted.get("a side blank") == counts.read:
        raise UserError(f"The set '{name}' has no pair of two sentences: one side of every line is blank.")
    counts.add_warnings(checks)
    return counts.report_entry() | {"sha256": writer.digests()}


def count_in_training(entry: dict[str, Any], data: DataConfig, folder: Path, held_out: HeldOutSentences) -> None:
    """Count in the entry of the validation set the pairs of which both sides are in the training set."""
    sides = [folder / f"valid.{language}" for language in (data.source, data.target)]
    lines = [line for line, pair in enumerate(read_pairs(*sides), 1) if held_out.was_found(*pair)]
    if lines:
        entry["counted"][IN_TRAINING] = len(lines)
        entry["examples"][IN_TRAINING] = f"valid.{data.source}:{lines[0]}"


def read_counted(files: list[Files], counts: PairCounts) -> Iterator[tuple[str, str]]:
    """Yield the pairs of several files one after another; `counts.read` is the number of the pair, from 1."""
    for source, target in files:
        counts.start_file(source)
        for pair in read_pairs(source, target):
            counts.read += 1
            yield pair


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

    def digests(self) -> dict[str, str]:
        """The sha256 of both files, by language."""
        return {language: writer.digest.hexdigest() for language, writer in self.files.items()}


def log_warnings(report: dict[str, Any]) -> None:
    """Log what `PairChecks` found in each set, once for every command that uses the corpus."""
    for entry in report["audit"].values():
        for warning in entry["warnings"]:
            logger.warning("%s", warning)
