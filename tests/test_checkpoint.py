"""Checkpoint files: one flipped bit is noticed, shared tensors are stored once, and only plain data
is read."""

from random import Random

import pytest
import torch
from corpora import Trained
from safetensors.torch import load_file

from nmt.training import checkpoint
from nmt.training.checkpoint import DamagedCheckpoint


def payload(**model: torch.Tensor) -> dict:
    tokenizers = {"lowercase": False, "source": torch.zeros(1, dtype=torch.uint8)}
    entries = {
        "config": {},
        "tokenizers": tokenizers,
        "corpus_hash": "",
        "versions": {},
        "origin": "update 1",
    }
    return {"format": checkpoint.FORMAT, "model": model} | entries


def test_a_file_is_read_as_it_was_written_and_every_flipped_bit_is_noticed(tmp_path):
    tensors = {
        "b": torch.arange(6.0).view(2, 3),
        "a": torch.tensor(7),
        "c": torch.tensor([], dtype=torch.bfloat16),
    }
    path = tmp_path / "one"
    other = tmp_path / "two"
    checkpoint.save(path, payload(**tensors))
    checkpoint.save(other, payload(**dict(reversed(tensors.items()))))
    content = bytearray(path.read_bytes())
    assert other.read_bytes() == content
    read = checkpoint.load(path)["model"]
    assert read.keys() == tensors.keys() and all(
        torch.equal(read[name], tensors[name]) for name in tensors
    )
    assert read["c"].dtype == torch.bfloat16 and read["a"].shape == ()
    assert load_file(path).keys() == {
        "model/a",
        "model/b",
        "model/c",
        "tokenizers/source",
        "sha256",
    }
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(DamagedCheckpoint, match="damaged"):
            checkpoint.load(path)
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("name", ["best", "last", "average"])
def test_flipped_bits_of_a_checkpoint_are_noticed_and_named(trained: Trained, tmp_path, name):
    path = tmp_path / f"{name}.safetensors"
    random = Random(1)
    content = bytearray((trained.folder / path.name).read_bytes())
    for _ in range(10):
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
    shared = {
        "source.weight": weight,
        "target.weight": weight,
        "output.weight": weight.detach(),
        "bias": weight[0],
    }
    return payload(**shared)


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
    assert mean["updates"] == 9, (
        "an integer is the newest one's: a window that closes counts batches"
    )
