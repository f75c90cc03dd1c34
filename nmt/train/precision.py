"""Which device, which number format, and which seed."""

import torch

from nmt.cpu import bf16_is_faster, has_bf16_units
from nmt.errors import UserError


def pick_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else the CPU; raises UserError for a device that is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"device={name} is not available here; choose auto, cpu or a device that torch sees.") from None
    return device


def pick_device_again(name: str) -> torch.device:
    """The device a run was trained on where there is such a one, else what `auto` finds."""
    try:
        return pick_device(name)
    except UserError:
        return pick_device("auto")


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it faster (CUDA ≥ 8.0; a CPU is timed), else fp32."""
    if name != "auto":
        return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        fast = device.type == "cpu" and has_bf16_units() and bf16_is_faster()
    return torch.bfloat16 if fast else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """bf16 for matrix products where chosen; parameters stay fp32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


def seed_everything(seed: int) -> None:
    """The generators of every device; what is drawn elsewhere is drawn from generators of its own."""
    torch.manual_seed(seed)
