"""The keys and groups of the configuration by name, read from conf/ alone: a typing error is
answered at once.

What needs the schema, and with it PyTorch, is in nmt/config/compose.py.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.config import presets
from nmt.errors import UserError

EXPERIMENT = "experiment"  # its files set values of every group; a run of one has its name
FROM = "from_run"  # how from=RUN is stored: `from` is a word of Python
GROUPS = ("data", "tokenizer", "model", "optim", "train", "decode")


def config_folder() -> Path:
    """The folder of YAML files: beside the package in a checkout, inside it after a plain `pip
    install`."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def check_words(overrides: Sequence[str]) -> None:
    """Raise UserError with all keys and files of groups that do not exist; other values are not
    looked at."""
    faults = []
    keys = known_keys()
    for key, equals, value in (word.lstrip("+~").partition("=") for word in overrides):
        if key in (*GROUPS, EXPERIMENT) and equals:
            faults += [
                unknown_choice(key, each)
                for each in value.split(",")
                if each and each not in choices_of(key)
            ]
        elif equals and key not in keys and not key.startswith("hydra"):
            faults.append(unknown_key(key, keys))
    if faults:
        raise UserError(" ".join(faults))


def known_keys() -> list[str]:
    """Every key that a file of conf/ has; the schema has the same ones."""
    keys = dict.fromkeys([*GROUPS, "from", "for"])
    for path in sorted(config_folder().rglob("*.yaml")):
        try:
            text = path.read_text(encoding="utf-8")
            values = yaml.safe_load(text) or {}
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            continue  # which is explained where the whole is composed
        is_group = path.parent.name in GROUPS and "@package _global_" not in text
        keys |= dict.fromkeys(leaf_keys(values, f"{path.parent.name}." * is_group))
    return list(keys)


def help_of_keys() -> str:
    """The keys as conf/ has them, with values and comments: one file of each group, and the names
    of all."""
    defaults = yaml.safe_load((config_folder() / "config.yaml").read_text(encoding="utf-8"))[
        "defaults"
    ]
    files = {
        key: file for each in defaults if isinstance(each, dict) for key, file in each.items()
    } | {"data": "files"}
    parts = list[str]()
    for group in ("", *GROUPS):
        text = (config_folder() / group / f"{files.get(group, 'config')}.yaml").read_text(
            encoding="utf-8"
        )
        parts += ["", f"{group}=NAME: {', '.join(choices_of(group))}"] if group else []
        parts += [f"{group}.KEY=VALUE, here of {files[group]}:" if group else "KEY=VALUE:"]
        parts += [f"  {line}" for line in text.split("\n\n")[-1].splitlines()]
    return "\n".join(parts)


def leaf_keys(values: Any, prefix: str) -> Iterator[str]:
    for key, value in values.items() if isinstance(values, dict) else ():
        if key != "defaults":
            yield f"{prefix}{key}"
            yield from leaf_keys(value, f"{prefix}{key}.")


def unknown_key(key: str, keys: list[str]) -> str:
    """The sentence for a key that does not exist, with the nearest that does."""
    similar = difflib.get_close_matches(key, keys, n=3, cutoff=0.6)
    if not similar:
        group = key.rsplit(".", 1)[0] + "."
        similar = [each for each in keys if each.startswith(group)]
        keys = [each for each in keys if "." not in each]
    hint = f"did you mean {' or '.join(similar[:3])}?" if similar else f"known: {', '.join(keys)}."
    return f"There is no configuration key '{key}'; {hint}"


def choices_of(group: str) -> list[str]:
    """The files of a group, and auto where that is possible."""
    possible = sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))
    return possible + [presets.AUTO] * (group in presets.BASE)


def unknown_choice(group: str, name: str) -> str:
    """The sentence for GROUP=NAME when there is no such file."""
    possible = choices_of(group)
    if not possible:
        return f"There is no configuration group '{group}'; known: {', '.join(GROUPS)}."
    similar = difflib.get_close_matches(name, possible, n=1)
    hint = f" (did you mean {similar[0]}?)" if similar else ""
    return f"{group}={name} is not possible{hint}; choose one of {', '.join(possible)}."
