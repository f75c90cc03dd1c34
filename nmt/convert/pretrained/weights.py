"""The tensors of a folder of transformers: safetensors or .bin as torch writes it, one or several.

A safetensors file is mapped while one of its tensors is used, so that of a large model only this is
in memory. A .bin file is first written again as safetensors, since one of torch < 1.6 can only be
read as a whole; of several files one at a time is in memory.
"""

import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from nmt.convert.pretrained.files import INDEX, WEIGHTS, shard_names, unreadable
from nmt.errors import UserError
from nmt.training.checkpoint import shared_names

Weights = dict[str, Tensor]
QUANTIZED = (
    "its weights are quantized; take the original, or write it again after model.dequantize() of "
    "transformers"
)
SCALES = "SCB"  # of int8 tensors of bitsandbytes


class StoredWeights(Mapping[str, Tensor]):
    """The tensors of safetensors files by their names.

    Each is a view of its file, which stays open while it is used.
    """

    def __init__(self, places: Mapping[str, tuple[Path, str]]) -> None:
        """`places`: file and name there of each tensor; several names may have one place."""
        self.places = dict(places)
        self.changed: Weights = {}

    def change(self, names: Collection[str], change: Callable[[str, Tensor], Tensor]) -> None:
        """Replace those of some tensors that there are, in memory; tied ones stay one tensor."""
        made: dict[tuple[Path, str], Tensor] = {}
        for name in sorted(self.places.keys() & names):
            place = self.places[name]
            if place not in made:
                made[place] = change(name, self[name])
            self.changed[name] = made[place]

    def count_parameters(self) -> int:
        """The number of all trained numbers, tied ones counted once; position tables are none."""
        names = {place: name for name, place in self.places.items()}
        return sum(self[name].numel() for name in names.values() if "embed_positions" not in name)

    def __getitem__(self, name: str) -> Tensor:
        if name in self.changed:
            return self.changed[name]
        path, stored = self.places[name]
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(stored)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def are_equal(self, name: str, other: str) -> bool:
        """Whether two tensors are the same; of those that are stored once nothing is read."""
        first, second = (self.changed.get(each, self.places[each]) for each in (name, other))
        if first is second or (isinstance(first, tuple) and first == second):
            return True
        tensors = self[name], self[other]
        return tensors[0].dtype == tensors[1].dtype and torch.equal(*tensors)


def read_weights(folder: Path, scratch: Path, names: Sequence[str] = WEIGHTS) -> StoredWeights:
    """The tensors of the first of these files that a folder has; raises UserError.

    `scratch` is a folder for copies of .bin files, which must stay as long as the weights are used.
    """
    name = next((name for name in names if (folder / name).is_file()), None)
    if name is None:
        possible = [name for name in names if not name.endswith(INDEX)]
        raise UserError(f"there is no {' or '.join(possible)}")
    files = shard_names(folder / name) if name.endswith(INDEX) else [name]
    places: dict[str, tuple[Path, str]] = {}
    for file in files:
        path = folder / file
        shared = {}
        try:
            if path.suffix != ".safetensors":
                shared = rewrite(path, scratch / f"{file}.safetensors")
                path = scratch / f"{file}.safetensors"
            with safe_open(path, framework="pt") as opened:
                stored = list(opened.keys())
        except UserError:
            raise
        except Exception as error:
            # each library has errors of its own for what is damaged or not allowed
            raise unreadable(file, error) from None
        for tensor in stored:
            places[tensor] = (path, tensor)
        for alias, tensor in shared.items():
            places[alias] = (path, tensor)
    if any(name.endswith(SCALES) for name in places):
        raise UserError(QUANTIZED)
    return StoredWeights(places)


def rewrite(path: Path, copy: Path) -> dict[str, str]:
    """Write the tensors of a .bin file as safetensors.

    Returns the other names of tensors that have several. Raises UserError, and errors of torch.
    """
    tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=is_mappable(path))
    if not isinstance(tensors, dict) or not all(
        isinstance(tensor, Tensor) for tensor in tensors.values()
    ):
        raise UserError(f"{path.name} does not hold tensors by name")
    named = {str(name): tensor for name, tensor in tensors.items()}
    shared = shared_names(named)
    distinct = {name: tensor for name, tensor in named.items() if name not in shared}
    size = sum(tensor.nbytes for tensor in distinct.values())
    check_size(path, size, "tensors")
    save_file({name: own_memory(tensor) for name, tensor in distinct.items()}, copy)
    return shared


def own_memory(tensor: Tensor) -> Tensor:
    """The same tensor, copied where it is a part of a larger one."""
    is_whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if is_whole else tensor.clone(memory_format=torch.contiguous_format)


def is_mappable(path: Path) -> bool:
    """Whether a .bin file is a zip archive.

    Raises UserError where its entries are larger than the file.
    """
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    check_size(path, size, "entries")
    return True


def check_size(path: Path, size: int, parts: str) -> None:
    """Raise UserError where the parts of a file are larger than the file."""
    if size > path.stat().st_size:
        raise UserError(
            f"{path.name} cannot be read: its {parts} have {size} bytes, more than the file"
        )
