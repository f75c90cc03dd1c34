"""The small files of a folder of transformers, and the names of those that hold its weights."""

import json
from pathlib import Path
from typing import Any

from nmt.errors import UserError, report_os_error

HUB = "hf:"
# Small files, which nmt export writes back
KEPT = [
    "config.json",
    "generation_config.json",
    "*.spm",
    "*.model",
    "*vocab.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "README.md",
    "LICENSE*",
]
# The first of these that a folder has; an index names several files
WEIGHTS = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
]
INDEX = ".index.json"
MAX_BYTES = 1 << 27  # of a small file


def kept_files(folder: Path) -> dict[str, bytes]:
    """The small files of a folder of transformers by their names; raises UserError."""
    paths: set[Path] = set()
    for pattern in KEPT:
        paths.update(folder.glob(pattern))
    return {path.name: read_small(path) for path in sorted(paths)}


def read_small(path: Path) -> bytes:
    """The content of a file; raises UserError for one that cannot be read, or is too large."""
    with report_os_error(f"{path.name} cannot be read"):
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB")
        return path.read_bytes()


def shard_names(index: Path) -> list[str]:
    """The files that an index of weights names, each beside it; raises UserError."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise UserError(f"{index.name} has no weight_map")
    for name in files.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise UserError(f"{index.name} names {str(name)!r:.100}, which is not a file beside it")
    return sorted(set(files.values()))


def unreadable(name: str, error: Exception) -> UserError:
    """The error for a file whose library says why it is damaged, or not allowed."""
    lines = str(error).splitlines() or [type(error).__name__]
    return UserError(f"{name} cannot be read: {lines[0]:.200}")


def read_optional(path: Path) -> dict[str, Any]:
    """The content of a JSON file, {} where there is none; raises UserError."""
    return read_json(path) if path.exists() else {}


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; raises UserError."""
    try:
        content = json.loads(read_small(path).decode())
    except (ValueError, RecursionError):
        raise UserError(f"{path.name} cannot be read: it is not JSON") from None
    if not isinstance(content, dict):
        raise UserError(f"{path.name} does not hold an object")
    return content
