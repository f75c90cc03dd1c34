"""The report on a version for people who decide about translations: one page of HTML."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nmt.corpus.files import report_write_errors, write_atomic
from nmt.evaluate.metrics import METRICS, STANDARD
from nmt.runs.decision import EDITS, HELD_OUT, SetChange
from nmt.runs.learning import LEARNT, Outcome
from nmt.view.page import NONE, Table, html_page
from nmt.view.text import escape_html

FILE = "report.html"  # in the folder of the version
MOST_BETTER = 5  # changed translations that are shown
MOST_WORSE = 3


def write_report(outcome: Outcome, run_name: str) -> None:
    """Write the report into the folder of the version; raises UserError."""
    title = f"{run_name}: what version {outcome.number} has learnt"
    tables = [learnt_table(outcome.record), *score_tables(outcome), *example_tables(outcome)]
    status = f"The version before it, {outcome.record['base']}, stays in use."
    if outcome.is_better:
        status = f"Version {outcome.number} is now in use."
    lead = f"<p><strong>{escape_html(status)}</strong> {escape_html(outcome.decision.sentence)}</p>"
    body = ["<main>", f"<h1>{escape_html(title)}</h1>", lead, *map(Table.html, tables), "</main>"]
    with report_write_errors(outcome.folder):
        write_atomic(outcome.folder / FILE, html_page(title, "\n".join(body)))


def learnt_table(record: dict[str, Any]) -> Table:
    sizes = record["corrections"]
    rows = [
        ["corrections that were learnt", f"{sizes[LEARNT]:,}"],
        ["corrections that were held out for the test", f"{sizes[HELD_OUT]:,}"],
        ["words of the corrections", f"{record['words']:,}"],
        ["new since the version before", f"{record['new']:,}"],
        ["left out by the audit", f"{sum(record['rejected'].values()):,}"],
        ["from", ", ".join(record["from"])],
        ["begun, ended", f"{record['began']}, {record['ended']}"],
    ]
    notes = []
    if record["rejected"]:
        reasons = [f"{count:,} {reason}" for reason, count in record["rejected"].items()]
        notes.append(f"Left out: {'; '.join(reasons)}. They are in rejected.tsv of the run.")
    return Table("What was learnt", ["what", "value"], rows, notes)


def score_tables(outcome: Outcome) -> Iterator[Table]:
    """The scores of all sets before and after, and how much there is to edit."""
    sets = [*filter(None, [outcome.corrections]), *outcome.others]
    rows = []
    for change in sets:
        changed = sum(map(str.__ne__, change.before, change.after))
        for metric in STANDARD:
            scores = change.scores[metric]
            label = METRICS[metric].label
            row = [change.name, f"{len(change.sources):,}", f"{changed:,}", label]
            row += [f"{scores['before']:.1f}", f"{scores['after']:.1f}"]
            rows.append([*row, f"{change.gain(metric):+.1f}", f"{scores['p']:.3f}"])
    columns = ["set", "sentences", "changed", "score", "before", "after", "difference", "p"]
    notes = [
        "corrections: those that were held out. The other sets are text of the kind that the "
        f"translator knew before; a loss of {outcome.record['margin']:g} BLEU is allowed on each. "
        "p: how probable such a difference is by chance alone (paired bootstrap)."
    ]
    yield Table("What changed", columns, rows, notes)

    rows = []
    shown = outcome.record["edited"]
    if shown:
        words = "all corrections, as the machine had shown them"
        rows.append([words, f"{shown['sentences']:,}", f"{shown['hter']:.1f}", NONE])
    if outcome.corrections:
        ter = outcome.corrections.scores[EDITS]
        count = f"{len(outcome.corrections.sources):,}"
        values = [f"{ter['before']:.1f}", f"{ter['after']:.1f}"]
        rows.append(["held-out corrections", count, *values])
    if rows:
        columns = ["text", "sentences", "edits per 100 words, before", "after"]
        notes = ["HTER: insertions, deletions, substitutions and shifts that make the correction."]
        yield Table("How much people had to edit", columns, rows, notes)


def example_tables(outcome: Outcome) -> Iterator[Table]:
    """Translations that changed the most, for the better and for the worse."""
    if outcome.corrections:
        yield from examples(outcome.corrections, "Held-out corrections", MOST_BETTER)
    for change in outcome.others:
        yield from examples(change, change.name, MOST_WORSE)


def examples(change: SetChange, title: str, most_better: int) -> Iterator[Table]:
    gains = change.gains_of_sentences()
    order = np.argsort(-gains, kind="stable").tolist()
    better = [row for row in order[:most_better] if gains[row] > 0]
    worse = [row for row in order[::-1][:MOST_WORSE] if gains[row] < 0]
    for name, rows in (("for the better", better), ("for the worse", worse)):
        if rows:
            columns = ["source", "before", "after", "correct"]
            cells = []
            for row in rows:
                texts = [change.sources[row], change.before[row], change.after[row]]
                cells.append([*texts, change.references[row]])
            yield Table(f"{title}: the largest changes {name}", columns, cells)
