"""nmt train from=RUN: the configuration of a training that starts from a trained run.

Languages, model and tokenizer are those of the run. What its weights do not depend on may differ; anything else is
refused in one sentence. The search is that of the run unless it is given. The groups `data`, `optim` and `train` have
other defaults.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from nmt.config.schema import Config, to_dict
from nmt.errors import UserError

OpenRun = Callable[[str, Path], tuple[Path, Config]]  # RUN, folder of the runs → its checkpoint and configuration
KEY = "from_run"  # how from=RUN is stored: `from` is a word of Python
GROUPS = {"data": "files", "optim": "fine_tuning", "train": "fine_tuning"}  # chosen unless others are given
FREE = ("model.dropout", "model.attention_dropout", "tokenizer.max_pieces")  # may differ from the run's
MISSING = (None, "???")


def start_words(overrides: Collection[str]) -> list[str]:
    """Overrides with from=RUN under the name of its key."""
    return [f"{KEY}={word.removeprefix('from=')}" if word.startswith("from=") else word for word in overrides]


def adopt(composed: dict[str, Any], given: Collection[str], open_run: OpenRun) -> dict[str, Any]:
    """The configuration with languages, model and tokenizer of the run that it starts from.

    `given`: the keys on the command line. Raises UserError for a run that cannot be read, and for values that do not
    fit it.
    """
    run, root = str(composed[KEY]), Path(composed["run_folder"])
    path, config = open_run(run, root)
    old = to_dict(config)
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
