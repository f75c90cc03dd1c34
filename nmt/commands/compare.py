"""nmt compare: tables over several runs, with confidence intervals and significance."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from nmt.commands import check_given
from nmt.commands.evaluate import NEEDS, NOT_WITH, chosen_sets
from nmt.corpus.files import report_write_errors
from nmt.corpus.words import count_words
from nmt.errors import UserError
from nmt.evaluate.significance import check_samples
from nmt.runs.comparison import compare_runs, write_report
from nmt.runs.folders import find_checkpoints
from nmt.runs.results import check_writable
from nmt.runs.run import Run, load
from nmt.runs.scoring import TestSet, corpus_hashes, write_set

log = logging.getLogger("nmt")
SHORT = range(6, 13)  # words of a source sentence whose heatmap is neither trivial nor large


def run(options: argparse.Namespace) -> int:
    """Compare runs; the tables go to stdout as Markdown, the whole report to --output."""
    check_given(options, NEEDS, NOT_WITH)
    check_samples(options.samples)
    runs = open_runs(options.names, Path(options.runs), options.beam)
    output = Path(options.output)
    name, first = next(iter(runs.items()))
    for other, run in runs.items():
        if not options.source and corpus_hashes(run) != corpus_hashes(first):
            raise UserError(
                f"{other} was trained on another corpus than {name}; give --source and --reference."
            )
    sets = chosen_sets(options, name, first)
    rows = rows_to_draw(sets[0], options.sentences)
    if (output / "config.yaml").exists():
        raise UserError(f"--output {output} is a run; name another folder.")
    with report_write_errors(output):
        check_writable(output)
    for test_set in sets.copy():
        sets += joined_sets(test_set, options.long, output / "joined")
    comparisons, examples = compare_runs(runs, sets, options.metrics, options.samples, rows)
    sys.stdout.write(write_report(runs, comparisons, examples, output))
    log.info("%s", output / "comparison.html")
    return 0


def open_runs(names: Sequence[str], folder: Path, beam: int | None) -> dict[str, Run]:
    """The runs and ensembles by the names that tables have.

    Raises UserError unless all translate one language pair.
    """
    runs: dict[str, Run] = {}
    for given in names:
        run = load(find_checkpoints(given, folder), beam)
        checkpoints = [model["checkpoint"] for model in run.provenance["models"]]
        name = "+".join(path.removesuffix("/best.safetensors") for path in checkpoints)
        if name in runs and run.folder.resolve() == runs[name].folder.resolve():
            raise UserError(f"The run {name} is given twice; name each run once.")
        runs[given if name in runs else name] = run
    languages = set()
    described = []
    for name, run in runs.items():
        pair = f"{run.config.data.source}-{run.config.data.target}"
        languages.add(pair)
        described.append(f"{name} translates {pair}")
    if len(languages) > 1:
        raise UserError(f"Only runs of the same languages can be compared: {', '.join(described)}.")
    return runs


def rows_to_draw(test_set: TestSet, sentences: str | None) -> list[int]:
    """The rows, from 0, of --sentences N,N, by default three short ones; raises UserError."""
    rows = []
    for row, (source, target) in enumerate(test_set.pairs):
        if source.strip() and target.strip():
            rows.append(row)
    if sentences is None:
        return [row for row in rows if count_words(test_set.pairs[row][0]) in SHORT][:3]
    chosen = []
    for word in sentences.split(","):
        row = int(word) - 1 if word.isdecimal() else -1
        if row not in rows:
            raise UserError(
                f"--sentences {sentences} is not possible; {test_set.name} has lines 1 to "
                f"{len(test_set.pairs)}, and none may be blank."
            )
        chosen.append(row)
    return list(dict.fromkeys(chosen))


def joined_sets(test_set: TestSet, most: int | None, folder: Path) -> list[TestSet]:
    """The set with 2, 3, … `most` sentences joined into one input; a remainder is left out."""
    sets = []
    pairs = test_set.pairs
    if most is not None and len(test_set.references) > 1:
        raise UserError("--long takes one --reference: a set of joined sentences has one alone.")
    if most is not None and not 2 <= most <= len(pairs):
        raise UserError(
            f"--long {most} is not possible with {test_set.name}; choose 2 to {len(pairs)}."
        )
    for count in range(2, (most or 1) + 1):
        joined = []
        for start in range(0, len(pairs) - count + 1, count):
            sources, targets = zip(*pairs[start : start + count], strict=True)
            joined.append((" ".join(sources), " ".join(targets)))
        sets.append(write_set(f"{test_set.name}-joined{count}", folder, joined))
    return sets
