"""Random damage to everything that is read: each input is used or refused in a sentence, and none takes long."""

import argparse
import logging
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from types import FrameType

from fuzz_targets import TARGETS, Material, Target
from small_run import train_small_run

from nmt.errors import UserError

SECONDS = 20  # for one input, before it counts as endless; the machine may be busy
SHOWN = 3  # failures of a target that are shown


class Endless(BaseException):
    """An input took too long; no `except Exception` may swallow it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --count, --seed and --target."""
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="inputs in total (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--target", choices=[target.name for target in TARGETS], help="all of them on this one")


def run(options: argparse.Namespace) -> int:
    """Try all inputs; prints a table, returns 1 if any gave a traceback or took too long."""
    signal.signal(signal.SIGALRM, on_alarm)
    chosen = [target for target in TARGETS if options.target in (None, target.name)]
    total = sum(target.share for target in chosen)
    failures = 0
    with tempfile.TemporaryDirectory() as root:
        material = Material(train_small_run(Path(root)), Path(root))
        logging.getLogger("nmt").setLevel(logging.CRITICAL)
        print(
            f"{'target':<22}{'inputs':>9}{'used':>9}{'refused':>9}{'failed':>8}{'longest':>10}{'seconds':>9}",
            flush=True,
        )
        for target in chosen:
            failures += fuzz(target, material, round(options.count * target.share / total), options.seed)
    return int(failures > 0)


def fuzz(target: Target, material: Material, count: int, seed: int) -> int:
    """Try `count` inputs of one target and print its row; returns the number of failures."""
    random, prepared = Random(f"{seed} {target.name}"), target.prepare(material)
    used = refused = failed = 0
    longest, began = 0.0, time.monotonic()
    for number in range(count):
        given, start = prepared.make(random), time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            prepared.read(given)
            used += 1
        except UserError:
            refused += 1
        except (Exception, Endless):
            failed += 1
            if failed <= SHOWN:
                print(
                    f"{target.name}, input {number}: {given!r:.300}\n{traceback.format_exc(limit=-4)}", file=sys.stderr
                )
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        longest = max(longest, time.monotonic() - start)
    seconds = time.monotonic() - began
    row = f"{target.name:<22}{count:>9}{used:>9}{refused:>9}{failed:>8}{longest:>8.2f} s{seconds:>9.0f}"
    print(row, flush=True)
    return failed


def on_alarm(_number: int, _frame: FrameType | None) -> None:
    """Stop an input that takes too long."""
    raise Endless(f"longer than {SECONDS} s")
