"""Where `nmt translate` writes: to stdout, a device or a pipe (here), or to a file (part_file.py)."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from nmt.attention import cpu
from nmt.data.files import is_stream
from nmt.data.line_chunks import LineChunk
from nmt.data.packed import PackedFile
from nmt.decode.translator import Report
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.view.progress import Progress

# Options on which answers depend.
OPTIONS = (
    "format", "nbest", "min_confidence", "copy_doubtful", "layer", "head", "method", "decoder_step", "tokenized",
    "weights", "engine", "quantization",
)  # fmt: skip
NUMBER_FORMAT, LAYOUT = "number format and device", "layout of matrices"  # settings that are kept when work continues
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # of NUMBER_FORMAT, for --quantization


class Output(Protocol):
    """What takes the answers to each chunk, in order."""

    def has(self, chunk: LineChunk) -> bool:
        """Whether the answers to this chunk are there already."""

    def write(self, text: str) -> Any:
        """Append an answer."""

    def finish(self, chunk: LineChunk) -> None:
        """Called after the last answer to a chunk."""


@dataclass
class Stream:
    """stdout, a device or a pipe: nothing of what was written can be read again."""

    file: TextIO

    def has(self, chunk: LineChunk) -> bool:
        return False

    def write(self, text: str) -> None:
        self.file.write(text)

    def finish(self, chunk: LineChunk) -> None:
        self.file.flush()


@contextmanager
def open_stream(path: str | None) -> Iterator[Output]:
    """stdout, or a device or pipe that is written to and not replaced."""
    if path is None:
        yield Stream(sys.stdout)
        return
    with report_output_errors(path), open(path, "a", encoding="utf-8", newline="\n") as file:
        yield Stream(file)


@contextmanager
def line_progress(source: Path | None, output: str | None, done: int) -> Iterator[Report | None]:
    """What a bar learns from how many lines of a file are translated; `done`: how many are there already.

    None for pipes and other input, and where the answers appear on the terminal.
    """
    if source is None or not os.path.isfile(source) or (output is None and sys.stdout.isatty()):
        yield None
        return
    with Progress(PackedFile(source).count_lines(), "line", f"translating {source}", done) as bar:
        yield bar.update


def is_file(path: str | None) -> bool:
    """Whether the path of --output is a regular file, or will be one."""
    if path is None or is_stream(path):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def check_not_input(output: str | None, source: str | None) -> None:
    """Raise UserError if the output would overwrite what is translated."""
    if output and source and is_file(output) and os.path.exists(output) and os.path.exists(source):
        if os.path.samefile(output, source):
            raise UserError(f"--output {output} would overwrite the text that is translated; choose another name.")


@contextmanager
def report_output_errors(path: str | os.PathLike[str], option: str = "--output") -> Iterator[None]:
    """Around code that only writes the output: an OSError becomes a UserError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror or error}.") from None


def settings(options: argparse.Namespace, run: Run) -> dict[str, Any]:
    """All that the answers depend on besides the input, by the name that a message uses."""
    return {f"--{name.replace('_', '-')}": getattr(options, name) for name in OPTIONS} | search_settings(run)


def search_settings(run: Run) -> dict[str, Any]:
    """All that translations depend on besides the input and options of `nmt translate`, by the name for messages."""
    found = {f"decode.{name}": value for name, value in run.provenance["decode"].items()}
    found["RUN"] = [model["weights"] for model in run.provenance["models"]]
    found["calibration of confidences"] = run.provenance.get("calibration")
    found["versions of the program and its libraries"] = run.provenance["scored_with"]
    found[NUMBER_FORMAT] = run.provenance["computed"]
    found["number of processes (OMP_NUM_THREADS)"] = run.translator.num_processes
    if run.provenance["computed"] == "float32 on cpu":
        found[LAYOUT] = cpu.uses_column_major()
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain
