"""nmt list and nmt info: which runs there are, and what is known about one."""

import argparse
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from nmt.commands import print_table
from nmt.corpus.checksums import read_json
from nmt.errors import UserError
from nmt.evaluate.estimate import read_estimator
from nmt.evaluate.metrics import few_lines, scores_in
from nmt.evaluate.verdict import read_verdict
from nmt.runs.folders import find_checkpoint, read_config, trained_runs
from nmt.runs.versions import (
    current_folder,
    current_number,
    read_record,
    version_folder,
    version_name,
    version_numbers,
    version_of,
)
from nmt.view.text import visible

log = logging.getLogger("nmt")
COLUMNS = ("run", "date", "languages", "model", "scores", "MB", "fit for")


def run(options: argparse.Namespace) -> int:
    """Print a line for each run, the newest last, or KEY<TAB>VALUE lines about one."""
    if options.command == "info":
        for key, value in describe(find_checkpoint(options.name, Path(options.runs))):
            print(f"{key}\t{visible(str(value))}")
        return 0
    rows = []
    for folder in trained_runs(Path(options.runs)):
        try:
            rows.append(row_of(folder))
        except FileNotFoundError:  # somebody deletes the run meanwhile
            continue
        except UserError as error:
            log.warning("%s is not listed: %s", folder.name, error)
    print_table(COLUMNS, rows)
    return 0


def row_of(run_folder: Path) -> list[str]:
    """The cells of a run, with the scores of its current version."""
    folder = current_folder(run_folder)
    config = read_config(folder)
    languages = kind = ""
    try:
        languages = f"{config['data']['source']}-{config['data']['target']}"
        kind = str(config["model"]["kind"])
    except KeyError:
        path = folder / "config.yaml"
        log.warning("%s %s.", path, "cannot be read" if path.is_file() else "is missing")
    first = next(iter(scores_of(folder)), "")
    size = 0
    for file in run_folder.rglob("*"):
        with suppress(FileNotFoundError):  # a training replaces its files
            size += file.stat().st_size if file.is_file() else 0
    verdict = read_verdict(folder)
    return [
        version_name(folder),
        f"{date_of(folder / 'best.safetensors'):%Y-%m-%d %H:%M}",
        languages,
        kind,
        first,
        f"{size / 1e6:.0f}",
        verdict.level.short if verdict else "",
    ]


def date_of(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime)


def scores_of(folder: Path) -> Iterator[str]:
    """SET: METRIC VALUE, … of each test set, `test` first; of small sets with their size."""
    paths = folder.glob("evaluate/*/result.json")
    for path in sorted(paths, key=lambda path: (path.parent.name != "test", path)):
        result = read_json(path) or {}
        values = []
        for _, metric, value, _ in scores_in(result):
            values.append(f"{metric.label} {value:.{metric.digits}f}")
        if values:
            yield f"{path.parent.name}{few_lines(result)}: {', '.join(values)}"


def describe(path: Path) -> Iterator[tuple[str, Any]]:
    """What the checkpoint and the files beside it tell."""
    from nmt.training import checkpoint

    stored = checkpoint.load(path)
    config = stored["config"]
    folder = path.parent
    yield "run", folder
    yield "date", f"{date_of(path):%Y-%m-%d %H:%M}"
    yield "languages", f"{config['data']['source']}-{config['data']['target']}"
    yield "text", config["data"]["train"] or config["data"]["kind"]
    yield "model", ", ".join(f"{key} {value}" for key, value in config["model"].items())
    sizes = {weight.data_ptr(): weight.numel() for weight in stored["model"].values()}
    yield "parameters", f"{sum(sizes.values()):,}"
    yield "weights", stored.get("origin") or f"update {stored['train_state']['step']}"
    yield "seed", config["seed"]
    if parent := stored.get("parent"):
        yield "parent", parent
    for name, version in stored["versions"].items():
        yield f"trained with {name}", version
    for scores in scores_of(folder):
        yield "scores", scores
    if verdict := read_verdict(folder, [checkpoint.digest(stored)]):
        yield "fit for", verdict.sentence
    if estimator := read_estimator(folder, [checkpoint.digest(stored)], None):
        fitted = estimator.fitted
        yield "expected chrF", f"off by {fitted.error:.0f}, correlation {fitted.correlation:.2f}"
    for export in sorted(folder.glob("export/*/")):
        yield "export", export
    for version in describe_versions(version_of(folder)[0]):
        yield "version", version


def describe_versions(run_folder: Path) -> Iterator[str]:
    """Each version of a run with its decision and scores; nothing where there is one alone."""
    numbers = version_numbers(run_folder)
    current = current_number(run_folder)
    for number in numbers:
        folder = version_folder(run_folder, number)
        record = read_record(folder)
        words = [f"{number} (current)" if number == current else str(number)]
        if number == 1:
            words += scores_of(folder)
        elif record is None or "decision" not in record:
            words.append("unfinished")
        else:
            words[0] += f" from {record['base']}"
            words.append(record["sentence"])
            if "left" in record:
                words.append(f"left at {record['left']}")
        if len(numbers) > 1:
            yield "; ".join(words)
