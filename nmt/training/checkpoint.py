"""Checkpoint files: written atomically, read as plain data that cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was made with. `last.pt`
also holds what a training needs to be resumed: optimizer and train state.
"""

import hashlib
import platform
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import nmt
from nmt.config import Config, to_dict
from nmt.config_validation import validate
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.errors import UserError
from nmt.files import open_atomic
from nmt.models.base import EncoderDecoder
from nmt.models.build import build

FORMAT = 2  # raise it when an entry is renamed or changes its meaning; other formats are refused
Payload = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions of this program, Python, and the libraries that a result depends on."""
    return {
        "nmt": nmt.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "sentencepiece": metadata.version("sentencepiece"),
        "sacrebleu": metadata.version("sacrebleu"),
    }


def pack(config: Config, tokenizers: Tokenizers, corpus_hash: str) -> Payload:
    """The entries that all checkpoints of a run have in common; a joint tokenizer is stored once."""
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    if tokenizers.joint:
        del sides["target"]
    models = {side: torch.frombuffer(bytearray(each.model), dtype=torch.uint8) for side, each in sides.items()}
    return {
        "format": FORMAT,
        "config": to_dict(config),
        "tokenizers": {"lowercase": config.tokenizer.lowercase, **models},
        "corpus_hash": corpus_hash,
        "versions": versions(),
    }


def save(path: Path, payload: Payload) -> None:
    """Write a checkpoint atomically: a reader gets the old file or the new one. Raises UserError if it cannot."""
    try:
        with open_atomic(path) as file:
            torch.save(payload, file)
    except OSError as error:
        raise UserError(f"The checkpoint {path} cannot be written: {error.strerror or error}.") from None
    except RuntimeError as error:  # torch's error for a full disk
        raise UserError(f"The checkpoint {path} cannot be written: {str(error).splitlines()[0]}") from None


def load(path: Path, mapped: bool = False) -> Payload:
    """Read a checkpoint; raises UserError when it is missing, damaged, of another format, or not a checkpoint.

    `mapped`: tensors are memory-mapped, so that unused ones cost no reading.
    """
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint {path}.") from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"The checkpoint {path} is damaged or cut short ({first_sentence(error)}).") from None
    except Exception as error:  # of the restricted unpickler, for a file with more than plain data
        raise UserError(f"{path} is not a checkpoint of this program ({first_sentence(error)}).") from None
    if not isinstance(payload, dict) or not isinstance(payload.get("format"), int):
        raise UserError(f"{path} is not a checkpoint of this program.")
    if payload["format"] != FORMAT:
        raise UserError(
            f"The checkpoint {path} has format {payload['format']}, this version of the program reads format {FORMAT} "
            "alone; use the version that wrote it, or train again."
        )
    if missing := {"config", "tokenizers", "model", "corpus_hash", "versions"} - payload.keys():
        raise UserError(f"{path} has no {', '.join(sorted(missing))}; it is not a checkpoint of this program.")
    return payload


def digest(payload: Payload) -> str:
    """The sha256 of a checkpoint's weights, which identifies them whatever their file is called."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(payload["model"].items()):
        sha256.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return sha256.hexdigest()


def first_sentence(error: Exception) -> str:
    """The first line of a library's error, at most 120 characters, without a full stop."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:120].rstrip(".")


def restore(payload: Payload, device: torch.device) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint, the model on `device` and in evaluation mode."""
    config, tokenizers = validate(payload["config"]), unpack_tokenizers(payload["tokenizers"])
    model = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    try:
        model.load_state_dict(payload["model"])
    except RuntimeError as error:
        raise UserError(f"The weights do not fit their configuration ({first_sentence(error)}).") from None
    return config, tokenizers, model.to(device).eval()


def unpack_tokenizers(stored: Payload) -> Tokenizers:
    """The tokenizers that `pack` stored; a joint one serves both sides."""
    source = Tokenizer(bytes(stored["source"].numpy()), stored["lowercase"])
    target = Tokenizer(bytes(stored["target"].numpy()), stored["lowercase"]) if "target" in stored else source
    return Tokenizers(source, target)


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these checkpoints, oldest first, summed in float64; integers are the newest one's."""
    sums: dict[str, Tensor] = {}
    for path in paths:
        newest = load(path)["model"]
        for name, tensor in newest.items():
            sums[name] = sums.get(name, torch.zeros_like(tensor, dtype=torch.float64)) + tensor
    means = {name: (total / len(paths)).to(newest[name].dtype) for name, total in sums.items()}
    return {name: mean if mean.is_floating_point() else newest[name] for name, mean in means.items()}


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
