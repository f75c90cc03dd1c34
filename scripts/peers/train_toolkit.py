"""Runs inside a toolkit's own environment for scripts/bench_peers.py: trains it, counts and times
it from outside.

python -m peers.train_toolkit WARMUP UPDATES PRECISION TOOLKIT ARGUMENT …      the arguments of its
training command

PRECISION: fp32, or bf16 for its products.

Every toolkit is counted by the same lines: before each batch its target ids are read, those that
are no padding are its tokens (</s> counted), and a hook on torch's optimisers counts the updates.
After WARMUP + UPDATES updates the figures are written to stdout as JSON and the process ends at
once. nmt itself is timed by benchmarks/training.py, with the same stopwatch and the same definition
of a token.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from benchmarks.machine import Stopwatch, peak_memory_gib
from torch.optim.optimizer import register_optimizer_step_post_hook


class Toolkit(NamedTuple):
    """The method that gets each training batch, the target ids in its arguments, and the module of
    the command."""

    module: str
    owner: str
    method: str
    targets: Callable[..., Sequence[torch.Tensor]]
    padding: Callable[[Any], int]
    main: str
    autocast: bool  # bf16 from outside; otherwise by a setting of its own


TOOLKITS = {
    "onmt": Toolkit(
        "onmt.trainer",
        "Trainer",
        "_gradient_accumulation",
        lambda batches, *_: [batch["tgt"][:, 1:, 0] for batch in batches],
        lambda trainer: trainer.train_loss.padding_idx,
        "onmt.bin.train",
        True,
    ),
    "eole": Toolkit(
        "eole.trainer",
        "Trainer",
        "_train_step",
        lambda batches, *_, **__: [batch["tgt"][:, 1:] for batch in batches],
        lambda trainer: trainer.train_loss.padding_idx,
        "eole.bin.main",
        False,
    ),
}


class Meter:
    """Counts tokens and updates, and times the updates after `warmup`."""

    def __init__(self, warmup: int, updates: int) -> None:
        self.warmup = warmup
        self.last = warmup + updates
        self.tokens = self.positions = self.updates = 0
        self.timer = Stopwatch()

    def add(self, targets: Sequence[torch.Tensor], padding: int) -> None:
        self.tokens += sum(int((ids != padding).sum()) for ids in targets)
        self.positions += sum(ids.numel() for ids in targets)

    def update(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self.updates += 1
        if self.updates == self.warmup:
            self.tokens = self.positions = 0
            self.timer.__enter__()
        if self.updates == self.last:
            self.timer.__exit__()
            self.finish(
                sum(
                    parameter.numel()
                    for group in optimizer.param_groups
                    for parameter in group["params"]
                )
            )

    def finish(self, parameters: int) -> None:
        """Write the figures and end the process, without the toolkit's own end of training."""
        figures = {
            "tokens_per_s": self.tokens / self.timer.wall,
            "tokens_per_cpu_s": self.tokens / self.timer.cpu,
            "tokens": self.tokens,
            "target_padding": 1 - self.tokens / self.positions,
            "memory_gib": peak_memory_gib(),
            "others_cores": self.timer.others,
            "parameters": parameters,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        os.write(1, f"\n{json.dumps(figures)}\n".encode())
        os._exit(0)


def attach(meter: Meter, toolkit: Toolkit) -> None:
    """Count every batch that the toolkit trains on, and every update."""
    owner = getattr(importlib.import_module(toolkit.module), toolkit.owner)
    original = getattr(owner, toolkit.method)

    def counting(self: Any, *arguments: Any, **options: Any) -> Any:
        meter.add(toolkit.targets(*arguments, **options), toolkit.padding(self))
        return original(self, *arguments, **options)

    setattr(owner, toolkit.method, counting)
    register_optimizer_step_post_hook(meter.update)


def main() -> None:
    warmup = int(sys.argv[1])
    updates = int(sys.argv[2])
    precision = sys.argv[3]
    name = sys.argv[4]
    toolkit = TOOLKITS[name]
    attach(Meter(warmup, updates), toolkit)
    sys.argv = [name, *sys.argv[5:]]
    with torch.autocast("cpu", torch.bfloat16, enabled=toolkit.autocast and precision == "bf16"):
        sys.exit(importlib.import_module(toolkit.main).main())


if __name__ == "__main__":
    main()
