"""Writes training, validation and test sets as two files of lines each, and counts what came from where."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data.checks import PairChecks
from nmt.data.filtering import DuplicateCounter, HeldOutSentences, PairCounts
from nmt.data.mixture import copies
from nmt.data.origin import Origin, PartCounts
from nmt.data.parallel_text import LineWriter
from nmt.data.tags import leading_tags
from nmt.data.training_filter import TrainingFilter, first_pairs
from nmt.data.training_links import NAME as LINKS
from nmt.data.training_links import find_link_files
from nmt.data.training_plan import TrainingPlan
from nmt.errors import UserError

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
