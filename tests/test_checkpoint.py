"""Checkpoint files: one flipped bit is noticed, shared tensors are stored once, and only plain data
is read."""

import math

import pytest
import torch
from corpora import Trained, compose_one
from safetensors.torch import load_file

from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.errors import UserError
from nmt.training import checkpoint
from nmt.training.checkpoint import DamagedCheckpoint
from nmt.training.restore import average, check_tensors, read_tokenizer, restore


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


def test_a_file_is_read_as_it_was_written_and_all_damage_is_noticed(tmp_path):
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
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(read[name], tensor) and read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
    names = {f"model/{name}" for name in tensors}
    assert load_file(path).keys() == {*names, "tokenizers/source", "sha256"}
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(DamagedCheckpoint, match="damaged"):
            checkpoint.load(path)
        content[bit // 8] ^= 1 << bit % 8
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(DamagedCheckpoint, match=str(path)):
            checkpoint.load(path)


def test_weights_are_identified_by_all_that_they_are():
    """Their numbers, names, types and shapes, in whatever order they come."""
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.zeros(2)}
    other_number = tensors["a"].clone()
    other_number[1, 2] = -5
    several = [
        tensors,
        tensors | {"a": other_number},
        tensors | {"a": tensors["a"].view(3, 2)},
        tensors | {"b": torch.zeros(2, dtype=torch.int32)},
        {"a": tensors["a"], "c": tensors["b"]},
    ]
    digests = [checkpoint.digest(payload(**each)) for each in several]
    assert len(set(digests)) == len(several)
    assert checkpoint.digest(payload(**dict(reversed(tensors.items())))) == digests[0]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(trained: Trained, number):
    path = trained.folder / "best.safetensors"
    payload = checkpoint.load(path)
    payload["model"]["output.weight"][0, 0] = number
    with pytest.raises(UserError, match="not finite"):
        restore(path, payload)


@pytest.mark.parametrize("joint", [False, True])
def test_the_tokenizers_of_a_file_are_those_that_were_packed(vocabularies, tmp_path, joint):
    """Each side has its own prefixes and added words, also with one model for both."""
    models = [side.model for side in vocabularies[joint]]
    given = Tokenizers(
        Tokenizer(models[0], True, {"<2de>": [5]}, ["#a"]),
        Tokenizer(models[1], True, {"": [6, 7]}, ["#b", "#c"]),
    )
    config = compose_one()
    packed = checkpoint.common_entries(config, given, "text") | {"model": {}, "origin": "update 1"}
    checkpoint.save(tmp_path / "one", packed)
    stored = checkpoint.load(tmp_path / "one")["tokenizers"]
    given.save(tmp_path)
    read = [read_tokenizer(stored, side) for side in ("source", "target")]
    for found in (read, Tokenizers.load(tmp_path)):
        for ours, theirs in zip(given, found, strict=True):
            for name in ("model", "lowercase", "prefixes", "added"):
                assert getattr(ours, name) == getattr(theirs, name)


ZEROS = torch.zeros(2)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"a": ZEROS}, "'b' is missing"),
        ({"a": ZEROS, "b": ZEROS, "c": ZEROS}, "'c' is not of"),
        ({"a": ZEROS, "b": torch.zeros(3)}, r"'b' is \[3\] .* is \[2\]"),
        ({"a": ZEROS.double(), "b": ZEROS}, "'a' is .*float64.* is .*float32"),
        ({"a": ZEROS, "b": ZEROS / 0}, "'b' .* not finite"),
        ({"a": [0.0, 0.0], "b": ZEROS}, "'a' is not a tensor"),
    ],
)
def test_a_weight_that_does_not_fit_is_named(given, said):
    expected = {"a": ZEROS, "b": ZEROS}
    check_tensors(expected, expected, "this model")
    with pytest.raises(UserError, match=said):
        check_tensors(given, expected, "this model")


def test_tied_embeddings_are_stored_once_and_stay_tied(tmp_path):
    paths = [tmp_path / name for name in ("one", "two", "mean")]
    payloads = []
    for updates in (5, 9):
        weight = torch.rand(100, 100)
        tied = {f"{layer}.weight": weight for layer in ("source", "target")}
        tied["output.weight"] = weight.detach()
        payloads.append(payload(**tied, bias=weight[0], updates=torch.tensor(updates)))
    for path, content in zip(paths, payloads, strict=False):
        checkpoint.save(path, content)
    mean = average(paths[:2])
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
