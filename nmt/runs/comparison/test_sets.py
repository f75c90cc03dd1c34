"""The text that systems are compared on: test sets of their corpus, or given files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.evaluate.aer import GoldAlignments
from nmt.runs.comparison.options import CompareOptions
from nmt.runs.comparison.systems import System
from nmt.data.parallel_text import read_lines
from nmt.errors import UserError
from nmt.evaluate.lengths import count_words
from nmt.runs.test_sets import TestSet, corpus_set, existing_corpus, own_corpus, own_set, sets_of_split

SHORT = range(6, 13)  # words of a source sentence whose heatmap is neither trivial nor large
MAX_HEATMAPS = 3


@dataclass
class TestSets:
    """The test sets of a comparison, and the gold links that layer and decoder step are chosen on."""

    sets: list[TestSet]
    valid: GoldAlignments | None  # None: the validation set of each system, if it has gold links
    longest: int | None = None  # words of the longest training source, if its corpus is available and --long is given


def choose_test_sets(systems: list[System], options: CompareOptions) -> TestSets:
    """The given files, or the sets of the corpus that --split selects; raises UserError."""
    first = systems[0]
    shared = len({corpus_hash for system in systems for corpus_hash in system.corpus_hashes}) == 1
    folder = first.paths[0].parent
    corpus = existing_corpus(first.config, first.corpus_hashes, folder) if shared else None
    if options.files:
        sets = [own_set(*options.files, options.gold)]
    else:
        corpus = corpus or own_corpus(first.name, first.config, first.corpus_hashes, folder)
        sets = [corpus_set(first.config, corpus, name) for name in sets_of_split(options.split, corpus, first.name)]
    valid = options.valid_gold.read() if options.valid_gold else None
    if valid and not any(test_set.gold for test_set in sets):
        raise UserError("--valid-gold FILE has no effect: there are no gold links of what is scored.")
    train = corpus / f"train.{first.config.data.source}" if corpus and options.max_joined else None
    return TestSets(sets, valid, longest_source(train) if train else None)


def longest_source(path: Path) -> int:
    """Words of the longest training sentence, counted before tokenizer.max_pieces drops any."""
    return max(map(count_words, read_lines(path)), default=0)


def rows_to_draw(test_set: TestSet, sentences: Sequence[int] | None) -> list[int]:
    """The rows, from 0, whose attention is drawn: the lines `sentences`, from 1, or the first short ones.

    Raises UserError for a line that the set does not have, and for one that is blank on a side.
    """
    if sentences is None:
        short = [row for row, pair in enumerate(test_set.pairs) if count_words(pair[0]) in SHORT and pair[1].strip()]
        return short[:MAX_HEATMAPS]
    for number in sentences:
        if not 1 <= number <= len(test_set.pairs):
            raise UserError(
                f"--sentences {number} is not possible; {test_set.name} has lines 1 to {len(test_set.pairs)}."
            )
        if not all(side.strip() for side in test_set.pairs[number - 1]):
            raise UserError(
                f"--sentences {number} is not possible; line {number} of {test_set.name} is blank on a side."
            )
    return list(dict.fromkeys(number - 1 for number in sentences))
