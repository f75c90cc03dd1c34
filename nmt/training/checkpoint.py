"""Checkpoint files: written atomically, with a checksum over every byte, read as plain data that
cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was
made with. `last.safetensors` also holds what a training needs to be resumed: optimizer and train
state. All of it is one file, since one file is replaced atomically: weights never stand beside the
optimizer of another update.

A file is in the safetensors format. Its last tensor, `sha256`, is its last 32 bytes, and the
SHA-256 hash of all bytes before them. That only says that a file is as it was written, not who
wrote it: it may be a stranger's, so nothing in it is believed before it is checked.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

import nmt
from nmt.config.schema import Config, to_dict
from nmt.config.validation import validate
from nmt.data.files import open_atomic
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError, is_printable
from nmt.models.base import EncoderDecoder
from nmt.models.build import build

FORMAT = 3  # raise it when an entry is renamed or changes its meaning; other formats are refused
CHECKSUM, CHECKSUM_BYTES = "sha256", 32
CHUNK = 1 << 20  # bytes that are hashed at a time
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
LONGEST_TEXT = 10_000  # characters; the origin of an average names all its updates
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
    """A tensor that is made part by part, by rows, while it is written; it is never in memory as a
    whole."""

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
    libraries = {name: metadata.version(name) for name in ("sentencepiece", "sacrebleu")}
    return {
        "nmt": nmt.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    } | libraries


def pack(
    config: Config, tokenizers: Tokenizers, corpus_hash: str, parent: dict[str, str] | None = None
) -> Payload:
    """The entries that all checkpoints of a run have in common; a joint tokenizer is stored once.

    `parent`: the checkpoint that the training started from, and the sha256 of its weights.
    """
    models = {
        name.replace("joint", "source"): torch.frombuffer(bytearray(model), dtype=torch.uint8)
        for name, model in tokenizers.models.items()
    }
    common = {
        "format": FORMAT,
        "config": to_dict(config),
        "tokenizers": tokenizers.about | models,
        "corpus_hash": corpus_hash,
        "versions": versions(),
    }
    return common | ({"parent": parent} if parent else {})


def save(path: Path, payload: Payload, previous: Path | None = None) -> None:
    """Write a checkpoint atomically: a reader gets the old file or the new one. Raises UserError if
    it cannot.

    `previous`: the name that the old file gets once the new one is complete. Tensors are named by
    their path in `payload`, as in `optimizer/state/0/exp_avg`; one with several names is stored
    once. All other entries are JSON texts of the file's header. The same content gives the same
    bytes.
    """
    tensors, plain = flatten(payload)
    shared = shared_names(tensors)
    texts = {
        key: json.dumps(value, ensure_ascii=False)
        for key, value in (plain | {"shared": shared}).items()
    }
    # aligned
    names = sorted(
        tensors.keys() - shared.keys(), key=lambda name: (-tensors[name].element_size(), name)
    )
    entries: dict[str, object] = {"__metadata__": texts}
    end = 0
    for name in names:
        tensor = tensors[name]
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
    sha256 = hashlib.sha256(start)
    try:
        with open_atomic(path, previous) as file:
            file.write(start)
            for name in names:
                tensor = tensors[name]
                for part in tensor.parts() if isinstance(tensor, TensorParts) else [tensor]:
                    data = as_bytes(part)
                    sha256.update(data)
                    file.write(data)
            file.write(sha256.digest())
    except OSError as error:
        raise UserError(
            f"The checkpoint {path} cannot be written: {error.strerror or error}."
        ) from None


def load(path: Path, with_tensors: bool = True) -> Payload:
    """Read what `save` wrote; raises UserError when it is missing, of another format, or not a
    checkpoint.

    Raises DamagedCheckpoint when its bytes are not those that were written. Without `with_tensors`
    they are left out.
    """
    try:
        if not has_right_checksum(path):
            raise ValueError
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name != CHECKSUM and with_tensors]  # noqa: SIM118, it is no dict
            # the file may change while they are used
            tensors = {name: file.get_tensor(name).clone() for name in names}
            texts = file.metadata() or {}
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint {path}.") from None
    except OSError as error:
        raise UserError(
            f"The checkpoint {path} cannot be read: {error.strerror or error}."
        ) from None
    except (SafetensorError, RuntimeError, ValueError, MemoryError):
        raise DamagedCheckpoint(
            f"{path} is damaged or cut short, or it is no checkpoint of this program."
        ) from None
    try:
        payload = {key: json.loads(text) for key, text in texts.items()}
        if payload["format"] != FORMAT:
            raise UserError(
                f"its format is {str(payload['format'])[:20]}, this version of the "
                f"program reads {FORMAT}"
            )
        for alias, name in payload.pop("shared").items() if with_tensors else ():
            tensors[alias] = tensors[name]
        for name, tensor in tensors.items():
            insert(payload, name.split("/"), tensor)
        if with_tensors and "optimizer" in payload:
            state = payload["optimizer"]["state"]
            payload["optimizer"]["state"] = {
                int(number): moments for number, moments in state.items()
            }
        check_entries(payload)
    except UserError as error:
        raise UserError(f"{path} is not a checkpoint of this program: {error}.") from None
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError):
        # RuntimeError: of a tensor as a dict
        raise UserError(f"{path} is not a checkpoint of this program.") from None
    return payload


def has_right_checksum(path: Path) -> bool:
    rest = path.stat().st_size - CHECKSUM_BYTES
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while rest > 0 and (chunk := file.read(min(rest, CHUNK))):
            sha256.update(chunk)
            rest -= len(chunk)
        return rest == 0 and file.read() == sha256.digest()


def as_bytes(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()


def flatten(payload: Payload, prefix: str = "") -> tuple[dict[str, Tensor | TensorParts], Payload]:
    """The tensors of nested dicts by their path (`model/output.weight`), and the same dicts without
    them."""
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


def insert(payload: Payload, path: list[str], tensor: Tensor) -> None:
    """Put a tensor back to its place in nested dicts; raises one of several errors where something
    else is."""
    for key in path[:-1]:
        payload = payload.setdefault(key, {})
    if path[-1] in payload:
        raise ValueError(path[-1])
    payload[path[-1]] = tensor


def shared_names(tensors: Mapping[str, Tensor | TensorParts]) -> dict[str, str]:
    """{name: an earlier name} of tensors that are the same memory, such as tied embeddings."""
    first: dict[tuple[Any, ...], str] = {}
    shared = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, TensorParts):
            place: tuple[Any, ...] = (id(tensor),)
        else:
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and first.setdefault(place, name) != name:
            shared[name] = first[place]
    return shared


def digest(payload: Payload) -> str:
    """The sha256 of a checkpoint's weights, which identifies them whatever their file is called."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(payload["model"].items()):
        sha256.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(as_bytes(tensor))
    return sha256.hexdigest()


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these checkpoints, oldest first, summed in float64; integers are
    the newest one's.

    Tensors with several names stay shared.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        newest = load(path)["model"]
        shared = shared_names(newest)
        for name in newest.keys() - shared.keys():
            sums[name] = sums.get(name, 0.0) + newest[name].double()
    means = {
        name: (total / len(paths)).to(newest[name].dtype)
        if newest[name].is_floating_point()
        else newest[name]
        for name, total in sums.items()
    }
    return {name: means[shared.get(name, name)] for name in newest}


def new_model(config: Config, tokenizers: Tokenizers) -> EncoderDecoder:
    """The model of a configuration, with random weights for these vocabularies."""
    return build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A UserError in the block gets the name of the checkpoint."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None


def checked(path: Path, payload: Payload) -> tuple[Config, Tokenizers]:
    """Configuration and tokenizers of a checkpoint whose weights are those of its model; raises
    UserError with `path`.

    The model is first made without memory (device meta), so that what the configuration asks for
    costs nothing.
    """
    with naming(path):
        config = validate(payload["config"])
        stored = payload["tokenizers"]
        tokenizers = Tokenizers(read_tokenizer(stored, "source"), read_tokenizer(stored, "target"))
        with torch.device("meta"):
            expected = new_model(config, tokenizers)
        check_tensors(payload["model"], expected.state_dict(), "the model of its configuration")
    return config, tokenizers


def restore(
    path: Path, payload: Payload, device: torch.device
) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint, the model on `device` and in
    evaluation mode.

    Raises UserError, with the checkpoint's `path`, for what cannot be used.
    """
    config, tokenizers = checked(path, payload)
    model = new_model(config, tokenizers)
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
    with naming(path):
        return validate(load(path, with_tensors=False)["config"])


def check_entries(payload: Mapping[str, Any]) -> None:
    if missing := REQUIRED.keys() - payload.keys():
        raise UserError(f"it has no {', '.join(sorted(missing))}")
    for name, kind in (REQUIRED | OPTIONAL).items():
        if name in payload and (
            not isinstance(payload[name], kind) or isinstance(payload[name], bool)
        ):
            raise UserError(f"its {name} is not what a checkpoint has there")
    if not ("origin" in payload or "step" in payload.get("train_state", ())):
        raise UserError("it does not say which updates it comes from")
    parent = payload.get("parent", {})
    texts = [payload["corpus_hash"], payload.get("origin", ""), *parent, *parent.values()]
    texts += [*payload["versions"], *payload["versions"].values()]
    if not all(
        isinstance(text, str) and is_printable(text) and len(text) <= LONGEST_TEXT for text in texts
    ):
        raise UserError("its corpus_hash, origin, versions or parent are no plain text")
    scores = payload.get("valid", {}).values()
    if not all(isinstance(score, (int, float)) and not isinstance(score, bool) for score in scores):
        raise UserError("its validation scores are no numbers")


def read_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    model = stored.get(side, stored.get("source"))
    lowercase = stored.get("lowercase")
    try:
        if (
            not isinstance(model, Tensor)
            or model.dtype != torch.uint8
            or not isinstance(lowercase, bool)
        ):
            raise ValueError
        prefixes = stored.get("prefixes", [{}, {}])[side == "target"]
        added = stored.get("added", [[], []])[side == "target"]
        own = {str(tag): [int(piece) for piece in ids] for tag, ids in prefixes.items()}
        if not all(isinstance(word, str) and word.strip() for word in added):
            raise ValueError
        tokenizer = Tokenizer(bytes(model.flatten().numpy()), lowercase, own, added)
        processor = tokenizer.processor
        special = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
        if special != (PAD, UNK, BOS, EOS) or not all(
            0 <= piece < tokenizer.size for ids in own.values() for piece in ids
        ):
            raise ValueError
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError):
        raise UserError(f"its {side} tokenizer is none of this program") from None
    return tokenizer


def check_tensors(given: Mapping[str, Any], expected: Mapping[str, Tensor], owner: str) -> None:
    """Raise UserError unless names, shapes and number formats are those expected, and all numbers
    finite.

    The numbers of TensorParts are not looked at.
    """
    if given.keys() != expected.keys():
        name = sorted(given.keys() ^ expected.keys())[0]
        raise UserError(
            f"the weight {name!r:.100} is "
            f"{'missing in it' if name in expected else f'not of {owner}'}"
        )
    for name, right in expected.items():
        tensor = given[name]
        if not isinstance(tensor, (Tensor, TensorParts)):
            raise UserError(f"the weight '{name}' is no tensor")
        if (tensor.shape, tensor.dtype) != (right.shape, right.dtype):
            described, wanted = (f"{list(each.shape)} in {each.dtype}" for each in (tensor, right))
            raise UserError(f"the weight '{name}' is {described}, but that of {owner} is {wanted}")
        if isinstance(tensor, Tensor) and not tensor.isfinite().all():
            raise UserError(f"the weight '{name}' has numbers that are not finite")


def load_weights(model: nn.Module, weights: Mapping[str, Any]) -> None:
    """Set the weights of a model; raises UserError for those of another model."""
    check_tensors(weights, model.state_dict(), "this model")
    model.load_state_dict(weights)


def load_optimizer(optimizer: torch.optim.Optimizer, stored: Mapping[str, Any]) -> None:
    """Set what an optimizer has gathered; its options stay those of the configuration. Raises
    UserError."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = stored.get("state")
    if not isinstance(state, dict) or not state.keys() <= set(range(len(parameters))):
        raise UserError("its optimizer is that of another model")
    for number, moments in state.items():
        moments = moments if isinstance(moments, dict) else {}
        # of Muon, of AdamW
        names = ("momentum",) if "momentum" in moments else ("exp_avg", "exp_avg_sq")
        expected = {"step": torch.tensor(0.0)} | dict.fromkeys(names, parameters[number])
        check_tensors(moments, expected, "the optimizer")
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
