"""One measurement of scripts/bench.py in a process of its own: start, train, translate; figures as JSON on stdout.

python scripts/bench_measure.py '{"overrides": […], "began": …, "warm": 3, "updates": 10, "sentences": 100, "alone": 9}'
"""

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from bench_machine import Watch
from torch import Tensor, nn

from nmt.compose import compose_all
from nmt.config import Config
from nmt.cpu import keep_freed_memory
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.decode.translator import Translation, Translator
from nmt.errors import UserError
from nmt.pipeline import prepare, report
from nmt.runs import load
from nmt.train.state import Meter, memory
from nmt.train.trainer import Trainer
from nmt.view.progress import Progress, install_logging

WORDS = 12  # of the sentences that are translated alone
UNLIKELY = 1e4  # taken off the logit of </s>, so that no translation ends before its limit


@dataclass
class Task:
    """What bench.py asks for."""

    overrides: list[str]
    began: float  # when the process was started, in seconds since 1970
    warm: int  # updates that do not count
    updates: int  # that do
    sentences: int  # translated together
    alone: int  # translated one by one


class Measured(Trainer):
    """The trainer with its own start, update and end; its loop looks at the clock in place of the validation set."""

    task: Task
    figures: dict[str, float]

    def loop(self, bar: Progress) -> None:
        """The first update ends the start-up; then the machine warms up; then updates count."""
        self.update()
        start_up = time.time() - self.task.began
        for _ in range(self.task.warm - 1):
            self.update()
        self.meter = Meter()
        self.wait()
        with Watch() as check_finite:
            for _ in range(self.task.updates):
                self.update()
            self.wait()
        self.figures = {
            "start_up_s": start_up,
            "train_tokens": self.meter.tokens,
            "train_tokens_per_s": self.meter.tokens / check_finite.wall,
            "train_tokens_per_cpu_s": self.meter.tokens / check_finite.cpu,
            "padded_share": self.meter.padding / self.meter.updates,
            "update_s": check_finite.wall / self.task.updates,
            "memory_gib": memory(self.device),
            "others_cores": check_finite.others,
        }

    def wait(self) -> None:
        """Kernels of a GPU run behind Python's back."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def measure(task: Task) -> dict[str, Any]:
    """All figures of one model on one corpus."""
    config = compose_all(task.overrides, multirun=False)[0]
    keep_freed_memory()
    prepared = prepare(config)
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        valid = ParallelDataset(prepared.ids / "valid.arrow")
        tokenizers, train = Tokenizers.load(prepared.tokenizer), ParallelDataset(prepared.ids / "train.arrow")
        trainer = Measured(config, tokenizers, train, valid, folder, report(prepared.corpus)["corpus_hash"])
        trainer.task = task
        trainer.run()
        figures = trainer.figures | facts(trainer, config)
        del trainer
        return figures | decode(folder / "last.pt", [valid.texts(row)[0] for row in range(len(valid))], task)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def facts(trainer: Trainer, config: Config) -> dict[str, Any]:
    """What was measured, beside how fast it was."""
    return {
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "vocabulary": trainer.vocabulary,
        "batch_tokens": config.train.batch_tokens,
        "precision": "bf16" if trainer.dtype == torch.bfloat16 else "fp32",
        "device": str(trainer.device),
        "threads": torch.get_num_threads(),
        "seed": config.seed,
        "beam": config.decode.beam,
    }


def decode(path: Path, lines: list[str], task: Task) -> dict[str, float]:
    """Many sentences at once, then single ones, by a translator loaded as `nmt translate` loads it."""
    translator = held(load([path]).translator)
    many, single = lines[: task.sentences], nearest(lines, task.alone)
    list(translator.translate(single[:2]))
    with Watch() as check_finite:
        found = list(translator.translate(many))
    seconds = []
    for line in single:
        began = time.perf_counter()
        list(translator.translate([line]))
        seconds.append(time.perf_counter() - began)
    tokens = written(found)
    return {
        "decode_sentences": len(many),
        "decode_tokens": tokens,
        "decode_sentences_per_s": len(many) / check_finite.wall,
        "decode_tokens_per_s": tokens / check_finite.wall,
        "decode_sentences_per_cpu_s": len(many) / check_finite.cpu,
        "alone_ms": 1000 * sorted(seconds)[len(seconds) // 2],
    }


def held(translator: Translator) -> Translator:
    """A briefly trained model ends nothing or everything: hold each translation to exactly its source's pieces."""
    translator.decode = replace(translator.decode, max_ratio=1.0, max_extra=0)
    translator.searched.output.register_forward_hook(not_yet)
    return translator


def not_yet(module: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
    """Make </s> so unlikely that it is only written where nothing else may be: at the limit."""
    logits[..., EOS] -= UNLIKELY


def written(found: list[Translation]) -> int:
    """Pieces, </s> counted; raises UserError unless all are as long as they were held to."""
    if any(len(one.ids) != len(one.source_ids) for one in found):
        raise UserError("A translation is not as long as its source: the search does not obey its limits.")
    return sum(len(one.ids) + 1 for one in found)


def nearest(lines: list[str], number: int) -> list[str]:
    """The lines whose words are nearest to WORDS in number, the first of them."""
    return sorted(lines, key=lambda line: abs(len(line.split()) - WORDS))[:number]


if __name__ == "__main__":
    install_logging()
    try:
        print(json.dumps(measure(Task(**json.loads(sys.argv[1])))))
    except UserError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
