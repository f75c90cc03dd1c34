"""What runs are compared on: the test sets of their corpus, or files that were given."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from nmt.alignments import GoldAlignments, read_gold_alignments
from nmt.compare.systems import System
from nmt.data.lines import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.lengths import count_words
from nmt.test_sets import existing_corpus, given_gold, given_valid, own_corpus, set_name, sets_of_split

SHOWN = range(6, 13)  # words of a sentence whose picture is neither trivial nor large
PICTURES = 3


@dataclass
class TextSet:
    """Pairs under a name, with links where they are known."""

    name: str
    source: Path
    reference: Path
    pairs: list[tuple[str, str]]
    gold: GoldAlignments | None

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
    """Test sets, and known links that were given to choose on what is read off attention."""

    sets: list[TextSet]
    valid: GoldAlignments | None  # None: each run's own validation set, where its links are known
    longest: int | None = None  # words of the longest source trained on, where the corpus is here and --long asks


def choose_texts(options: argparse.Namespace, entrants: list[System]) -> Texts:
    """The files that were given, or the sets of the corpus that --split names; raises UserError."""
    first = entrants[0]
    shared = len({corpus for one in entrants for corpus in one.corpora}) == 1
    corpus = existing_corpus(first.config, first.corpora, first.paths[0].parent) if shared else None
    if options.source:
        source = Path(options.source)
        sets = [read_set(set_name(source), source, Path(options.reference))]
        sets[0].gold = given_gold(options)
    else:
        corpus = corpus or own_corpus(first.name, first.config, first.corpora, first.paths[0].parent)
        sets = [corpus_set(corpus, name, first) for name in sets_of_split(options.split, corpus, first.name)]
    valid = given_valid(options)
    if valid and not any(one.gold for one in sets):
        raise UserError("--valid-gold FILE says nothing: there are no known links of what is scored.")
    longest = longest_source(corpus / f"train.{first.config.data.source}") if corpus and options.long else None
    return Texts(sets, valid, longest)


def longest_source(path: Path) -> int:
    """Words of the longest sentence that there was to train on, before tokenizer.max_pieces drops any."""
    return max(map(count_words, read_lines(path)), default=0)


def corpus_set(corpus: Path, name: str, entrant: System) -> TextSet:
    """A set of the corpus, with its links where it has them."""
    source, target = (corpus / f"{name}.{side}" for side in (entrant.config.data.source, entrant.config.data.target))
    found, gold = read_set(name, source, target), corpus / f"{name}.align"
    if gold.exists():
        found.gold = read_gold_alignments(gold, found.pairs)
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
        if not word.isdecimal() or not 1 <= int(word) <= len(first.pairs):
            raise UserError(f"--sentences {word} is not possible; {first.name} has lines 1 to {len(first.pairs)}.")
        if not all(side.strip() for side in first.pairs[int(word) - 1]):
            raise UserError(f"--sentences {word} is not possible; line {word} of {first.name} is blank on a side.")
        rows.append(int(word) - 1)
    return rows
