"""Checkpoint files: written atomically, read as plain data that cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was made with.
`last.safetensors` also holds what a training needs to be resumed: optimizer and train state. All of it is one file,
since one file is replaced atomically: weights never stand beside the optimizer of another update.
"""

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import nmt
from nmt.config.schema import Config, to_dict
from nmt.config.validation import validate
from nmt.data.files import open_atomic
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training import tensor_file
from nmt.training.checkpoint_check import check_entries, check_weights, read_tokenizer

FORMAT = 3  # raise it when an entry is renamed or changes its meaning; other formats are refused
Payload = dict[str, Any]
DamagedCheckpoint = tensor_file.DamagedFile  # what `load` raises when the bytes are not those that were written


def versions() -> dict[str, str]:
    """The versions of this program, Python, and the libraries that a result depends on."""
    return {
        "nmt": nmt.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "sentencepiece": metadata.version("sentencepiece"),
        "sacrebleu": metadata.version("sacrebleu"),
    }


def pack(config: Config, tokenizers: Tokenizers, corpus_hash: str, parent: dict[str, str] | None = None) -> Payload:
    """The entries that all checkpoints of a run have in common; a joint tokenizer is stored once.

    `parent`: the checkpoint that the training started from, and the sha256 of its weights.
    """
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    if tokenizers.joint:
        del sides["target"]
    stored = {side: each.model for side, each in sides.items()}
    models = {name: torch.frombuffer(bytearray(content), dtype=torch.uint8) for name, content in stored.items()}
    common = {
        "format": FORMAT,
        "config": to_dict(config),
        "tokenizers": {"lowercase": config.tokenizer.lowercase, **models},
        "corpus_hash": corpus_hash,
        "versions": versions(),
    }
    return common | ({"parent": parent} if parent else {})


def save(path: Path, payload: Payload, previous: Path | None = None) -> None:
    """Write a checkpoint atomically: a reader gets the old file or the new one. Raises UserError if it cannot.

    `previous`: the name that the old file gets once the new one is complete.
    Tensors are named by their path in `payload`, as in `optimizer/state/0/exp_avg`; one with several names is stored
    once. All other entries are JSON texts of the file's header.
    """
    tensors, plain = flatten(payload)
    shared = shared_names(tensors)
    stored = {name: tensor for name, tensor in tensors.items() if name not in shared}
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in (plain | {"shared": shared}).items()}
    try:
        with open_atomic(path, previous) as file:
            tensor_file.write(file, stored, texts)
    except OSError as error:
        raise UserError(f"The checkpoint {path} cannot be written: {error.strerror or error}.") from None


def load(path: Path, with_tensors: bool = True) -> Payload:
    """Read what `save` wrote; raises UserError when it is missing, of another format, or not a checkpoint.

    Raises DamagedCheckpoint when its bytes are not those that were written. Without `with_tensors` they are left out.
    """
    refuse_zip(path)
    tensors, texts = tensor_file.read(path, with_tensors)
    try:
        payload = {key: json.loads(text) for key, text in texts.items()}
        if payload["format"] != FORMAT:
            raise UserError(
                f"The checkpoint {path} has format {str(payload['format'])[:20]}, this version of the program reads "
                f"format {FORMAT} alone; use the version that wrote it, or train again."
            )
        for alias, name in payload.pop("shared").items() if with_tensors else ():
            tensors[alias] = tensors[name]
        for name, tensor in tensors.items():
            insert(payload, name.split("/"), tensor)
        if with_tensors and "optimizer" in payload:
            state = payload["optimizer"]["state"]
            payload["optimizer"]["state"] = {int(number): moments for number, moments in state.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path} is not a checkpoint of this program.") from None
    try:
        check_entries(payload)
    except UserError as error:
        raise UserError(f"{path} is not a checkpoint of this program: {error}.") from None
    return payload


def refuse_zip(path: Path) -> None:
    """Raise UserError for a file of torch.save, as which earlier versions wrote checkpoints; it could hold code."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise UserError(
                f"{path} is a file of torch.save, as which earlier versions of this program wrote checkpoints; this "
                "one reads .safetensors alone: use the version that wrote it, or train again."
            )


def flatten(payload: Payload, prefix: str = "") -> tuple[dict[str, Tensor], Payload]:
    """The tensors of nested dicts by their path (`model/output.weight`), and the same dicts without them."""
    tensors: dict[str, Tensor] = {}
    plain: Payload = {}
    for key, value in payload.items():
        if isinstance(value, Tensor):
            tensors[f"{prefix}{key}"] = value
        elif isinstance(value, dict):
            below, plain[key] = flatten(value, f"{prefix}{key}/")
            tensors |= below
        else:
            plain[key] = value
    return tensors, plain


def insert(payload: Payload, path: list[str], tensor: Tensor) -> None:
    """Put a tensor back to its place in nested dicts; raises ValueError where something else is."""
    for key in path[:-1]:
        payload = payload.setdefault(key, {})
        if not isinstance(payload, dict):
            raise ValueError(key)
    if path[-1] in payload:
        raise ValueError(path[-1])
    payload[path[-1]] = tensor


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """{name: an earlier name} of tensors that are the same memory, such as tied embeddings."""
    first: dict[tuple[Any, ...], str] = {}
    shared = {}
    for name, tensor in tensors.items():
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and first.setdefault(place, name) != name:
            shared[name] = first[place]
    return shared


def digest(payload: Payload) -> str:
    """The sha256 of a checkpoint's weights, which identifies them whatever their file is called."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(payload["model"].items()):
        sha256.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return sha256.hexdigest()


def restore(path: Path, payload: Payload, device: torch.device) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint, the model on `device` and in evaluation mode.

    Raises UserError, with the checkpoint's `path`, for what cannot be used; nothing is allocated before it is checked.
    """
    try:
        config, tokenizers = validate(payload["config"]), unpack_tokenizers(payload["tokenizers"])
        sizes = tokenizers.source.size, tokenizers.target.size
        check_weights(payload["model"], config.model, sizes, tokenizers.joint)
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None
    model = build(config.model, *sizes, tokenizers.joint)
    model.load_state_dict(payload["model"])
    return config, tokenizers, model.to(device).eval()


def unpack_tokenizers(stored: Payload) -> Tokenizers:
    """The tokenizers that `pack` stored; a joint one serves both sides."""
    source = read_tokenizer(stored, "source")
    return Tokenizers(source, read_tokenizer(stored, "target") if "target" in stored else source)


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these checkpoints, oldest first, summed in float64; integers are the newest one's.

    Tensors with several names stay shared.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        newest = load(path)["model"]
        shared = shared_names(newest)
        for name in newest.keys() - shared.keys():
            sums[name] = sums.get(name, torch.zeros_like(newest[name], dtype=torch.float64)) + newest[name]
    means = {name: (total / len(paths)).to(newest[name].dtype) for name, total in sums.items()}
    means = {name: mean if mean.is_floating_point() else newest[name] for name, mean in means.items()}
    return {name: means[shared.get(name, name)] for name in newest}


def differences(old: Payload, new: Payload, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Keys at which two saved configurations differ: {"seed": (1, 2)}; a key that one lacks is None."""
    changed: dict[str, tuple[Any, Any]] = {}
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changed |= differences(before, after, f"{prefix}{key}.")
        elif before != after:
            changed[prefix + key] = (before, after)
    return changed
