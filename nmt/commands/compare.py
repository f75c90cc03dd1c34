"""nmt compare: one table over several runs, with confidence intervals and significance."""

import argparse
import logging
import sys
from pathlib import Path

from nmt.commands.scoring_options import check_scoring_options, gold_files, valid_gold_files
from nmt.errors import UserError
from nmt.runs.comparison import CompareOptions, compare_runs

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Compare runs on the same sets; the tables go to stdout as Markdown, the whole report to --output."""
    check_scoring_options(options)
    files = (Path(options.source), list(map(Path, options.reference))) if options.source else None
    compare_options = CompareOptions(
        runs_folder=Path(options.runs),
        output=Path(options.output),
        split=options.split,
        files=files,
        gold=gold_files(options),
        valid_gold=valid_gold_files(options),
        samples=options.samples,
        metrics=options.metrics,
        beam=options.beam,
        max_joined=options.long,
        sentences=parse_sentences(options.sentences),
    )
    sys.stdout.write(compare_runs(options.names, compare_options))
    log.info("%s", compare_options.output / "comparison.html")
    return 0


def parse_sentences(text: str | None) -> list[int] | None:
    """The line numbers of --sentences N,N; raises UserError for what is not a number."""
    if text is None:
        return None
    words = text.split(",")
    if wrong := [word for word in words if not word.isdecimal()]:
        raise UserError(f"--sentences {wrong[0]} is not possible; give line numbers such as 1,5.")
    return [int(word) for word in words]
