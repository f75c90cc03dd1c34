"""What must be the same in two runs of which one was killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from nmt.training import checkpoint

UNLIKE = ("speed/",)  # curves that measure time or memory


def differences(killed: Path, reference: Path) -> list[str]:
    """What differs between two run folders: checkpoints (to the bit), hypotheses, scores, curves; what is left over."""
    found = [f"left over: {path}" for path in killed.parent.parent.rglob("*") if is_left_over(path)]
    names = [sorted(path.name for path in folder.glob("*.safetensors")) for folder in (killed, reference)]
    if names[0] != names[1]:
        return [*found, f"checkpoints: {names[0]}, {names[1]}"]
    for name in names[0]:
        found += [f"{name}{path}" for path in differing(comparable(killed / name), comparable(reference / name))]
    for path in sorted(reference.glob("evaluate/*/hyp")):
        relative = path.relative_to(reference)
        if path.read_bytes() != (killed / relative).read_bytes():
            found.append(str(relative))
        scores = [
            json.loads((folder / relative.with_name("result.json")).read_text()) for folder in (killed, reference)
        ]
        found += [f"{relative.parent} {key}" for key in ("bleu", "chrf") if scores[0][key] != scores[1][key]]
    return found + [f"curve {tag}" for tag in differing_curves(killed / "tensorboard", reference / "tensorboard")]


def is_left_over(path: Path) -> bool:
    """Whether a file or folder is temporary, or says that a checkpoint was damaged."""
    return path.name.endswith(".tmp") or ".damaged." in path.name or path.name.startswith("tmp")


def comparable(path: Path) -> dict[str, Any]:
    """A checkpoint without what may differ: the folders of the run and the seconds it took."""
    payload = checkpoint.load(path)
    for key in ("data_folder", "run_folder"):
        payload["config"].pop(key)
    payload.get("train_state", {}).pop("seconds", None)
    return payload


def differing(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """The paths at which two nested structures differ, to the last bit."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from differing(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if left.dtype != right.dtype or left.shape != right.shape or not torch.equal(as_bytes(left), as_bytes(right)):
            yield path
    elif left != right:
        yield path


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, so that NaN equals itself and -0 is not 0."""
    return tensor.contiguous().flatten().view(torch.uint8)


def differing_curves(killed: Path, reference: Path) -> list[str]:
    """The curves with other steps, or other values unless they measure time, as TensorBoard itself reads them."""
    curves = [read_curves(folder) for folder in (killed, reference)]
    return [tag for tag in curves[0].keys() | curves[1].keys() if curves[0].get(tag) != curves[1].get(tag)]


def read_curves(folder: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Steps and values of every curve, table and image; those that measure time without their values."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    return {
        tag: [
            (event.step, b"" if tag.startswith(UNLIKE) else event.tensor_proto.SerializeToString())
            for event in events.Tensors(tag)
        ]
        for tag in events.Tags()["tensors"]
    }
