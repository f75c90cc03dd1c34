"""Trained runs: found by name, folder or checkpoint file, and loaded."""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nmt.config import Config, DecodeConfig
from nmt.cpu import keep_freed_memory
from nmt.decode.parallel import usable_processes
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.inference import inference_copy
from nmt.train import checkpoint
from nmt.train.precision import autocast, select_device_or_auto, select_precision

log = logging.getLogger("nmt")


@dataclass
class Run:
    """A translator loaded from checkpoints, with its configuration and provenance."""

    folder: Path  # that its results are written to
    config: Config
    provenance: dict[str, Any]  # all that a translation depends on besides the source
    translator: Translator


def run_folder(config: Config) -> Path:
    """The folder of a run; there is no time in its name, so that the same command continues its own run."""
    return Path(config.run_folder) / config.name


def find_checkpoint(run: str, root: Path = Path("runs")) -> Path:
    """The checkpoint of RUN: a file, a folder, a name under `root`, or the word `latest`; raises UserError."""
    if run == "latest":
        checkpoints = sorted(root.glob("*/best.pt"), key=lambda path: path.stat().st_mtime)
        if not checkpoints:
            raise UserError(f"There is no trained run in {root}; train one with `nmt train`.")
        log.info("The latest run is %s.", checkpoints[-1].parent)
        return checkpoints[-1]
    for folder in (Path(run), root / run):
        if os.path.isfile(folder):  # unlike Path.is_file, False for a sentence too long to be a name
            return folder
        if os.path.isfile(folder / "best.pt"):
            return folder / "best.pt"
        if os.path.isdir(folder) and (folder / "config.yaml").exists():
            raise UserError(f"The run {folder} has no best.pt yet; it is written at the first validation.")
    names = sorted(path.parent.name for path in root.glob("*/best.pt"))
    hint = f"trained runs in {root}: {', '.join(names)}" if names else f"there is no trained run in {root}"
    shortened = run if len(run) <= 60 else f"{run[:60]} …"
    raise UserError(f"'{shortened}' is no run name, folder or checkpoint file; {hint}.")


def find_checkpoints(runs: str, root: Path) -> list[Path]:
    """The checkpoints of RUN or of RUN,RUN,…"""
    return [find_checkpoint(run, root) for run in ([runs] if os.path.exists(runs) else runs.split(","))]


def load(
    paths: Sequence[Path],
    beam: int | None = None,
    batch_tokens: int | None = None,
    precision: str | None = None,
    decode: DecodeConfig | None = None,
) -> Run:
    """Load checkpoints for translation, several as an ensemble.

    `decode`, `precision` (of search), `beam` and `batch_tokens` replace the first run's own. Raises UserError when an
    ensemble's members do not have the same vocabularies.
    """
    payloads = [checkpoint.load(path) for path in paths]
    device = select_device_or_auto(payloads[0]["config"].get("device", "auto"))
    restored = [checkpoint.restore(payload, device) for payload in payloads]
    config, tokenizers, model = restored[0]
    for path, (_, other, _) in zip(paths, restored, strict=True):
        if (other.source.model, other.target.model) != (tokenizers.source.model, tokenizers.target.model):
            raise UserError(f"{path} has another vocabulary than {paths[0]}; an ensemble needs one tokenizer for all.")
    for path, (member_config, _, member) in zip(paths, restored, strict=True):
        warn_of_open_window(path, member_config, member)
    folder = paths[0].parent
    if len(paths) > 1:
        model = Ensemble([member for _, _, member in restored]).eval()
        folder = folder.parent / "+".join(path.parent.name for path in paths)
    decode = replace(decode or config.decode)
    decode.beam, decode.batch_tokens = beam or decode.beam, batch_tokens or decode.batch_tokens
    keep_freed_memory()
    dtype = select_precision(precision or config.precision, device)
    processes = usable_processes(device)
    translator = Translator(
        model,
        tokenizers,
        decode,
        config.tokenizer.max_pieces,
        device,
        autocast(device, dtype),
        inference_copy(model, dtype),
        processes,
    )
    provenance: dict[str, Any] = {
        "decode": asdict(decode),
        "scored_with": checkpoint.versions(),
        "models": [checkpoint_provenance(path, payload) for path, payload in zip(paths, payloads, strict=True)],
        "computed": f"{str(dtype).removeprefix('torch.')} on {device.type}",
    }
    if processes > 1:
        provenance["processes"] = processes  # the batches depend on it, and in bf16 the scores on the batches
    return Run(folder, config, provenance, translator)


def warn_of_open_window(path: Path, config: Config, model: EncoderDecoder) -> None:
    """Warn of a window of local attention that has not yet narrowed to its radius."""
    if model.window_reach is not None and model.window_reach > config.model.window_radius:
        log.warning(
            "The window of %s has not narrowed to its radius yet: it reaches ±%.3g positions, not ±%d "
            "(model.window_narrowing_batches=%d).",
            path, model.window_reach, config.model.window_radius, config.model.window_narrowing_batches,
        )  # fmt: skip


def checkpoint_provenance(path: Path, payload: checkpoint.Payload) -> dict[str, Any]:
    """Where a checkpoint comes from: its update, a digest of its weights, seed, corpus, versions and configuration."""
    return {
        "checkpoint": f"{path.parent.name}/{path.name}",
        "origin": payload.get("origin") or f"update {payload['train_state']['step']}",
        "weights": checkpoint.digest(payload),
        "seed": payload["config"]["seed"],
        "corpus_hash": payload["corpus_hash"],
        "trained_with": payload["versions"],
        "config": payload["config"],
    }
