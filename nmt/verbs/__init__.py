"""What a trained run can be asked for: translations, scores, alignments."""

import argparse
from pathlib import Path

from nmt.errors import UserError
from nmt.runs import Run, find_all, load


def open_run(options: argparse.Namespace, numbers: str | None = None) -> Run:
    """The run that was asked for, searched in its own numbers or others."""
    return load(find_all(options.name, Path(options.runs)), options.beam, options.batch_tokens, numbers)


def one_line(sentence: str) -> str:
    """A sentence from the command line."""
    try:
        sentence.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 arrive as lone surrogates
        raise UserError(f"The argument {sentence!r} is not UTF-8.") from None
    return " ".join(sentence.split("\n"))
