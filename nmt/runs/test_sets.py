"""What is scored: sets of the corpus of a run, or files of one's own, with their gold links."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nmt.config.schema import Config
from nmt.data.corpus import read_report, set_files
from nmt.data.parallel_text import read_pairs
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments, read_gold_alignments
from nmt.runs.folders import existing_corpus
from nmt.runs.run import Run


@dataclass
class TestSet:
    """Source sentences with one or more references, and gold links of the first if there are any."""

    __test__ = False  # pytest collects no class of this name
    name: str
    source: Path
    references: list[Path]
    gold: GoldAlignments | None = field(default=None, repr=False)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Each source sentence with its first reference; raises UserError if the numbers of lines differ."""
        return list(read_pairs(self.source, self.references[0]))

    @property
    def sources(self) -> list[str]:
        """The source sentences."""
        return [source for source, _ in self.pairs]

    @cached_property
    def reference_lines(self) -> list[list[str]]:
        """The lines of each reference."""
        more = ([target for _, target in read_pairs(self.source, path)] for path in self.references[1:])
        return [[target for _, target in self.pairs], *more]


def corpus_set(config: Config, corpus: Path, name: str) -> TestSet:
    """A set of a corpus, with its gold links where it has some."""
    source, target = set_files(corpus, name, config.data)
    test_set, links = TestSet(name, source, [target]), corpus / f"{name}.align"
    if links.exists():
        test_set.gold = read_gold_alignments(links, test_set.pairs)
    return test_set


def validation_gold(run: Run) -> GoldAlignments | None:
    """The gold links of the validation set that the run was trained with, whatever the current folder; None without."""
    corpus = existing_corpus(run.config, corpus_hashes(run), run.folder)
    return None if corpus is None else corpus_set(run.config, corpus, "valid").gold


def corpus_hashes(run: Run) -> set[str]:
    """The hashes of the corpora that its members were trained on."""
    return {model["corpus_hash"] for model in run.provenance["models"]}


def own_corpus(name: str, run: Run) -> Path:
    """The corpus that a run was trained on; raises UserError if it is gone, or its members differ in it.

    It is never prepared again: what a stranger's checkpoint names would be downloaded, or copied, where it says.
    """
    if corpus := existing_corpus(run.config, corpus_hashes(run), run.folder):
        return corpus
    raise UserError(
        f"The corpus that {name} was trained on is no longer in {run.config.data_folder}, or not that of all its "
        "members; prepare it with `nmt download` and the words of the training, or give --source and --reference."
    )


def sets_of_split(split: str | None, name: str, run: Run) -> list[TestSet]:
    """The sets of the corpus of a run that --split selects; raises UserError for one that the corpus does not have."""
    corpus = own_corpus(name, run)
    sets = read_report(corpus)["sets"]
    if split not in (None, "test", "valid", *sets):
        possible = ", ".join(dict.fromkeys(["test", "valid", *sets]))
        raise UserError(f"--split {split} is not possible; choose one of {possible}.")
    if split in (None, "test") and not sets:
        raise UserError(f"The corpus of {name} has no test set; give --source and --reference.")
    return [corpus_set(run.config, corpus, each) for each in (sets if split in (None, "test") else [split])]
