"""The frame of every benchmark: command line, measurements in fresh processes and in turn, tables
and a JSON file.

`python -m benchmarks.frame MODULE FUNCTION '{"ARGUMENT": VALUE, …}'` calls a function and prints
its result as JSON; `in_fresh_process` uses it.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, describe_machine, machine_line
from benchmarks.tables import Figures, cell, table
from nmt.corpus.files import write_atomic
from nmt.errors import UserError
from nmt.view.progress import install_logging

PYTHON_PATH = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])


def make_parser(description: str | None, json_file: Path) -> argparse.ArgumentParser:
    """A command line with --json, where the result is written."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=json_file, help="result, all rounds included")
    return parser


def run_benchmark(
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    report: Callable[[dict[str, Any]], str],
) -> int:
    """Measure, print the report, write the JSON file; returns the exit code, 2 after a
    UserError."""
    install_logging()
    try:
        result = {"options": vars(options), "machine": describe_machine()} | measure(options)
    except UserError as error:
        note(str(error))
        return 2
    print(f"{machine_line(result['machine'])}\n\n{report(result)}")
    write_json(options, result)
    note(f"The result with all rounds is in {options.json}.")
    return 0


def write_json(options: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Write what has been measured so far to the JSON file."""
    text = json.dumps(
        {"options": vars(options)} | dict(result), indent=1, ensure_ascii=False, default=str
    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.json, f"{text}\n")


def note(text: str) -> None:
    """A line on stderr that begins with the name of the script."""
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def measure_in_turn(
    systems: Mapping[str, Callable[[], Figures]], rounds: int
) -> dict[str, list[Figures]]:
    """Measure every system once a round (A B C A B C …); → the figures of each system, round by
    round.

    A system that raises UserError is reported and left out, its earlier rounds included.
    """
    measured: dict[str, list[Figures]] = {name: [] for name in systems}
    for number in range(rounds):
        for name in list(measured):
            try:
                figures = systems[name]()
            except UserError as error:
                note(f"{name} is left out: {error}")
                del measured[name]
                continue
            measured[name].append(figures)
            speeds = [
                f"{figures[key]:,.4g} {key}"
                for key in ("tokens_per_s", "sentences_per_s")
                if key in figures
            ]
            note(f"round {number + 1} of {rounds}: {name}: {', '.join(speeds)}")
    return measured


def measure_parts(
    parts: Mapping[str, Callable[[argparse.Namespace], Iterable[Figures]]],
    names: Sequence[str],
    options: argparse.Namespace,
) -> dict[str, list[Figures]]:
    """The rows of each named part; where one fails, that is reported. Raises UserError where
    nothing was measured.

    The JSON file is written after each row, so that a program that is killed keeps what it has
    measured.
    """
    result: dict[str, list[Figures]] = {}
    machine = describe_machine()
    for name in names:
        try:
            for row in parts[name](options):
                result.setdefault(name, []).append(row)
                write_json(options, {"machine": machine} | result)
                note(
                    f"{name}: {', '.join(f'{title} {cell(value)}' for title, value in row.items())}"
                )
        except (UserError, RuntimeError) as error:  # RuntimeError: of torch, such as a full memory
            note(f"{name} ends here: {str(error).splitlines()[0]}")
    if not result:
        raise UserError("Nothing could be measured.")
    return result


def report_parts(result: dict[str, Any]) -> str:
    parts = {name: rows for name, rows in result.items() if isinstance(rows, list) and rows}
    return "\n\n".join(f"{name}\n\n{table(rows)}" for name, rows in parts.items())


def in_fresh_process(
    function: Callable[..., Any], threads: int | None = None, **arguments: object
) -> Any:
    """The result of a module's function, called in a process of its own; arguments and result pass
    as JSON."""
    call = [function.__module__, function.__name__, json.dumps(arguments, default=str)]
    environment = {"PYTHONPATH": os.pathsep.join([PYTHON_PATH, os.environ.get("PYTHONPATH", "")])}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    return read_json(run_process([sys.executable, "-m", "benchmarks.frame", *call], environment))


def run_process(
    command: Sequence[object],
    environment: Mapping[str, str],
    folder: Path | None = None,
    log: Path | None = None,
    timeout: float | None = None,
) -> str:
    """The stdout of a command that runs in `folder`.

    Raises UserError with the last line of its stderr where it fails; all of stderr is then in the
    file `log`.
    """
    words = [str(word) for word in command]
    name = " ".join(words[1:])[:200]
    try:
        ended = subprocess.run(
            words,
            env=os.environ | environment,
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise UserError(f"{words[0]} {name} cannot be run: {error}") from None
    if ended.returncode:
        if log is not None:
            log.write_text(ended.stderr, encoding="utf-8")
        last = (ended.stderr.strip() or f"exit code {ended.returncode}").splitlines()[-1]
        raise UserError(f"{name} failed{f' (see {log})' if log else ''}: {last}")
    return ended.stdout


def read_json(output: str) -> Any:
    """The last line of a process's stdout as JSON; raises UserError where there is none."""
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise UserError("The process wrote no figures.") from None


def main() -> int:
    install_logging()
    module, name, arguments = sys.argv[1:]
    try:
        result = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
