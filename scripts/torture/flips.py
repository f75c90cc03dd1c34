"""Flipped bits: the reader of a file of a run must notice, and nmt verify; that of a stage must
name the folder."""

import argparse
import json
import logging
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from small_run import small_config, train_small_run

from nmt import cli
from nmt.commands.verify import check_files
from nmt.config.schema import Config
from nmt.corpus.checksums import damaged_files
from nmt.data import dataset
from nmt.errors import UserError
from nmt.runs.results import read_result
from nmt.runs.stages import build_stages
from nmt.training import checkpoint

PAIRS_PER_SHARD = 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--count", type=int, default=1000, metavar="N", help="flips (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N")


def run(options: argparse.Namespace) -> int:
    """Flip one random bit at a time and read the file; prints a table, returns 1 if a flip was not
    noticed."""
    random = Random(options.seed)
    flips = Counter[str]()
    read = Counter[str]()
    verified = Counter[str]()
    dataset.PAIRS_PER_SHARD = PAIRS_PER_SHARD
    with tempfile.TemporaryDirectory() as root:
        folder = train_small_run(Path(root))
        config = small_config(Path(root))
        # a sentence where ctranslate2 is missing
        cli.main(["export", str(folder), "--format", "ctranslate2"])
        logging.getLogger("nmt").setLevel(logging.ERROR)  # each flip is warned of
        of_run = [folder / name for name, _ in check_files(folder)]
        of_stages = [
            path
            for path in sorted(Path(root).glob("data/*-*/*"))
            if not path.match("corpus-*/train.*")
        ]
        provenance = json.loads((folder / "evaluate" / "test" / "result.json").read_text())[
            "provenance"
        ]
        for number in range(options.count):
            path = random.choice(of_stages if number % 3 == 0 else of_run)
            content = path.read_bytes()
            damaged = bytearray(content)
            bit = random.randrange(8 * len(content))
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            kind = kind_of(path.relative_to(root))
            flips[kind] += 1
            if path in of_stages:
                found = stage_is_refused(config, path)
                verified[kind] += found  # nmt verify is about runs
            else:
                found = is_noticed(folder, path, provenance)
                verified[kind] += not dict(check_files(folder))[str(path.relative_to(folder))]
            read[kind] += found
            path.write_bytes(content)
    print(f"{'file':<20}{'flips':>8}{'noticed when read':>20}{'by nmt verify':>16}")
    for kind in [*sorted(flips), "all"]:
        counts = [each.total() if kind == "all" else each[kind] for each in (flips, read, verified)]
        print(f"{kind:<20}{counts[0]:>8}{counts[1]:>20}{counts[2]:>16}")
    return int(not flips.total() == read.total() == verified.total())


def kind_of(path: Path) -> str:
    """The row in the table of data/STAGE-…/FILE or runs/NAME/…."""
    if path.parts[0] == "data":
        return path.parts[1].partition("-")[0]
    if path.parts[2] in ("export", "evaluate"):
        return "export" if path.parts[2] == "export" else path.name
    return path.stem.partition("-")[0]


def stage_is_refused(config: Config, path: Path) -> bool:
    """Whether a training refuses the stages and names the folder of this file."""
    try:
        ids = build_stages(config).ids
        pairs = dataset.open_training_pairs(ids)
        for number in range(pairs.shard_count):
            pairs.shard(number)
        return False
    except UserError as error:
        return f"delete the folder {path.parent}" in str(error)


def is_noticed(folder: Path, path: Path, provenance: dict) -> bool:
    """Whether what reads this file of a run notices that it is damaged."""
    if path.suffix == ".safetensors":
        try:
            checkpoint.load(path)
        except checkpoint.DamagedCheckpoint as error:
            return str(path) in str(error)
        except UserError:
            return False
        return False
    if path.is_relative_to(folder / "export"):
        return path.name in damaged_files(path.parent)
    return read_result(path.parent, provenance) is None
