"""nmt audit: what is wrong with the pairs that a configuration names, before a model is trained on them."""

import argparse
import logging
import tempfile
from pathlib import Path

from nmt.audit.block import Limits
from nmt.audit.corpus_audit import SetAudit, audit_corpus
from nmt.compose import compose_all
from nmt.data.sources import find_sets
from nmt.files import report_write_errors, write_atomic
from nmt.view.comparison_page import Table, comparison_page
from nmt.view.text import visible

log = logging.getLogger("nmt")
LONGEST_EXAMPLE = 200  # characters of a side that the page shows


def run(options: argparse.Namespace) -> int:
    """Print SET<TAB>FAULT<TAB>PAIRS<TAB>PERCENT<TAB>LOCATIONS for each fault; --html writes a page as well."""
    [config] = compose_all(options.overrides, multirun=False)
    limits = Limits(config.data.max_characters, config.data.max_length_ratio)
    audits = []
    with tempfile.TemporaryDirectory() as generated:
        sets = find_sets(config.data, Path(config.data_folder) / "downloads", Path(generated))
        for audit in audit_corpus({name: origins for name, origins in sets.items() if origins}, limits):
            audits.append(audit)
            log.info("%s: %s pairs, %d kinds of faults", audit.name, f"{audit.read:,}", len(audit.faults))
            for row in fault_rows(audit):
                print(*map(visible, row), sep="\t", flush=True)
    if options.html:
        path = Path(options.html)
        with report_write_errors(path.parent):
            write_atomic(path, page(audits))
    return 0


def fault_rows(audit: SetAudit) -> list[list[str]]:
    """One row for each fault: set, fault, pairs, percent, and where the first are."""
    return [
        [
            audit.name, fault.name, str(fault.pairs), f"{100 * fault.pairs / max(1, audit.read):.3f}",
            ", ".join(example.location for example in fault.examples),
        ]
        for fault in audit.faults
    ]  # fmt: skip


def page(audits: list[SetAudit]) -> str:
    """The faults of all sets, with the text of the first pairs of each."""
    parts = [
        Table("Faults", ("set", "fault", "pairs", "%"), [row[:4] for audit in audits for row in fault_rows(audit)])
    ]
    for audit in audits:
        for fault in audit.faults:
            rows = [
                (each.location, each.source[:LONGEST_EXAMPLE], each.target[:LONGEST_EXAMPLE]) for each in fault.examples
            ]
            parts.append(Table(f"{audit.name}: {fault.name}", ("where", "source", "target"), rows))
    read = ", ".join(f"{audit.name} {audit.read:,}" for audit in audits)
    return comparison_page("Corpus audit", [f"Pairs read: {read}. Of each fault the first pairs are shown."], parts)
