"""From words on the command line to checked configurations: the only module that uses Hydra.

Hydra's compose API alone: no working folders, no logs, no change of directory. Its errors become
one sentence.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from nmt.config import presets
from nmt.config.keys import EXPERIMENT, FROM, GROUPS, config_folder, unknown_choice, unknown_key
from nmt.config.schema import LIMITS, Config, DataConfig, to_dict
from nmt.config.validation import all_keys, first_line, validate
from nmt.errors import UserError

log = logging.getLogger("nmt")
NOT_QUOTED = "'\"[]{},\\$"  # signs of a value that means more than its letters
# for the corpus and the time of a configuration
Suggest = Callable[[Config], Sequence[presets.Suggestion]]
# RUN, folder of the runs → its checkpoint and configuration
OpenRun = Callable[[str, Path], tuple[Path, Config]]

# nmt train from=RUN: languages, model and tokenizer are those of the run. What its weights do not
# depend on may differ; anything else is refused. The search is that of the run unless it is given.
# chosen unless others are given
GROUPS_FROM = {"data": "files", "optim": "fine_tuning", "train": "fine_tuning"}
IMPORTED = "imported"  # data.train of a run whose text is not known
# How an imported run, and what was trained from it, is trained further: by default as its own
# configuration says.
KEPT_FURTHER = (
    "optim.lr",
    "optim.weight_decay",
    "train.replay",
    "train.rehearsal",
    "train.rehearsal_pieces",
)
# may differ from the run's
FREE = ("model.dropout", "model.attention_dropout", "tokenizer.max_pieces")


# Keys whose values are texts, also where they look like a number
TEXT_KEYS = {field.name for field in fields(Config) if field.type in (str, str | None)}
TEXT_KEYS |= {f"data.{field.name}" for field in fields(DataConfig) if field.type is str}


def no_run(run: str, root: Path) -> tuple[Path, Config]:
    """Where no run can be opened."""
    raise UserError(f"from={run} is not possible here.")


def compose_all(
    overrides: Sequence[str],
    multirun: bool,
    suggest: Suggest = lambda config: (),
    open_run: OpenRun = no_run,
) -> list[Config]:
    """The configuration of each combination of KEY=A,B (one without `multirun`); raises UserError.

    suggest: what model=auto and tokenizer=auto stand for; without it, for the defaults. open_run:
    finds the run of from=RUN.
    """
    overrides = [
        f"{FROM}={word.removeprefix('from=')}" if word.startswith("from=") else word
        for word in overrides
    ]
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        overrides = [with_quotes(override) for override in overrides]
        overrides = [
            f"+{word}" if word.startswith(f"{EXPERIMENT}=") else word for word in overrides
        ]
        parsed = parse(overrides)
        swept = [override for override in parsed if override.is_sweep_override()]
        if not multirun:
            if swept:
                raise UserError(
                    f"'{swept[0].input_line}' means several runs, which `nmt train -m` trains; "
                    "a list of values for one run is written KEY='[A,B]'."
                )
            return [compose(list(overrides), "", suggest, open_run)]
        combinations = BasicSweeper.split_arguments(parsed, max_batch_size=None)[0]
        keys = [override.get_key_element() for override in swept]
        if not any(override.get_key_element() == "name" for override in parsed):
            in_name = ("data", "model", f"+{EXPERIMENT}", FROM)
            keys = [key for key in keys if key not in in_name]
        configs = [
            compose(list(each), name_suffix(each, keys), suggest, open_run) for each in combinations
        ]
    names = [config.name for config in configs]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(
            f"Two of the {len(names)} runs would be called '{repeated[0]}'; give each "
            "a name: name=A,B."
        )
    return configs


def parse(overrides: Sequence[str]) -> list[Override]:
    """The overrides in Hydra's own grammar; raises UserError."""
    for word in overrides:
        if re.match(r"[+~]*hydra[./=]", word):
            raise UserError(
                f"'{word}' has no effect here: nmt only uses Hydra to compose its own "
                "configuration."
            )
    try:
        return OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(
            list(overrides)
        )
    except HydraException:
        word = next((word for word in overrides if not can_parse(word)), " ".join(overrides))
        raise UserError(
            f"{word} cannot be read as KEY=VALUE or KEY=[VALUE,VALUE]. A value with other signs "
            "than letters, "
            "digits and . _ - / : needs quotes that the shell leaves: KEY='\"VALUE\"'."
        ) from None


def with_quotes(override: str) -> str:
    """KEY=VALUE with quotes around what Hydra's grammar cannot read, such as the name of a file
    with spaces or ü.

    And around the values of keys that are texts: name=2024_11_25. What has quotes, brackets or a
    comma of its own stays, except [A,B] and the A,B of several runs.
    """
    (key, equals, value), readable = override.partition("="), can_parse(override)
    is_text = key in TEXT_KEYS
    if not equals or (readable and not is_text):
        return override
    is_list = value.startswith("[") and value.endswith("]")
    parts = value[1:-1].split(",") if is_list else value.split(",") if readable else [value]
    if any(set(part) & set(NOT_QUOTED) for part in parts):
        return override
    quoted = ",".join(part if part in ("", "null") else f"'{part}'" for part in parts)
    return f"{key}=[{quoted}]" if is_list else f"{key}={quoted}"


def can_parse(override: str) -> bool:
    try:
        OverridesParser.create().parse_overrides([override])
    except HydraException:
        return False
    return True


def name_suffix(combination: Sequence[str], swept: Sequence[str]) -> str:
    """The end of the name of one run of a multirun, made from what is swept, such as -seed2."""
    parts = (override.split("=", 1) for override in combination)
    ends = [
        f"{key.split('.')[-1]}{value}" for key, value in parts if key in swept and key != "name"
    ]
    return "".join("-" + re.sub(r"[^A-Za-z0-9.+_-]", "", end) for end in ends)


def compose(overrides: list[str], suffix: str, suggest: Suggest, open_run: OpenRun) -> Config:
    """One validated configuration; its name, by default that of the experiment or DATA-MODEL, ends
    in `suffix`.

    With from=RUN the name is by default RUN-tuned.
    """
    given = [
        override.get_key_element() for override in parse(overrides) if override.value() is not None
    ]
    starts = FROM in given
    if groups := [group for group in presets.BASE if f"{group}={presets.AUTO}" in overrides]:
        if starts:
            raise UserError(
                f"from=RUN keeps the {groups[0]} of the run; {groups[0]}=auto has "
                "nothing to choose."
            )
        return compose(fill_in(overrides, groups, given, suggest), suffix, suggest, open_run)
    if starts:
        overrides = [
            f"{key}={name}" for key, name in GROUPS_FROM.items() if key not in given
        ] + overrides
    try:
        composed = hydra.compose("config", overrides, return_hydra_config=True)
        choices = composed.hydra.runtime.choices
        with open_dict(composed):
            del composed["hydra"]
        plain = OmegaConf.to_container(composed, resolve=True) if starts else {}
        if composed.name is None and not starts:
            composed.name = choices.get(EXPERIMENT) or f"{choices.data}-{choices.model}"
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(explain(error)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(
            f"A file of conf/ cannot be read as YAML: {' '.join(str(error).split())[:300]}."
        ) from None
    if starts:
        assert isinstance(plain, dict)
        composed = OmegaConf.create(
            adopt({str(key): value for key, value in plain.items()}, given, open_run)
        )
    composed.name = f"{composed.name}{suffix}"
    return validate(composed)


def fill_in(
    overrides: list[str], groups: Sequence[str], given: Sequence[str], suggest: Suggest
) -> list[str]:
    """The overrides with what `auto` stands for in these groups; values that are given stay."""
    words = [f"{group}={presets.BASE[group]}" for group in groups]
    if "name" not in given and "model" in groups:
        data = next(
            (word.partition("=")[2] for word in overrides if word.startswith("data=")), "phrasebook"
        )
        words.append(f"name={data}-{presets.AUTO}")
    words += [
        word for word in overrides if word not in [f"{group}={presets.AUTO}" for group in groups]
    ]
    limits = {f"train.{name}" for name in LIMITS}
    for suggestion in suggest(compose(words, "", suggest, no_run)):
        # model=auto sets optim.lr too
        group = "tokenizer" if suggestion.key.startswith("tokenizer.") else "model"
        is_given = (
            suggestion.key in given or suggestion.key == presets.TIME and limits.intersection(given)
        )
        if group in groups and not is_given:
            words.append(suggestion.word)
            log.info("%s: %s", suggestion.word, suggestion.reason)
    return words


def adopt(composed: dict[str, Any], given: Collection[str], open_run: OpenRun) -> dict[str, Any]:
    """The configuration with languages, model and tokenizer of the run that it starts from.

    `given`: the keys on the command line. Raises UserError for a run that cannot be read, and for
    values that do not fit it.
    """
    run = str(composed[FROM])
    root = Path(composed["run_folder"])
    path, config = open_run(run, root)
    old = to_dict(config)
    if composed["name"] is None:
        composed["name"] = f"{path.parent.name}-tuned"
    if (root / composed["name"]).resolve() == path.parent.resolve():
        raise UserError(
            f"name={composed['name']} is the run that from={run} starts from; give the new one "
            "another name."
        )
    for side in ("source", "target"):
        language = composed["data"].get(side)
        if language in (None, "???"):
            composed["data"][side] = old["data"][side]
        elif language != old["data"][side]:
            raise UserError(
                f"from={run} translates from {old['data']['source']} to "
                f"{old['data']['target']}; "
                f"data.{side}={language} does not fit it."
            )
    composed["data"]["pair_tags"] = old["data"]["pair_tags"]
    for group in ("model", "tokenizer"):
        new, composed[group] = composed[group], old[group]
        for name in old[group].keys() | new.keys():
            key = f"{group}.{name}"
            was = old[group].get(name)
            wanted = new.get(name)
            if key in FREE and key in given:
                composed[group] = composed[group] | {name: wanted}
            elif key not in FREE and {group, key} & set(given) and wanted != was:
                raise UserError(
                    f"{group if group in given else key} cannot be given with from={run}: {key} is "
                    f"{was} in that run, "
                    f"not {wanted}, and its weights fit nothing else."
                )
    was_imported = old["data"].get("train") == IMPORTED or old["train"].get("rehearsal")
    for key in [
        *(f"decode.{name}" for name in old["decode"]),
        *(KEPT_FURTHER if was_imported else ()),
    ]:
        group, _, name = key.partition(".")
        if not {group, key} & set(given):
            composed[group][name] = old[group][name]
    return composed


def explain(error: Exception) -> str:
    """One sentence for an error of Hydra."""
    text = f"{error} {error.__cause__ or ''}"
    if match := re.search(r"Could not override '([^']*)'", text):
        default = hydra.compose("config")
        assert isinstance(default, DictConfig)
        return unknown_key(match[1].lstrip("+~").partition("=")[0], all_keys(default))
    if match := re.search(r"Could not find '([^/']+)/([^']+)'", text):
        return unknown_choice(match[1], match[2])
    if "Config group override must be" in text:
        return (
            "A configuration group cannot be null; choose a file of conf/ for each of "
            f"{', '.join(GROUPS)}."
        )
    if match := re.search(r"Could not override '([^']+)'.*?No match in the defaults list", text):
        return unknown_choice(match[1], "")
    return f"The configuration cannot be composed: {first_line(error)}."
