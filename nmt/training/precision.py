"""The device and the number format."""

import torch

from nmt.attention.cpu import bf16_is_faster
from nmt.errors import UserError, choose

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


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


def select_precision(name: str, device: torch.device, is_training: bool = False) -> torch.dtype:
    """The number format of this name.

    `auto` on CUDA is bf16 from compute capability 8.0 on. From 7.0 on (V100, T4) it is fp16 in
    training and fp32 in search, because a model that was trained in another format may have sums
    that are too large for fp16. Elsewhere it is fp32, or bf16 on a CPU where that is faster.

    On devices other than CUDA, the name fp16 means fp32.
    """
    if name != "auto":
        dtype = choose("precision", name, DTYPES)
        return torch.float32 if name == "fp16" and device.type != "cuda" else dtype
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability >= (8, 0):
            return torch.bfloat16
        return torch.float16 if is_training and capability >= (7, 0) else torch.float32
    is_faster = device.type == "cpu" and bf16_is_faster()
    return torch.bfloat16 if is_faster else torch.float32


def precision_name(dtype: torch.dtype) -> str:
    """The name of a number format: its key in DTYPES."""
    return next(name for name, each in DTYPES.items() if each == dtype)


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """A context in which matrix products are in `dtype`; parameters stay float32."""
    if dtype == torch.float32:
        return torch.autocast(device.type, enabled=False)
    return torch.autocast(device.type, dtype=dtype)
