"""The ids: what is read back is what the tokenizer encodes, across record batches, and pairs are
left out as pairs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

from nmt.config.schema import TokenizerConfig
from nmt.corpus.inspect.lines import mix
from nmt.data import dataset, train_tokenizer, write_ids
from nmt.data.batches import length_runs
from nmt.data.dataset import ParallelDataset, read_length_runs, shard_paths
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError

NUMBERS = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four"), ("fünf", "five")]
PAIRS = [(f"Nummer {a} und {b}", f"number {c} and {d}") for a, c in NUMBERS for b, d in NUMBERS]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("de", "en")):
        (folder / f"{name}.{language}").write_bytes(
            "".join(pair[side] + "\n" for pair in pairs).encode()
        )


@pytest.fixture
def tokenizers(tmp_path: Path) -> Tokenizers:
    write(tmp_path, "words", PAIRS)
    config = TokenizerConfig("unigram", 280, False, True, 1.0, False, 256)
    train_tokenizer.train_tokenizers(config, tmp_path / "words.de", tmp_path / "words.en", tmp_path)
    return Tokenizers.load(tmp_path)


@pytest.mark.parametrize("mapped", [0, 1 << 29])  # bytes: every file is larger than 0
@pytest.mark.parametrize("rows", [7, 1000])
def test_reads_back_what_was_written(
    tmp_path: Path, tokenizers: Tokenizers, rows: int, mapped: int, monkeypatch
) -> None:
    monkeypatch.setattr(write_ids, "ROWS", rows)
    monkeypatch.setattr(dataset, "MAX_MAPPED_BYTES", mapped)
    write(tmp_path, "train", PAIRS)
    write_ids.write_datasets(tokenizers, tmp_path, "de", "en", ["train"], 256, tmp_path)
    pairs = ParallelDataset(tmp_path / "train.arrow")
    assert len(pairs) == 25
    for index, texts in enumerate(PAIRS):
        assert pairs.source(index).tolist() == tokenizers.source.encode(texts[0])
        assert pairs.target(index).tolist() == tokenizers.target.encode(texts[1])
        assert pairs.texts(index) == texts and pairs.line(index) == index + 1
    assert pairs.source_lengths.tolist() == [len(pairs.source(index)) for index in range(25)]
    assert pairs.target_lengths.tolist() == [len(pairs.target(index)) for index in range(25)]
    some = numpy.array([24, 3, 9, 0, 3])
    for side, read in (("source", pairs.source), ("target", pairs.target)):
        ids, lengths = pairs.sentences(side, some)
        assert ids.tolist() == [piece for index in some for piece in read(index)]
        assert lengths.tolist() == [len(read(index)) for index in some]


@pytest.mark.parametrize("rows", [2, 1000])
def test_pairs_are_left_out_as_pairs(
    tmp_path: Path, tokenizers: Tokenizers, rows: int, monkeypatch
) -> None:
    monkeypatch.setattr(write_ids, "ROWS", rows)
    most = max(len(tokenizers.source.encode(source)) for source, _ in PAIRS)
    long = "Nummer " * (most + 1)
    mixed = [
        PAIRS[0],
        (long, "number"),
        PAIRS[1],
        ("Nummer", " "),
        ("", "number"),
        ("Nummer", long),
        PAIRS[2],
    ]
    for name in ("train", "valid"):
        write(tmp_path, name, mixed)
    write_ids.write_datasets(tokenizers, tmp_path, "de", "en", ["train", "valid"], most, tmp_path)
    train, valid = (ParallelDataset(tmp_path / f"{name}.arrow") for name in ("train", "valid"))
    assert [train.line(index) for index in range(len(train))] == [1, 3, 7]
    # a validation pair is never too long
    assert [valid.line(index) for index in range(len(valid))] == [1, 2, 3, 6, 7]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["train"] == {"kept": 3, "too long": 2, "blank": 2}
    assert report["valid"] == {"kept": 5, "too long": 0, "blank": 2}


def test_shards_hold_every_pair_once_in_shards_that_its_line_gives(
    tmp_path: Path, tokenizers: Tokenizers, monkeypatch
) -> None:
    monkeypatch.setattr(write_ids, "ROWS", 7)
    monkeypatch.setattr(write_ids, "BLOCKS_PER_WRITE", 2)
    write(tmp_path, "train", PAIRS)
    write_ids.write_datasets(tokenizers, tmp_path, "de", "en", ["train"], 256, tmp_path, shards=3)
    opened = [ParallelDataset(path) for path in shard_paths(tmp_path, "train", 3)]
    lines = [[pairs.line(index) for index in range(len(pairs))] for pairs in opened]
    assert sorted(sum(lines, [])) == list(range(1, 26)) and all(
        found == sorted(found) for found in lines
    )
    for number, pairs in enumerate(opened):
        assert (mix(numpy.array(lines[number])) % numpy.uint64(3) == number).all()
        assert all(
            pairs.texts(index) == PAIRS[line - 1] for index, line in enumerate(lines[number])
        )
    stored = read_length_runs(tmp_path / "train-lengths.npy", 3)
    for pairs, runs in zip(opened, stored, strict=True):
        assert all(
            map(numpy.array_equal, runs, length_runs(pairs.source_lengths, pairs.target_lengths))
        )


@pytest.mark.parametrize("damage", ["killed", "not UTF-8"])
def test_a_process_that_tokenizes_may_fail(
    tmp_path: Path, tokenizers: Tokenizers, damage: str, monkeypatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("processes are not forked here")
    monkeypatch.setattr(write_ids, "ROWS", 7)

    def encode_block(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    write(tmp_path, "train", PAIRS)
    if damage == "killed":
        monkeypatch.setattr(write_ids, "encode_block", encode_block)
    else:
        (tmp_path / "train.en").write_bytes(b"\xff\n" * 25)
    files = tmp_path / "train.de", tmp_path / "train.en"
    with (
        pytest.raises(
            UserError, match="was killed" if damage == "killed" else "line 1, is not UTF-8"
        ),
        contextlib.closing(
            write_ids.tokenized_blocks(tokenizers, files, None, processes=2)
        ) as blocks,
    ):
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


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not forked here")
def test_no_process_survives_a_parent_that_is_killed(
    tmp_path: Path, tokenizers: Tokenizers
) -> None:
    write(tmp_path, "train", PAIRS * 40)
    ended = subprocess.run(
        [sys.executable, "-c", ORPHANS, tmp_path], capture_output=True, text=True, check=False
    )
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


def test_missing_or_broken_file(tmp_path: Path) -> None:
    (tmp_path / "train.arrow").write_bytes(b"no arrow")
    for name in ("train", "valid"):
        with pytest.raises(UserError, match=f"{name}.arrow cannot be read"):
            ParallelDataset(tmp_path / f"{name}.arrow")
