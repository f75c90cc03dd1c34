"""nmt corrections: what users of the service corrected, and what becomes of it."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from nmt import __version__
from nmt.commands import print_table
from nmt.commands.output import report_output_errors, warn_of_replacing
from nmt.config.compose import compose_all
from nmt.corpus.files import write_atomic
from nmt.corpus.translation_memory import ALLOWED
from nmt.errors import UserError
from nmt.serve.corrections import (
    ACCEPTED,
    CONFIRMED,
    REFUSED,
    STATES,
    WAITING,
    Correction,
    Corrections,
    find_contrary,
    find_faults,
)

log = logging.getLogger("nmt")
COLUMNS = (
    "number",
    "state",
    "time",
    "key",
    "version",
    "languages",
    "source",
    "machine",
    "correction",
    "instead of",
    "to look at",
)


def run(options: argparse.Namespace) -> int:
    """List, accept, refuse, export or delete corrections; raises UserError."""
    if (options.output is not None) != (options.action == "export"):
        raise UserError("nmt corrections export needs --output FILE; the other actions take none.")
    corrections = Corrections(Path(options.file))
    rows = corrections.all()
    chosen = choose(rows, options)
    match options.action:
        case "list":
            faults = audit(rows)
            contrary = find_contrary(rows)
            print_table(COLUMNS, [cells(row, faults, contrary) for row in chosen])
        case "accept":
            accept(corrections, rows, chosen, is_named=bool(options.ids))
        case "refuse":
            corrections.decide([row.id for row in chosen], REFUSED)
            log.info("%d refused.", len(chosen))
        case "export":
            for row in chosen:
                if options.ids and not row.counts:
                    log.warning("%d is left out: it is %s.", row.id, STATES[row.accepted])
            export(chosen, Path(options.output))
        case "delete":
            corrections.delete([row.id for row in chosen])
            log.info("%d deleted.", len(chosen))
    corrections.close()
    return 0


def choose(rows: list[Correction], options: argparse.Namespace) -> list[Correction]:
    """The corrections that the command line names; all if it names none. Raises UserError."""
    if options.ids and options.key is not None:
        raise UserError("Give numbers, or --key NAME.")
    if options.key is not None:
        found = [row for row in rows if row.key_name == options.key]
        if not found:
            raise UserError(f"{options.file} has no corrections with the key of '{options.key}'.")
        return found
    if not options.ids:
        if options.action in ("refuse", "delete"):
            raise UserError(f"Say what to {options.action}: NUMBER … or --key NAME.")
        return rows
    by_id = {row.id: row for row in rows}
    missing = [str(id) for id in options.ids if id not in by_id]
    if missing:
        raise UserError(f"{options.file} has no correction {', '.join(missing)}.")
    return [by_id[id] for id in dict.fromkeys(options.ids)]


def audit(rows: Sequence[Correction]) -> dict[int, str]:
    """What should be looked at, and why, by the numbers of the corrections."""
    faults: dict[int, str] = {}
    for source, target in dict.fromkeys(row.languages for row in rows):
        of_pair = [row for row in rows if row.languages == (source, target)]
        words = ("data=files", f"data.source={source}", f"data.target={target}", "data.train=x")
        (config,) = compose_all(words)
        faults |= find_faults(of_pair, config.data)
    return faults


def cells(row: Correction, faults: dict[int, str], contrary: dict[int, int]) -> list[str]:
    return [
        str(row.id),
        STATES[row.accepted],
        row.time,
        row.key_name,
        row.version,
        "-".join(row.languages),
        row.source,
        row.target,
        row.correction,
        str(contrary.get(row.id, "")),
        faults.get(row.id, ""),
    ]


def accept(
    corrections: Corrections,
    rows: Sequence[Correction],
    chosen: Sequence[Correction],
    is_named: bool,
) -> None:
    """Accept corrections that were chosen by their numbers, or those that wait without a fault."""
    faults = audit(rows)
    accepted = []
    for row in chosen:
        is_decided = row.accepted != WAITING and not is_named
        if is_decided or row.accepted == CONFIRMED:
            continue
        if is_named or row.id not in faults:
            accepted.append(row)
        else:
            log.warning("%d is left: %s.", row.id, faults[row.id])
    state = CONFIRMED if is_named else ACCEPTED
    corrections.decide([row.id for row in accepted], state)

    # What was accepted in spite of the audit, and what counts no longer
    contrary = find_contrary(corrections.all())
    for row in accepted:
        if row.id in faults:
            log.warning("%d is accepted: %s.", row.id, faults[row.id])
        if row.id in contrary:
            log.warning("%d counts instead of %d.", row.id, contrary[row.id])
    log.info("%d accepted.", len(accepted))


def export(rows: Sequence[Correction], path: Path) -> None:
    """Write the corrections that count, the newest of each source; raises UserError."""
    counting: dict[tuple[tuple[str, str], str], Correction] = {}
    for row in rows:
        if row.counts:
            counting.pop((row.languages, row.source), None)  # the newest comes last
            counting[row.languages, row.source] = row
    directions = {row.languages for row in counting.values()}
    if not counting:
        raise UserError("There are no accepted corrections to export.")
    if path.suffix == ".tmx":
        text = as_tmx(list(counting.values()))
    elif path.suffix != ".tsv":
        raise UserError(f"--output {path} ends neither in .tmx nor in .tsv.")
    elif len(directions) > 1:
        raise UserError(
            "These corrections are in several languages, and a .tsv holds one pair; give --output "
            "FILE.tmx."
        )
    else:
        lines = [*directions, *((row.source, row.correction) for row in counting.values())]
        text = "".join(f"{source}\t{target}\n" for source, target in lines)
    warn_of_replacing(path)
    with report_output_errors(path):
        write_atomic(path, text)
    log.info("%s has %d corrections.", path, len(counting))


def as_tmx(rows: Sequence[Correction]) -> str:
    """A translation memory (TMX 1.4) of corrections."""
    units = []
    for row in rows:
        sides = ""
        for language, text in zip(row.languages, (row.source, row.correction), strict=True):
            allowed = "".join(sign if ALLOWED.match(sign) else "\ufffd" for sign in text)
            sides += f"<tuv xml:lang={quoteattr(language)}><seg>{escape(allowed)}</seg></tuv>"
        units.append(f"<tu srclang={quoteattr(row.source_language)}>{sides}</tu>\n")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="nmt" creationtoolversion="{__version__}" segtype="block" '
        'o-tmf="nmt" adminlang="en" srclang="*all*" datatype="plaintext"/>\n'
        f"<body>\n{''.join(units)}</body>\n</tmx>\n"
    )
