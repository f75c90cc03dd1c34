"""Checkpoints with a right checksum and wrong content, as somebody else could make them: one
sentence, nothing run."""

import copy
import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import Trained

from nmt.config import compose
from nmt.config.keys import config_folder
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.runs import run as runs
from nmt.training import checkpoint

WEIGHT = "encoder.0.feed_forward.0.bias"
TIED = "output.weight"


deep: Any = []
for _ in range(500):
    deep = [deep]
ESCAPE = "\x1b[2J"
BYTES = torch.arange(200, dtype=torch.uint8)
# An entry of a checkpoint, and values that no training writes there; ... deletes it, and a function
# changes what is there. Entries are inside others: a word for each, with spaces between.
WRONG: dict[str, list[Any]] = {
    "config data_folder": ["${oc.env:HOME}", "a\0b", "a\nnmt: all is well"],
    "config data train": [["${oc.env:HOME}"], deep],
    "config name": ["${data_folder}", "???", "../x", "/tmp/x", "a\0b", "a" * 10_000],
    "config seed": ["${oc.decode:1}", 10**400, {"a": 1}],
    "config data source": ["../../etc/passwd"],
    "config data target": ["/etc/passwd", "\x1b]0;x\x07"],
    "config model _target_": ["os.system"],
    "config magic": [1],
    "config model kind": ["oracle", [1]],
    "config model encoder_layers": [10**9],
    "config model decoder_layers": [256],
    "config model hidden_size": [10**12, "many"],
    "config model feed_forward_size": [2**18, -5],
    "config model num_heads": [0],
    "config model": [[1, 2]],
    "config decode": [None],
    "config decode max_length_ratio": [float("inf"), 1e300],
    "config optim betas": [["a", "b"]],
    "config": [[1], "x", {}, ...],
    "format": [..., "3", 10**6],
    "tokenizers": [..., []],
    "tokenizers source": [BYTES, BYTES[:0], 0 * BYTES.repeat(25), torch.zeros(5), "abc", ...],
    "tokenizers lowercase": [..., 3],
    "model": [..., [], {}],
    "corpus_hash": [5, ESCAPE],
    "versions": [["a"], {"torch": 2}],
    "origin": [ESCAPE, "x" * 10**6],
    "valid": [{"bleu": "high"}],
    "step": ["first"],
    f"model {WEIGHT}": [
        lambda tensor: tensor * float("nan"),
        lambda tensor: tensor + float("inf"),
        lambda tensor: tensor.double(),
        lambda tensor: tensor.long(),
        lambda tensor: tensor[:-1],
        lambda tensor: tensor[0].clone(),
        ...,
        "heavy",
    ],
    "model surprise": [torch.zeros(3)],
    "model a/b": [torch.zeros(3)],
    f"model {WEIGHT}/b": [torch.zeros(3)],
    f"model {ESCAPE}": [torch.zeros(3)],
    "optimizer": [torch.zeros(3)],
    "train_state": ["x", [1]],
    "parent": ["x", [1]],
}


def changed(payload: dict, name: str, value: Any) -> dict:
    """The payload with another value of an entry."""
    payload = copy.deepcopy(payload)
    *groups, last = name.split(" ")
    node = payload
    for group in groups:
        node = node[group]
    node[last] = value(node[last]) if callable(value) else value
    if value is ...:
        del node[last]
    return payload


@pytest.fixture(scope="module")
def payload(trained: Trained) -> dict:
    return checkpoint.load(trained.folder / "best.safetensors")


def refusal(path: Path) -> str:
    """The sentence of a checkpoint that must be refused."""
    with pytest.raises(UserError) as caught:
        runs.load([path])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    return str(caught.value)


def test_a_crafted_checkpoint_is_one_sentence(payload, tmp_path):
    path = tmp_path / "best.safetensors"
    checkpoint.save(path, copy.deepcopy(payload))
    assert runs.load([path]).translate(["Ein Junge."])  # otherwise the rest would prove nothing
    for name, values in WRONG.items():
        for number, value in enumerate(values):
            checkpoint.save(path, changed(payload, name, value))
            assert str(path) in refusal(path), (name, number)


@pytest.mark.parametrize(
    "shared", [{"model/x": "model/none"}, {"model/x": 1}, [1], None, 5, {"format": TIED}]
)
def test_shared_names_may_be_nonsense(payload, tmp_path, monkeypatch, shared):
    monkeypatch.setattr(checkpoint, "shared_names", lambda tensors: {})
    dumps = json.dumps

    def lie(value: Any, **options: Any) -> str:
        return dumps(shared if value == {} else value, **options)

    monkeypatch.setattr(checkpoint.json, "dumps", lie)
    try:
        checkpoint.save(tmp_path / "x", payload | {"origin": "x", "valid": {"bleu": 1}})
    finally:
        monkeypatch.undo()
    refusal(tmp_path / "x")


def signed(header: bytes, length: int | None = None) -> bytes:
    """A file with this header, and the right checksum at its end."""
    content = struct.pack("<Q", len(header) if length is None else length) + header
    return content + hashlib.sha256(content).digest()


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


END = {"sha256": tensor([32], 0, 32, "U8")}
TENSORS = {
    "a shape of 10^12": {"model/a": tensor([10**12], 0, 32)},
    "a shape beyond 64 bits": {"a": tensor([2**33, 2**33], 0, 32)},
    "an empty shape of 10^18": {"a": tensor([0, 10**18, 10**18], 0, 0)} | END,
    "negative offsets": {"a": tensor([8], -32, 0)},
    "tensors that overlap": {"a": tensor([8], 0, 32), "b": tensor([8], 0, 32)},
    "a hole": {"a": tensor([1], 28, 32)},
    "an unknown number format": {"a": tensor([8], 0, 32, "F33")},
    "no texts": END,
}
TEXTS = {
    "numbers": 3,
    "no JSON": "{",
    "deep": "[" * 10**5,
    "a number of 10,000 digits": "1" * 10_000,
}
HEADERS = {
    "no JSON": signed(b"{{{{"),
    "a list": signed(b"[]"),
    "nothing": signed(b""),
    "deep JSON": signed(b"[" * 10**5),
    "a name twice": signed(
        b'{"a":' + json.dumps(END["sha256"]).encode() + b',"a":' + b'{"dtype":"U8"}}'
    ),
}
for length in (10**11, 2**63, 2**64 - 1):
    HEADERS[f"a length of {length}"] = signed(b"{}", length=length)
for name, tensors in TENSORS.items():
    HEADERS[name] = signed(json.dumps(tensors).encode())
for name, text in TEXTS.items():
    HEADERS[f"texts: {name}"] = signed(
        json.dumps({"__metadata__": {"format": text}} | END).encode()
    )


def test_a_crafted_header_is_one_sentence(tmp_path):
    path = tmp_path / "best.safetensors"
    for name, content in HEADERS.items():
        path.write_bytes(content)
        assert str(path) in refusal(path), name


def test_a_folder_of_tokenizers_that_is_none(tmp_path):
    (tmp_path / "joint.model").write_bytes(b"\x0a\x88\xff" * 50)
    for about in ("[]", "3", "{}", '{"joint": true, "lowercase": []}', "[" * 10**5):
        (tmp_path / "tokenizer.json").write_text(about)
        with pytest.raises(UserError, match="The tokenizer in"):
            Tokenizers.load(tmp_path)


def test_a_file_of_a_group_that_is_none(refused, tmp_path, monkeypatch):
    """A stranger's YAML file in conf/: its tags make nothing, and it is refused in one sentence."""
    conf = Path(shutil.copytree(config_folder(), tmp_path / "conf"))
    monkeypatch.setattr(compose, "config_folder", lambda: conf)
    for text in (
        f"kind: !!python/object/apply:os.mkdir [{tmp_path}/exploded]",
        "kind: [",
        "kind: ${oc.env:NOWHERE}",
        "\x00",
        "- 1",
        "defaults:\n  - nowhere",
        "a: &a [*a]",
        "_target_: os.system",
    ):
        (conf / "data" / "evil.yaml").write_text(text)
        refused("train", "data=evil", f"data_folder={tmp_path}", f"run_folder={tmp_path}")
    assert not (tmp_path / "exploded").exists()
