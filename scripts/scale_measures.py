"""What scripts/scale.py measures, each function in a process of its own.

Seconds are CPU seconds of the whole process unless a name contains `wall`; memory is in MiB, from
/proc (Linux). Resident memory counts every page that is mapped, pages of the corpus file included;
anonymous memory does not.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.corpora import NO_TOKENIZERS
from benchmarks.tables import Figures
from benchmarks.training import make_train_step, next_batches, random_model, trainer_on_corpus

from nmt.attention.cpu import keep_freed_memory
from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.data.batches import Batch, BatchIterator, Cursor, collate
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import EOS
from nmt.decode.beam_search import search
from nmt.runs.stages import build_corpus_stage, build_ids_stage, build_tokenizer_stage
from nmt.training.precision import autocast, select_precision

CPU = torch.device("cpu")
TOKENS = 1024  # target tokens of an update


def memory() -> dict[str, float]:
    names = {"VmRSS:": "resident", "RssAnon:": "anonymous", "VmHWM:": "peak"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[key]: int(value[0]) / 1024 for key, *value in lines if key in names}


def cost(function: Callable[..., Any], *arguments: object) -> tuple[Any, Figures]:
    """The function's result, its CPU seconds, and its peak of memory above what was resident
    before."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory()["resident"]
    start = time.process_time()
    result = function(*arguments)
    return result, {"seconds": time.process_time() - start, "peak": memory()["peak"] - before}


def best_cost(repeats: int, function: Callable[..., Any], *arguments: object) -> Figures:
    """The least seconds and the highest peak of several calls."""
    costs = [cost(function, *arguments)[1] for _ in range(repeats)]
    return {
        "seconds": min(each["seconds"] for each in costs),
        "peak": max(each["peak"] for each in costs),
    }


def drop_from_cache(path: Path) -> None:
    """Remove a file from the system's page cache, as if the machine had just been started."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settings(root: str, overrides: list[str]) -> Config:
    run_folder = (
        []
        if any(word.startswith("run_folder=") for word in overrides)
        else [f"run_folder={root}/runs"]
    )
    return compose_all([f"data_folder={root}/data", *run_folder, *overrides])[0]


def planning(path: str, batches: int = 2000) -> Figures:
    """Open a corpus, plan an epoch, and collate its first batches."""
    pairs, opening = cost(ParallelDataset, Path(path))
    iterator = BatchIterator(pairs, NO_TOKENIZERS, TOKENS, seed=1, sampling=0.0)
    plan, planned = cost(iterator.plan, 0)
    some = min(batches, len(plan))
    _, collated = cost(
        lambda: [iterator.batch(Cursor(0, 0, position)).tokens for position in range(some)]
    )
    row = {
        "open, s": opening["seconds"],
        "plan, s": planned["seconds"],
        "plan, MiB": planned["peak"],
    }
    return row | {"batches": len(plan), "batches/s": some / collated["seconds"]}


def stages(root: str, overrides: list[str]) -> dict[str, Figures]:
    config = settings(root, overrides)
    corpus, cleaning = cost(build_corpus_stage, config)
    tokenizer, learning = cost(build_tokenizer_stage, config, corpus)
    return {
        "corpus": cleaning,
        "tokenizer": learning,
        "ids": cost(build_ids_stage, config, corpus, tokenizer)[1],
    }


def training(
    root: str, overrides: list[str], started: float, updates: int, further_batches: int
) -> Figures:
    """Start or continue a training, make some updates, read `further_batches` more batches, and
    save the checkpoint.

    The start ends with the first update; memory is what is resident at the end.
    """
    keep_freed_memory()
    config = settings(root, overrides)
    trainer = trainer_on_corpus(config, Path(config.run_folder) / config.name)
    step = trainer.train_step
    step.update()
    figures = {"start, CPU s": time.process_time(), "start, wall s": time.time() - started}
    for _ in range(updates - 1):
        step.update()
    for _ in next_batches(step, further_batches):
        pass
    figures |= memory()
    trainer.save()
    return figures


def model_config(name: str, longest: int) -> Config:
    """conf/model/NAME.yaml on the CPU, for sentences of up to `longest` pieces."""
    config = compose_all([f"model={name}", "device=cpu"])[0]
    config.model.max_positions = longest + 1
    return config


class RandomBatches:
    """Stands in for a BatchIterator: random pairs, both sides of `length` pieces, about TOKENS of
    them in a batch."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.length = 16
        self.random = np.random.default_rng(1)

    def skip(self, cursor: Cursor, count: int) -> Cursor:
        return cursor._replace(position=cursor.position + count)

    def stream(
        self, cursor: Cursor, rank: int, world_size: int, pinned: bool
    ) -> Iterator[tuple[Cursor, Batch]]:
        while True:
            size = (2, max(1, TOKENS // self.length), self.length - 1)  # without </s>
            sources, targets = self.random.integers(EOS + 1, self.vocabulary, size)
            yield cursor, collate(list(sources), list(targets))
            cursor = self.skip(cursor, world_size)


def updates(model: str, lengths: list[int], vocabulary: int, repeats: int = 2) -> list[Figures]:
    """Updates at TOKENS target tokens, in sentences of each length: the fastest, and the peak above
    the model."""
    batches: Any = RandomBatches(vocabulary)
    config = model_config(model, max(16, *lengths))
    step = make_train_step(config, random_model(config, vocabulary), batches)
    step.update()  # warm-up
    parameters = sum(parameter.numel() for parameter in step.model.parameters())
    rows = []
    for length in lengths:
        batches.length = length
        row = {"model": model, "length": length, "vocabulary": vocabulary, "parameters": parameters}
        rows.append(row | best_cost(repeats, step.update))
    return rows


def beams(
    model: str, widths: list[int], sentences: int = 16, length: int = 20, repeats: int = 2
) -> list[Figures]:
    """Search over a batch with random weights, every hypothesis up to `length` pieces: CPU seconds
    a sentence."""
    network = random_model(model_config(model, length), 8000).eval()
    rows = []
    source = torch.randint(EOS + 1, 8000, (sentences, length))
    limit = torch.full((sentences,), length)
    with autocast(CPU, select_precision("auto", CPU)):
        search(network, source, None, 1, 1.0, limit)  # warm-up
        for width in widths:
            best = best_cost(repeats, search, network, source, None, width, 1.0, limit)
            rows.append(
                {"model": model, "beam": width} | best | {"seconds": best["seconds"] / sentences}
            )
    return rows
