"""Faults planted in a copy of a corpus: which of them the corpus stage warns about, and where they begin.

The corpus itself must have no warning. A fault that is large enough to be promised (docs/design/reliability.md) and
is missed is a failure, smaller ones are only reported.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from nmt.data.checks import Finding, PairChecks
from nmt.data.parallel_text import find_file, read_pairs

Sides = tuple[list[str], list[str]]
Case = tuple[str, Sides, int, str, bool]  # name, pairs, the first faulty pair from 1, a word of the warning, promised
TOLERANCE = 50  # lines between the beginning of a fault and the line that is named


def add_options(parser: argparse.ArgumentParser) -> None:
    """The corpus that is copied."""
    parser.add_argument("--train", required=True, help="PREFIX of some 10,000 pairs or more")
    parser.add_argument("--valid", required=True, help="PREFIX")
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Plant the faults and print a table; 1 if a promised fault is missed or the corpus itself has a warning."""
    train, valid = (read(prefix, options) for prefix in (options.train, options.valid))
    if findings := find(train, valid):
        print("The corpus itself:", *(finding.text for finding in findings), sep="\n  ")
        return 1
    failures = 0
    print("| planted | first line | named | found |\n| --- | ---: | ---: | --- |")
    for name, sides, first, word, promised in cases(train, random.Random(options.seed)):
        found = [finding for finding in find(sides, valid) if word in finding.text]
        located = bool(found) and (abs(found[0].number - first) <= TOLERANCE or not promised)
        failures += promised and not located
        verdict = "yes" if located else "NO" if promised else "no (not promised)"
        print(f"| {name} | {first:,} | {found[0].number if found else ''} | {verdict} |", flush=True)
    return int(failures > 0)


def read(prefix: str, options: argparse.Namespace) -> Sides:
    """Both sides of PREFIX."""
    files: list[Path] = [find_file(prefix, language) for language in (options.source, options.target)]
    source, target = zip(*read_pairs(*files), strict=True)
    return list(source), list(target)


def find(sides: Sides, valid: Sides) -> list[Finding]:
    """The warnings about training pairs."""
    held_out = PairChecks()
    for pair in zip(*valid, strict=True):
        held_out.add(*pair)
    held_out.finish()
    checks = PairChecks(held_out)
    for pair in zip(*sides, strict=True):
        checks.add(*pair)
    return checks.finish()


def cases(train: Sides, chosen: random.Random) -> Iterator[Case]:
    """Every fault that is planted."""
    source, target = train
    count = len(source)
    for at in (0, 1, count // 9, count // 2, count - 4000, count - 1000, count - 200):
        for lost in (1, 3):
            kept = target[:at] + target[at + lost :]
            promised = count - at >= 1000
            yield f"the target loses {lost} of its lines", (source[: len(kept)], kept), at + 1, "belong", promised
        longer = [*source[:at], source[0], *source[at:]][:count]
        yield "the source has one line more", (longer, target), at + 1, "belong", count - at >= 1000
    for size in (200, 500, 1000, 5000):
        at = count // 3
        moved = [*target[:at], *target[at + 1 : at + size], target[at], *target[at + size :]]
        yield f"{size} lines are shifted by one", (source, moved), at + 1, "belong", size >= 1000
        part = target[at : at + size]
        chosen.shuffle(part)
        shuffled = (source, [*target[:at], *part, *target[at + size :]])
        yield f"{size} lines are shuffled", shuffled, at + 1, "belong", size >= 1000
    yield "columns are swapped", (target, source), 1, "swapped", True
    for rate in (0.001, 0.01, 0.1):
        yield from at_random(train, rate, chosen)


def at_random(train: Sides, rate: float, chosen: random.Random) -> Iterator[Case]:
    """Faults of single lines, at a rate."""
    source, target = train
    lines = sorted(chosen.sample(range(len(source)), round(rate * len(source))))
    first = lines[0] + 1
    swapped = exchanged(source, target, lines), exchanged(target, source, lines)
    yield f"swapped, {rate:.1%} of lines", swapped, first, "swapped", rate >= 0.01
    faults = {
        "mojibake": (lambda text: "ü ".encode().decode("cp1252") + text, "encoding"),
        "&amp;amp;": (lambda text: "&amp;amp; " + text, "entities"),
        "NUL": (lambda text: text + "\0", "control"),
    }
    for name, (plant, word) in faults.items():
        faulty = exchanged(target, [plant(text) for text in target], lines)
        yield f"{name}, {rate:.1%} of lines", (source, faulty), first, word, name == "NUL" or rate >= 0.01


def exchanged(texts: list[str], others: list[str], lines: list[int]) -> list[str]:
    """The texts, but the others' at some lines."""
    chosen = set(lines)
    return [others[line] if line in chosen else text for line, text in enumerate(texts)]
