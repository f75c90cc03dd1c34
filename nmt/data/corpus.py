"""Where sentence pairs come from: the phrasebook, PREFIX files or Multi30k, turned into one folder of plain text.

The folder holds train, valid and each test set as NAME.source and NAME.target, UTF-8, one sentence a line, NAME.align
where gold alignments are known, and report.json. Training pairs that cannot be right are left out, as pairs; validation and test sets are copied whole,
because a score over part of a set is no score of the set. Everything streams.
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
from nmt.data.audit import Duplicates, HeldOut, Tally, reason
from nmt.data.digests import Digests
from nmt.data.lines import LineWriter, read_pairs, side, writing
from nmt.data.phrasebook import splits
from nmt.errors import UserError

Files = tuple[Path, Path]  # the source and the target side
logger = logging.getLogger("nmt")


def inputs(data: DataConfig, cache: Path) -> dict[str, Any]:
    """What the corpus depends on beside its configuration: the content of its files; raises UserError.

    `cache` is a JSON file that remembers the sha256 of files that have not changed since.
    """
    named = names(data)
    if data.kind == "multi30k":
        hub.check(data.source, data.target, [name for group in named.values() for name in group])
        return {"commit": hub.COMMIT}
    if data.kind == "phrasebook":
        check_phrasebook(data, named)
        return splits.recipe()
    digests = Digests(cache)
    sets = {name: [[digests.of(path) for path in files] for files in many] for name, many in local(data, named).items()}
    digests.save()
    return sets


def build(data: DataConfig, folder: Path, downloads: Path) -> None:
    """Write the sets and report.json into an empty folder; raises UserError when the input is unusable."""
    with writing(folder), tempfile.TemporaryDirectory(dir=folder) as drawn:
        sets = find(data, downloads, Path(drawn))
        held_out, audit = HeldOut(), {}
        for name in [name for name in sets if name != "train"]:
            audit[name] = copy(name, sets[name], data, folder, held_out)
        audit = {"train": clean(sets["train"], data, folder, held_out)} | audit
        if data.kind == "phrasebook":
            gold(audit, names(data), Path(drawn), folder)
        digests = [digest for entry in audit.values() for digest in entry["sha256"].values()]
        report = {
            "source": data.source,
            "target": data.target,
            "sets": [name for name in sets if name not in ("train", "valid")],
            "corpus_hash": hashlib.sha256("".join(digests).encode()).hexdigest(),
            "audit": audit,
        }
        (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    tell(report)


def names(data: DataConfig) -> dict[str, list[str]]:
    """The PREFIXes or set names of train, valid and each test set; raises UserError."""
    groups = {"train": listed("train", data.train), "valid": listed("valid", data.valid)}
    for prefix in listed("test", data.test) if data.test is not None else []:
        name = Path(prefix).name
        if name in ("train", "valid"):
            raise UserError(f"data.test={prefix} cannot be named '{name}' like another set; rename or copy its files.")
        if name in groups:
            raise UserError(f"data.test names two sets '{name}'; a test set goes by the last part of its PREFIX.")
        groups[name] = [prefix]
    return groups


def listed(role: str, value: Any) -> list[str]:
    """A string or list of strings as a list; raises UserError when it is neither or empty."""
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not many or not all(isinstance(one, str) and one != "???" and one for one in many):
        also = " or data.test=null" if role == "test" else ""
        raise UserError(f"data.{role}={value} is not possible; give data.{role}=NAME or data.{role}=[NAME,NAME]{also}.")
    return many


def check_phrasebook(data: DataConfig, named: dict[str, list[str]]) -> None:
    """Raises UserError for languages, sets or a number of pairs that the phrasebook does not have."""
    if {data.source, data.target} != {"de", "en"}:
        raise UserError(f"The phrasebook has no {data.source}-{data.target}; choose de and en, or en and de.")
    if not data.pairs:
        raise UserError("data.pairs=0 is not possible; it must be greater than 0.")
    for role, group in named.items():
        for name in group:
            if name not in splits.SETS or (role != "train") == (name == "train"):
                raise UserError(f"data: the phrasebook has no set '{name}' for {role}; it has {', '.join(splits.SETS)}.")


def gold(audit: dict[str, Any], named: dict[str, list[str]], drawn: Path, folder: Path) -> None:
    """Write the alignments of the sets that are whole, so that line by line they belong to the text."""
    for name, group in named.items():
        if audit[name]["kept"] == audit[name]["read"]:
            (folder / f"{name}.align").write_bytes(b"".join((drawn / f"{one}.align").read_bytes() for one in group))


def find(data: DataConfig, downloads: Path, drawn: Path) -> dict[str, list[Files]]:
    """The files of train, valid and each test set, in this order, downloaded or drawn if need be; raises UserError."""
    named = names(data)
    if data.kind == "phrasebook":
        splits.write(drawn, data.source, data.target, data.pairs, data.seed)
        return {
            name: [(drawn / f"{one}.{data.source}", drawn / f"{one}.{data.target}") for one in group]
            for name, group in named.items()
        }
    if data.kind == "files":
        return local(data, named)
    wanted = list(dict.fromkeys(name for group in named.values() for name in group))
    files = hub.fetch(data.source, data.target, wanted, downloads)
    return {name: [files[one] for one in group] for name, group in named.items()}


def local(data: DataConfig, named: dict[str, list[str]]) -> dict[str, list[Files]]:
    """The files of every PREFIX; raises UserError for a missing one and for one that stands on both sides."""
    sets = {}
    for name, prefixes in named.items():
        sets[name] = [(side(prefix, data.source), side(prefix, data.target)) for prefix in prefixes]
        for source, target in sets[name]:
            if source.samefile(target):
                raise UserError(f"{source} and {target} are the same file; one must be the other's translation.")
    return sets


def clean(sources: list[Files], data: DataConfig, folder: Path, held_out: HeldOut) -> dict[str, Any]:
    """Write the training pairs that can be right; raises UserError when none is left."""
    tally, duplicates = Tally(), Duplicates()
    with Output("train", data, folder) as output:
        for source, target in numbered(sources, tally):
            if why := reason(source, target, data.max_characters, data.max_ratio):
                tally.drop(why, tally.read)
                continue
            if source == target:
                tally.count("both sides equal", tally.read)
            if held_out.seen(source, target):
                tally.count("also in valid or test", tally.read)
            duplicates.add(source, target, tally.read)
            output.write(source, target, tally)
    repeated, first = duplicates.result()
    if repeated:
        tally.count("duplicates", first, repeated)
    if not tally.kept:
        fates = ", ".join(f"{number:,} {why}" for why, number in tally.dropped.items())
        raise UserError(f"No training pair is left of {tally.read:,} in data.train={data.train}: {fates}.")
    return tally.entry() | {"sha256": output.digests()}


def copy(name: str, sources: list[Files], data: DataConfig, folder: Path, held_out: HeldOut) -> dict[str, Any]:
    """Write a validation or test set as it is; raises UserError when it has no whole pair."""
    tally = Tally()
    with Output(name, data, folder) as output:
        for source, target in numbered(sources, tally):
            if not (source.strip() and target.strip()):
                tally.count("a side blank", tally.read)
            held_out.add(source, target)
            output.write(source, target, tally)
    if tally.counted.get("a side blank") == tally.read:
        raise UserError(f"The set '{name}' has no pair of two sentences: one side of every line is blank.")
    return tally.entry() | {"sha256": output.digests()}


def numbered(sources: list[Files], tally: Tally) -> Iterator[tuple[str, str]]:
    """The pairs of several files one after another, counted."""
    for source, target in sources:
        tally.start(source)
        for pair in read_pairs(source, target):
            tally.read += 1
            yield pair


class Output:
    """The two files a set is written to."""

    def __init__(self, name: str, data: DataConfig, folder: Path) -> None:
        self.files = {language: LineWriter(folder / f"{name}.{language}") for language in (data.source, data.target)}

    def write(self, source: str, target: str, tally: Tally) -> None:
        """Write a pair and count it as kept."""
        for writer, sentence in zip(self.files.values(), (source, target), strict=True):
            writer.write(sentence)
        tally.kept += 1

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self.files.values():
            writer.close()

    def digests(self) -> dict[str, str]:
        """The sha256 of both files, by language."""
        return {language: writer.digest.hexdigest() for language, writer in self.files.items()}


def tell(report: dict[str, Any]) -> None:
    """Log what was read, kept, dropped and noticed, with the place of the first case."""
    for name, entry in report["audit"].items():
        logger.info("%-20s %11s pairs read, %11s kept", name, f"{entry['read']:,}", f"{entry['kept']:,}")
        for fate in ("dropped", "counted"):
            for why, number in entry[fate].items():
                logger.info("  %-7s %10s  %s, first: %s", fate, f"{number:,}", why, entry["examples"][why])
