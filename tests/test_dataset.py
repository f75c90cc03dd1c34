"""The ids: what is read back is what the tokenizer encodes, across record batches, and pairs are
left out as pairs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import write_pairs

from nmt.config.schema import TokenizerConfig
from nmt.corpus.checksums import write_manifest
from nmt.corpus.inspect.lines import mix
from nmt.data import dataset, train_tokenizer, write_ids
from nmt.data.batches import length_runs
from nmt.data.dataset import (
    ParallelDataset,
    longest_sides,
    number_of_shards,
    open_training_pairs,
    read_length_runs,
    shard_paths,
)
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are not forked here")
NUMBERS = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four"), ("fünf", "five")]
PAIRS = [(f"Nummer {a} und {b}", f"number {c} and {d}") for a, c in NUMBERS for b, d in NUMBERS]


@pytest.fixture
def tokenizers(tmp_path: Path) -> Tokenizers:
    files = write_pairs(tmp_path, "words", PAIRS)
    config = TokenizerConfig("unigram", 280, False, True, 1.0, False, 256)
    train_tokenizer.train_tokenizers(config, *files, tmp_path)
    return Tokenizers.load(tmp_path)


@pytest.fixture
def write_sets(tokenizers: Tokenizers, tmp_path: Path) -> Callable[..., None]:
    """write_sets(PAIRS, NAME …) writes the ids of sets of these pairs."""

    def write_some(
        pairs: list[tuple[str, str]], *names: str, most: int = 256, shards: int = 1
    ) -> None:
        for name in names:
            write_pairs(tmp_path, name, pairs)
        write_ids.write_datasets(tokenizers, tmp_path, "de", "en", names, most, tmp_path, shards)

    return write_some


def lines_of(pairs: ParallelDataset) -> list[int]:
    return [pairs.line(index) for index in range(len(pairs))]


@pytest.mark.parametrize("mapped", [0, 1 << 29])  # bytes: every file is larger than 0
@pytest.mark.parametrize("rows", [7, 1000])
def test_reads_back_what_was_written(tmp_path, tokenizers, write_sets, rows, mapped, monkeypatch):
    monkeypatch.setattr(write_ids, "ROWS", rows)
    monkeypatch.setattr(dataset, "MAX_MAPPED_BYTES", mapped)
    write_sets(PAIRS, "train")
    pairs = ParallelDataset(tmp_path / "train.arrow")
    assert lines_of(pairs) == list(range(1, 26))
    assert [pairs.texts(index) for index in range(25)] == PAIRS
    some = np.array([24, 3, 9, 0, 3, *range(25)])
    longest = []
    for number, side in enumerate(("source", "target")):
        ids = [tokenizers[number].encode(PAIRS[index][number]) for index in some]
        found = pairs.sentences(side, some)
        assert [each.tolist() for each in found.rows()] == ids
        assert pairs.lengths(side).tolist() == list(map(len, ids[5:]))
        longest.append(max(map(len, ids)))
    assert longest_sides(pairs) == tuple(longest)


@pytest.mark.parametrize("rows", [2, 1000])
def test_pairs_are_left_out_as_pairs(tmp_path, tokenizers, write_sets, rows, monkeypatch):
    monkeypatch.setattr(write_ids, "ROWS", rows)
    sizes = [len(tokenizers.source.encode(source)) for source, _ in PAIRS]
    most = max(sizes)
    longest = PAIRS[sizes.index(most)]
    long = "Nummer " * (most + 1)
    left_out = [(long, "number"), ("Nummer", " "), ("", "number"), ("Nummer", long)]
    mixed = [PAIRS[0], left_out[0], longest, *left_out[1:], PAIRS[2]]
    write_sets(mixed, "train", "valid", most=most)
    assert lines_of(ParallelDataset(tmp_path / "train.arrow")) == [1, 3, 7]
    # a validation pair is never too long
    assert lines_of(ParallelDataset(tmp_path / "valid.arrow")) == [1, 2, 3, 6, 7]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["train"] == {"kept": 3, "too long": 2, "blank": 2}
    assert report["valid"] == {"kept": 5, "too long": 0, "blank": 2}


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([("", "number"), ("Nummer", " ")], "No pair of 'valid' is left with text on both sides"),
        ([PAIRS[0]], "No pair of 'train' is left with at most tokenizer.max_pieces=1 pieces"),
    ],
)
def test_a_set_without_a_pair_is_refused_with_the_reason(write_sets, pairs, reason):
    with pytest.raises(UserError, match=reason):
        write_sets(pairs, "train" if "train" in reason else "valid", most=1)


def test_shards_hold_every_pair_once_in_shards_that_its_line_gives(
    tmp_path, write_sets, monkeypatch
):
    """Their lengths are known before they are opened; a damaged one is refused when it is."""
    monkeypatch.setattr(write_ids, "ROWS", 7)
    monkeypatch.setattr(write_ids, "BLOCKS_PER_WRITE", 2)
    write_sets(PAIRS, "train", shards=3)
    write_manifest(tmp_path)
    pairs = open_training_pairs(tmp_path)
    assert (pairs.shard_count, len(pairs)) == (3, 25)
    lines = []
    for number in range(3):
        shard = pairs.shard(number)
        found = lines_of(shard)
        lines += found
        assert found == sorted(found)
        assert (mix(np.array(found)) % np.uint64(3) == number).all()
        assert [shard.texts(row) for row in range(len(shard))] == [
            PAIRS[line - 1] for line in found
        ]
        lengths = length_runs(shard.source_lengths, shard.target_lengths)
        assert all(map(np.array_equal, pairs.length_runs(number), lengths))
    assert sorted(lines) == list(range(1, 26))
    path = shard_paths(tmp_path, "train", 3)[1]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=path.name):
        open_training_pairs(tmp_path).shard(1)
    (tmp_path / "train-lengths.npy").write_bytes(b"x")
    with pytest.raises(UserError, match="train-lengths.npy cannot be read"):
        read_length_runs(tmp_path / "train-lengths.npy", 3)


def test_a_corpus_has_as_few_shards_as_hold_it(monkeypatch):
    monkeypatch.setattr(dataset, "PAIRS_PER_SHARD", 10)
    assert [number_of_shards(pairs) for pairs in (0, 1, 10, 11, 20, 21)] == [1, 1, 1, 2, 2, 3]


@LINUX
@pytest.mark.parametrize("damage", ["was killed", "line 1, is not UTF-8"])
def test_a_process_that_tokenizes_may_fail(tmp_path, tokenizers, damage, monkeypatch):
    monkeypatch.setattr(write_ids, "ROWS", 7)

    def encode_block(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    files = write_pairs(tmp_path, "train", PAIRS)
    if damage == "was killed":
        monkeypatch.setattr(write_ids, "encode_block", encode_block)
    else:
        files[1].write_bytes(b"\xff\n" * 25)
    blocks = write_ids.tokenized_blocks(tokenizers, files, None, processes=2)
    with pytest.raises(UserError, match=damage), contextlib.closing(blocks):
        list(blocks)


ORPHANS = """
import multiprocessing, os, signal, sys
from pathlib import Path
from nmt.data import write_ids
from nmt.data.tokenizer import Tokenizers
folder = Path(sys.argv[1])
write_ids.ROWS = 2
files = folder / "train.de", folder / "train.en"
blocks = write_ids.tokenized_blocks(Tokenizers.load(folder), files, None, processes=3)
next(blocks)
print(*[child.pid for child in multiprocessing.active_children()], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@LINUX
@pytest.mark.usefixtures("tokenizers")
def test_no_process_survives_a_parent_that_is_killed(tmp_path):
    write_pairs(tmp_path, "train", PAIRS * 40)
    command = [sys.executable, "-c", ORPHANS, tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    pids = [int(word) for word in ended.stdout.split()]
    assert ended.returncode == -signal.SIGKILL and len(pids) == 3
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process that tokenizes waits for ever"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_missing_or_broken_file(tmp_path):
    (tmp_path / "train.arrow").write_bytes(b"no arrow")
    for name in ("train", "valid"):
        with pytest.raises(UserError, match=f"{name}.arrow cannot be read"):
            ParallelDataset(tmp_path / f"{name}.arrow")
