"""The keys and groups of the configuration by name, so that a typing error is answered at once.

They are read from conf/ alone. What needs the schema, and with it PyTorch, is in compose.py.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.config import presets
from nmt.errors import UserError, did_you_mean

EXPERIMENT = "experiment"  # a run of one has its name
ADDED_GROUPS = (EXPERIMENT, "debug")  # +GROUP=NAME; their files set values of every group
HEADER = re.compile(r"(?:#.*\n)*# *@package +_global_\s", re.ASCII)  # of a file of ADDED_GROUPS
FROM = "from_run"  # how from=RUN is stored: `from` is a word of Python
GROUPS = ("data", "tokenizer", "model", "optim", "train", "decode")


def config_folder() -> Path:
    """The folder of YAML files: beside the package in a checkout, inside it once installed."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def check_words(overrides: Sequence[str]) -> None:
    """Raise UserError for keys, and files of groups, that do not exist; it names all of them."""
    faults = []
    keys = known_keys()
    for word in overrides:
        key, equals, value = word.lstrip("+~").partition("=")
        if not equals:
            continue
        if key in (*GROUPS, *ADDED_GROUPS):
            for name in value.split(","):
                if name and name not in choices_of(key):
                    faults.append(unknown_choice(key, name))
        elif key not in keys and not key.startswith("hydra"):
            faults.append(unknown_key(key, keys))
    if faults:
        raise UserError(" ".join(faults))


def known_keys() -> list[str]:
    """Every key that a file of conf/ has; the schema has the same ones."""
    keys = dict.fromkeys([*GROUPS, "from", "for"])
    for path in sorted(config_folder().rglob("*.yaml")):
        keys |= dict.fromkeys(keys_in(path))
    return list(keys)


def keys_in(path: Path) -> list[str]:
    """The keys that a file of conf/ sets; none where Hydra will say that it is not valid."""
    try:
        text = path.read_text(encoding="utf-8")
        prefix = ""
        if path.parent.name in GROUPS and "@package _global_" not in text:
            prefix = f"{path.parent.name}."
        return list(leaf_keys(yaml.safe_load(text), prefix))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return []


def help_of_keys() -> str:
    """The keys as conf/ has them, with values and comments; of each group the default file."""
    main = (config_folder() / "config.yaml").read_text(encoding="utf-8")
    lines = ["KEY=VALUE:", *last_paragraph(main)]
    files = {}
    for default in yaml.safe_load(main)["defaults"]:
        if isinstance(default, dict):  # {group: file}
            files.update(default)
    files["data"] = "files"
    for group in GROUPS:
        text = (config_folder() / group / f"{files[group]}.yaml").read_text(encoding="utf-8")
        lines += ["", f"{group}=NAME: {', '.join(choices_of(group))}"]
        lines += [f"{group}.KEY=VALUE, here of {files[group]}:", *last_paragraph(text)]
    return "\n".join(lines)


def last_paragraph(text: str) -> list[str]:
    """The lines of the values in a file of conf/, behind its head and its defaults; indented."""
    lines = text.removeprefix("# @package _global_\n").split("\n\n")[-1].splitlines()
    return [f"  {line}" for line in lines]


def check_files(words: Sequence[str]) -> None:
    """Raise UserError for chosen files of conf/ that Hydra would misread.

    It takes a file without values, or with a list in their place, for one that sets nothing. What
    is no YAML it refuses itself.
    """
    read_values(config_folder() / "config.yaml")
    chosen = []
    for word in words:
        group, _, name = word.lstrip("+").partition("=")
        chosen.append((group, name))
    for group, name in chosen:
        path = config_folder() / group / f"{name}.yaml"
        if group not in (*GROUPS, *ADDED_GROUPS) or not path.is_file():
            continue
        values = read_values(path)
        chosen += [each for each in defaults_of(path, values) if each not in chosen]


def defaults_of(path: Path, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The group and the file of each entry of a defaults list, as in `override /data: files`."""
    defaults = values.get("defaults", [])
    if not isinstance(defaults, list):
        raise UserError(f"{path}: 'defaults:' needs lines '- override /GROUP: NAME' below it.")
    for default in defaults:
        entries = default.items() if isinstance(default, dict) else [("", default)]
        for key, name in entries:
            if not isinstance(key, str) or not isinstance(name, str):
                raise UserError(
                    f"{path}: the entry '{key}: {name}' of its defaults is not '/GROUP: NAME'."
                )
            yield key.removeprefix("override").strip(" /"), name


def read_values(path: Path) -> dict[str, Any]:
    """The values of a file of conf/; raises UserError where it has none, or no groups of them."""
    try:
        text = path.read_bytes().decode("utf-8")
        values = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8; save it as UTF-8.") from None
    except (OSError, yaml.YAMLError, RecursionError):
        return {}  # Hydra says what is wrong
    is_added = path.parent.name in ADDED_GROUPS
    if is_added and not HEADER.match(text.replace("\r\n", "\n")):
        fault = " and no byte order mark before it" if text.startswith("\ufeff") else ""
        raise UserError(f"{path} needs a first line '# @package _global_'{fault}.")
    if values is None and is_added:  # all values are the usual ones
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} has no lines KEY: VALUE.")
    for group in GROUPS:
        if is_added and not isinstance(values.get(group, {}), dict):
            raise UserError(f"{path}: '{group}:' needs lines KEY: VALUE below it, indented.")
    return values


def keys_of(group: str, name: str) -> list[str]:
    """The keys that a file of ADDED_GROUPS sets."""
    keys = keys_in(config_folder() / group / f"{name}.yaml")
    return [key for key in keys if key not in GROUPS]


def leaf_keys(values: Any, prefix: str) -> Iterator[str]:
    if not isinstance(values, dict):
        return
    for key, value in values.items():
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
    hint = f"known: {', '.join(keys)}."
    if similar:
        hint = f"did you mean {' or '.join(similar[:3])}?"
    return f"There is no configuration key '{key}'; {hint}"


def choices_of(group: str) -> list[str]:
    """The files of a group, and auto where that is possible."""
    possible = sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))
    if group in presets.BASE:
        possible.append(presets.AUTO)
    return possible


def unknown_choice(group: str, name: str) -> str:
    """The sentence for GROUP=NAME when there is no such file."""
    possible = choices_of(group)
    if not possible:
        return f"There is no configuration group '{group}'; known: {', '.join(GROUPS)}."
    hint = did_you_mean(name, possible)
    return f"{group}={name} is not possible{hint}; choose one of {', '.join(possible)}."
