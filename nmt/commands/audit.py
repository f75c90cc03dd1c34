"""nmt audit: what is wrong with the sentence pairs that a configuration names."""

import argparse
import logging
from pathlib import Path

from nmt import compose
from nmt.audit.report import SetReport, rows
from nmt.audit.run import audit
from nmt.view.text import visible

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Print SET, FAULT, PAIRS and the first places of each fault as a table with tabs; raises UserError."""
    (config,) = compose.compose_all(options.overrides, multirun=False)
    folder, reports = audit(config.data, Path(config.data_folder))
    for report in reports:
        log_summary(report)
        for row in rows(report):
            print("\t".join(visible(str(cell)) for cell in row))
    log.info("Every pair with a fault: %s. Examples: %s.", folder / "all.tsv", folder / "audit.html")
    return 0


def log_summary(report: SetReport) -> None:
    """Log what was read."""
    for origin in report.origins:
        notes = [f"{key}: {value}" for key, value in origin.items() if key not in ("origin", "pairs", "first")]
        log.info("%s: %s pairs of %s%s", report.name, f"{origin['pairs']:,}", origin["origin"],
                 f" (throughout {', '.join(notes)})" if notes else "")  # fmt: skip
    if not report.faults:
        log.info("%s: no fault was found.", report.name)
