"""Checkpoints: written atomically, read without running anything.

A weights file holds a translator: configuration, tokenizers, weights, and how they were made. `last.pt` holds a whole
training besides: optimiser, place in the data, random states.
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

FORMAT = 1
Payload = dict[str, Any]


def versions() -> dict[str, str]:
    """What this was made with."""
    return {
        "nmt": nmt.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "sentencepiece": metadata.version("sentencepiece"),
        "sacrebleu": metadata.version("sacrebleu"),
    }


def pack(config: Config, tokenizers: Tokenizers, corpus_hash: str) -> Payload:
    """What every checkpoint of a run shares."""
    models = {name: torch.frombuffer(bytearray(one.model), dtype=torch.uint8) for name, one in pairs(tokenizers)}
    return {
        "format": FORMAT,
        "config": to_dict(config),
        "tokenizers": {"lowercase": config.tokenizer.lowercase, **models},
        "corpus_hash": corpus_hash,
        "versions": versions(),
    }


def pairs(tokenizers: Tokenizers) -> list[tuple[str, Tokenizer]]:
    """The tokenizers to store, one if they are the same."""
    both = [("source", tokenizers.source), ("target", tokenizers.target)]
    return both[:1] if tokenizers.joint else both


def save(path: Path, payload: Payload) -> None:
    """Write a checkpoint so that a reader meets the old one or the new one, never half of it."""
    try:
        with open_atomic(path) as file:
            torch.save(payload, file)
    except OSError as error:
        raise UserError(f"The checkpoint {path} cannot be written: {error.strerror or error}.") from None
    except RuntimeError as error:  # how torch reports a disk that fills up
        raise UserError(f"The checkpoint {path} cannot be written: {str(error).splitlines()[0]}") from None


def load(path: Path, mapped: bool = False) -> Payload:
    """Read a checkpoint; raises UserError when it is missing, damaged, or not one of this program's.

    `mapped`: its tensors are read when they are looked at.
    """
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint {path}.") from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"The checkpoint {path} is damaged or cut short ({first_sentence(error)}).") from None
    except Exception as error:  # the restricted unpickler's own class, for a file that holds more than plain data
        raise UserError(f"{path} is not a checkpoint of this program ({first_sentence(error)}).") from None
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        found = payload.get("format") if isinstance(payload, dict) else None
        raise UserError(f"{path} is not a checkpoint of format {FORMAT} (found: {found}).")
    if missing := {"config", "tokenizers", "model", "corpus_hash", "versions"} - payload.keys():
        raise UserError(f"{path} holds no {', '.join(sorted(missing))}; it is not a checkpoint of this program.")
    return payload


def digest(payload: Payload) -> str:
    """Names the weights of a checkpoint, whatever its file is called."""
    found = hashlib.sha256()
    for name, tensor in sorted(payload["model"].items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return found.hexdigest()


def first_sentence(error: Exception) -> str:
    """The first line of a foreign error, without its end."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:120].rstrip(".")


def restore(payload: Payload, device: torch.device) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The translator in a checkpoint, ready to translate."""
    config, tokenizers = validate(payload["config"]), unpack(payload["tokenizers"])
    model = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    try:
        model.load_state_dict(payload["model"])
    except RuntimeError as error:
        raise UserError(f"The weights do not fit their configuration ({first_sentence(error)}).") from None
    return config, tokenizers, model.to(device).eval()


def unpack(stored: Payload) -> Tokenizers:
    """The tokenizers in a checkpoint."""
    source = Tokenizer(bytes(stored["source"].numpy()), stored["lowercase"])
    target = Tokenizer(bytes(stored["target"].numpy()), stored["lowercase"]) if "target" in stored else source
    return Tokenizers(source, target)


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in some checkpoints, oldest first, summed in float64; what counts is the newest's."""
    sums: dict[str, Tensor] = {}
    for path in paths:
        newest = load(path)["model"]
        for name, tensor in newest.items():
            sums[name] = sums.get(name, torch.zeros_like(tensor, dtype=torch.float64)) + tensor
    means = {name: (total / len(paths)).to(newest[name].dtype) for name, total in sums.items()}
    return {name: mean if mean.is_floating_point() else newest[name] for name, mean in means.items()}


def random_state(device: torch.device) -> Payload:
    """The generators that training draws from."""
    state: Payload = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Payload, device: torch.device) -> None:
    """Continue the generators where they stood."""
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)


def differences(old: Payload, new: Payload, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Keys at which two saved configurations differ: {"model.hidden": (512, 256)}."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found |= differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found[prefix + key] = (before, after)
    return found
