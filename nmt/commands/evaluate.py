"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where there are gold links."""

import argparse
import logging

from nmt.commands import open_run
from nmt.commands.rough_input import print_odd_lines, score_noised
from nmt.commands.scoring_options import check_scoring_options, chosen_sets, valid_gold
from nmt.errors import UserError
from nmt.runs.scoring import calibrate, make_layer_selector, score_sets
from nmt.runs.test_sets import validation_gold

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Print one line of scores for each test set."""
    check_scoring_options(options)
    if options.odd and (options.source or options.split or options.noised or options.gold or options.valid_gold):
        raise UserError("--odd scores a list of lines of its own; it goes with no other option of scoring.")
    run = open_run(options)
    if options.odd:
        print_odd_lines(run)
        return 0
    test_sets = chosen_sets(options, options.name, run)
    valid = valid_gold(options, test_sets)
    if options.gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
    if not options.source:
        run = calibrate(run, test_sets[0].source.parent)
    aligned = any(test_set.gold for test_set in test_sets)
    selector = make_layer_selector(run, valid or validation_gold(run)) if aligned else None
    results = score_sets(run, test_sets, selector, options.metrics)
    for test_set in test_sets if options.noised else []:
        results += score_noised(run, test_set)
    for result in results:
        print(result.line())
    return 0
