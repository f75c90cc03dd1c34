"""The commands of a trained run: each reads its options, calls the other packages and prints."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.corpus.parallel_text import is_unicode
from nmt.errors import UserError
from nmt.view.text import visible

if TYPE_CHECKING:
    from nmt.runs.run import Run

log = logging.getLogger("nmt")


def check_given(
    options: argparse.Namespace, needs: Mapping[str, str], not_with: Mapping[str, str]
) -> None:
    """Raise UserError for an option without what it needs, or with one that excludes it."""
    given = options.given
    for option, others in needs.items():
        if option in given and given.isdisjoint(others.split()):
            raise UserError(f"{option} needs {' or '.join(others.split())}.")
    for option, others in not_with.items():
        excluded = given.intersection(others.split())
        if option in given and excluded:
            raise UserError(f"{option} cannot go with {', '.join(sorted(excluded))}.")


def open_run(options: argparse.Namespace, precision: str | None = None) -> "Run":
    """Load RUN with --beam and --batch-tokens; raises UserError.

    precision: of search, by default the run's own.
    """
    from nmt.commands.interface import load  # which imports PyTorch

    return load(
        options.name,
        run_folder=options.runs,
        beam=options.beam,
        batch_tokens=options.batch_tokens,
        precision=precision,
    )


def check_glossary(options: argparse.Namespace) -> None:
    """Raise UserError for a glossary that is wrong, before the model of RUN is loaded."""
    if not options.glossary:
        return
    from nmt.corpus.termbase import term_lines
    from nmt.runs.folders import find_checkpoints, read_config

    paths = find_checkpoints(options.name, Path(options.runs))
    if options.name == "latest":
        options.name = str(paths[0])  # which is found, and named, once
    data = read_config(paths[0].parent).get("data", {})
    source = options.source or data.get("source", "")
    target = options.target or data.get("target", "")
    term_lines(Path(options.glossary), source, target)


def is_terminal() -> bool:
    """Whether people read what is printed."""
    return sys.stdout.isatty()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns under a header on a terminal, for people, else tabs, for programs."""
    if not is_terminal():
        for row in rows:
            print("\t".join(map(visible, row)).rstrip(), flush=True)
        return
    table = [[*map(visible, row)] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = map(str.ljust, row, widths)
        print("  ".join(cells).rstrip(), flush=True)


def say_if_unfit(run: "Run") -> None:
    """Warn of a run whose translations nobody should get unread."""
    verdict = run.verdict
    if verdict and verdict.is_unfit:
        log.warning("%s: %s", run.name, verdict.sentence)


def check_sentence(sentence: str, option: str) -> str:
    """A sentence from the command line as one line; raises UserError if it is not UTF-8.

    Warns of the name of a file, which `option` would read.
    """
    if os.path.isfile(sentence):
        log.warning(
            "%s is a file, but is treated as a sentence; %s reads the file.", sentence, option
        )
    if not is_unicode(sentence):  # bytes that are not UTF-8 arrive as lone surrogates
        raise UserError(f"The argument {sentence!r} is not UTF-8.")
    return " ".join(sentence.split("\n"))
