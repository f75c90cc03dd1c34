"""What bench_gpu.py needs besides updates on random ids."""

import gc

import torch

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
