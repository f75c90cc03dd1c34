"""Runs inside a toolkit's own environment for scripts/bench_peers.py: trains it, counts and times it from outside.

python scripts/bench_inside.py WARM UPDATES ENVIRONMENT WORD …      the words of the toolkit's training command

Every toolkit is counted by the same lines: before each batch its target ids are asked for, those that are no padding
are its tokens (</s> counted), and a hook on torch's optimisers looks at the clock after each update. After WARM +
UPDATES updates the figures are written to stdout as JSON and the process ends at once. UPDATES = 0 counts nothing.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from bench_machine import Watch
from torch.optim.optimizer import register_optimizer_step_post_hook


class Counted(NamedTuple):
    """Where a toolkit meets a batch that it will train on: a method, and the target ids among its arguments."""

    module: str
    owner: str
    method: str
    targets: Callable[..., Sequence[torch.Tensor]]
    padding: Callable[[Any], int]
    main: str  # module of its command


COUNTED = {
    "onmt": Counted(
        "onmt.trainer", "Trainer", "_gradient_accumulation",
        lambda batches, *_: [batch["tgt"][:, 1:, 0] for batch in batches],
        lambda trainer: trainer.train_loss.padding_idx, "onmt.bin.train",
    ),
    "eole": Counted(
        "eole.trainer", "Trainer", "_train_step",
        lambda batches, *_, **__: [batch["tgt"][:, 1:] for batch in batches],
        lambda trainer: trainer.train_loss.padding_idx, "eole.bin.main",
    ),
    "joey": Counted(
        "joeynmt.training", "TrainManager", "_train_step",
        lambda batch: [batch.trg], lambda trainer: trainer.model.pad_index, "joeynmt.__main__",
    ),
    "sockeye": Counted(
        "sockeye.training", "EarlyStoppingTrainer", "_step",
        lambda batch: [batch.labels["target_label"]], lambda _: 0, "sockeye.train",
    ),
    "hf": Counted(
        "transformers", "Seq2SeqTrainer", "training_step",
        lambda model, inputs, *_: [inputs["labels"]], lambda _: -100, "bench_marian",
    ),
    "nmt": Counted(
        "nmt.train.trainer", "Trainer", "backward",
        lambda batch, *_: [batch.output], lambda _: 0, "nmt.cli",
    ),
}  # fmt: skip


class Meter:
    """Tokens and updates since the start, and a watch over those that count."""

    def __init__(self, warm: int, updates: int) -> None:
        self.warm, self.last = warm, warm + updates
        self.tokens = self.cells = self.done = 0
        self.check_finite = Watch()

    def add(self, targets: Sequence[torch.Tensor], padding: int) -> None:
        """A batch that is about to be trained on."""
        self.tokens += sum(int((ids != padding).sum()) for ids in targets)
        self.cells += sum(ids.numel() for ids in targets)

    def update(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """After each step of an optimiser."""
        self.done += 1
        if self.done == self.warm:
            self.tokens = self.cells = 0
            self.check_finite.__enter__()
        if self.done == self.last:
            self.check_finite.__exit__()
            self.end(sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"]))

    def end(self, parameters: int) -> None:
        """Say it, and leave without the toolkit's own end."""
        import resource  # not on Windows

        check_finite = self.check_finite
        figures = {
            "tokens_per_s": self.tokens / check_finite.wall,
            "tokens_per_cpu_s": self.tokens / check_finite.cpu,
            "tokens": self.tokens,
            "padding": 1 - self.tokens / self.cells,
            "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "others_cores": check_finite.others,
            "parameters": parameters,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        os.write(1, f"\n{json.dumps(figures)}\n".encode())
        os._exit(0)


def attach(meter: Meter, where: Counted) -> None:
    """Count every batch that the toolkit trains on."""
    owner = getattr(importlib.import_module(where.module), where.owner)
    original = getattr(owner, where.method)

    def counting(self: Any, *arguments: Any, **options: Any) -> Any:
        meter.add(where.targets(*arguments, **options), where.padding(self))
        return original(self, *arguments, **options)

    setattr(owner, where.method, counting)
    register_optimizer_step_post_hook(meter.update)


def main() -> None:
    """Count, then let the toolkit do as its command says."""
    warm, updates, environment = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    where = COUNTED[environment]
    if updates:
        attach(Meter(warm, updates), where)
    sys.argv = [environment, *sys.argv[4:]]
    sys.exit(importlib.import_module(where.main).main())


if __name__ == "__main__":
    main()
