"""The device and the number format."""

import torch

from nmt.attention.cpu import bf16_is_faster, has_bf16_units
from nmt.errors import UserError, choose


def select_device(name: str) -> torch.device:
    """The device of this name, made ready; `auto` is cuda where there is one, else the CPU.

    Raises UserError for a missing device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(
            f"device={name} is not available here; choose auto, cpu or a device that torch can use."
        ) from None
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest")  # float32, not TF32
        torch.backends.cudnn.allow_tf32 = False  # in LSTM and GRU
        # cuDNN's attention is planned anew for each shape, and search has a new one at every column
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def select_device_or_auto(name: str) -> torch.device:
    """The device a run was trained on where this machine has it, else that of `auto`."""
    try:
        return select_device(name)
    except UserError:
        return select_device("auto")


def select_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where its products are faster, else fp32.

    On CUDA that is from compute capability 8.0 on; a CPU with units for bf16 is timed.
    """
    if name != "auto":
        return choose("precision", name, {"bf16": torch.bfloat16, "fp32": torch.float32})
    if device.type == "cuda":
        faster = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        faster = device.type == "cpu" and has_bf16_units() and bf16_is_faster()
    return torch.bfloat16 if faster else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """A context in which matrix products are in bf16 if `dtype` is; parameters stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)
