"""Checkpoint files: one flipped bit is noticed, shared tensors are stored once, and only plain data is read."""

from pathlib import Path
from random import Random

import pytest
import torch
from corpora import Trained, small
from safetensors.torch import load_file

from nmt.training import checkpoint, tensor_file
from nmt.training.checkpoint import DamagedCheckpoint

TENSORS = {"b": torch.arange(6.0).view(2, 3), "a": torch.tensor(7), "c": torch.tensor([], dtype=torch.bfloat16)}


def write(path: Path, tensors: dict, texts: dict) -> bytes:
    with open(path, "wb") as file:
        tensor_file.write(file, tensors, texts)
    return path.read_bytes()


def test_a_file_is_read_as_it_was_written(tmp_path):
    content = write(tmp_path / "one", TENSORS, {"text": "Grüße"})
    assert write(tmp_path / "two", dict(reversed(TENSORS.items())), {"text": "Grüße"}) == content
    tensors, texts = tensor_file.read(tmp_path / "one")
    assert texts == {"text": "Grüße"} and tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert tensors["c"].dtype == torch.bfloat16 and tensors["a"].shape == ()
    assert tensor_file.read(tmp_path / "one", with_tensors=False) == ({}, texts)
    assert load_file(tmp_path / "one").keys() == {*TENSORS, "sha256"}  # any other program can read it


def test_every_flipped_bit_of_a_file_is_noticed(tmp_path):
    content = bytearray(write(tmp_path / "good", TENSORS, {"text": "some"}))
    path = tmp_path / "damaged"
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(tensor_file.DamagedFile, match="damaged"):
            tensor_file.read(path)
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("name", ["best", "last", "average"])
def test_flipped_bits_of_a_checkpoint_are_noticed_and_named(trained: Trained, tmp_path, name):
    path, random = tmp_path / f"{name}.safetensors", Random(1)
    content = bytearray((trained.folder / path.name).read_bytes())
    for _ in range(50):
        bit = random.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(DamagedCheckpoint, match=str(path)):
            checkpoint.load(path)
        content[bit // 8] ^= 1 << bit % 8


def test_a_file_that_is_cut_short_is_noticed(trained: Trained, tmp_path):
    content = (trained.folder / "best.safetensors").read_bytes()
    for size in (0, 7, 8, 31, 32, 500, len(content) - 33, len(content) - 1):
        (tmp_path / "short").write_bytes(content[:size])
        with pytest.raises(DamagedCheckpoint):
            checkpoint.load(tmp_path / "short")


def shared_payload(size: int) -> dict:
    weight = torch.rand(size, size)
    model = {"source.weight": weight, "target.weight": weight, "output.weight": weight.detach(), "bias": weight[0]}
    tokenizers = {"lowercase": False, "source": torch.zeros(1, dtype=torch.uint8)}
    entries = {"config": {}, "tokenizers": tokenizers, "corpus_hash": "", "versions": {}, "origin": "update 1"}
    return {"format": checkpoint.FORMAT, "model": model} | entries


def test_tied_embeddings_are_stored_once_and_stay_tied(tmp_path):
    paths = [tmp_path / name for name in ("one", "two", "mean")]
    payloads = [shared_payload(100), shared_payload(100)]
    for payload, updates in zip(payloads, (5, 9), strict=True):
        payload["model"]["updates"] = torch.tensor(updates)
    for path, payload in zip(paths, payloads, strict=False):
        checkpoint.save(path, payload)
    mean = checkpoint.average(paths[:2])
    checkpoint.save(paths[2], payloads[0] | {"model": mean})
    for path in paths:
        model = checkpoint.load(path)["model"]
        assert 40_000 < path.stat().st_size < 45_000  # 100 × 100 × 4 bytes, once
        assert model["source.weight"].data_ptr() == model["target.weight"].data_ptr()
        assert model["output.weight"].data_ptr() == model["source.weight"].data_ptr()
    expected = (payloads[0]["model"]["bias"] + payloads[1]["model"]["bias"]) / 2
    torch.testing.assert_close(mean["bias"], expected)
    torch.testing.assert_close(mean["output.weight"][0], expected)
    assert mean["updates"] == 9, "an integer is the newest one's: a window that closes counts batches"


def test_checkpoints_of_an_earlier_version_are_named(refused, trained: Trained, tmp_path):
    (tmp_path / "tiny").mkdir()
    for name in ("best.pt", "last.pt"):
        torch.save({}, tmp_path / "tiny" / name)
    assert "best.pt is a file of torch.save" in refused("translate", "tiny", "--runs", str(tmp_path), "Ja.")
    words = small(trained.root, [], *trained.arguments, f"run_folder={tmp_path}")
    assert "last.pt is a file of torch.save" in refused("train", *words)
    assert sorted(path.name for path in (tmp_path / "tiny").glob("*.pt")) == ["best.pt", "last.pt"]
