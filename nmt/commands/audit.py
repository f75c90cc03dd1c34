"""nmt audit: what is wrong with the sentence pairs that a configuration names."""

import argparse
import logging
from pathlib import Path

from nmt.audit.run import audit
from nmt.config.compose import compose_all
from nmt.data.guess import with_file
from nmt.runs.stages import parent_of
from nmt.view.text import visible

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Print SET, FAULT, PAIRS and the first places of each fault as a table with tabs; raises UserError."""
    for config in compose_all(with_file(options.overrides), options.multirun, open_run=parent_of):
        folder, reports = audit(config.data, Path(config.data_folder))
        for report in reports:
            for note in report.notes():
                log.info("%s: %s", report.name, note)
            if not report.faults:
                log.info("%s: no fault was found.", report.name)
            for row in report.rows():
                print("\t".join(visible(str(cell)) for cell in row))
        log.info("Every pair with a fault: %s. Examples: %s.", folder / "all.tsv", folder / "audit.html")
    return 0
