"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where gold links are known."""

import argparse
import logging
from pathlib import Path

from nmt.alignments import Gold
from nmt.commands import open_run
from nmt.errors import UserError
from nmt.runs import Result, Run, gold_of, score_files
from nmt.test_sets import (
    check_scored,
    given_gold,
    given_valid,
    make_layer_selector,
    own_corpus,
    set_name,
    sets_of_split,
    trained_on,
)

log = logging.getLogger("nmt")


def evaluate(options: argparse.Namespace) -> int:
    """Scores of test sets, one line each."""
    check_scored(options)
    valid = given_valid(options)
    run = open_run(options)
    for result in [score_given(options, run, valid)] if options.source else score_sets(options, run, valid):
        print(result.line())
    return 0


def score_given(options: argparse.Namespace, run: Run, valid: Gold | None) -> Result:
    """Files of one's own."""
    source, reference = Path(options.source), Path(options.reference)
    gold, judge = None, None
    if options.gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold says nothing about it.", options.name)
    elif options.gold:
        gold, judge = given_gold(options), make_layer_selector(run, valid)
    return score_files(run, set_name(source), source, reference, gold, judge)


def score_sets(options: argparse.Namespace, run: Run, valid: Gold | None) -> list[Result]:
    """Sets of the corpus that the run was trained on."""
    corpus = own_corpus(options.name, run.config, trained_on(run), run.folder)
    names = sets_of_split(options.split, corpus, options.name)
    golds = {name: gold_of(run, corpus, name) for name in names}
    if valid and not any(golds.values()):
        raise UserError(f"--valid-gold FILE says nothing: there are no known links of {', '.join(names)}.")
    judge = make_layer_selector(run, valid) if any(golds.values()) else None
    results = []
    for name in names:
        source, reference = (corpus / f"{name}.{side}" for side in (run.config.data.source, run.config.data.target))
        results.append(score_files(run, name, source, reference, golds[name], judge))
    return results
