"""Corpora for measurements: a real one with held-out lines, and synthetic ones of any size, as ids
or as text."""

import argparse
import os
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
from pyarrow import ipc

from benchmarks.machine import ROOT
from nmt.corpus.files import open_atomic
from nmt.corpus.parallel_text import read_pairs
from nmt.corpus.phrasebook import phrasebook_folder
from nmt.data.dataset import SCHEMA, LengthRuns, Sentences, length_runs
from nmt.data.tokenizer import EOS
from nmt.errors import UserError

MULTI30K = ROOT.parent / "shared" / "data" / "multi30k"
TRAIN, HELD_OUT = 29_000, 500  # lines
ROWS = 50_000  # pairs in a record batch
# pieces of a source sentence: about the mean of WMT; of any sentence
MEAN_PIECES = 25
LONGEST = 250
POOL = 1 << 22  # at most so many ids are drawn; a record batch takes consecutive ones
DISTINCT = 10_000  # sentences that synthetic text is joined from
NO_PLACEHOLDERS = SimpleNamespace(placeholder_ids=[])
# of random ids
NO_TOKENIZERS: Any = SimpleNamespace(protects=False, source=NO_PLACEHOLDERS, target=NO_PLACEHOLDERS)


def add_corpus_options(parser: argparse.ArgumentParser) -> None:
    """--source and --target: two files of parallel lines, plain or .gz."""
    for side in ("source", "target"):
        default = os.environ.get(f"BENCH_{side.upper()}") or None
        parser.add_argument(f"--{side}", type=Path, default=default, help="of the real corpus")


def real_corpus(source: Path | None, target: Path | None, folder: Path) -> tuple[str, list[str]]:
    """Name and overrides of the real corpus (Multi30k of ../shared where none is named), its last
    lines held out.

    The sets are written into `folder`. Raises UserError where the files do not exist or are too
    short.
    """
    if bool(source) != bool(target):
        raise UserError("--source and --target belong together.")
    source = source or MULTI30K / "train.de.gz"
    target = target or MULTI30K / "train.en.gz"
    if not (source.exists() and target.exists()):
        raise UserError(
            f"The real corpus does not exist: {source}, {target}; give --source FILE --target FILE."
        )
    pairs = list(read_pairs(source, target))
    if len(pairs) < 2 * HELD_OUT:
        raise UserError(
            f"{source} has {len(pairs)} lines; a benchmark needs {2 * HELD_OUT} at least."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in {"train": pairs[:-HELD_OUT][:TRAIN], "valid": pairs[-HELD_OUT:]}.items():
        for number, side in enumerate(("source", "target")):
            lines = "".join(f"{pair[number]}\n" for pair in some)
            (folder / f"{name}.{side}").write_text(lines, encoding="utf-8")
    sides = ["data.source=source", "data.target=target", "data.test=null"]
    overrides = [
        "data=files",
        *sides,
        f"data.train={folder / 'train'}",
        f"data.valid={folder / 'valid'}",
    ]
    return f"{source.parent.name}/{source.name}", overrides


class RandomPairs:
    """Pairs of random ids with the lengths of WMT sentences: a single shard, of which only the
    lengths are kept.

    How much of a batch is padding depends on the size of the corpus: with 105,000 pairs it is 14 %,
    with WMT's 4.5 million 1 %. A sentence is a slice of one pool of Zipf-distributed ids.
    """

    shard_count = 1

    def __init__(self, number: int, vocabulary: int) -> None:
        random = np.random.default_rng((number, vocabulary))
        self.pool = id_pool(min(POOL, 100 * number + LONGEST), vocabulary, random)
        self.source_lengths, self.target_lengths = (
            lengths.clip(1, LONGEST).astype(np.int32)
            for lengths in random_lengths(number, MEAN_PIECES, random)
        )

    def __len__(self) -> int:
        return len(self.source_lengths)

    def shard(self, number: int) -> "RandomPairs":
        return self

    def length_runs(self, number: int) -> LengthRuns:
        return length_runs(self.source_lengths, self.target_lengths)

    def line(self, row: int) -> int:
        return row + 1

    def sentences(self, side: str, rows: np.ndarray) -> Sentences:
        """The ids of some sentences of "source" or "target"."""
        lengths = (self.source_lengths if side == "source" else self.target_lengths)[rows].astype(
            np.int64
        )
        starts = rows.astype(np.int64) * (7 if side == "source" else 11) - (
            np.cumsum(lengths) - lengths
        )
        return Sentences(
            self.pool[(np.repeat(starts, lengths) + np.arange(lengths.sum())) % len(self.pool)],
            lengths,
        )


def random_pairs(number: int, vocabulary: int) -> Any:
    """RandomPairs for what asks for a ParallelDataset or several."""
    return RandomPairs(number, vocabulary)


def id_pool(size: int, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    """Zipf-distributed ids below `vocabulary`, int32."""
    probabilities = 1 / (np.arange(vocabulary - EOS - 1) + 2.7)
    ids = random.choice(len(probabilities), size, p=probabilities / probabilities.sum())
    return ids.astype(np.int32) + EOS + 1


def random_lengths(
    rows: int, mean: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of sources, log-normally distributed, and of their targets, on average as long."""
    lengths = random.lognormal(np.log(mean) - 0.6**2 / 2, 0.6, rows)
    return lengths, lengths * random.lognormal(0, 0.2, rows)


def write_ids(path: Path, pairs: int, vocabulary: int, mean: float = 20.0) -> None:
    """Write pairs of Zipf-distributed ids below `vocabulary` in the format of nmt/data/dataset.py.

    Sources have `mean` pieces on average, log-normally distributed; targets are on average as long
    as their sources.
    """
    random = np.random.default_rng((pairs, vocabulary))
    pool = id_pool(min(POOL, 100 * pairs + LONGEST), vocabulary, random)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file, ipc.new_file(file, SCHEMA) as writer:
        for start in range(0, pairs, ROWS):
            rows = min(ROWS, pairs - start)
            source, target = (
                id_column(lengths, pool, random) for lengths in random_lengths(rows, mean, random)
            )
            text = pyarrow.array([""] * rows)  # only subword sampling would read it
            line = pyarrow.array(np.arange(start + 1, start + rows + 1))
            writer.write_batch(
                pyarrow.record_batch([source, target, text, text, line], schema=SCHEMA)
            )


def id_column(
    lengths: np.ndarray, pool: np.ndarray, random: np.random.Generator
) -> pyarrow.ListArray:
    pieces = lengths.clip(1, LONGEST).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(pieces))).astype(np.int32)
    start = int(random.integers(0, len(pool)))
    return pyarrow.ListArray.from_arrays(offsets, np.resize(np.roll(pool, -start), offsets[-1]))


def write_text(prefix: Path, pairs: int) -> None:
    """Write PREFIX.de and PREFIX.en: each line two sentences of the phrasebook, joined at
    random."""
    drawn = list(
        islice(
            read_pairs(phrasebook_folder() / "train.de.bz2", phrasebook_folder() / "train.en.bz2"),
            DISTINCT,
        )
    )
    joined = np.random.default_rng(pairs).integers(0, DISTINCT, (pairs, 2))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(("de", "en")):
        with open(prefix.with_suffix(f".{language}"), "w", encoding="utf-8") as file:
            file.writelines(
                f"{drawn[first][side]} {drawn[second][side]}\n" for first, second in joined
            )
