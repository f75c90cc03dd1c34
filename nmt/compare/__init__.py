"""nmt compare: one table over runs, with what chance may have done to it.

A run passes entrants (checked before any work), texts (what it is scored on), measures (one run at a time), outcome
(all of them side by side), tables, and report.
"""

import argparse
import logging
import sys
from pathlib import Path

from nmt.compare.measures import measure
from nmt.compare.report import write
from nmt.compare.results import conclude
from nmt.compare.systems import open_systems
from nmt.compare.test_sets import choose_texts, shown_rows
from nmt.data.lines import writing
from nmt.errors import UserError
from nmt.evaluate import significance
from nmt.results import check_writable
from nmt.test_sets import check_scored

log = logging.getLogger("nmt")


def compare(options: argparse.Namespace) -> int:
    """Score all runs on the same sets; the tables go to stdout, everything to --output."""
    check_scored(options)
    entrants = open_systems(options)
    texts = choose_texts(options, entrants)
    rows = shown_rows(options, texts.sets[0])
    for one in texts.sets:
        significance.check_samples([one.references], one.references, options.samples)
        if options.long and not 2 <= options.long <= len(one.pairs):
            raise UserError(f"--long {options.long} is not possible with {one.name}; choose 2 to {len(one.pairs)}.")
    folder = Path(options.output)
    if any((folder / name).exists() for name in ("config.yaml", "best.pt", "last.pt")):
        raise UserError(f"--output {folder} is a run, whose curves would be lost; name another folder.")
    with writing(folder):
        check_writable(folder)
    measured = [measure(entrant, texts, rows, options) for entrant in entrants]
    sys.stdout.write(write(conclude(measured, texts, options.samples), folder))
    log.info("%s", folder / "comparison.html")
    return 0
