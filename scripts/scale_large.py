"""A corpus beyond memory, measured by scripts/scale.py: its stages, a training's start, and a kill at a shard's edge.

Each function runs in a process of its own. Memory is sampled from /proc: of the process and all its children, resident
(mapped pages of files included) and anonymous. Stages that exist are reused, so that a run can be continued.
"""

import contextlib
import csv
import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scale_measures
from benchmarks.corpora import write_text
from benchmarks.tables import Figures
from benchmarks.training import trainer_on_corpus

from nmt.attention.cpu import keep_freed_memory
from nmt.data import shards
from nmt.runs.stages import build_corpus_stage, build_ids_stage, build_stages, build_tokenizer_stage
from nmt.training.trainer import Trainer

SECONDS = 1.0  # between two samples of memory


def sample_memory() -> tuple[float, float]:
    """MiB resident and anonymous of this process and its children together; shared pages count once."""
    pids = {os.getpid()}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                pids.add(int(path.parent.name))
    resident = anonymous = 0.0
    for pid in pids:
        with contextlib.suppress(OSError, KeyError):
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            lines = dict(row.split(":", 1) for row in rows)
            resident += int(lines["Pss"].split()[0]) / 1024
            anonymous += int(lines["Pss_Anon"].split()[0]) / 1024
    return resident, anonymous


@contextlib.contextmanager
def measured(name: str, root: str, figures: dict[str, Figures]) -> Iterator[None]:
    """Adds the seconds and the peak memory of the code inside to `figures`; the samples go to ROOT/memory.csv."""
    samples, stop, start = [sample_memory()], threading.Event(), time.time()

    def sample() -> None:
        with open(Path(root) / "memory.csv", "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            while not stop.wait(SECONDS):
                samples.append(sample_memory())
                writer.writerow([name, round(time.time() - start, 1), *map(round, samples[-1])])

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    peaks = [max(column) for column in zip(*samples, strict=True)]
    figures[name] = {"wall s": time.time() - start, "resident MiB": peaks[0], "anonymous MiB": peaks[1]}


def write_large_text(root: str, pairs: int) -> None:
    """Write the invented corpus, unless it is complete."""
    folder = Path(root) / "text"
    if not folder.exists():
        part = Path(root) / "text.part"
        shutil.rmtree(part, ignore_errors=True)
        write_text(part / "train", pairs)
        write_text(part / "held_out", 1000)
        part.rename(folder)


def large_stages(root: str, overrides: list[str], pairs_per_shard: int) -> dict[str, Figures]:
    """Build the stages; → seconds and memory of each that was built now, and the same of those built before."""
    shards.PAIRS_PER_SHARD = pairs_per_shard
    config, path = scale_measures.settings(root, overrides), Path(root) / "stages.json"
    figures: dict[str, Figures] = json.loads(path.read_text()) if path.exists() else {}
    folders: list[Path] = []
    builds = {"corpus": build_corpus_stage, "tokenizer": build_tokenizer_stage, "ids": build_ids_stage}
    for name, build in builds.items():
        new: dict[str, Figures] = {}
        with measured(name, root, new):
            folders.append(build(config, *folders))  # type: ignore[operator]
        figures.setdefault(name, new[name])
        path.write_text(json.dumps(figures))
    return figures


def large_start(root: str, overrides: list[str], pairs_per_shard: int, started: float) -> Figures:
    """A training's start from a cold cache to its first update, and its memory after some batches."""
    shards.PAIRS_PER_SHARD = pairs_per_shard
    folder = build_stages(scale_measures.settings(root, overrides)).ids
    for path in folder.iterdir():
        scale_measures.drop_from_cache(path)
    searching = time.time() - started  # for the folder, which is done once more
    figures: dict[str, Figures] = {}
    with measured("training", root, figures):
        row = scale_measures.training(root, overrides, started + searching, 3, 2000)
    return figures["training"] | {"wall s": row["start, wall s"]}


def begin_before_edge(root: str, overrides: list[str], pairs_per_shard: int, runs: str, batches: int) -> Figures:
    """Save a training that is `batches` batches before the end of its first shard."""
    trainer = large_trainer(root, [*overrides, f"run_folder={runs}"], pairs_per_shard)
    iterator = trainer.train_step.batches
    trainer.state.position = iterator.batch_counts[iterator.shard_number(0, 0)] - batches
    trainer.save()
    return {"shards": iterator.pairs.shard_count, "position": trainer.state.position}


def updates_until(
    root: str, overrides: list[str], pairs_per_shard: int, runs: str, step: int, kill: bool
) -> dict[str, Any]:
    """Continue until update `step` and save; → a digest of the weights, the optimizer and the place in the corpus.

    With `kill` one more update is made, and the process is killed.
    """
    trainer = large_trainer(root, [*overrides, f"run_folder={runs}"], pairs_per_shard)
    while trainer.state.step < step:
        trainer.train_step.update()
    trainer.save()
    if kill:
        trainer.train_step.update()
        os.kill(os.getpid(), signal.SIGKILL)
    digest = hashlib.sha256()
    for tensor in trainer.model.state_dict().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    for state in trainer.train_step.optimizer.state_dict()["state"].values():
        for key in sorted(state):
            digest.update(state[key].contiguous().numpy().tobytes())
    place = trainer.state.epoch, trainer.state.shard, trainer.state.position
    return {"digest": digest.hexdigest(), "place": place, "step": trainer.state.step}


def large_trainer(root: str, overrides: list[str], pairs_per_shard: int) -> Trainer:
    """The Trainer of a training below `root`, continued if it was saved."""
    shards.PAIRS_PER_SHARD = pairs_per_shard
    keep_freed_memory()
    config = scale_measures.settings(root, overrides)
    return trainer_on_corpus(config, Path(config.run_folder) / config.name)
