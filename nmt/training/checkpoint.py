"""Checkpoint files: written atomically, with a checksum, and read as data that cannot run code.

Every checkpoint holds a translator: configuration, tokenizers, weights, and the versions it was
made with. `last.safetensors` also holds what a training needs to be resumed: optimizer and train
state. They are in one file, because one file can be replaced atomically: weights are never combined
with the optimizer of another update. If a training has frozen weights, its `last.safetensors` lacks
them: they are the parent's.

A file is in the safetensors format. Its last 32 bytes are the tensor `sha256`, the SHA-256 hash of
all bytes before it. The hash shows that a file is as it was written, but not who wrote it. So
nothing in a file is believed before it is checked: tokenizers and weights by
nmt/training/restore.py, all other entries here.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

import nmt
from nmt.config.schema import Config, to_dict
from nmt.corpus.files import open_atomic
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError, is_printable, report_os_error

FORMAT = 3  # raise it when an entry is renamed or changes its meaning; other formats are refused
CHECKSUM = "sha256"
CHECKSUM_BYTES = 32
HASHED_BYTES = 1 << 20  # at a time
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
    failure = f"The checkpoint {path} cannot be written"
    with report_os_error(failure), open_atomic(path, previous) as file:
        file.write(start)
        for name in names:
            tensor = stored[name]
            parts = tensor.parts() if isinstance(tensor, TensorParts) else [tensor]
            for part in parts:
                data = as_bytes(part)
                sha256.update(data)
                file.write(data)
        file.write(sha256.digest())


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

    `shared` is the result of `shared_names`. If a place is taken, it raises an error, which `load`
    turns into a UserError.
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
