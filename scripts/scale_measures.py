"""What scripts/scale.py measures, each function in a process of its own.

Seconds are CPU seconds of the whole process unless a name contains `wall`; memory is in MiB, from /proc (Linux).
Resident memory counts every page that is mapped, pages of the corpus file included; anonymous memory does not.
"""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.tables import Figures
from benchmarks.training import next_batches, save_checkpoint, trainer_on_corpus

from nmt.compose import compose_all
from nmt.config import Config
from nmt.data.batches import BatchIterator
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import EOS, PAD
from nmt.decode.beam_search import search
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.pipeline import prepare_corpus, prepare_ids, prepare_tokenizer
from nmt.train.loss import training_loss
from nmt.train.precision import autocast, keep_memory, pick_precision

CPU = torch.device("cpu")
TOKENS = 1024  # target tokens of an update


def memory() -> dict[str, float]:
    """Resident memory, its anonymous part, and its peak."""
    names = {"VmRSS:": "resident", "RssAnon:": "anonymous", "VmHWM:": "peak"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[key]: int(value[0]) / 1024 for key, *value in lines if key in names}


def cost(function: Callable[..., Any], *arguments: object) -> tuple[Any, Figures]:
    """The function's result, its CPU seconds, and its peak of memory above what was resident before."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, start = memory()["resident"], time.process_time()
    result = function(*arguments)
    return result, {"seconds": time.process_time() - start, "peak": memory()["peak"] - before}


def best_cost(repeats: int, function: Callable[..., Any], *arguments: object) -> Figures:
    """The least seconds and the highest peak of several calls."""
    costs = [cost(function, *arguments)[1] for _ in range(repeats)]
    return {"seconds": min(each["seconds"] for each in costs), "peak": max(each["peak"] for each in costs)}


def drop_from_cache(path: Path) -> None:
    """Remove a file from the system's page cache, as if the machine had just been started."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settings(home: str, overrides: list[str]) -> Config:
    """A configuration whose data and runs are below `home`."""
    return compose_all([f"data_folder={home}/data", f"run_folder={home}/runs", *overrides], multirun=False)[0]


def planning(path: str, batches: int = 2000) -> Figures:
    """Open a corpus, plan an epoch, and collate its first batches."""
    pairs, opening = cost(ParallelDataset, Path(path))
    iterator = BatchIterator(pairs, None, TOKENS, 1, 0.0)  # type: ignore[arg-type]  # no tokenizer: nothing is sampled
    plan, planned = cost(iterator.plan, 0)
    some = min(batches, len(plan))
    _, collated = cost(lambda: [iterator.batch(0, position).tokens for position in range(some)])
    row = {"open, s": opening["seconds"], "plan, s": planned["seconds"], "plan, MiB": planned["peak"]}
    return row | {"batches": len(plan), "batches/s": some / collated["seconds"]}


def stages(home: str, overrides: list[str]) -> dict[str, Figures]:
    """What each stage from text to ids costs."""
    config = settings(home, overrides)
    corpus, cleaning = cost(prepare_corpus, config)
    tokenizer, learning = cost(prepare_tokenizer, config, corpus)
    return {"corpus": cleaning, "tokenizer": learning, "ids": cost(prepare_ids, config, corpus, tokenizer)[1]}


def training(home: str, overrides: list[str], started: float, updates: int, walk: int) -> Figures:
    """Start or continue a training, make some updates, read `walk` further batches, and save the checkpoint.

    The start ends with the first update; memory is what is resident at the end.
    """
    keep_memory()
    config = settings(home, overrides)
    trainer = trainer_on_corpus(config, Path(config.run_folder) / config.name)
    trainer.update()
    figures = {"start, CPU s": time.process_time(), "start, wall s": time.time() - started}
    for _ in range(updates - 1):
        trainer.update()
    for _ in next_batches(trainer, walk):
        pass
    figures |= memory()
    save_checkpoint(trainer)
    return figures


def fresh_model(name: str, vocabulary: int, longest: int) -> EncoderDecoder:
    """A model of conf/model with random weights that reads sentences of `longest` pieces."""
    config = compose_all([f"model={name}"], multirun=False)[0]
    config.model.max_positions = longest + 1
    torch.manual_seed(1)
    return build(config.model, vocabulary, vocabulary, True)


def updates(model: str, lengths: list[int], vocabulary: int, repeats: int = 2) -> list[Figures]:
    """Updates at TOKENS target tokens, in sentences of each length: the fastest, and the peak above the model."""
    network, dtype = fresh_model(model, vocabulary, max(lengths)), pick_precision("auto", CPU)
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4, fused=True)
    update(network, optimizer, 16, vocabulary, dtype)  # warm-up
    rows = []
    for length in lengths:
        row = {"model": model, "length": length, "vocabulary": vocabulary}
        row["parameters"] = sum(parameter.numel() for parameter in network.parameters())
        rows.append(row | best_cost(repeats, update, network, optimizer, length, vocabulary, dtype))
    return rows


def update(
    model: EncoderDecoder, optimizer: torch.optim.Optimizer, length: int, vocabulary: int, dtype: torch.dtype
) -> None:
    """One update over TOKENS // length random pairs, both sides of `length` pieces, </s> counted."""
    source, target, output = torch.randint(EOS + 1, vocabulary, (3, max(1, TOKENS // length), length))
    with autocast(CPU, dtype):
        loss, _ = training_loss(model, model(source, None, target), output, PAD, 0.1)
    (loss / output.numel()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def beams(model: str, widths: list[int], sentences: int = 16, length: int = 20, repeats: int = 2) -> list[Figures]:
    """Search over a batch with random weights, every hypothesis up to `length` pieces: CPU seconds a sentence."""
    network, rows = fresh_model(model, 8000, length).eval(), []
    source = torch.randint(EOS + 1, 8000, (sentences, length))
    limit = torch.full((sentences,), length)
    with autocast(CPU, pick_precision("auto", CPU)):
        search(network, source, None, 1, 1.0, limit)  # warm-up
        for width in widths:
            best = best_cost(repeats, search, network, source, None, width, 1.0, limit)
            rows.append({"model": model, "beam": width} | best | {"seconds": best["seconds"] / sentences})
    return rows
