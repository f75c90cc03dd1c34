"""What a trained run can be asked for: translations, scores, alignments."""

import argparse
import logging
import os
from pathlib import Path

from nmt.errors import UserError
from nmt.runs import Run, find_all, load

log = logging.getLogger("nmt")


def open_run(options: argparse.Namespace, precision: str | None = None) -> Run:
    """The run that was asked for, searched in its own precision or another; raises UserError."""
    return load(find_all(options.name, Path(options.runs)), options.beam, options.batch_tokens, precision)


def one_line(sentence: str, option: str) -> str:
    """A sentence from the command line; a file's name is one too, but `option` is what reads the file."""
    if os.path.isfile(sentence):
        log.warning("%s is taken as a sentence; %s reads the file.", sentence, option)
    try:
        sentence.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 arrive as lone surrogates
        raise UserError(f"The argument {sentence!r} is not UTF-8.") from None
    return " ".join(sentence.split("\n"))
