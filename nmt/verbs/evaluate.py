"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where gold links are known."""

import argparse
import logging
from pathlib import Path

from nmt import pipeline
from nmt.alignments import read_gold
from nmt.data.lines import read_pairs
from nmt.errors import UserError
from nmt.runs import Result, Run, judge_of, score_corpus, score_files
from nmt.verbs import open_run

log = logging.getLogger("nmt")


def evaluate(options: argparse.Namespace) -> int:
    """Scores of test sets, one line each."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    if options.gold and not options.source:
        raise UserError("--gold FILE belongs to --source and --reference; sets of the corpus bring their own links.")
    if (options.reverse or options.tokenised) and not options.gold:
        raise UserError(f"--{'reverse' if options.reverse else 'tokenised'} needs --gold FILE.")
    run = open_run(options)
    for result in [score_given(options, run)] if options.source else score_sets(options, run):
        print(result.line())
    return 0


def score_given(options: argparse.Namespace, run: Run) -> Result:
    """Files of one's own."""
    source, reference = Path(options.source), Path(options.reference)
    gold, judge = None, None
    if options.gold and not run.translator.model.attends:
        log.warning("The model of %s has no attention; --gold says nothing about it.", options.name)
    elif options.gold:
        pairs = list(read_pairs(source, reference))
        gold = read_gold(Path(options.gold), pairs, options.base, options.reverse, options.tokenised)
        judge = judge_of(run, corpus_with_gold(run))
    return score_files(run, source.name.removesuffix(".gz"), source, reference, gold, judge)


def corpus_with_gold(run: Run) -> Path | None:
    """The run's corpus if it may have gold links: the phrasebook, drawn in seconds where its words and rules are."""
    if run.config.data.kind != "phrasebook":
        return None
    try:
        return pipeline.prepare_corpus(run.config)
    except UserError:  # the run was carried elsewhere, without its words and rules
        return None


def score_sets(options: argparse.Namespace, run: Run) -> list[Result]:
    """Sets of the run's corpus."""
    corpus = pipeline.prepare_corpus(run.config)
    sets = pipeline.report(corpus)["sets"]
    if options.split not in ("test", "valid", *sets):
        raise UserError(
            f"--split {options.split} is not possible; choose one of {', '.join(['test', 'valid', *sets])}."
        )
    if options.split == "test" and not sets:
        raise UserError(f"The corpus of {options.name} has no test set; give --source and --reference.")
    return score_corpus(run, corpus, sets if options.split == "test" else [options.split])
