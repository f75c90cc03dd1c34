"""What runs are compared on: the test sets of their corpus, or files that were given."""

import argparse
import heapq
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from nmt import pipeline
from nmt.alignments import Gold, read_gold
from nmt.data.lines import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.lengths import count_words
from nmt.verbs.compare.entrants import Entrant

log = logging.getLogger("nmt")
SHOWN = range(6, 13)  # words of a sentence whose picture is neither trivial nor large
PICTURES = 3


@dataclass
class TextSet:
    """Pairs under a name, with links where they are known."""

    name: str
    source: Path
    reference: Path
    pairs: list[tuple[str, str]]
    gold: Gold | None

    @property
    def sources(self) -> list[str]:
        """One side."""
        return [pair[0] for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The other."""
        return [pair[1] for pair in self.pairs]


@dataclass
class Texts:
    """Test sets, and the validation set where its links are known: what to read off attention is chosen there."""

    sets: list[TextSet]
    valid: Gold | None
    longest: int | None = None  # words of the longest source trained on, where the corpus is here and --long asks


def choose_texts(options: argparse.Namespace, entrants: list[Entrant]) -> Texts:
    """The files that were given, or the sets of the corpus that --split names; raises UserError."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    if options.gold and not options.source:
        raise UserError("--gold FILE belongs to --source FILE and --reference FILE.")
    shared = len({corpus for one in entrants for corpus in one.corpora}) == 1
    corpus = existing_corpus(entrants[0]) if shared else None
    if options.source:
        name = Path(options.source).name.removesuffix(".gz")
        sets = [read_set(name, Path(options.source), Path(options.reference))]
        if options.gold:
            links = options.base, options.reverse, options.tokenised
            sets[0].gold = read_gold(Path(options.gold), sets[0].pairs, *links)
    else:
        corpus = corpus or rebuilt_corpus(entrants[0])
        sets = [corpus_set(corpus, name, entrants[0]) for name in wanted(options, corpus, entrants[0])]
    valid = corpus_set(corpus, "valid", entrants[0]).gold if corpus and any(one.gold for one in sets) else None
    longest = longest_source(corpus / f"train.{entrants[0].config.data.source}") if corpus and options.long else None
    return Texts(sets, valid, longest)


def longest_source(path: Path) -> int:
    """Words of the longest sentence; only the lines with the most characters are counted, which is fast."""
    return max(map(count_words, heapq.nlargest(200, read_lines(path), key=len)), default=0)


def wanted(options: argparse.Namespace, corpus: Path, entrant: Entrant) -> list[str]:
    """The names of the sets that --split means."""
    sets = pipeline.report(corpus)["sets"]
    if options.split not in ("test", "valid", *sets):
        possible = ", ".join(dict.fromkeys(["test", "valid", *sets]))
        raise UserError(f"--split {options.split} is not possible; choose one of {possible}.")
    if options.split == "test" and not sets:
        raise UserError(f"The corpus of {entrant.name} has no test set; give --source and --reference.")
    return sets if options.split == "test" else [options.split]


def existing_corpus(entrant: Entrant) -> Path | None:
    """The corpus that the run was trained on, where it still lies in its data_folder.

    It is known by the hash of its text: what it was made from may have changed or gone since.
    """
    for report in sorted(Path(entrant.config.data_folder).glob("corpus-*/report.json")):
        try:
            found = json.loads(report.read_text(encoding="utf-8"))["corpus_hash"]
        except (OSError, ValueError, KeyError):
            continue
        if {found} == entrant.corpora:
            return report.parent
    return None


def rebuilt_corpus(entrant: Entrant) -> Path:
    """The corpus, made again; raises UserError when the result is another than the run was trained on."""
    corpus = pipeline.prepare_corpus(entrant.config)
    if {pipeline.report(corpus)["corpus_hash"]} != entrant.corpora:
        raise UserError(
            f"The corpus that {entrant.name} was trained on is no longer in {entrant.config.data_folder} and cannot be "
            "made again; give --source and --reference."
        )
    return corpus


def corpus_set(corpus: Path, name: str, entrant: Entrant) -> TextSet:
    """A set of the corpus, with its links where it has them."""
    source, target = (corpus / f"{name}.{side}" for side in (entrant.config.data.source, entrant.config.data.target))
    found, gold = read_set(name, source, target), corpus / f"{name}.align"
    if gold.exists():
        found.gold = read_gold(gold, found.pairs)
    return found


def read_set(name: str, source: Path, reference: Path) -> TextSet:
    """Files as a test set; raises UserError."""
    return TextSet(name, source, reference, list(read_pairs(source, reference)), None)


def shown_rows(options: argparse.Namespace, first: TextSet) -> list[int]:
    """The sentences of the first set to draw: those of --sentences, or the first that fit into a small picture."""
    if options.sentences is None:
        fitting = (row for row, pair in enumerate(first.pairs) if count_words(pair[0]) in SHOWN and pair[1].strip())
        return [row for _, row in zip(range(PICTURES), fitting, strict=False)]
    rows = []
    for word in options.sentences.split(","):
        if not word.isdigit() or not 1 <= int(word) <= len(first.pairs):
            raise UserError(f"--sentences {word} is not possible; {first.name} has lines 1 to {len(first.pairs)}.")
        rows.append(int(word) - 1)
    return rows
