"""Test sets and gold links for `nmt evaluate` and `nmt compare`: sets of the corpus of a run, or files of one's own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt import pipeline
from nmt.alignments.gold import GoldAlignments, read_gold_alignments
from nmt.config import Config
from nmt.data.parallel_text import read_pairs
from nmt.errors import UserError
from nmt.runs import Run
from nmt.scoring import gold_alignments


@dataclass(frozen=True)
class GoldFiles:
    """A file of gold links, the two files of text that it aligns, and how its links are written."""

    links: Path
    source: Path
    target: Path
    base: int = 0  # the number of the first word
    reverse: bool = False  # links name the target word first
    tokenized: bool = False  # words are what spaces separate

    def read(self) -> GoldAlignments:
        """The pairs with their links; raises UserError for a line that is no links and for missing lines."""
        pairs = list(read_pairs(self.source, self.target))
        return read_gold_alignments(self.links, pairs, self.base, self.reverse, self.tokenized)


def validation_gold(run: Run) -> GoldAlignments | None:
    """The gold links of the validation set that the run was trained with, whatever the current folder; None without."""
    hashes = corpus_hashes(run)
    corpus = existing_corpus(run.config, hashes, run.folder)
    if corpus is None and run.config.data.kind == "phrasebook":  # generated again in seconds
        try:
            corpus = pipeline.build_corpus_stage(run.config)
        except UserError:  # the run was moved elsewhere, without its words and rules
            return None
        if {pipeline.read_report(corpus)["corpus_hash"]} != hashes:
            return None
    return None if corpus is None else gold_alignments(run, corpus, "valid")


def corpus_hashes(run: Run) -> set[str]:
    """The hashes of the corpora that its members were trained on."""
    return {model["corpus_hash"] for model in run.provenance["models"]}


def existing_corpus(config: Config, hashes: set[str], run_folder: Path) -> Path | None:
    """The corpus that a run was trained on if it is still in its data_folder, otherwise None.

    It is identified by the hash of its text: the files it was made from may have changed since.
    """
    for folder in data_folders(config, run_folder):
        for report in sorted(folder.glob("corpus-*/report.json")):
            try:
                corpus_hash = json.loads(report.read_text(encoding="utf-8"))["corpus_hash"]
            except (OSError, ValueError, KeyError):
                continue
            if {corpus_hash} == hashes:
                return report.parent
    return None


def own_corpus(name: str, config: Config, hashes: set[str], run_folder: Path) -> Path:
    """The corpus that a run was trained on, prepared again if it is missing; raises UserError if that gives another."""
    if len(hashes) > 1:
        raise UserError(f"The members of {name} were trained on different corpora; give --source and --reference.")
    if corpus := existing_corpus(config, hashes, run_folder):
        return corpus
    corpus = pipeline.build_corpus_stage(config)
    if {pipeline.read_report(corpus)["corpus_hash"]} != hashes:
        raise UserError(
            f"The corpus that {name} was trained on is no longer in {config.data_folder} and cannot be prepared again; "
            "give --source and --reference."
        )
    return corpus


def data_folders(config: Config, run_folder: Path) -> Iterator[Path]:
    """The folders that data_folder may mean: relative to the current folder, and to that of the training."""
    yield Path(config.data_folder)
    runs, relative = run_folder.resolve().parent, Path(config.run_folder)
    if not relative.is_absolute() and runs.parts[-len(relative.parts) :] == relative.parts:
        yield Path(*runs.parts[: -len(relative.parts)], config.data_folder)


def set_name(source: Path) -> str:
    """The name of a test set that was given as a file; bytes of the name that are not UTF-8 become ?."""
    return source.name.removesuffix(".gz").encode(errors="replace").decode()


def sets_of_split(split: str | None, corpus: Path, name: str) -> list[str]:
    """The names of the sets that --split selects; raises UserError for one that the corpus does not have."""
    sets = pipeline.read_report(corpus)["sets"]
    if split not in (None, "test", "valid", *sets):
        possible = ", ".join(dict.fromkeys(["test", "valid", *sets]))
        raise UserError(f"--split {split} is not possible; choose one of {possible}.")
    if split in (None, "test") and not sets:
        raise UserError(f"The corpus of {name} has no test set; give --source and --reference.")
    return sets if split in (None, "test") else [split]
