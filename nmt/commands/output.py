"""Where answers to lines are written: stdout, a device, a pipe, or a file that can be continued.

A file has its name only when it is complete. Until then FILE.part holds the answers to the chunks
that are done, to which lines, and under which settings. --resume goes on after them. The chunks are
the same again, so the file becomes what it would have become without the interruption.
"""

import hashlib
import itertools
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import Timeout

from nmt.commands import is_terminal, print_table
from nmt.corpus.files import is_stream, lock, open_atomic
from nmt.corpus.line_chunks import LineChunk
from nmt.corpus.packed import PackedFile
from nmt.decode.translator import Report
from nmt.errors import UserError
from nmt.runs.results import LAST_COLUMN, Result
from nmt.runs.run import Run
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
# settings that are kept when work continues
NUMBER_FORMAT = "number format and device"
OTHER_LINES = "has the answers to other lines than this input begins with"
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # of NUMBER_FORMAT, for --quantization


class Output:
    """stdout, a device or a pipe: nothing of what was written can be read again."""

    # the number format of what is written already, as --quantization has it
    precision: str | None = None
    lines = 0  # of the input, to which the answers are there already

    def __init__(self, file: IO[Any]) -> None:
        self.file = file

    def continue_with(self, settings: dict[str, Any]) -> None:
        """Raise UserError unless the answers that are there were made with these settings."""

    def has(self, chunk: LineChunk) -> bool:
        """Whether the answers to this chunk are there; raises UserError if they are to others."""
        return False

    def write(self, chunk: LineChunk, answers: Iterable[str]) -> None:
        """Append the answers to a chunk, which need not be made again."""
        for answer in answers:
            self.file.write(f"{answer}\n")
        self.file.flush()


class Part(Output):
    """FILE.part while it is written; no other process can write it in the meantime.

    Each of its lines is the SHA-256 hash of a JSON object, a space and the object: first the
    settings, then of each chunk the answers, the number of lines up to its end, and a hash of these
    lines.
    """

    def __init__(self, output: Path, resume: bool, stack: ExitStack) -> None:
        self.output = output
        self.path = output.with_name(f"{output.name}.part")
        lock_path = output.with_name(f".{output.name}.lock")
        with report_output_errors(output):
            try:
                stack.enter_context(lock(lock_path, timeout=2.0))
            except Timeout:
                raise UserError(f"Another process is writing {self.path}.") from None
            stack.callback(lock_path.unlink, missing_ok=True)
            super().__init__(open(self.path, "a+b", buffering=0))  # as it is, if it is there
        stack.callback(self.file.close)
        self.settings: dict[str, Any] = {}
        self.input = ""
        self.skipped = 0
        end = 0
        for record, size in self.records():
            self.settings = record.get("settings", self.settings)
            self.lines = record.get("lines", 0)
            self.input = record.get("input", "")
            end += size
        if self.lines and not resume:
            reason = f"holds the answers to {self.lines:,} lines; --resume continues them"
            raise self.refusal(reason)
        with report_output_errors(output):
            # without what was being written when it was killed
            self.file.truncate(end if self.lines else 0)
        computed = str(self.settings.get(NUMBER_FORMAT))
        precisions = PRECISIONS | {"float16": "fp16"}  # which --quantization does not offer
        self.precision = precisions.get(computed.partition(" ")[0])

    def records(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Each complete record with its size in bytes.

        Raises UserError where the file is damaged or of another program.
        """
        with open(self.path, "rb") as file:
            for number, line in enumerate(file):
                digest, _, content = line.removesuffix(b"\n").partition(b" ")
                is_complete = line.endswith(b"\n")
                if is_complete and hashlib.sha256(content).hexdigest().encode() == digest:
                    yield json.loads(content), len(line)
                elif is_complete or number == 0:
                    raise self.refusal("is damaged or of another program")

    def refusal(self, reason: str) -> UserError:
        return UserError(f"{self.path} {reason}; delete it to begin anew.")

    def append(self, **record: Any) -> None:
        """Write a record to the disk."""
        content = json.dumps(record, ensure_ascii=False).encode()
        line = memoryview(b"%s %s\n" % (hashlib.sha256(content).hexdigest().encode(), content))
        with report_output_errors(self.output):
            while line:
                line = line[self.file.write(line) :]
            os.fsync(self.file.fileno())

    def continue_with(self, settings: dict[str, Any]) -> None:
        if not self.lines:
            self.append(settings=settings)
            return
        old = self.settings
        changed = [name for name in settings | old if settings.get(name) != old.get(name)]
        if changed:
            raise self.refusal(f"was begun with another value of {', '.join(changed)}")
        log.info("%s: the first %d lines are there already.", self.path, self.lines)

    def has(self, chunk: LineChunk) -> bool:
        if chunk.start > self.lines:
            return False
        if chunk.stop > self.lines or (chunk.stop == self.lines and chunk.digest != self.input):
            raise self.refusal(OTHER_LINES)
        self.skipped = chunk.stop
        return True

    def write(self, chunk: LineChunk, answers: Iterable[str]) -> None:
        text = "".join(f"{answer}\n" for answer in answers)
        self.append(lines=chunk.stop, input=chunk.digest, text=text)
        self.lines = self.skipped = chunk.stop

    def complete(self) -> None:
        """Write the answers to the file that was asked for."""
        if self.skipped < self.lines:
            raise self.refusal(OTHER_LINES)
        with report_output_errors(self.output), open_atomic(self.output) as file:
            for record, _ in self.records():
                file.write(record.get("text", "").encode())
        self.path.unlink()


@contextmanager
def open_output(path: str | None, resume: bool = False) -> Iterator[Output]:
    """stdout, a device or a pipe that is written to, or a file that gets its name at the end.

    After an error or a kill `resume` continues the file. Raises UserError for what is no file, and
    for a part that must not be overwritten or cannot be continued.
    """
    if resume and not is_file(path):
        raise UserError("--resume continues a file; it needs --output FILE.")
    if path is None:
        yield Output(sys.stdout)
    elif not is_file(path):
        with report_output_errors(path), open(path, "a", encoding="utf-8", newline="\n") as file:
            yield Output(file)
    else:
        with ExitStack() as stack:
            part = Part(Path(path).resolve(), resume, stack)
            warn_of_replacing(path)
            try:
                yield part
                part.complete()
            except BaseException:
                if part.lines:
                    log.warning(
                        "%s has the answers to %d lines; --resume continues it.",
                        part.path,
                        part.lines,
                    )
                else:
                    part.path.unlink(missing_ok=True)
                raise


@contextmanager
def line_progress(
    source: Path | None, output: str | None, done: int, task: str = "translating"
) -> Iterator[Report | None]:
    """What tells a progress bar how many more lines of a file are answered, after `done`.

    None for pipes and other input, and where the answers appear on the terminal.
    """
    if source is None or not os.path.isfile(source) or (output is None and sys.stdout.isatty()):
        yield None
        return
    with Progress(PackedFile(source).count_lines(), "line", f"{task} {source}", done) as bar:
        yield bar.update


def is_file(path: str | None) -> bool:
    """Whether the path of --output is a regular file, or will be one."""
    if path is None or is_stream(path):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def check_not_input(output: str | None, source: str | None, option: str = "--output") -> None:
    """Raise UserError if the output would overwrite a file that is read."""
    if output and source and is_file(output) and Path(output).resolve() == Path(source).resolve():
        raise UserError(f"{option} {output} would overwrite a text that is read; choose another.")


def check_can_be_written(path: str, option: str = "--output") -> None:
    """Raise UserError where the file of an option cannot be written, before the work for it."""
    if os.path.isdir(path):
        raise UserError(f"{option} {path} is a folder; name a file in it.")
    if is_file(path):
        folder = Path(path).resolve().parent
        with report_output_errors(path, option), tempfile.TemporaryFile(dir=folder):
            pass


def warn_of_replacing(path: str | os.PathLike[str]) -> None:
    if os.path.isfile(path):
        log.warning("%s exists; it is replaced when the new file is complete.", path)


@contextmanager
def report_output_errors(path: str | os.PathLike[str], option: str = "--output") -> Iterator[None]:
    """Around code that only writes the output: an OSError becomes a UserError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror or error}.") from None


def print_results(results: Sequence[Result], run: str = "") -> None:
    """Print scores: a table on a terminal, for people, and lines with tabs elsewhere, for programs.

    `run`: its name, as the first column.
    """
    first = {"run": run} if run else {}
    if not is_terminal():
        for result in results:
            print(*first.values(), result.line(), sep="\t", flush=True)
        return
    cells = [first | result.cells() for result in results]
    columns = list(dict.fromkeys(itertools.chain(*cells)))
    columns.sort(key=lambda column: column == LAST_COLUMN)
    rows = []
    for of_result in cells:
        rows.append([of_result.get(column, "") for column in columns])
    print_table(columns, rows)


def search_settings(run: Run) -> dict[str, Any]:
    """What translations depend on besides the input and options, by the names for messages."""
    provenance = run.provenance
    settings = {f"decode.{name}": value for name, value in provenance["decode"].items()}
    settings["RUN"] = run.weights
    settings["calibration of confidences"] = provenance.get("calibration")
    estimator = run.translator.estimator
    settings["estimate of quality"] = estimator.digest() if estimator else None
    settings["versions of the program and its libraries"] = run.made_with
    settings[NUMBER_FORMAT] = provenance["computed"]
    settings["number of processes (OMP_NUM_THREADS)"] = run.translator.num_processes
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain
