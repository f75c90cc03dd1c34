"""Disks of many sizes that fill up, and run folders that go away in the middle of a training (needs
root, Linux).

python scripts/torture.py disk [--count N] [--seed S]

The run folder is on a disk of its own (tmpfs) of a random size; or, at a random instant, an empty
read-only disk is mounted over it, or it is renamed. The command must end with exit code 2 and one
sentence, and what was saved must still be there: set right, the same command ends with the bits of
an undisturbed training.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from killed_training import (
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

ENOUGH = "64m"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--count", type=int, default=30, metavar="N", help="disturbed trainings (default 30)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of sizes and instants")


def run(options: argparse.Namespace) -> int:
    """Disturb, compare, print a table; 1 if a command ended otherwise than with one sentence, or
    something was lost."""
    prepare()
    generator = random.Random(options.seed)
    outcomes = Counter[str]()
    failures = list[str]()
    words = [*TRAINING.split(), *model_words("transformer_tiny")]
    with tempfile.TemporaryDirectory() as temporary:
        serve_downloads(Path(temporary) / "server")
        reference = Path(temporary) / "reference"
        expected = train([*words, *folders(reference)], reference)
        for number in range(options.count):
            name, disturb = generator.choice(list(DISTURBANCES.items()))
            root = Path(temporary) / f"disturbed-{number}"
            command = [*words, *folders(root)]
            disk = root / "runs"
            disk.mkdir()
            try:
                outcome = disturb(command, root, disk, generator)
                outcomes[f"{name}: {'not reached' if outcome.code == 0 else 'refused'}"] += 1
                found = faults(outcome)
                last = train(command, root)
                if last.code != 0 or last.out != expected.out:
                    found.append(f"with enough room: exit code {last.code}, {last.err[-300:]}")
                else:
                    found += differences(disk / "killed", reference / "runs" / "killed")
            finally:
                while (
                    subprocess.run(
                        ["umount", str(disk)], capture_output=True, check=False
                    ).returncode
                    == 0
                ):
                    pass
            failures += [f"{number}, {name}: {text}" for text in found]
            print(f"{number}: {name}, {outcome.err.splitlines()[-1][-200:]}", file=sys.stderr)
    print("\n".join(f"{outcomes[name]:>5}  {name}" for name in sorted(outcomes)))
    print(f"failures: {len(failures)}", *failures, sep="\n")
    return 1 if failures else 0


def faults(outcome: Outcome) -> list[str]:
    if outcome.code == 0:
        return []
    sentences = [line for line in outcome.err.splitlines() if line.startswith("nmt: ")]
    if (
        outcome.code == 2
        and len(sentences) == 1
        and "Traceback" not in outcome.err
        and "enforce" not in outcome.err
    ):
        return []
    return [f"exit code {outcome.code}: {outcome.err[-600:]}"]


def mount(disk: Path, *options: str) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(disk)], check=True
    )


def fill(command: list[str], root: Path, disk: Path, generator: random.Random) -> Outcome:
    """Train on a small disk, which grows afterwards."""
    mount(disk, f"size={4 * generator.randint(1, 130)}k")
    outcome = train(command, root)
    subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", str(disk)], check=True)
    return outcome


def at_random_instant(generator: random.Random, act: Callable[[int], None]) -> Kill:
    """Do something at one of the updates, saves or validations."""
    stage = generator.choice(("training", "save", "validation"))
    return Kill(stage, generator.randint(1, 5), generator.random() * 0.02, act)


def cover(command: list[str], root: Path, disk: Path, generator: random.Random) -> Outcome:
    """An empty read-only disk is mounted over the runs, and unmounted afterwards."""
    outcome = train(command, root, at_random_instant(generator, lambda _: mount(disk, "ro")))
    subprocess.run(["umount", str(disk)], capture_output=True, check=False)
    return outcome


def rename(command: list[str], root: Path, disk: Path, generator: random.Random) -> Outcome:
    """The run folder is renamed, and renamed back afterwards."""
    away = disk / "away"

    def act(_: int) -> None:
        (disk / "killed").rename(away)

    outcome = train(command, root, at_random_instant(generator, act))
    if away.exists():
        away.rename(disk / "killed")
    return outcome


DISTURBANCES = {"disk full": fill, "read-only disk over it": cover, "renamed": rename}
