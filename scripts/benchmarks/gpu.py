"""What bench_gpu.py measures besides updates on random ids: attention alone, its memory and its kernels."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.training import attention_kernels, device_memory_gib, synchronize
from nmt.attention.kernels import scaled_dot_product
from nmt.attention.linear import linear_attention
from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.data.batches import Cursor
from nmt.training.train_step import TrainStep


def configuration(overrides: list[str], device: str, precision: str = "bf16") -> Config:
    return compose_all([f"device={device}", f"precision={precision}", *overrides], multirun=False)[0]


def free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def repeat(step: TrainStep) -> TrainStep:
    """The same updates, to be made again over the same batches."""
    step.settle()
    step.state.epoch = step.state.shard = step.state.position = 0
    step.stream = step.batches.stream(Cursor(0, 0, 0), pinned=step.device.type == "cuda")
    return step


def attention_mib(length: int, name: str) -> dict[str, Any]:
    """Peak memory of attention, forward and backward, in MiB above its inputs; and the kernels that have names."""
    device = torch.device(name)
    mask = torch.ones(1, 1, 1, length, dtype=torch.bool, device=device)
    mask[..., -length // 4 :] = False
    kinds: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
        "causal": partial(scaled_dot_product, causal=True),
        "masked": partial(scaled_dot_product, mask=mask),
        "explicit": partial(scaled_dot_product, causal=True, weights=True),
        "linear": partial(linear_attention, mask=mask),
    }
    row: dict[str, Any] = {f"{kind} MiB": peak_mib(attend, length, device) for kind, attend in kinds.items()}

    def kernels(kind: str) -> str:
        sides = random_sides(length, device)
        return attention_kernels(lambda: kinds[kind](*sides)[0].sum().backward(), device)

    return row | {f"{kind}, kernels": kernels(kind) for kind in ("causal", "masked")}


def random_sides(length: int, device: torch.device) -> list[Tensor]:
    """Query, key and value [1 16 length 64] in bf16."""
    return [torch.randn(1, 16, length, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"]


def peak_mib(attend: Callable[..., tuple[Tensor, Tensor | None]], length: int, device: torch.device) -> float | str:
    """Peak memory of one attention with its gradients, in MiB above its inputs."""
    sides = random_sides(length, device)
    free_memory(device)
    before = device_memory_gib(device)
    try:
        attend(*sides)[0].sum().backward()
    except torch.OutOfMemoryError:
        return "does not fit"
    synchronize(device)
    return 1024 * (device_memory_gib(device) - before)
