"""The options of `nmt evaluate` and `nmt compare` that choose what is scored and which gold links are used."""

import argparse
from pathlib import Path

from nmt.data.parallel_text import read_pairs
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments, read_gold_alignments
from nmt.runs.run import Run
from nmt.runs.test_sets import TestSet, sets_of_split


def check_scoring_options(options: argparse.Namespace) -> None:
    """Refuse files that do not belong together, and options without effect; raises UserError."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    if options.gold and not options.source:
        raise UserError("--gold belongs to --source and --reference; sets of the corpus have their own links.")
    if options.split and options.source:
        raise UserError("--split names sets of the corpus; it cannot go with --source and --reference.")
    valid = options.valid_source, options.valid_target, options.valid_gold
    if any(valid) and not all(valid):
        raise UserError("--valid-source, --valid-target and --valid-gold belong together; give all or none.")
    formats = {"--reverse": options.reverse, "--tokenized": options.tokenized, "--base 1": options.base}
    if not options.gold and not any(valid) and any(formats.values()):
        given = next(name for name, value in formats.items() if value)
        raise UserError(f"{given} describes how links are written; it needs --gold FILE or --valid-gold FILE.")


def chosen_sets(options: argparse.Namespace, name: str, run: Run) -> list[TestSet]:
    """The given files, or the sets of the run's corpus that --split selects; raises UserError."""
    if not options.source:
        return sets_of_split(options.split, name, run)
    source, references = Path(options.source), list(map(Path, options.reference))
    gold = read_gold(options, options.gold, source, references[0]) if options.gold else None
    name = source.name.removesuffix(".gz").encode(errors="replace").decode()  # bytes that are not UTF-8 become ?
    return [TestSet(name, source, references, gold)]


def valid_gold(options: argparse.Namespace, test_sets: list[TestSet]) -> GoldAlignments | None:
    """The pairs with links of --valid-gold; raises UserError where nothing that is scored has gold links."""
    if not options.valid_gold:
        return None
    if not any(test_set.gold for test_set in test_sets):
        raise UserError("--valid-gold FILE has no effect: there are no gold links of what is scored.")
    return read_gold(options, options.valid_gold, Path(options.valid_source), Path(options.valid_target))


def read_gold(options: argparse.Namespace, links: str, source: Path, target: Path) -> GoldAlignments:
    """Pairs with their gold links, written as --base, --reverse and --tokenized describe; raises UserError."""
    pairs = list(read_pairs(source, target))
    return read_gold_alignments(Path(links), pairs, options.base, options.reverse, options.tokenized)
