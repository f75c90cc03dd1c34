"""SIGKILL at random instants of every stage; the same command, given again, ends with the bits of a
run without kills.

python scripts/torture.py kills [--count N] [--seed S] [--folder DIR]

A chain is one training, from the download to the scores, that is killed again and again: the
program marks where each stage begins and ends, and a random time after the wanted mark it is
killed. At the end of a chain all checkpoints, hypotheses, scores, printed lines and TensorBoard
curves are compared with those of a training without kills, and nothing temporary may be left. The
first chain that fails is the last. A kill counts for the innermost stage that was open when it
came.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, product
from pathlib import Path

from killed_training import (
    MODELS,
    STAGES,
    TRAINING,
    Kill,
    Outcome,
    differences,
    folders,
    model_words,
    prepare,
    serve_downloads,
    train,
)

# of these stages, the one to kill in is drawn
OCCURRENCES = {"training": 3, "validation": 1, "save": 3, "download": 4}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--count", type=int, default=100, metavar="N", help="kills at least (default 100)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the instants")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the runs are (default: a temporary folder, deleted at the end)",
    )


def run(options: argparse.Namespace) -> int:
    """Kill, compare, print a table; 1 if a chain ended otherwise than a training without kills."""
    prepare()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        serve_downloads(folder / "server")
        generator = random.Random(options.seed)
        kills = Counter[tuple[str, str]]()
        failures: list[str] = []
        references: dict[tuple[str, str], tuple[Path, Outcome]] = {}
        begun = time.monotonic()
        for number, (pruned, model) in enumerate(cycle(product(("true", "false"), MODELS))):
            if kills.total() >= options.count or failures:
                break
            words = [*TRAINING.split(), *model_words(model), f"train.prune_checkpoints={pruned}"]
            if (model, pruned) not in references:
                root = folder / f"reference-{model}-{pruned}"
                references[model, pruned] = root, train([*words, *folders(root)], root)
            found, stages = chain(
                words, folder / f"chain-{number}", references[model, pruned], generator
            )
            kills.update((model, stage) for stage in stages)
            failures += [
                f"chain {number}, {model}, prune_checkpoints={pruned}: {text}" for text in found
            ]
            print(
                f"chain {number}: {model}, {len(stages)} kills, {'FAILED' if found else 'same'}",
                file=sys.stderr,
            )
        print(table(kills))
        print(
            f"{kills.total()} kills in {number} chains, {time.monotonic() - begun:.0f} s; "
            f"failures: {len(failures)}"
        )
        print("\n".join(failures))
    return 1 if failures else 0


def chain(
    words: list[str], root: Path, reference: tuple[Path, Outcome], generator: random.Random
) -> tuple[list[str], list[str]]:
    """Kill a training in each stage once or twice, let it end; what differs from the reference, and
    the stages hit."""
    expected_root, expected = reference
    command = [*words, *folders(root)]
    stages = []
    if expected.code != 0:
        return [f"the training without kills failed: {expected.err[-500:]}"], []
    for stage in STAGES:
        for _ in range(generator.choice((1, 1, 2))):
            occurrence = generator.randint(1, OCCURRENCES.get(stage, 1))
            delay = generator.random() ** 2 * expected.durations.get(stage, 0.1)
            outcome = train(command, root, Kill(stage, occurrence, delay))
            if outcome.killed_in is not None:
                stages.append(outcome.killed_in)
            elif outcome.code != 0:
                return [f"after a kill: exit code {outcome.code}, {outcome.err[-500:]}"], stages
            else:  # it has ended before
                break
    last = train(command, root)
    if last.code != 0 or last.out != expected.out:
        return [
            f"the end: exit code {last.code}, {last.out!r} instead of {expected.out!r}, "
            f"{last.err[-500:]}"
        ], stages
    return differences(root / "runs" / "killed", expected_root / "runs" / "killed"), stages


def table(kills: Counter[tuple[str, str]]) -> str:
    lines = [["stage", *MODELS, "all"]]
    for stage in STAGES:
        numbers = [kills[model, stage] for model in MODELS]
        lines.append([stage, *map(str, numbers), str(sum(numbers))])
    return "\n".join("  ".join(cell.rjust(16) for cell in line) for line in lines)
