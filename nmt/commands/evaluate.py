"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where there are gold links."""

import argparse
import logging
from pathlib import Path

from nmt.commands import open_run
from nmt.commands.rough_input import print_odd_lines, score_noised
from nmt.commands.scoring_options import check_scoring_options, gold_files, valid_gold_files
from nmt.errors import UserError
from nmt.evaluate.gold import GoldAlignments
from nmt.runs.run import Run
from nmt.runs.scoring import Result, calibrate, gold_path, make_layer_selector, score_files, score_sets
from nmt.runs.test_sets import corpus_hashes, own_corpus, set_name, sets_of_split, validation_gold

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
    source, reference = Path(options.source), Path(options.reference[0])
    gold, layer_selector = None, None
    if files := gold_files(options):
        if run.translator.model.has_attention:
            gold, layer_selector = files.read(), make_layer_selector(run, valid or validation_gold(run))
        else:
            log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
    name = set_name(source)
    noised = score_noised(run, name, source, reference) if options.noised else []
    return [score_files(run, name, source, reference, gold, layer_selector), *noised]


def score_corpus_sets(options: argparse.Namespace, run: Run, valid: GoldAlignments | None) -> list[Result]:
    """The scores of the sets that --split selects from the corpus that the run was trained on."""
    corpus = own_corpus(options.name, run.config, corpus_hashes(run), run.folder)
    names = sets_of_split(options.split, corpus, options.name)
    run = calibrate(run, corpus)
    aligned = any(gold_path(corpus, name).exists() for name in names)
    if valid and not aligned:
        raise UserError(f"--valid-gold FILE has no effect: there are no gold links of {', '.join(names)}.")
    selector = make_layer_selector(run, valid or validation_gold(run)) if aligned else None
    results = score_sets(run, corpus, names, selector)
    if options.noised:
        languages = run.config.data.source, run.config.data.target
        for name in names:
            results += score_noised(run, name, *(corpus / f"{name}.{language}" for language in languages))
    return results
