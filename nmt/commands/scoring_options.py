"""The options of `nmt evaluate` and `nmt compare` that choose what is scored and which gold links are used."""

import argparse
from pathlib import Path

from nmt.errors import UserError
from nmt.runs.test_sets import GoldFiles


def check_scoring_options(options: argparse.Namespace) -> None:
    """Refuse files that do not belong together, and options without effect; raises UserError."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    if options.gold and not options.source:
        raise UserError(
            "--gold FILE belongs to --source FILE and --reference FILE; sets of the corpus have their own links."
        )
    if options.split and options.source:
        raise UserError("--split names sets of the corpus; it cannot go with --source FILE and --reference FILE.")
    valid = options.valid_source, options.valid_target, options.valid_gold
    if any(valid) and not all(valid):
        raise UserError("--valid-source, --valid-target and --valid-gold belong together; give all or none.")
    if any(valid) and options.source and not options.gold:
        raise UserError(
            "--valid-gold FILE chooses the layer that --source and --reference are aligned with; it needs --gold FILE."
        )
    if not options.gold and not any(valid):
        formats = {"--reverse": options.reverse, "--tokenized": options.tokenized, "--base 1": options.base}
        for option in (name for name, value in formats.items() if value):
            raise UserError(f"{option} describes how links are written; it needs --gold FILE or --valid-gold FILE.")


def gold_files(options: argparse.Namespace) -> GoldFiles | None:
    """The files of --gold, --source and --reference; None without --gold."""
    return make_gold_files(options.gold, options.source, options.reference and options.reference[0], options)


def valid_gold_files(options: argparse.Namespace) -> GoldFiles | None:
    """The files of --valid-gold, --valid-source and --valid-target; None without --valid-gold."""
    return make_gold_files(options.valid_gold, options.valid_source, options.valid_target, options)


def make_gold_files(links: str | None, source: str, target: str, options: argparse.Namespace) -> GoldFiles | None:
    """Files of gold links, written as --base, --reverse and --tokenized describe."""
    if not links:
        return None
    return GoldFiles(Path(links), Path(source), Path(target), options.base, options.reverse, options.tokenized)
