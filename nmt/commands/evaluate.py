"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where there are gold links."""

import argparse
import logging
from pathlib import Path

from nmt.alignments import Gold
from nmt.commands import open_run
from nmt.commands.scoring_options import check_scoring_options, gold_files, valid_gold_files
from nmt.errors import UserError
from nmt.runs import Result, Run, gold_of, score_files
from nmt.test_sets import corpus_hashes, make_layer_selector, own_corpus, set_name, sets_of_split

log = logging.getLogger("nmt")


def evaluate(options: argparse.Namespace) -> int:
    """Print one line of scores for each test set."""
    check_scoring_options(options)
    files = valid_gold_files(options)
    valid = files.read() if files else None
    run = open_run(options)
    for result in [score_own_files(options, run, valid)] if options.source else score_corpus_sets(options, run, valid):
        print(result.line())
    return 0


def score_own_files(options: argparse.Namespace, run: Run, valid: Gold | None) -> Result:
    """The scores of --source and --reference, with the alignment error rate if there is --gold."""
    source, reference = Path(options.source), Path(options.reference)
    gold, layer_selector = None, None
    if files := gold_files(options):
        if run.translator.model.attends:
            gold, layer_selector = files.read(), make_layer_selector(run, valid)
        else:
            log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
    return score_files(run, set_name(source), source, reference, gold, layer_selector)


def score_corpus_sets(options: argparse.Namespace, run: Run, valid: Gold | None) -> list[Result]:
    """The scores of the sets that --split selects from the corpus that the run was trained on."""
    corpus = own_corpus(options.name, run.config, corpus_hashes(run), run.folder)
    names = sets_of_split(options.split, corpus, options.name)
    golds = {name: gold_of(run, corpus, name) for name in names}
    if valid and not any(golds.values()):
        raise UserError(f"--valid-gold FILE has no effect: there are no gold links of {', '.join(names)}.")
    layer_selector = make_layer_selector(run, valid) if any(golds.values()) else None
    results = []
    for name in names:
        source, reference = (corpus / f"{name}.{side}" for side in (run.config.data.source, run.config.data.target))
        results.append(score_files(run, name, source, reference, golds[name], layer_selector))
    return results
