"""Corpora of any size, invented: as ids in the format of nmt/data/dataset.py, or as text of the phrasebook's sentences."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy
import pyarrow
from pyarrow import ipc

from nmt.data.dataset import ROWS, SCHEMA
from nmt.data.lines import LineWriter
from nmt.data.phrasebook.draw import Grammar, draws

SPECIALS = 4
POOL = 1 << 22  # ids drawn from Zipf's law; a record batch takes a stretch of them
LONGEST = 250
DRAWN = 10_000  # distinct sentences that larger text corpora are joined from


def write_ids(path: Path, pairs: int, vocabulary: int) -> None:
    """Write `pairs` pairs of Zipf-distributed ids below `vocabulary`; sources have a median of 17 pieces, mean 20."""
    random = numpy.random.default_rng((pairs, vocabulary))
    share = 1 / (numpy.arange(vocabulary - SPECIALS) + 2.7)
    pool = random.choice(vocabulary - SPECIALS, POOL, p=share / share.sum()).astype(numpy.int32) + SPECIALS
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with ipc.new_file(str(part), SCHEMA) as writer:
        for start in range(0, pairs, ROWS):
            rows = min(ROWS, pairs - start)
            lengths = random.lognormal(numpy.log(17), 0.6, rows)
            source = ids(lengths, pool, random)
            target = ids(lengths * random.lognormal(0, 0.2, rows), pool, random)
            text = pyarrow.array([""] * rows)  # only subword sampling would read it
            line = pyarrow.array(numpy.arange(start + 1, start + rows + 1))
            writer.write_batch(pyarrow.record_batch([source, target, text, text, line], schema=SCHEMA))
    part.rename(path)


def ids(lengths: numpy.ndarray, pool: numpy.ndarray, random: numpy.random.Generator) -> pyarrow.ListArray:
    """A column of sentences of about these lengths."""
    whole = lengths.clip(1, LONGEST).astype(numpy.int32)
    offsets = numpy.concatenate(([0], numpy.cumsum(whole))).astype(numpy.int32)
    place = int(random.integers(0, len(pool)))
    return pyarrow.ListArray.from_arrays(offsets, numpy.resize(numpy.roll(pool, -place), offsets[-1]))


def write_text(prefix: Path, pairs: int) -> None:
    """Write PREFIX.de and PREFIX.en: each line two sentences drawn by the phrasebook's rules, joined at random."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    writers = [LineWriter(prefix.with_suffix(f".{language}")) for language in ("de", "en")]
    for pair in joined(pairs):
        for writer, sentence in zip(writers, pair, strict=True):
            writer.write(sentence)
    for writer in writers:
        writer.close()


def joined(pairs: int) -> Iterator[tuple[str, str]]:
    """Pairs of sentences, almost all distinct."""
    drawn = [(pair.german, pair.english) for pair in islice(draws(Grammar(), 1), DRAWN)]
    random = numpy.random.default_rng(pairs)
    for start in range(0, pairs, ROWS):
        for one, other in random.integers(0, DRAWN, (min(ROWS, pairs - start), 2)).tolist():
            yield f"{drawn[one][0]} {drawn[other][0]}", f"{drawn[one][1]} {drawn[other][1]}"
