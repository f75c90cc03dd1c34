"""What scripts/scale.py measures, each call in a process of its own.

python scripts/scale_measures.py NAME '{"KEY": VALUE, …}'     prints what NAME measured as JSON

Seconds are CPU seconds of the whole process unless a name says `wall`; memory is in MiB, from /proc (Linux).
rss counts every page that is mapped in, pages of the corpus file included; anonymous is what is the program's alone.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from nmt.compose import compose_all
from nmt.config import Config
from nmt.data.batches import BatchIterator, plan_batches
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import PAD
from nmt.decode.beam_search import search
from nmt.errors import Stopped, UserError
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.pipeline import build_corpus_stage, build_ids_stage, build_tokenizer_stage, train
from nmt.train.loss import training_loss
from nmt.train.precision import autocast, select_precision
from nmt.train.train_step import TrainStep

Figures = dict[str, Any]
FIRST_ID = 4
TOKENS = 1024  # target tokens of an update


def alone(name: str, **arguments: object) -> Any:
    """What the measure `name` says in a fresh process of one thread."""
    command = [sys.executable, __file__, name, json.dumps(arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{name} {arguments}: {(done.stderr.strip() or 'it died without a word').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def memory() -> dict[str, float]:
    """Resident memory now, its anonymous part, and its peak."""
    names = {"VmRSS": "rss", "RssAnon": "anonymous", "VmHWM": "peak"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[key[:-1]]: int(rest[0]) / 1024 for key, *rest in lines if key[:-1] in names}


def forget_peak() -> float:
    """Give back what is free, let the peak begin anew, and return what is resident."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory()["rss"]


def timed(work: Callable[..., Any], *arguments: object) -> tuple[Any, Figures]:
    """What `work` of these returns, its CPU seconds, and its peak above what was resident before."""
    before, began = forget_peak(), time.process_time()
    result = work(*arguments)
    seconds = time.process_time() - began
    return result, {"seconds": seconds, "peak": memory()["peak"] - before}


def drop_from_cache(path: Path) -> None:
    """Let the system forget a file, as if the machine had just been started."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# ----------------------------------------------------------------------------------------------------------------------
# Ids


def planning(path: str, budget: int = TOKENS, batches: int = 2000) -> Figures:
    """Open a corpus, plan an epoch, and put its first batches together."""
    pairs, opened = timed(ParallelDataset, Path(path))
    _, read = timed(lambda: (pairs.source_lengths, pairs.target_lengths))
    planned, made = timed(plan_batches, pairs.source_lengths, pairs.target_lengths, budget, 1, 0)
    epochs = BatchIterator(pairs, None, budget, 1, 0.0)  # type: ignore[arg-type]  # no tokenizer: nothing is sampled
    epochs.cached_plan = (0, planned)
    some = min(batches, len(planned))
    _, filled = timed(lambda: [epochs.batch(0, position).tokens for position in range(some)])
    return {
        "pairs": len(pairs),
        "batches": len(planned),
        "open": opened,
        "lengths": read,
        "plan": made,
        "batches per second": some / filled["seconds"],
    }


def shards(paths: list[str], budget: int = TOKENS) -> Figures:
    """Open many corpora, and plan them one after the other; only one plan is kept."""
    many, opened = timed(lambda: [ParallelDataset(Path(path)) for path in paths])
    plans: list[Figures] = []
    rows, before = 0, memory()["anonymous"]
    for pairs in many:
        planned, made = timed(plan_batches, pairs.source_lengths, pairs.target_lengths, budget, 1, 0)
        rows, plans = rows + len(pairs), [*plans, made]
        del planned, pairs.source_lengths, pairs.target_lengths
    return {"pairs": rows, "open": opened, "plans": plans, "left": memory()["anonymous"] - before}


# ----------------------------------------------------------------------------------------------------------------------
# Training


def stages(home: str, words: list[str]) -> Figures:
    """The stages from text to ids: CPU seconds and peaks."""
    config = settings(home, words)
    corpus, cleaned = timed(build_corpus_stage, config)
    pieces, learnt = timed(build_tokenizer_stage, config, corpus)
    made, stored = timed(build_ids_stage, config, corpus, pieces)
    return {"corpus": cleaned, "tokenizer": learnt, "ids": stored}


def settings(home: str, words: list[str]) -> Config:
    """A configuration whose data and runs are below `home`."""
    return compose_all([f"data_folder={home}/data", f"run_folder={home}/runs", *words], multirun=False)[0]


def training(home: str, words: list[str], updates: int, began: float, walk: int = 0) -> Figures:
    """`nmt train` up to some updates, then interrupted; `walk`: also so many batches without an update."""
    figures: Figures = {}
    update = TrainStep.update

    def watched(step: TrainStep) -> dict[str, float]:
        result = update(step)
        if "first update, wall" not in figures:
            figures["first update, wall"], figures["first update"] = time.time() - began, time.process_time()
        if step.state.step % updates == 0:
            for position in range(min(walk, len(step.batches.plan(0)))):
                step.batches.batch(0, position)
            figures["walked"] = memory()
            os.kill(os.getpid(), 2)
        return result

    TrainStep.update = watched  # type: ignore[method-assign, assignment]
    try:
        with redirect_stdout(sys.stderr):
            train(settings(home, words))
    except Stopped:  # as it was asked to
        pass
    return figures


# ----------------------------------------------------------------------------------------------------------------------
# Models


def updates(model: str, lengths: list[int], vocabulary: int, repeats: int = 2) -> list[Figures]:
    """Whole updates at TOKENS target tokens, in sentences of each length: the fastest, and the peak above the model."""
    config = compose_all([f"model={model}"], multirun=False)[0]
    config.model.max_positions = max(lengths) + 1  # means nothing to most models, and to some all that they can read
    dtype = select_precision("auto", torch.device("cpu"))
    torch.manual_seed(1)
    made = build(config.model, vocabulary, vocabulary, True)
    optimizer = torch.optim.AdamW(made.parameters(), 1e-4, fused=True)
    update(made, optimizer, 16, vocabulary, dtype)  # what only the first one costs
    figures = []
    for length in lengths:
        runs = [timed(update, made, optimizer, length, vocabulary, dtype)[1] for _ in range(repeats)]
        figures.append(
            {
                "model": model,
                "length": length,
                "vocabulary": vocabulary,
                "parameters": sum(one.numel() for one in made.parameters()),
                "seconds": min(run["seconds"] for run in runs),
                "peak": max(run["peak"] for run in runs),
            }
        )
    return figures


def update(
    model: EncoderDecoder, optimizer: torch.optim.Optimizer, length: int, vocabulary: int, dtype: torch.dtype
) -> None:
    """One update over TOKENS // length random pairs, both sides of `length` pieces, </s> counted."""
    source, target, output = torch.randint(FIRST_ID, vocabulary, (3, max(1, TOKENS // length), length))
    with autocast(torch.device("cpu"), dtype):
        loss, _ = training_loss(model, model(source, None, target), output, PAD, 0.1)
    (loss / output.numel()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def beams(model: str, widths: list[int], sentences: int = 16, length: int = 20, repeats: int = 2) -> list[Figures]:
    """Search over a batch with an untrained model, every hypothesis up to `length` pieces: CPU seconds a sentence."""
    config = compose_all([f"model={model}"], multirun=False)[0]
    torch.manual_seed(1)
    made = build(config.model, 8000, 8000, True).eval()
    source = torch.randint(FIRST_ID, 8000, (sentences, length))
    limit = torch.full((sentences,), length)
    figures = []
    with autocast(torch.device("cpu"), select_precision("auto", torch.device("cpu"))):
        search(made, source, None, 1, 1.0, limit)
        for width in widths:
            runs = [timed(search, made, source, None, width, 1.0, limit)[1] for _ in range(repeats)]
            best = min(run["seconds"] for run in runs)
            peak = max(run["peak"] for run in runs)
            figures.append({"model": model, "beam": width, "seconds": best / sentences, "peak": peak})
    return figures


MEASURES: dict[str, Callable[..., Any]] = {
    "planning": planning,
    "shards": shards,
    "stages": stages,
    "training": training,
    "updates": updates,
    "beams": beams,
}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](**json.loads(sys.argv[2]))))
