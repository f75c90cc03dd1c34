"""nmt train from=RUN: the configuration of a training that starts from a trained run.

Languages, model and tokenizer are those of the run. What its weights do not depend on may differ; anything else is
refused in one sentence. The search is that of the run unless it is given. The groups `data`, `optim` and `train` have
other defaults.
"""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config import Config, to_dict
from nmt.data.corpus import read_report
from nmt.data.replay import OldText
from nmt.errors import UserError
from nmt.run_folders import find_checkpoint
from nmt.trained_corpus import existing_corpus
from nmt.training.parent import Parent, load_parent, parent_config

log = logging.getLogger("nmt")

KEY = "from_run"  # how from=RUN is stored: `from` is a word of Python
GROUPS = {"data": "files", "optim": "fine_tuning", "train": "fine_tuning"}  # chosen unless others are given
FREE = ("model.dropout", "model.attention_dropout", "tokenizer.max_pieces")  # may differ from the run's
MISSING = (None, "???")


def start_words(overrides: Collection[str]) -> list[str]:
    """Overrides with from=RUN under the name of its key."""
    return [f"{KEY}={word.removeprefix('from=')}" if word.startswith("from=") else word for word in overrides]


def find_parent(run: str, root: Path) -> Path:
    """The checkpoint of a run to start from; raises UserError."""
    if run == "latest":
        raise UserError(
            "from=latest would be another run as soon as this training has begun, so that the same command could not "
            "continue it; give the name of the run."
        )
    return find_checkpoint(run, root)


def adopt(composed: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """The configuration with languages, model and tokenizer of the run that it starts from.

    `given`: the keys on the command line. Raises UserError for a run that cannot be read, and for values that do not
    fit it.
    """
    run, root = str(composed[KEY]), Path(composed["run_folder"])
    path = find_parent(run, root)
    old = to_dict(parent_config(path))
    if composed["name"] is None:
        composed["name"] = f"{path.parent.name}-tuned"
    if (root / composed["name"]).resolve() == path.parent.resolve():
        raise UserError(
            f"name={composed['name']} is the run that from={run} starts from; give the new one another name."
        )
    for side in ("source", "target"):
        language = composed["data"].get(side)
        if language in MISSING:
            composed["data"][side] = old["data"][side]
        elif language != old["data"][side]:
            raise UserError(f"from={run} translates from {old['data']['source']} to {old['data']['target']}; "
                            f"data.{side}={language} does not fit it.")  # fmt: skip
    for group in ("model", "tokenizer"):
        composed[group] = adopt_group(group, composed[group], old[group], given, run)
    if "decode" not in given:
        search = {name: value for name, value in old["decode"].items() if f"decode.{name}" not in given}
        composed["decode"] |= search
    return composed


def adopt_group(
    group: str, new: dict[str, Any], old: dict[str, Any], given: Collection[str], run: str
) -> dict[str, Any]:
    """The run's values of a group, with given ones of FREE; raises UserError for others that differ."""
    adopted = dict(old)
    for name in old.keys() | new.keys():
        key = f"{group}.{name}"
        if not ({group, key} & set(given)) or new.get(name) == old.get(name):
            continue
        if key not in FREE:
            wanted = group if group in given else key
            raise UserError(
                f"{wanted} cannot be given with from={run}: {key} is {old.get(name)} in that run, not {new.get(name)}, "
                "and its weights fit nothing else."
            )
        if key in given:
            adopted[name] = new[name]
    return adopted


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
