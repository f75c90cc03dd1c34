"""nmt train from=RUN: the run that a training starts from, and its old text."""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config.compose import FREE
from nmt.config.schema import Config, to_dict
from nmt.data.corpus import read_report
from nmt.data.training_plan import OldText
from nmt.errors import UserError
from nmt.runs.folders import existing_corpus, find_checkpoint
from nmt.training.checkpoint import Parent, load_config, load_parent

log = logging.getLogger("nmt")


def find_parent(run: str, root: Path) -> Path:
    """The checkpoint of a run to start from; raises UserError."""
    if run == "latest":
        raise UserError(
            "from=latest would be another run as soon as this training has begun, so that the same command could not "
            "continue it; give the name of the run."
        )
    return find_checkpoint(run, root)


def parent_of(run: str, root: Path) -> tuple[Path, Config]:
    """The checkpoint of a run to start from and its configuration; raises UserError."""
    return (path := find_parent(run, root)), load_config(path)


def open_parent(config: Config) -> Parent | None:
    """The run that a training starts from, None without from=RUN; raises UserError."""
    if config.from_run is None:
        if config.train.replay:
            raise UserError("train.replay is a share of the old pairs of a run; it needs from=RUN.")
        return None
    parent = load_parent(find_parent(config.from_run, Path(config.run_folder)))
    for group in ("model", "tokenizer"):
        new, old = (to_dict(each)[group] for each in (config, parent.config))
        if any(new.get(name) != old.get(name) for name in new.keys() | old.keys() if f"{group}.{name}" not in FREE):
            raise UserError(f"The configuration has another {group} than {parent.path}, from which it is to start.")
    return parent


def find_old_text(config: Config, parent: Parent) -> OldText | None:
    """The corpus that the run was trained on; raises UserError where it is gone but needed for train.replay."""
    where = parent.path.parent
    for data_folder in (config.data_folder, parent.config.data_folder):
        moved = replace(parent.config, data_folder=data_folder)
        if folder := existing_corpus(moved, {parent.corpus_hash}, where):
            return OldText(folder, read_report(folder), config.train.replay)
    gone = f"The corpus that {where} was trained on is no longer in {config.data_folder}"
    if config.train.replay:
        raise UserError(
            f"{gone}; prepare it with `nmt download` and the words of its training, or give train.replay=0 to train on "
            "new text alone."
        )
    log.warning("%s; its test sets are not scored again.", gone)
    return None


def check_tags(tags: Collection[str], parent: Parent) -> None:
    """Raise UserError for tags of the new text that are no pieces of the run's vocabulary."""
    if unknown := sorted(set(tags) - parent.tokenizers.source.tags):
        raise UserError(
            f"The vocabulary of {parent.path.parent} has no piece {', '.join(unknown)}, and pieces cannot be added; "
            "train without these tags, or train a new model."
        )
