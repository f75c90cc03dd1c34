"""nmt audit: what is wrong with the sentence pairs that a configuration names."""

import argparse
import logging
from collections import Counter
from collections.abc import Collection
from itertools import chain
from pathlib import Path

from nmt.audit.run import SPELLING, audit, clean_files, write_clean
from nmt.commands.interface import load
from nmt.commands.output import (
    check_can_be_written,
    check_not_input,
    report_output_errors,
    warn_of_replacing,
)
from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.corpus.guess import with_file
from nmt.corpus.language_pairs import is_multilingual
from nmt.corpus.languages import is_known
from nmt.corpus.sources import find_sets
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.runs.stages import parent_of
from nmt.view.text import visible

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Print SET, FAULT, PAIRS and the first places of each fault, with tabs; raises UserError."""
    if options.clean and options.multirun:
        raise UserError("--clean writes the pairs of one configuration; leave out -m.")
    for config in compose_all(with_file(options.overrides), options.multirun, open_run=parent_of):
        for_one = [options.clean, options.forward, options.backward]
        if any(for_one) and is_multilingual(config.data):
            raise UserError(
                "--clean, --forward and --backward are for one language pair; name it with "
                "data.source and data.target."
            )
        if options.clean:
            check_clean(config, options.clean)
        forward = open_model(options.forward, config, config.data.source, config.data.target)
        backward = open_model(options.backward, config, config.data.target, config.data.source)
        folder, reports = audit(config.data, Path(config.data_folder), forward, backward)
        for report in reports:
            for note in report.notes():
                log.info("%s: %s", report.name, note)
            if not report.faults:
                log.info("%s: no fault was found.", report.name)
            for row in report.rows():
                print("\t".join(visible(str(cell)) for cell in row))
        if options.clean:
            clean(config, folder, options.clean, reports[0].faults.keys())
        log.info(
            "Every pair with a fault: %s. Examples: %s.", folder / "all.tsv", folder / "audit.html"
        )
    return 0


def open_model(name: str | None, config: Config, source: str, target: str) -> Run | None:
    """The run that judges pairs from source to target; raises UserError if it has others."""
    if name is None:
        return None
    return load(name, run_folder=config.run_folder, precision="fp32", source=source, target=target)


def check_clean(config: Config, prefix: str) -> None:
    """Raise UserError where a file of --clean cannot be written, or is one that is read.

    Also for text that is given twice: each pair repeats one of the same place, so none would pass.
    """
    origins = find_sets(config.data, Path(config.data_folder) / "downloads")["train"]
    for place, count in Counter(origin.place for origin in origins).items():
        if count > 1:
            raise UserError(f"data.train names {place} {count} times; name it once for --clean.")
    for path in clean_files(config.data, prefix):
        check_can_be_written(str(path), "--clean")
        for read in chain.from_iterable(origin.files for origin in origins):
            check_not_input(str(path), str(read), "--clean")


def clean(config: Config, folder: Path, prefix: str, faults: Collection[str]) -> None:
    """Write the pairs that pass, and say how many do not and why; raises UserError.

    faults: the kinds that training pairs have.
    """
    source, target, others = clean_files(config.data, prefix)
    for path in (source, target, others):
        warn_of_replacing(path)
    with report_output_errors(prefix, "--clean"):
        kept, rejected = write_clean(config.data, Path(config.data_folder), folder, prefix)
    words = [str(source), str(target)]
    if not is_known(config.data.source) or not is_known(config.data.target):  # by the endings
        words += [f"data.source={config.data.source}", f"data.target={config.data.target}"]
    log.info("%s pairs pass: nmt train %s", f"{kept:,}", " ".join(words))
    for reason, count in rejected.most_common():
        log.info("  rejected %10s  %s", f"{count:,}", reason)
    if kept < rejected.total():
        log.warning(
            "More pairs are rejected than pass, most of them as '%s'; if all of the text is so, "
            "mend it as a whole and audit it again.",
            rejected.most_common(1)[0][0],
        )
    log.info("The %s others are in %s.", f"{rejected.total():,}", others)
    harmless = sorted(SPELLING.intersection(faults))
    if harmless:
        log.info("These faults reject no pair: %s.", ", ".join(harmless))
