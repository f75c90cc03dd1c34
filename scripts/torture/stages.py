"""Damaged stages: random bits flipped and random cuts in every file of corpus, tokenizer and ids that a training reads.

Each damage must be refused with the name of the folder to delete; the stages are then as they were.
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from small_run import small_corpus

from nmt.config.compose import compose_all
from nmt.data import dataset
from nmt.data.dataset import open_training_pairs
from nmt.errors import UserError
from nmt.runs.stages import build_stages

PAIRS, PAIRS_PER_SHARD = 3000, 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many damages."""
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Damage, use, repair; print a table and return 1 if a damage was not noticed."""
    chosen, noticed, missed = random.Random(options.seed), Counter[str](), Counter[str]()
    dataset.PAIRS_PER_SHARD = PAIRS_PER_SHARD
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as text:
        words = [*small_corpus(Path(text), PAIRS), "tokenizer.vocabulary_size=500", f"data_folder={folder}"]
        config = compose_all(words, multirun=False)[0]
        build_stages(config)
        paths = [path for path in sorted(Path(folder).glob("*-*/*")) if not path.match("corpus-*/train.*")]
        for number in range(options.count):
            path = paths[number % len(paths)]
            content = path.read_bytes()
            path.write_bytes(damaged(content, chosen))
            name = f"{path.parent.name.partition('-')[0]}/{path.name}"
            try:
                build_stages(config)
                pairs = open_training_pairs(next(Path(folder).glob("ids-*")))
                for shard in range(pairs.shard_count):
                    pairs.shard(shard)
                missed[name] += 1
            except UserError as error:
                (noticed if f"delete the folder {path.parent}" in str(error) else missed)[name] += 1
            path.write_bytes(content)
    print("| file | noticed | missed |\n| --- | ---: | ---: |")
    for name in sorted({*noticed, *missed}):
        print(f"| {name} | {noticed[name]} | {missed[name]} |")
    print(f"| together | {noticed.total()} | {missed.total()} |")
    return int(missed.total() > 0)


def damaged(content: bytes, chosen: random.Random) -> bytes:
    """The content with one flipped bit, or cut short."""
    position = chosen.randrange(len(content))
    if chosen.random() < 0.3:
        return content[: min(position, len(content) - 2)]
    flipped = bytearray(content)
    flipped[position] ^= 1 << chosen.randrange(8)
    return bytes(flipped)
