"""Checkpoint files: written atomically, with a checksum, and read as data that cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was
made with. `last.safetensors` also holds what a training needs to be resumed: optimizer and train
state. They are in one file, because one file can be replaced atomically: weights are never combined
with the optimizer of another update. If a training has frozen weights, its `last.safetensors` lacks
them: they are the parent's.

A file is in the safetensors format. Its last 32 bytes are the tensor `sha256`, the SHA-256 hash of
all bytes before it. The hash shows that a file is as it was written, but not who wrote it. So
nothing in a file is believed before it is checked.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

import nmt
from nmt.config.schema import Config, to_dict
from nmt.config.validation import validate
from nmt.corpus.files import open_atomic
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError, is_printable
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.models.lora import LoRALinear, LoRAMultiHeadAttention, LowRank

FORMAT = 3  # raise it when an entry is renamed or changes its meaning; other formats are refused
CHECKSUM = "sha256"
CHECKSUM_BYTES = 32
HASHED_BYTES = 1 << 20  # at a time
CHECKED_NUMBERS = 1 << 22  # at a time
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
LONGEST_TEXT = 10_000  # characters; an average's origin is long, since it lists its updates
REQUIRED = {"config": dict, "tokenizers": dict, "model": dict, "corpus_hash": str, "versions": dict}
OPTIONAL = {
    "step": int,
    "valid": dict,
    "origin": str,
    "optimizer": dict,
    "train_state": dict,
    "parent": dict,
}
Payload = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TensorParts:
    """A tensor that is made while it is written: one part of its rows after the other."""

    shape: torch.Size
    dtype: torch.dtype
    parts: Callable[[], Iterable[Tensor]]

    def numel(self) -> int:
        return self.shape.numel()

    def element_size(self) -> int:
        return self.dtype.itemsize


class DamagedCheckpoint(UserError):
    """A file whose bytes are not those that were written; the text names it."""


def versions() -> dict[str, str]:
    """The versions of this program, Python, and the libraries that a result depends on."""
    return {
        "nmt": nmt.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "sentencepiece": metadata.version("sentencepiece"),
        "sacrebleu": metadata.version("sacrebleu"),
    }


def common_entries(
    config: Config, tokenizers: Tokenizers, corpus_hash: str, parent: dict[str, str] | None = None
) -> Payload:
    """The entries that all checkpoints of a run have in common.

    A joint tokenizer is stored once, as the source's. `parent`: the checkpoint that the training
    started from, and the sha256 of its weights.
    """
    models = {}
    for name, model in tokenizers.models.items():
        side = name.replace("joint", "source")
        models[side] = torch.frombuffer(bytearray(model), dtype=torch.uint8)
    common: Payload = {
        "format": FORMAT,
        "config": to_dict(config),
        "tokenizers": tokenizers.settings | models,
        "corpus_hash": corpus_hash,
        "versions": versions(),
    }
    if parent:
        common["parent"] = parent
    return common


def save(path: Path, payload: Payload, previous: Path | None = None) -> None:
    """Write a checkpoint atomically: a reader gets the old file or the new one.

    `previous`: the name that the old file gets once the new one is complete. Tensors are named by
    their path in `payload`, as in `optimizer/state/0/exp_avg`; one with several names is stored
    once. All other entries are JSON texts of the file's header. The same content gives the same
    bytes. Raises UserError if the file cannot be written.
    """
    tensors, plain = flatten(payload)
    shared = shared_names(tensors)
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in plain.items()}
    texts["shared"] = json.dumps(shared, ensure_ascii=False)

    # Large elements first, so that each tensor begins at a multiple of its element size
    stored = {name: tensor for name, tensor in tensors.items() if name not in shared}
    names = sorted(stored, key=lambda name: (-stored[name].element_size(), name))

    # The header: its length, then the texts and the place of each tensor
    entries: dict[str, object] = {"__metadata__": texts}
    end = 0
    for name in names:
        tensor = stored[name]
        begin = end
        end += tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    entries[CHECKSUM] = {
        "dtype": "U8",
        "shape": [CHECKSUM_BYTES],
        "data_offsets": [end, end + CHECKSUM_BYTES],
    }
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    start = len(header).to_bytes(8, "little") + header

    # The file: header, tensors, and the checksum of all bytes before it
    sha256 = hashlib.sha256(start)
    try:
        with open_atomic(path, previous) as file:
            file.write(start)
            for name in names:
                tensor = stored[name]
                parts = tensor.parts() if isinstance(tensor, TensorParts) else [tensor]
                for part in parts:
                    data = as_bytes(part)
                    sha256.update(data)
                    file.write(data)
            file.write(sha256.digest())
    except OSError as error:
        raise UserError(
            f"The checkpoint {path} cannot be written: {error.strerror or error}."
        ) from None


def load(path: Path, with_tensors: bool = True) -> Payload:
    """Read what `save` wrote, or only the entries that are not tensors.

    Raises UserError when the file is missing, of another format, or not a checkpoint, and
    DamagedCheckpoint when its bytes are not those that were written.
    """
    texts, tensors = read_file(path, with_tensors)
    try:
        payload = {key: json.loads(text) for key, text in texts.items()}
        if payload["format"] != FORMAT:
            raise UserError(
                f"its format is {str(payload['format'])[:20]}, this version of the program reads "
                f"{FORMAT}"
            )
        shared = payload.pop("shared")
        if with_tensors:
            insert_tensors(payload, tensors, shared)
        check_entries(payload)
    except UserError as error:
        raise UserError(f"{path} is not a checkpoint of this program: {error}.") from None
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError):
        # RuntimeError: a tensor stands where a dict is expected
        raise UserError(f"{path} is not a checkpoint of this program.") from None
    return payload


def read_file(path: Path, with_tensors: bool) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The texts of a file's header, and its tensors by name; raises the errors of `load`."""
    try:
        begun = path.stat()
        if not has_right_checksum(path):
            raise ValueError
        with safe_open(path, framework="pt") as file:
            names = set(file.keys()) if with_tensors else set()
            texts = file.metadata() or {}
        tensors = {}
        for name in sorted(names - {CHECKSUM}):
            # The file is opened anew for each tensor, so that those already read are no longer
            # mapped; a tensor is cloned, since the file may change while it is in use
            with safe_open(path, framework="pt") as file:
                tensors[name] = file.get_tensor(name).clone()
        ended = path.stat()
        if (begun.st_ino, begun.st_mtime_ns) != (ended.st_ino, ended.st_mtime_ns):
            raise UserError(f"{path} was replaced while it was read; give the command again.")
        return texts, tensors
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint {path}.") from None
    except OSError as error:
        raise UserError(
            f"The checkpoint {path} cannot be read: {error.strerror or error}."
        ) from None
    except (SafetensorError, RuntimeError, ValueError, MemoryError):
        raise DamagedCheckpoint(
            f"{path} is damaged or cut short, or it is not a checkpoint of this program."
        ) from None


def has_right_checksum(path: Path) -> bool:
    left = path.stat().st_size - CHECKSUM_BYTES  # bytes to hash; negative in a very short file
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while left > 0 and (chunk := file.read(min(left, HASHED_BYTES))):
            sha256.update(chunk)
            left -= len(chunk)
        return left == 0 and file.read() == sha256.digest()


def as_bytes(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()


def flatten(payload: Payload, prefix: str = "") -> tuple[dict[str, Tensor | TensorParts], Payload]:
    """Nested dicts → the tensors by path (`model/output.weight`), and the dicts without them."""
    tensors: dict[str, Tensor | TensorParts] = {}
    plain: Payload = {}
    for key, value in payload.items():
        if isinstance(value, (Tensor, TensorParts)):
            tensors[f"{prefix}{key}"] = value
        elif isinstance(value, dict):
            below, plain[key] = flatten(value, f"{prefix}{key}/")
            tensors |= below
        else:
            plain[key] = value
    return tensors, plain


def insert_tensors(payload: Payload, tensors: dict[str, Tensor], shared: Mapping[str, str]) -> None:
    """Put tensors back into the nested dicts that `flatten` took them from.

    `shared` is the result of `shared_names`. Raises an error that `load` catches if a place is
    taken.
    """
    for alias, name in shared.items():
        tensors[alias] = tensors[name]
    for name, tensor in tensors.items():
        *folders, last = name.split("/")
        place = payload
        for folder in folders:
            place = place.setdefault(folder, {})
        if last in place:
            raise ValueError(name)
        place[last] = tensor
    if "optimizer" in payload:  # its parameters are numbers, which have become text in paths
        state = payload["optimizer"]["state"]
        by_number = {int(number): moments for number, moments in state.items()}
        payload["optimizer"]["state"] = by_number


def check_entries(payload: Mapping[str, Any]) -> None:
    """Raise UserError unless the entries that are not tensors are those of a checkpoint."""
    missing = REQUIRED.keys() - payload.keys()
    if missing:
        raise UserError(f"it has no {', '.join(sorted(missing))}")
    for name, kind in (REQUIRED | OPTIONAL).items():
        if name not in payload:
            continue
        # bool: a kind of int in Python
        if not isinstance(payload[name], kind) or isinstance(payload[name], bool):
            raise UserError(f"its {name} is not what a checkpoint has there")
    if not ("origin" in payload or "step" in payload.get("train_state", ())):
        raise UserError("it does not say which updates it comes from")
    texts = [payload["corpus_hash"], payload.get("origin", "")]
    for table in (payload["versions"], payload.get("parent", {})):
        texts += [*table, *table.values()]
    for text in texts:
        if not isinstance(text, str) or not is_printable(text) or len(text) > LONGEST_TEXT:
            raise UserError("its corpus_hash, origin, versions or parent are not plain text")
    for score in payload.get("valid", {}).values():
        if not isinstance(score, (int, float)) or isinstance(score, bool):
            raise UserError("its validation scores are not numbers")


def shared_names(tensors: Mapping[str, Tensor | TensorParts]) -> dict[str, str]:
    """{name: an earlier name} for tensors that are the same memory, such as tied embeddings."""
    first: dict[tuple[Any, ...], str] = {}  # the first name of each place in memory
    shared = {}
    for name, tensor in tensors.items():
        if not tensor.numel():
            continue
        if isinstance(tensor, TensorParts):
            place: tuple[Any, ...] = (id(tensor),)
        else:
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if place in first:
            shared[name] = first[place]
        else:
            first[place] = name
    return shared


def digest(payload: Payload) -> str:
    """The sha256 of a checkpoint's weights, which identifies them whatever their file is called."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(payload["model"].items()):
        sha256.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(as_bytes(tensor))
    return sha256.hexdigest()


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these checkpoints, oldest first, summed in float64.

    Integers are those of the newest one. Tensors with several names stay shared.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:  # after the loop, `weights` and `shared` are those of the newest
        weights = load(path)["model"]
        shared = shared_names(weights)
        for name in weights.keys() - shared.keys():
            sums[name] = sums.get(name, 0.0) + weights[name].double()
    means = {}
    for name, total in sums.items():
        means[name] = weights[name]
        if weights[name].is_floating_point():
            means[name] = (total / len(paths)).to(weights[name].dtype)
    return {name: means[shared.get(name, name)] for name in weights}


def merged_weights(model: EncoderDecoder) -> dict[str, Tensor | TensorParts]:
    """The weights with which the same model without LoRA computes the same.

    Those that LoRA changes are made while they are written.
    """
    weights: dict[str, Tensor | TensorParts] = {}
    for name, tensor in model.state_dict().items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if isinstance(module, LowRank):
            continue
        weights[name] = tensor
        if isinstance(module, (LoRALinear, LoRAMultiHeadAttention)) and last == "weight":
            parts = partial(merged_parts, module.lora, tensor)
            weights[name] = TensorParts(tensor.shape, tensor.dtype, parts)
    return weights


def merged_parts(lora: LowRank, weight: Tensor) -> list[Tensor]:
    return [lora.merged(weight)]  # a single part


def load_merged(model: EncoderDecoder, weights: Mapping[str, Tensor]) -> None:
    """Set the weights of a model with or without LoRA to what `merged_weights` has returned."""
    for module in model.modules():
        if isinstance(module, LowRank):
            nn.init.zeros_(module.up)  # so that it adds nothing to the merged weights
    model.load_state_dict(model.state_dict() | dict(weights))


def new_model(config: Config, tokenizers: Tokenizers) -> EncoderDecoder:
    """The model of a configuration, with random weights for these vocabularies."""
    return build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)


def model_of_weights(
    config: Config, tokenizers: Tokenizers, weights: Mapping[str, Tensor]
) -> EncoderDecoder:
    """The model of a configuration, whose weights are these tensors themselves, not copies.

    They must fit the model, as those that `check_model` has accepted do.
    """
    with torch.device("meta"):
        model = new_model(config, tokenizers)
    names: dict[int, list[str]] = {}  # of each parameter; a tied one has several
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    model.load_state_dict(weights, assign=True)
    # That has made a parameter of its own for each name: tie them again
    for first, *others in names.values():
        for name in others:
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, model.get_parameter(first))
    return model


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """A UserError in the block gets the checkpoint's path in front."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None


def check_model(path: Path, payload: Payload) -> tuple[Config, Tokenizers]:
    """Check that a checkpoint's weights fit its model; returns its configuration and tokenizers.

    Raises UserError, with `path`, for what cannot be used.
    """
    with path_in_errors(path):
        config = validate(payload["config"])
        stored = payload["tokenizers"]
        tokenizers = Tokenizers(read_tokenizer(stored, "source"), read_tokenizer(stored, "target"))
        with torch.device("meta"):  # a model that is far too large costs no memory here
            expected = new_model(config, tokenizers).state_dict()
        if "train_state" in payload and payload["model"].keys() != expected.keys():
            raise UserError(
                "it has only the weights that its training changes; best.safetensors has all"
            )
        check_tensors(payload["model"], expected, "the model of its configuration")
    return config, tokenizers


def restore(
    path: Path, payload: Payload, device: torch.device
) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint; the model is in evaluation mode.

    Raises UserError, with the checkpoint's `path`, for what cannot be used.
    """
    config, tokenizers = check_model(path, payload)
    model = model_of_weights(config, tokenizers, payload["model"])
    return config, tokenizers, model.to(device).eval()


@dataclass(frozen=True)
class Parent:
    """The trained run that a training starts from (from=RUN), and whose tokenizers it keeps."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]  # not copied: the training changes them
    corpus_hash: str  # of the text that it was trained on
    provenance: dict[str, str]  # stored in the checkpoints of the new run


def load_parent(path: Path) -> Parent:
    """Read a checkpoint to start from; raises UserError for what cannot be used."""
    payload = load(path)
    config, tokenizers = check_model(path, payload)
    provenance = {"checkpoint": f"{path.parent.name}/{path.name}", "weights": digest(payload)}
    return Parent(path, config, tokenizers, payload["model"], payload["corpus_hash"], provenance)


def load_config(path: Path) -> Config:
    """The configuration that a checkpoint was trained with; raises UserError."""
    with path_in_errors(path):
        return validate(load(path, with_tensors=False)["config"])


def read_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """The tokenizer of a side from the entry `tokenizers` of a checkpoint; raises UserError."""
    try:
        return make_tokenizer(stored, side)
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError):
        raise UserError(f"its {side} tokenizer is not one of this program") from None


def make_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """As `read_tokenizer`, which turns the errors that this raises into a UserError."""
    number = ("source", "target").index(side)
    model = stored.get(side, stored.get("source"))  # a joint one is stored as the source's
    lowercase = stored.get("lowercase")
    if not isinstance(model, Tensor) or model.dtype != torch.uint8:
        raise ValueError("no model of SentencePiece")
    if not isinstance(lowercase, bool):
        raise ValueError("lowercase")
    prefixes = {}
    for tag, ids in stored.get("prefixes", [{}, {}])[number].items():
        prefixes[str(tag)] = [int(piece) for piece in ids]
    added = stored.get("added", [[], []])[number]
    for word in added:
        if not isinstance(word, str) or not word.strip():
            raise ValueError("added words")
    tokenizer = Tokenizer(bytes(model.flatten().numpy()), lowercase, prefixes, added)
    processor = tokenizer.processor
    special = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if special != (PAD, UNK, BOS, EOS):
        raise ValueError("special pieces")
    for ids in prefixes.values():
        if not all(0 <= piece < tokenizer.size for piece in ids):
            raise ValueError("prefixes")
    return tokenizer


def check_tensors(given: Mapping[str, Any], expected: Mapping[str, Tensor], owner: str) -> None:
    """Raise UserError unless names, shapes and number formats are as expected, and numbers finite.

    The numbers of TensorParts are not checked. `owner` says in the message whose tensors `expected`
    are.
    """
    if given.keys() != expected.keys():
        name = sorted(given.keys() ^ expected.keys())[0]
        fault = "missing in it" if name in expected else f"not of {owner}"
        raise UserError(f"the weight {name!r:.100} is {fault}")
    for name, right in expected.items():
        tensor = given[name]
        if not isinstance(tensor, (Tensor, TensorParts)):
            raise UserError(f"the weight '{name}' is not a tensor")
        if (tensor.shape, tensor.dtype) != (right.shape, right.dtype):
            raise UserError(
                f"the weight '{name}' is {list(tensor.shape)} in {tensor.dtype}, but that of "
                f"{owner} is {list(right.shape)} in {right.dtype}"
            )
        if isinstance(tensor, Tensor) and not is_finite(tensor):
            raise UserError(f"the weight '{name}' has numbers that are not finite")


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; in parts, since `isfinite` of all at once takes memory."""
    return all(bool(part.isfinite().all()) for part in tensor.flatten().split(CHECKED_NUMBERS))


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a model without those that are frozen."""
    parameters = model.named_parameters(remove_duplicate=False)
    frozen = {name for name, parameter in parameters if not parameter.requires_grad}
    weights = model.state_dict()
    return {name: weights[name] for name in weights if name not in frozen}


def load_weights(model: nn.Module, weights: Mapping[str, Any]) -> None:
    """Set those weights of a model that are trained; raises UserError for another model's."""
    check_tensors(weights, trained_weights(model), "this model")
    model.load_state_dict(weights, strict=False)


def load_optimizer(optimizer: torch.optim.Optimizer, stored: Mapping[str, Any]) -> None:
    """Set the moments of an optimizer; its options stay those of the configuration.

    Raises UserError for the moments of another model.
    """
    parameters: list[torch.Tensor] = []
    for group in optimizer.param_groups:
        parameters += group["params"]
    state = stored.get("state")
    if not isinstance(state, dict) or not state.keys() <= set(range(len(parameters))):
        raise UserError("its optimizer is that of another model")
    for number, given in state.items():
        moments = given if isinstance(given, dict) else {}  # {} is refused below
        names = ["exp_avg", "exp_avg_sq"]  # of AdamW
        if "momentum" in moments:
            names = ["momentum"]  # of Muon
        expected = {"step": torch.tensor(0.0)} | dict.fromkeys(names, parameters[number])
        check_tensors(moments, expected, "the optimizer")
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
