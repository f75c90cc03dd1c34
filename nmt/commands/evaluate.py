"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where gold links are known."""

import argparse
import logging
from pathlib import Path

from nmt.alignments import GoldAlignments
from nmt.commands import open_run
from nmt.errors import UserError
from nmt.runs import Run
from nmt.scoring import Result, gold_path, make_layer_selector, score_files, score_sets
from nmt.test_sets import (
    check_scored,
    given_gold,
    given_valid,
    own_corpus,
    set_name,
    sets_of_split,
    trained_on,
    validation_gold,
)

log = logging.getLogger("nmt")


def evaluate(options: argparse.Namespace) -> int:
    """Print the scores of test sets, one line each."""
    check_scored(options)
    valid = given_valid(options)
    run = open_run(options)
    for result in [score_given(options, run, valid)] if options.source else score_corpus(options, run, valid):
        print(result.line())
    return 0


def score_given(options: argparse.Namespace, run: Run, valid: GoldAlignments | None) -> Result:
    """Score the files of --source and --reference."""
    source, reference = Path(options.source), Path(options.reference)
    gold, selector = None, None
    if options.gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold changes nothing.", options.name)
    elif options.gold:
        gold, selector = given_gold(options), make_layer_selector(run, valid or validation_gold(run))
    return score_files(run, set_name(source), source, reference, gold, selector)


def score_corpus(options: argparse.Namespace, run: Run, valid: GoldAlignments | None) -> list[Result]:
    """Score sets of the corpus that the run was trained on."""
    corpus = own_corpus(options.name, run.config, trained_on(run), run.folder)
    names = sets_of_split(options.split, corpus, options.name)
    selector = None
    if any(gold_path(corpus, name).exists() for name in names):
        selector = make_layer_selector(run, valid or validation_gold(run))
    elif valid:
        raise UserError(f"--valid-gold FILE changes nothing: there are no gold links of {', '.join(names)}.")
    return score_sets(run, corpus, names, selector)
