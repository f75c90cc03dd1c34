"""Test sets and gold links for `nmt evaluate` and `nmt compare`: sets of the corpus of a run, or files of one's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt import pipeline
from nmt.alignments.gold import GoldAlignments, read_gold_alignments
from nmt.config import Config
from nmt.data import manifest
from nmt.data.parallel_text import read_pairs
from nmt.errors import UserError, is_printable
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
    corpus = existing_corpus(run.config, corpus_hashes(run), run.folder)
    return None if corpus is None else gold_alignments(run, corpus, "valid")


def corpus_hashes(run: Run) -> set[str]:
    """The hashes of the corpora that its members were trained on."""
    return {model["corpus_hash"] for model in run.provenance["models"]}


def existing_corpus(config: Config, hashes: set[str], run_folder: Path) -> Path | None:
    """The corpus that a run was trained on if it is still in its data_folder, otherwise None.

    It is identified by the hash of its text: the files it was made from may have changed since. A folder with links or
    names that lead out of it is none: the checkpoint that points to it may be a stranger's.
    """
    for folder in data_folders(config, run_folder):
        for report in sorted(folder.glob("corpus-*/report.json")):
            try:
                content = pipeline.read_report(report.parent)
                if {content["corpus_hash"]} == hashes and is_closed(report.parent, content["sets"]):
                    if (report.parent / manifest.NAME).exists():  # corpora of earlier versions have none
                        manifest.check_folder(report.parent, unread="train.*")
                    return report.parent
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
    return None


def is_closed(corpus: Path, sets: list[Any]) -> bool:
    """Whether a corpus names its sets by plain names, and no file in it is a link."""
    named = isinstance(sets, list) and all(isinstance(name, str) and is_plain_name(name) for name in sets)
    return named and not any(path.is_symlink() for path in corpus.iterdir())


def is_plain_name(name: str) -> bool:
    """Whether this names a file in a folder, and none elsewhere."""
    return name not in ("", ".", "..") and not set("/\\") & set(name) and is_printable(name)


def own_corpus(name: str, config: Config, hashes: set[str], run_folder: Path) -> Path:
    """The corpus that a run was trained on; raises UserError where it is not.

    It is never prepared again: what a stranger's checkpoint names would be downloaded, or copied, where it says.
    """
    if len(hashes) > 1:
        raise UserError(f"The members of {name} were trained on different corpora; give --source and --reference.")
    if corpus := existing_corpus(config, hashes, run_folder):
        return corpus
    raise UserError(
        f"The corpus that {name} was trained on is no longer in {config.data_folder}; prepare it with `nmt download` "
        "and the words of the training, or give --source and --reference."
    )


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
