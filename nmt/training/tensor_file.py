"""One file of tensors and texts in the safetensors format, with a checksum over every byte of it.

The last tensor, `sha256`, is the last 32 bytes of the file and the SHA-256 hash of all bytes before them. So a changed
bit anywhere is noticed: in the header, the weights, or the checksum itself. Any library for safetensors reads the file.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.errors import UserError

CHECKSUM = "sha256"  # the name of the last tensor
CHECKSUM_BYTES = 32
CHUNK = 1 << 20  # bytes that are hashed at a time
TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class DamagedFile(UserError):
    """A file whose bytes are not those that were written; the text names it."""


def write(file: BinaryIO, tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> None:
    """Write tensors, from any device, and texts; the same content gives the same bytes. Raises OSError."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # so that all are aligned
    entries: dict[str, object] = {"__metadata__": dict(texts)}
    end = 0
    for name in names:
        tensor, begin = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    entries[CHECKSUM] = {"dtype": "U8", "shape": [CHECKSUM_BYTES], "data_offsets": [end, end + CHECKSUM_BYTES]}
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    sha256 = hashlib.sha256()
    start = (len(header).to_bytes(8, "little"), header)
    for data in itertools.chain(start, (as_bytes(tensors[name]) for name in names)):
        sha256.update(data)
        file.write(data)
    file.write(sha256.digest())


def as_bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor from any device, row by row, as an array."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()


def read(path: Path, with_tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors (none without `with_tensors`) and texts of a file whose checksum is right.

    Raises DamagedFile when it is not, UserError when it is missing or cannot be read.
    """
    try:
        right = has_right_checksum(path)
        if right:
            with safe_open(path, framework="pt") as file:
                names = [name for name in file.keys() if name != CHECKSUM]  # noqa: SIM118, it is no dict
                # Copies: the file may change while its tensors are in use.
                return {name: file.get_tensor(name).clone() for name in names if with_tensors}, file.metadata() or {}
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint {path}.") from None
    except OSError as error:
        raise UserError(f"The checkpoint {path} cannot be read: {error.strerror or error}.") from None
    except (SafetensorError, RuntimeError, ValueError, MemoryError):
        pass
    raise DamagedFile(
        f"{path} is damaged or cut short, or it is no checkpoint of this program: its checksum or its header is wrong."
    )


def has_right_checksum(path: Path) -> bool:
    """Whether the last 32 bytes are the SHA-256 hash of those before them. Raises OSError."""
    rest = path.stat().st_size - CHECKSUM_BYTES
    with open(path, "rb") as file:
        sha256 = hashlib.sha256()
        for chunk in chunks(file, rest):
            sha256.update(chunk)
        return rest >= 0 and file.read() == sha256.digest()


def chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The next `size` bytes of a file, a part at a time; fewer if it ends before."""
    while size > 0 and (chunk := file.read(min(size, CHUNK))):
        size -= len(chunk)
        yield chunk
