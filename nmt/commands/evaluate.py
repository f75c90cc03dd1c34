"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where there are gold links."""

import argparse
import logging
from pathlib import Path

from nmt.commands import open_run
from nmt.commands.rough_input import print_odd_lines, score_noised
from nmt.commands.scoring_options import check_scoring_options, gold_files, valid_gold_files
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments
from nmt.runs.run import Run
from nmt.runs.scoring import Result, calibrate, make_layer_selector, score_set, score_sets
from nmt.runs.test_sets import corpus_hashes, corpus_set, own_corpus, own_set, sets_of_split, validation_gold

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Print one line of scores for each test set."""
    check_scoring_options(options)
    if options.odd and (options.source or options.split or options.noised or options.gold or options.valid_gold):
        raise UserError("--odd scores a list of lines of its own; it goes with no other option of scoring.")
    files = valid_gold_files(options)
    valid = files.read() if files else None
    run = open_run(options)
    if options.odd:
        print_odd_lines(run)
        return 0
    for result in score_own_files(options, run, valid) if options.source else score_corpus_sets(options, run, valid):
        print(result.line())
    return 0


def score_own_files(options: argparse.Namespace, run: Run, valid: GoldAlignments | None) -> list[Result]:
    """The scores of --source and --reference, with the alignment error rate if there is --gold."""
    gold = gold_files(options)
    if gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
        gold = None
    test_set = own_set(Path(options.source), list(map(Path, options.reference)), gold)
    selector = make_layer_selector(run, valid or validation_gold(run)) if gold else None
    noised = score_noised(run, test_set) if options.noised else []
    return [score_set(run, test_set, selector, options.metrics), *noised]


def score_corpus_sets(options: argparse.Namespace, run: Run, valid: GoldAlignments | None) -> list[Result]:
    """The scores of the sets that --split selects from the corpus that the run was trained on."""
    corpus = own_corpus(options.name, run.config, corpus_hashes(run), run.folder)
    names = sets_of_split(options.split, corpus, options.name)
    run = calibrate(run, corpus)
    test_sets = [corpus_set(run.config, corpus, name) for name in names]
    aligned = any(test_set.gold for test_set in test_sets)
    if valid and not aligned:
        raise UserError(f"--valid-gold FILE has no effect: there are no gold links of {', '.join(names)}.")
    selector = make_layer_selector(run, valid or validation_gold(run)) if aligned else None
    results = score_sets(run, corpus, names, selector, options.metrics)
    for test_set in test_sets if options.noised else []:
        results += score_noised(run, test_set)
    return results
