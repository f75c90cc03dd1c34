"""Checkpoint files: written atomically, read as plain data that cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was made with.
`last.safetensors` also holds what a training needs to be resumed: optimizer and train state. All of it is one file,
since one file is replaced atomically: weights never stand beside the optimizer of another update.

It may be a stranger's, so nothing in it is believed before it is checked. The right checksum only says that a file is
as it was written, not who wrote it.
"""

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import nmt
from nmt.config.schema import Config, to_dict
from nmt.config.validation import validate
from nmt.data.files import open_atomic
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError, is_printable
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training import tensor_file
from nmt.training.optimizers import Muon

FORMAT = 3  # raise it when an entry is renamed or changes its meaning; other formats are refused
LONGEST_TEXT = 10_000  # characters; the origin of an average names all its updates
REQUIRED = {"config": dict, "tokenizers": dict, "model": dict, "corpus_hash": str, "versions": dict}
OPTIONAL = {
    "step": int, "valid": dict, "origin": str, "optimizer": dict, "train_state": dict, "parent": dict,
}  # fmt: skip
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


def checked(path: Path, payload: Payload) -> tuple[Config, Tokenizers]:
    """Configuration and tokenizers of a checkpoint whose weights are those of its model; raises UserError with `path`.

    The model is first made without memory (device meta), so that what the configuration asks for costs nothing.
    """
    try:
        config = validate(payload["config"])
        source = read_tokenizer(payload["tokenizers"], "source")
        joint = "target" not in payload["tokenizers"]
        tokenizers = Tokenizers(source, source if joint else read_tokenizer(payload["tokenizers"], "target"))
        with torch.device("meta"):
            expected = build(
                config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint
            ).state_dict()
        check_tensors(payload["model"], expected, "the model of its configuration")
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None
    return config, tokenizers


def restore(path: Path, payload: Payload, device: torch.device) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint, the model on `device` and in evaluation mode.

    Raises UserError, with the checkpoint's `path`, for what cannot be used.
    """
    config, tokenizers = checked(path, payload)
    model = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    model.load_state_dict(payload["model"])
    return config, tokenizers, model.to(device).eval()


@dataclass(frozen=True)
class Parent:
    """The trained run that a training starts from (from=RUN), with the same pieces."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]
    corpus_hash: str  # of the text that it was trained on
    provenance: dict[str, str]  # stored in the checkpoints of the new run


def load_parent(path: Path) -> Parent:
    """Read a checkpoint to start from; raises UserError for what cannot be used."""
    payload = load(path)
    config, tokenizers = checked(path, payload)
    provenance = {"checkpoint": f"{path.parent.name}/{path.name}", "weights": digest(payload)}
    return Parent(path, config, tokenizers, payload["model"], payload["corpus_hash"], provenance)


def load_config(path: Path) -> Config:
    """The configuration that a checkpoint was trained with; raises UserError."""
    payload = load(path, with_tensors=False)
    try:
        return validate(payload["config"])
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None


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


def check_entries(payload: Mapping[str, Any]) -> None:
    """Raise UserError unless the entries of a checkpoint are there and of their types."""
    if missing := REQUIRED.keys() - payload.keys():
        raise UserError(f"it has no {', '.join(sorted(missing))}")
    for name, kind in (REQUIRED | OPTIONAL).items():
        if name in payload and (not isinstance(payload[name], kind) or isinstance(payload[name], bool)):
            raise UserError(f"its {name} is not what a checkpoint has there")
    if not ("origin" in payload or "step" in payload.get("train_state", ())):
        raise UserError("it does not say which updates it comes from")
    texts = [payload["corpus_hash"], payload.get("origin", ""), *payload["versions"], *payload["versions"].values()]
    parent = payload.get("parent", {})
    texts += [*parent, *parent.values()]
    if not all(isinstance(text, str) and is_printable(text) and len(text) <= LONGEST_TEXT for text in texts):
        raise UserError("its corpus_hash, origin, versions or parent are no plain text")
    if not all(is_number(score) for score in payload.get("valid", {}).values()):
        raise UserError("its validation scores are no numbers")


def is_number(value: object) -> bool:
    """Whether this is a number of Python; a truth value is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """The tokenizer of one side; raises UserError for bytes that are none, or none of this program."""
    model, lowercase = stored.get(side), stored.get("lowercase")
    if not isinstance(model, Tensor) or model.dtype != torch.uint8 or model.dim() != 1 or not model.numel():
        raise UserError(f"its {side} tokenizer is missing")
    if not isinstance(lowercase, bool):
        raise UserError("its tokenizers do not say whether text is lower-cased")
    try:
        tokenizer = Tokenizer(bytes(model.numpy()), lowercase)
    except (RuntimeError, ValueError):
        raise UserError(f"its {side} tokenizer is no model of SentencePiece") from None
    processor = tokenizer.processor
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if ids != (PAD, UNK, BOS, EOS):
        raise UserError(f"its {side} tokenizer has other special pieces than those of this program")
    return tokenizer


def check_tensors(given: Mapping[str, Any], expected: Mapping[str, Tensor], owner: str) -> None:
    """Raise UserError unless names, shapes and number formats are those expected, and all numbers finite."""
    if given.keys() != expected.keys():
        name = sorted(given.keys() ^ expected.keys())[0]
        raise UserError(f"the weight {name!r:.100} is {'missing in it' if name in expected else f'not of {owner}'}")
    for name, tensor in given.items():
        right = expected[name]
        if not isinstance(tensor, Tensor) or tensor.shape != right.shape or tensor.dtype != right.dtype:
            described = f"{list(tensor.shape)} in {tensor.dtype}" if isinstance(tensor, Tensor) else "no tensor"
            wanted = f"{list(right.shape)} in {right.dtype}"
            raise UserError(f"the weight '{name}' is {described}, but that of {owner} is {wanted}")
        if not tensor.isfinite().all():
            raise UserError(f"the weight '{name}' has numbers that are not finite")


def load_weights(model: EncoderDecoder | nn.Module, weights: Mapping[str, Any]) -> None:
    """Set the weights of a model; raises UserError for those of another model."""
    check_tensors(weights, model.state_dict(), "this model")
    model.load_state_dict(weights)


def optimizer_state(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """What an optimizer gathers for a parameter, with tensors of the right shapes and types."""
    if isinstance(optimizer, Muon) and any(parameter is each for each in optimizer.matrices["params"]):
        return {"step": torch.tensor(0.0), "momentum": parameter}
    return {"step": torch.tensor(0.0), "exp_avg": parameter, "exp_avg_sq": parameter}


def load_optimizer(optimizer: torch.optim.Optimizer, stored: Mapping[str, Any]) -> None:
    """Set what an optimizer has gathered; its options stay those of the configuration. Raises UserError."""
    current = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = stored.get("state")
    if not isinstance(state, dict) or not state.keys() <= set(range(len(parameters))):
        raise UserError("its optimizer is that of another model")
    for number, moments in state.items():
        expected = optimizer_state(optimizer, parameters[number])
        check_tensors(moments if isinstance(moments, dict) else {}, expected, "the optimizer")
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})
