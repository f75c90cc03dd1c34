"""Flipped bits in the files of a run: each must be noticed by the command that reads the file, and by nmt verify."""

import argparse
import json
import logging
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from small_run import train_small_run

from nmt import cli
from nmt.commands.verify import check_files
from nmt.errors import UserError
from nmt.runs.results import damaged_files, read_json, read_result
from nmt.training import checkpoint


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --count and --seed."""
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="flips (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")


def run(options: argparse.Namespace) -> int:
    """Flip one random bit at a time and read the file; prints a table, returns 1 if a flip was not noticed."""
    random, flips, read, verified = Random(options.seed), Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as root:
        folder = train_small_run(Path(root))
        cli.main(["export", str(folder), "--format", "ctranslate2"])  # a sentence where ctranslate2 is missing
        logging.getLogger("nmt").setLevel(logging.ERROR)  # each flip is warned of
        names = [name for name, _ in check_files(folder)]
        provenance = json.loads((folder / "evaluate" / "test" / "result.json").read_text())["provenance"]
        for _ in range(options.count):
            name = random.choice(names)
            kind = kind_of(Path(name))
            content = (folder / name).read_bytes()
            damaged = bytearray(content)
            bit = random.randrange(8 * len(content))
            damaged[bit // 8] ^= 1 << bit % 8
            (folder / name).write_bytes(damaged)
            flips[kind] += 1
            read[kind] += is_noticed(folder, name, provenance)
            verified[kind] += not dict(check_files(folder))[name]
            (folder / name).write_bytes(content)
    print(f"{'file':<20}{'flips':>8}{'noticed when read':>20}{'by nmt verify':>16}")
    for kind in [*sorted(flips), "all"]:
        counts = [each.total() if kind == "all" else each[kind] for each in (flips, read, verified)]
        print(f"{kind:<20}{counts[0]:>8}{counts[1]:>20}{counts[2]:>16}")
    return int(not flips.total() == read.total() == verified.total())


def kind_of(path: Path) -> str:
    """The row of a file in the table."""
    if path.parts[0] == "export":
        return "export"
    return path.name if path.parts[0] == "evaluate" else path.stem.partition("-")[0]


def is_noticed(folder: Path, name: str, provenance: dict) -> bool:
    """Whether what reads this file notices that it is damaged."""
    path = folder / name
    if path.suffix == ".safetensors":
        try:
            checkpoint.load(path)
        except checkpoint.DamagedCheckpoint as error:
            return str(path) in str(error)
        except UserError:
            return False
        return False
    if path.name in ("tensorboard.json", "compositional_gap.json"):
        return read_json(path) is None
    if name.startswith("export"):
        return path.name in damaged_files(path.parent)
    return read_result(path.parent, provenance) is None
