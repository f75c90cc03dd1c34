"""The device, the number format and the random seed."""

import numpy as np
import torch

from nmt.attention.cpu import bf16_is_faster, has_bf16_units
from nmt.errors import UserError, choose


def select_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else the CPU; raises UserError for a device that this machine lacks."""
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
        choose_cuda_kernels()
    return device


def choose_cuda_kernels() -> None:
    """float32 is float32, not TF32, in products and in cuDNN's LSTM and GRU; fused attention is flash where it can be.

    For the whole process: a setting at each call would cost time at each call. cuDNN's attention, which PyTorch prefers
    on some GPUs, plans anew for each shape, and search has a new one at every column.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def select_device_or_auto(name: str) -> torch.device:
    """The device a run was trained on where this machine has it, else that of `auto`."""
    try:
        return select_device(name)
    except UserError:
        return select_device("auto")


def select_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bf16 where the hardware multiplies it faster (CUDA ≥ 8.0; a CPU is timed), else fp32."""
    if name != "auto":
        return choose("precision", name, {"bf16": torch.bfloat16, "fp32": torch.float32})
    if device.type == "cuda":
        faster = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        faster = device.type == "cpu" and has_bf16_units() and bf16_is_faster()
    return torch.bfloat16 if faster else torch.float32


def precision_name(dtype: torch.dtype) -> str:
    """The value of `precision` that selects this number format."""
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """A context in which matrix products are in bf16 if `dtype` is; parameters stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


def seed_batch(seed: int, step: int, batch: int) -> None:
    """Seed torch's generators for dropout and sampling in one micro-batch, number `batch` of the update after `step`.

    So what a training draws depends neither on the number of its processes nor on where it was interrupted.
    """
    torch.manual_seed(int(np.random.SeedSequence((seed, step, batch)).generate_state(1, np.uint64)[0]))
