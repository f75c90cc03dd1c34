"""Checkpoints with a right checksum and wrong content, as somebody else could make them: one
sentence, nothing run."""

import copy
import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import Trained

from nmt.config import compose
from nmt.config.keys import config_folder
from nmt.config.validation import validate
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.runs import run as runs
from nmt.training import checkpoint

WEIGHT = "encoder.0.feed_forward.0.bias"
TIED = "output.weight"


def entry(**changes: Any) -> Callable[[dict], Any]:
    """A case that sets entries, as in entry(config__seed=3); ... deletes one, a function changes
    it."""

    def change(payload: dict) -> None:
        for key, value in changes.items():
            *groups, last = key.split("__")
            node = payload
            for group in groups:
                node = node[group]
            node[last] = value(node[last]) if callable(value) else value
            if value is ...:
                del node[last]

    return change


def config(**changes: Any) -> Callable[[dict], Any]:
    return entry(**{f"config__{key}": value for key, value in changes.items()})


def weights(**changes: Any) -> Callable[[dict], Any]:
    return entry(
        **{f"model__{WEIGHT if name == 'bias' else name}": value for name, value in changes.items()}
    )


deep: Any = []
for _ in range(500):
    deep = [deep]

CASES = {
    "an interpolation": config(data_folder="${oc.env:HOME}"),
    "an interpolation in a list": config(data__train=["${oc.env:HOME}"]),
    "an interpolation of another key": config(name="${data_folder}"),
    "a resolver": config(seed="${oc.decode:1}"),
    "a missing value": config(name="???"),
    "a name out of the folder": config(name="../x"),
    "an absolute name": config(name="/tmp/x"),
    "a name with NUL": config(name="a\0b"),
    "a long name": config(name="a" * 10_000),
    "a language out of the folder": config(data__source="../../etc/passwd"),
    "an absolute language": config(data__target="/etc/passwd"),
    "a language with an escape": config(data__target="\x1b]0;x\x07"),
    "a folder with NUL": config(data_folder="a\0b"),
    "a folder with a line end": config(data_folder="a\nnmt: all is well"),
    "a target of Hydra": config(model___target_="os.system"),
    "an unknown key": config(magic=1),
    "an unknown kind": config(model__kind="oracle"),
    "a kind that is a list": config(model__kind=[1]),
    "endless layers": config(model__encoder_layers=10**9),
    "a huge model": config(model__hidden_size=10**12),
    "a wide model": config(model__feed_forward_size=2**18),
    "many layers": config(model__decoder_layers=256),
    "no heads": config(model__num_heads=0),
    "negative sizes": config(model__feed_forward_size=-5),
    "text for a number": config(model__hidden_size="many"),
    "a number beyond 64 bits": config(seed=10**400),
    "an infinite limit": config(decode__max_length_ratio=float("inf")),
    "a search without end": config(decode__max_length_ratio=1e300),
    "a list for a group": config(model=[1, 2]),
    "a group that is nothing": config(decode=None),
    "a group for a value": config(seed={"a": 1}),
    "betas of text": config(optim__betas=["a", "b"]),
    "a deep list": config(data__train=deep),
    "a configuration that is a list": entry(config=[1]),
    "a configuration that is text": entry(config="x"),
    "an empty configuration": entry(config={}),
    "no configuration": entry(config=...),
    "no format": entry(format=...),
    "a format of text": entry(format="3"),
    "a later format": entry(format=10**6),
    "no tokenizers": entry(tokenizers=...),
    "tokenizers that are a list": entry(tokenizers=[]),
    "garbage for a tokenizer": entry(tokenizers__source=torch.arange(200, dtype=torch.uint8)),
    "an empty tokenizer": entry(tokenizers__source=torch.zeros(0, dtype=torch.uint8)),
    "a tokenizer of zeros": entry(tokenizers__source=torch.zeros(5000, dtype=torch.uint8)),
    "a tokenizer of floats": entry(tokenizers__source=torch.zeros(5)),
    "a tokenizer of text": entry(tokenizers__source="abc"),
    "no source tokenizer": entry(tokenizers__source=...),
    "no word on lower case": entry(tokenizers__lowercase=...),
    "a number on lower case": entry(tokenizers__lowercase=3),
    "no model": entry(model=...),
    "a model that is a list": entry(model=[]),
    "a model without weights": entry(model={}),
    "a corpus hash that is a number": entry(corpus_hash=5),
    "a corpus hash with an escape": entry(corpus_hash="\x1b[2J"),
    "versions that are a list": entry(versions=["a"]),
    "versions with numbers": entry(versions={"torch": 2}),
    "an origin with an escape": entry(origin="\x1b[2J"),
    "an origin without end": entry(origin="x" * 10**6),
    "scores of text": entry(valid={"bleu": "high"}),
    "a step of text": entry(step="first"),
    "weights that are no numbers": weights(bias=lambda tensor: tensor * float("nan")),
    "infinite weights": weights(bias=lambda tensor: tensor + float("inf")),
    "weights in float64": weights(bias=lambda tensor: tensor.double()),
    "weights of whole numbers": weights(bias=lambda tensor: tensor.long()),
    "weights of another shape": weights(bias=lambda tensor: tensor[:-1]),
    "weights of no shape": weights(bias=lambda tensor: tensor[0].clone()),
    "a missing weight": weights(bias=...),
    "an unknown weight": weights(surprise=torch.zeros(3)),
    "a weight in a group": weights(**{"a/b": torch.zeros(3)}),
    "a weight in a weight": weights(**{f"{WEIGHT}/b": torch.zeros(3)}),
    "an optimizer that is a tensor": entry(optimizer=torch.zeros(3)),
    "a weight that is text": weights(bias="heavy"),
    "a name with an escape": weights(**{"\x1b[2J": torch.zeros(3)}),
}


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
    for case, change in CASES.items():
        changed = copy.deepcopy(payload)
        change(changed)
        checkpoint.save(path, changed)
        assert str(path) in refusal(path), case


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


def signed(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header, and the right checksum at its end."""
    content = struct.pack("<Q", len(header) if length is None else length) + header + data
    return content + hashlib.sha256(content).digest()


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


END = {"sha256": tensor([32], 0, 32, "U8")}
HEADERS = {
    "no JSON": signed(b"{{{{"),
    "a list": signed(b"[]"),
    "nothing": signed(b""),
    "no texts": signed(json.dumps(END).encode()),
    "a length of 2^63": signed(b"{}", length=2**63),
    "a length of 2^64 - 1": signed(b"{}", length=2**64 - 1),
    "a length of 10^11": signed(b"{}", length=10**11),
    "a shape of 10^12": signed(json.dumps({"model/a": tensor([10**12], 0, 32)}).encode()),
    "a shape beyond 64 bits": signed(json.dumps({"a": tensor([2**33, 2**33], 0, 32)}).encode()),
    "an empty shape of 10^18": signed(
        json.dumps({"a": tensor([0, 10**18, 10**18], 0, 0)} | END).encode()
    ),
    "negative offsets": signed(json.dumps({"a": tensor([8], -32, 0)}).encode()),
    "tensors that overlap": signed(
        json.dumps({"a": tensor([8], 0, 32), "b": tensor([8], 0, 32)}).encode()
    ),
    "a hole": signed(json.dumps({"a": tensor([1], 28, 32)}).encode()),
    "an unknown number format": signed(json.dumps({"a": tensor([8], 0, 32, "F33")}).encode()),
    "texts that are numbers": signed(json.dumps({"__metadata__": {"format": 3}} | END).encode()),
    "texts that are no JSON": signed(json.dumps({"__metadata__": {"format": "{"}} | END).encode()),
    "deep texts": signed(json.dumps({"__metadata__": {"format": "[" * 10**5}} | END).encode()),
    "deep JSON": signed(b"[" * 10**5),
    "a number of 10,000 digits": signed(
        json.dumps({"__metadata__": {"format": "1" * 10_000}} | END).encode()
    ),
    "a name twice": signed(
        b'{"a":' + json.dumps(END["sha256"]).encode() + b',"a":' + b'{"dtype":"U8"}}'
    ),
}


def test_a_crafted_header_is_one_sentence(tmp_path):
    for content in HEADERS.values():
        (tmp_path / "best.safetensors").write_bytes(content)
        refusal(tmp_path / "best.safetensors")


def test_a_folder_of_tokenizers_that_is_none(tmp_path):
    (tmp_path / "joint.model").write_bytes(b"\x0a\x88\xff" * 50)
    for about in ("[]", "3", "{}", '{"joint": true, "lowercase": []}', "[" * 10**5):
        (tmp_path / "tokenizer.json").write_text(about)
        with pytest.raises(UserError, match="The tokenizer in"):
            Tokenizers.load(tmp_path)


def test_nothing_of_the_environment_gets_into_a_saved_configuration(payload, monkeypatch):
    monkeypatch.setenv("SECRET", "de")
    changed = copy.deepcopy(payload["config"])
    changed["data"]["source"] = "${oc.env:SECRET}"
    with pytest.raises(UserError, match=r"data.source='\$\{oc.env:SECRET\}'"):
        validate(changed)
    changed["data"]["source"] = "\ud800"  # of bytes that are not UTF-8
    with pytest.raises(UserError, match="printable"):
        validate(changed)


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
