"""Which engine searches: --engine torch, ctranslate2, or auto, the faster one.

auto is CTranslate2 in int8 where sentences come one by one, it is installed, the computer's CPU
searches, and the model is a Transformer that it can hold. Over a file it is faster on some
processors only, so that our own search stays there. Nothing is timed at the start; the measurements
are in docs/guides/export.md.
"""

import argparse
import logging
import os
import stat
import sys
from pathlib import Path

from nmt.commands import check_glossary, open_run, say_if_unfit
from nmt.commands.export import with_ctranslate2
from nmt.commands.interface import run_of
from nmt.commands.output import PRECISIONS, is_file
from nmt.convert.ctranslate2_folder import import_ctranslate2
from nmt.errors import UserError
from nmt.runs.run import Run

log = logging.getLogger("nmt")
FAST = "int8"  # the number format of CTranslate2 that auto chooses


def open_engine(options: argparse.Namespace, precision: str | None, live: bool = False) -> Run:
    """The run with its engine, which `options.engine` names afterwards.

    `precision` is that of our own search where --quantization does not say it; an output that is
    continued has one. `live`: sentences come one by one. Warns where the run is unfit. Raises
    UserError for a number format that the engine does not have.
    """
    if options.quantization and options.quantization not in PRECISIONS:
        if options.engine == "torch":
            raise UserError(f"--quantization {options.quantization} needs --engine ctranslate2.")
        options.engine = "ctranslate2"  # which says why where it does not have it
    if options.engine == "ctranslate2":
        run = open_run(options)
        say_if_unfit(run)
        return with_ctranslate2(run, options.quantization or "float32")
    run = open_run(options, PRECISIONS.get(options.quantization, precision))
    say_if_unfit(run)
    is_auto = options.engine == "auto" and live and not options.quantization
    options.engine = "torch"
    if is_auto and run.translator.device.type == "cpu" and has_format(FAST):
        try:  # where CTranslate2 cannot be used, our own search is, which is never an error
            run = with_ctranslate2(run, FAST)
            options.engine = "ctranslate2"
            options.quantization = FAST
            log.info(
                "CTranslate2 searches (%s), which is faster; --engine torch does without it.", FAST
            )
        except UserError as error:
            log.debug("%s", error)
    return run


def open_directed(options: argparse.Namespace, precision: str | None, live: bool = False) -> Run:
    """`open_engine` with the direction and the glossary of `nmt translate`.

    Raises UserError also where --min-chrf is given and nothing is expected of a translation.
    """
    options.name = run_of(options.name, Path(options.runs), options.source, options.target)
    check_glossary(options)
    run = open_engine(options, precision, live)
    if options.min_chrf is not None and run.translator.estimator is None:
        raise UserError(
            f"--min-chrf: nothing is known of the expected chrF of {run.name}; `nmt evaluate` "
            "learns it where the validation set of the training is still there."
        )
    if options.source or options.target:
        run = run.in_direction(options.source, options.target)
    return run.with_glossary(options.glossary) if options.glossary else run


def has_format(quantization: str) -> bool:
    """Whether CTranslate2 is installed, and has this number format on this CPU."""
    try:
        return quantization in import_ctranslate2().get_supported_compute_types("cpu")
    except UserError:
        return False


def is_live(options: argparse.Namespace) -> bool:
    """Whether `nmt translate` answers single sentences, and writes no file.

    They come from its arguments, a terminal or a pipe.
    """
    if options.input or is_file(options.output):
        return False
    try:
        return bool(options.sentences) or not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # no stdin
        return False
