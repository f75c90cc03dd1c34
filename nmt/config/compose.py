"""From words on the command line to checked configurations: the only module that uses Hydra.

Only Hydra's compose API is used: no working folders, no logs, no change of directory. Its errors
become one sentence.
"""

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from glob import escape, glob
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
from nmt.config.keys import (
    ADDED_GROUPS,
    EXPERIMENT,
    FROM,
    GROUPS,
    check_files,
    config_folder,
    keys_of,
    unknown_choice,
    unknown_key,
)
from nmt.config.schema import LIMITS, Config, DataConfig, to_dict
from nmt.config.validation import all_keys, first_line, validate
from nmt.errors import UserError

log = logging.getLogger("nmt")
# For the corpus and the time of a configuration, and the keys that are given
Suggest = Callable[[Config, Collection[str]], Sequence[presets.Suggestion]]
# RUN, folder of the runs → the folder of the run, of all its versions, and its configuration
OpenRun = Callable[[str, Path], tuple[Path, Config]]

# Keys whose values are texts, also where they look like a number
TEXT_KEYS = {field.name for field in fields(Config) if field.type in (str, str | None)}
TEXT_KEYS |= {f"data.{field.name}" for field in fields(DataConfig) if field.type is str}
FILE_KEYS = {f"data.{name}" for name in ("train", "valid", "test", "mono")}
TEXT_KEYS |= FILE_KEYS
NOT_QUOTED = set("'\"[]{},\\$")  # signs of a value that means more than its letters

# nmt train from=RUN: languages, model and tokenizer are those of the run. What its weights do not
# depend on may differ; anything else is refused. The search is that of the run unless it is given.
GROUPS_FROM = {"data": "files", "optim": "fine_tuning", "train": "fine_tuning"}  # unless given
FREE = ("model.dropout", "model.attention_dropout", "tokenizer.max_pieces")  # may differ
IMPORTED = "imported"  # data.train of a run whose text is not known
# How an imported run, and what was trained from it, is trained further, unless given: as its own
# configuration says
KEPT_FURTHER = [
    "optim.lr",
    "optim.weight_decay",
    "train.replay",
    "train.rehearsal",
    "train.rehearsal_pieces",
    "train.lora",
]


def no_suggestions(config: Config, given: Collection[str]) -> Sequence[presets.Suggestion]:
    """model=auto and tokenizer=auto stand for the defaults."""
    return ()


def no_run(run: str, root: Path) -> tuple[Path, Config]:
    """No run can be opened."""
    raise UserError(f"from={run} is not possible here.")


def compose_all(
    overrides: Sequence[str],
    multirun: bool = False,
    suggest: Suggest = no_suggestions,
    open_run: OpenRun = no_run,
) -> list[Config]:
    """The configuration of each combination of KEY=A,B, or one without `multirun`.

    suggest: what model=auto and tokenizer=auto stand for. open_run: finds the run of from=RUN.
    Raises UserError.
    """
    with own_hydra():
        words = [hydra_word(word) for word in overrides]
        parsed = parse(words)
        swept = [override for override in parsed if override.is_sweep_override()]
        if not multirun:
            if swept:
                raise UserError(
                    f"'{swept[0].input_line}' means several runs, which `nmt train -m` trains; a "
                    "list of values for one run is written KEY='[A,B]'."
                )
            return [compose(words, "", suggest, open_run)]

        # Each run is named after what is swept
        in_names = [override.get_key_element() for override in swept]
        if not any(override.get_key_element() == "name" for override in parsed):
            in_default_name = keys_in_default_name(parsed)
            in_names = [key for key in in_names if key not in in_default_name]
        configs = []
        for combination in BasicSweeper.split_arguments(parsed, max_batch_size=None)[0]:
            suffix = name_suffix(combination, in_names)
            configs.append(compose(list(combination), suffix, suggest, open_run))

    names = [config.name for config in configs]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UserError(
            f"Two of the {len(names)} runs would be called '{repeated[0]}'; give each a name: "
            "name=A,B."
        )
    return configs


@contextmanager
def own_hydra() -> Iterator[None]:
    """Hydra with the folder conf/, also inside of a program that has started Hydra itself."""
    hydra_of_program = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = hydra_of_program


def hydra_word(word: str) -> str:
    """KEY=VALUE as Hydra takes it: `from` is a word of Python, an experiment is added."""
    if word.startswith("from="):
        word = f"{FROM}={word.removeprefix('from=')}"
    word = with_quotes(word)
    return f"+{word}" if word.partition("=")[0] in ADDED_GROUPS else word


def with_quotes(word: str) -> str:
    """KEY=VALUE with quotes around what Hydra's grammar cannot read, such as a file name with ü.

    And around the values of keys that are texts: name=2024_11_25. What has quotes, brackets or a
    comma of its own stays, except [A,B] and the A,B of several runs.
    """
    key, equals, value = word.partition("=")
    is_readable = parsed_word(word) is not None
    if not equals or (is_readable and key not in TEXT_KEYS):
        return word
    if key in FILE_KEYS and NOT_QUOTED.intersection(value) and names_file(value):
        return f"{key}={quoted_name(value)}"
    is_list = value.startswith("[") and value.endswith("]")
    if is_list:
        parts = value[1:-1].split(",")
    elif is_readable:  # one value, or those of several runs
        parts = value.split(",")
    else:
        parts = [value]
    for number, part in enumerate(parts):
        if NOT_QUOTED.intersection(part):
            return word
        if part not in ("", "null"):
            parts[number] = f"'{part}'"
    quoted = ",".join(parts)
    return f"{key}=[{quoted}]" if is_list else f"{key}={quoted}"


def quoted_name(name: str) -> str:
    """The name of a file in quotes that Hydra's grammar takes off."""
    return "'" + name.replace("'", "\\'") + "'"


def names_file(value: str) -> bool:
    """Whether a value with such signs is one FILE, PREFIX or FILE+FILE that is there."""
    if {"\\", "$"}.intersection(value):  # Hydra's grammar and OmegaConf read these inside quotes
        return False
    path = os.path.expanduser(value)
    if os.path.isfile(path) or glob(f"{escape(path)}.*"):
        return True
    return all(map(os.path.isfile, map(os.path.expanduser, value.split("+"))))


def parsed_word(word: str) -> Override | None:
    """KEY=VALUE in Hydra's own grammar; None if that cannot read it."""
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    try:
        [override] = parser.parse_overrides([word])
    except HydraException:
        return None
    return override


def parse(words: Sequence[str]) -> list[Override]:
    """The words in Hydra's own grammar; raises UserError."""
    overrides = []
    for word in words:
        if re.match(r"[+~]*hydra[./=]", word):
            raise UserError(
                f"'{word}' has no effect here: nmt only uses Hydra to compose its own "
                "configuration."
            )
        override = parsed_word(word)
        if override is None and "=" not in word:
            raise UserError(f"{word} is neither a file that is there nor KEY=VALUE.")
        if override is None:
            raise UserError(
                f"{word} cannot be read as KEY=VALUE or KEY=[VALUE,VALUE]. A value with other "
                "signs than letters, digits and . _ - / : needs quotes that the shell leaves: "
                "KEY='\"VALUE\"'."
            )
        overrides.append(override)
    return overrides


def keys_in_default_name(overrides: Sequence[Override]) -> Sequence[str]:
    """The keys of a command line that the name of a run is made from, if no name is given."""
    for override in overrides:
        group = override.key_or_group
        if group not in ADDED_GROUPS:
            continue
        chosen = [str(override.value())]
        if override.is_sweep_override():
            chosen = [str(each) for each in override.sweep_string_iterator()]
        if any("name" in keys_of(group, each) for each in chosen):
            return ()
    given = {override.get_key_element() for override in overrides}
    if FROM in given:
        return (FROM,)
    if f"+{EXPERIMENT}" in given:
        return (f"+{EXPERIMENT}",)
    return ("data", "model")


def name_suffix(combination: Sequence[str], swept: Sequence[str]) -> str:
    """The end of the name of one run of a multirun, made from what is swept, such as -seed2."""
    suffix = ""
    for word in combination:
        key, value = word.split("=", 1)
        if key in swept and key != "name":
            end = f"{key.split('.')[-1]}{value}"
            suffix += "-" + re.sub(r"[^A-Za-z0-9.+_-]", "", end)
    return suffix


def compose(words: list[str], suffix: str, suggest: Suggest, open_run: OpenRun) -> Config:
    """One validated configuration; its name ends in `suffix`.

    By default the name is that of the experiment, or DATA-MODEL, or RUN-tuned with from=RUN.
    """
    given = []
    overrides = parse(words)
    for override in overrides:
        if override.value() is not None:
            given.append(override.get_key_element())
        group = override.key_or_group
        if group in ADDED_GROUPS:
            given += keys_of(group, str(override.value()))
    starts_from_run = FROM in given

    groups = [override.key_or_group for override in overrides if is_auto(override)]
    if groups and starts_from_run:
        raise UserError(
            f"from=RUN keeps the {groups[0]} of the run; {groups[0]}=auto has nothing to choose."
        )
    if groups:
        return compose(fill_in(words, groups, given, suggest), suffix, suggest, open_run)

    if starts_from_run:
        defaults = [f"{group}={name}" for group, name in GROUPS_FROM.items() if group not in given]
        words = defaults + words
    check_files(words)
    try:
        composed = hydra.compose("config", words, return_hydra_config=True)
        choices = composed.hydra.runtime.choices
        with open_dict(composed):
            del composed["hydra"]
            replace_home(composed)
        if starts_from_run:
            plain: Any = OmegaConf.to_container(composed, resolve=True)
        elif composed.name is None:
            composed.name = choices.get(EXPERIMENT) or f"{choices.data}-{choices.model}"
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(explain(error)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(
            f"A file of conf/ cannot be read as YAML: {' '.join(str(error).split())[:300]}."
        ) from None
    if starts_from_run:
        composed = OmegaConf.create(adopt(plain, given, open_run))
    composed.name = f"{composed.name}{suffix}"
    return validate(composed)


def replace_home(composed: DictConfig) -> None:
    """Replace the ~ at the beginning of folders: a shell keeps that of KEY=~/FOLDER."""
    for key in ("data_folder", "run_folder", FROM):
        if composed[key]:
            composed[key] = os.path.expanduser(composed[key])


def is_auto(override: Override) -> bool:
    """Whether a word is model=auto or tokenizer=auto."""
    return override.key_or_group in presets.BASE and override.value() == presets.AUTO


def fill_in(
    words: list[str], groups: Sequence[str], given: Sequence[str], suggest: Suggest
) -> list[str]:
    """The words with what `auto` stands for in these groups; values that are given stay."""
    filled = [f"{group}={presets.BASE[group]}" for group in groups]
    values = {override.key_or_group: override.value() for override in parse(words)}
    if "model" in groups and not {"name", f"+{EXPERIMENT}"} & set(given):
        filled.append(f"name={values.get('data', 'phrasebook')}-{presets.AUTO}")
    width = values.get("model.hidden_size")
    if "model" in groups and isinstance(width, int):  # which those of BASE may not divide
        filled.append(f"model.num_heads={presets.heads(width)}")
    filled += [word for word in words if not is_auto(parse([word])[0])]

    has_limit = any(f"train.{name}" in given for name in LIMITS)
    for suggestion in suggest(compose(filled, "", suggest, no_run), given):
        # model=auto sets optim.lr and the like too
        group = "tokenizer" if suggestion.key.startswith("tokenizer.") else "model"
        is_given = suggestion.key in given or (suggestion.key == presets.TIME and has_limit)
        if group in groups and not is_given:
            filled.append(suggestion.word)
            log.info("%s: %s", suggestion.word, suggestion.reason)
    return filled


def adopt(composed: dict[str, Any], given: Collection[str], open_run: OpenRun) -> dict[str, Any]:
    """The configuration with languages, model and tokenizer of the run that it starts from.

    `given`: the keys on the command line. Raises UserError for a run that cannot be read, and for
    values that do not fit it.
    """
    run = str(composed[FROM])
    root = Path(composed["run_folder"])
    folder, config = open_run(run, root)
    old = to_dict(config)
    if composed["name"] is None:
        composed["name"] = f"{folder.name}-tuned"
    if (root / composed["name"]).resolve() == folder.resolve():
        raise UserError(
            f"name={composed['name']} is the run that from={run} starts from; give the new one "
            "another name."
        )

    adopt_languages(composed["data"], old["data"], run)

    for group in ("model", "tokenizer"):
        composed[group] = adopt_group(group, composed[group], old[group], given, run)

    # What is kept unless it is given
    kept = [f"decode.{name}" for name in old["decode"]]
    if old["data"].get("train") == IMPORTED or old["train"].get("rehearsal"):
        kept += KEPT_FURTHER
    elif not {"optim", "optim.lr"} & set(given):
        highest = presets.further_rate(old["model"]["hidden_size"])
        composed["optim"]["lr"] = min(composed["optim"]["lr"], highest)
    for key in kept:
        group, _, name = key.partition(".")
        if group not in given and key not in given:
            composed[group][name] = old[group][name]
    return composed


def adopt_group(
    group: str, new: dict[str, Any], old: dict[str, Any], given: Collection[str], run: str
) -> dict[str, Any]:
    """The model or the tokenizer of the run, with what is given of FREE; raises UserError."""
    adopted = dict(old)
    for name in sorted(old.keys() | new.keys()):
        key = f"{group}.{name}"
        was = old.get(name)
        wanted = new.get(name)
        if key in FREE:
            if key in given:
                adopted[name] = wanted
        elif wanted != was and (group in given or key in given):
            raise UserError(
                f"{group if group in given else key} cannot be given with from={run}: {key} is "
                f"{was} in that run, not {wanted}, and its weights fit nothing else."
            )
    return adopted


def adopt_languages(data: dict[str, Any], old: dict[str, Any], run: str) -> None:
    """Give `data` the languages of the run, and how the text tells them; raises UserError."""
    for side in ("source", "target"):
        language = data.get(side)
        if language in (None, "???"):
            data[side] = old[side]
        elif language != old[side]:
            raise UserError(
                f"from={run} translates from {old['source']} to {old['target']}; "
                f"data.{side}={language} does not fit it."
            )
    data["pair_tags"] = old["pair_tags"]


def explain(error: Exception) -> str:
    """One sentence for an error of Hydra."""
    text = f"{error} {error.__cause__ or ''}"
    match = re.search(r"Could not override '([^']*)'", text)
    if match:
        default = hydra.compose("config")
        assert isinstance(default, DictConfig)
        return unknown_key(match[1].lstrip("+~").partition("=")[0], all_keys(default))
    match = re.search(r"Could not find '([^/']+)/([^']+)'", text)
    if match:
        return unknown_choice(match[1], match[2])
    if "Config group override must be" in text:
        return (
            "A configuration group cannot be null; choose a file of conf/ for each of "
            f"{', '.join(GROUPS)}."
        )
    return f"The configuration cannot be composed: {first_line(error)}."
