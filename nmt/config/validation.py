"""A composed or saved configuration becomes a Config, or one sentence that says what is wrong."""

import codecs
import math
import operator
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from nmt.config.keys import unknown_key
from nmt.config.recurrent import RecurrentConfig
from nmt.config.schema import LARGEST, Config, DataConfig, DecodeConfig, leaves
from nmt.config.transformer import TransformerConfig
from nmt.errors import UserError, choose, is_printable

# Of a run: the name of its folder. The word `latest` names the newest one.
NAME = re.compile(r"(?!latest\Z)[A-Za-z0-9][A-Za-z0-9._+-]{,199}")
ADDRESS = re.compile(r"https?://[!-~]+")
LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{,63}")  # the ending of files
# The code of a language (ISO 639-1) for that of a country, or for a former code
NO_LANGUAGES = {
    "jp": "ja",
    "cn": "zh",
    "kr": "ko",
    "cz": "cs",
    "gr": "el",
    "dk": "da",
    "ua": "uk",
    "vn": "vi",
    "iw": "he",
    "in": "id",
    "ji": "yi",
    "jw": "jv",
    "mo": "ro",
}
DEVICE = re.compile(r"auto|cpu|(cuda|xpu|mps)(:[0-9]{1,3})?")
KEY = re.compile(r"[a-z_0-9]{1,60}")
DEEPEST = 2  # dots in a key
MODELS = {  # by model.kind
    "recurrent": RecurrentConfig,
    "transformer": TransformerConfig,
}
LONGEST_TEXT = 1000
# How a value compares with a bound of `option`, and how that is said
BOUNDS = {
    "above": (operator.gt, "greater than"),
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "below": (operator.lt, "less than"),
}
# Keys of earlier versions, without effect in a saved configuration
FORMER = {
    "data": ("pairs", "seed", "audit_identifier"),
    "train": ("keep_checkpoints", "noise_words"),
}


def validate(composed: DictConfig | dict) -> Config:
    """A composed configuration, or a saved one (a dict), as a Config; raises UserError."""
    schema = OmegaConf.structured(Config)
    try:
        # A saved one may be a stranger's: nothing in it is resolved, since ${oc.env:NAME} would
        # read the environment
        plain: Any = composed
        if not isinstance(composed, dict):
            plain = OmegaConf.to_container(composed, resolve=True)
        check_plain("", plain)
        if isinstance(composed, dict):
            plain = without_former_keys(plain)
        values = OmegaConf.create(plain)
        kind = str(OmegaConf.select(values, "model.kind"))
        schema.model = OmegaConf.structured(choose("model.kind", kind, MODELS))
        config = OmegaConf.to_object(OmegaConf.merge(schema, values))
    except MissingMandatoryValue as error:
        raise UserError(
            f"'{error.full_key}' has no value; give one with {error.full_key}=… ."
        ) from None
    except ConfigKeyError as error:
        raise UserError(unknown_key(str(error.full_key), all_keys(schema))) from None
    except OmegaConfBaseException as error:
        raise UserError(f"Configuration key '{error.full_key}': {first_line(error)}.") from None
    assert isinstance(config, Config)
    for key, value, field in leaves(config):
        check_value(key, value, field.metadata)
    check_run(config)
    check_data(config.data)
    check_training(config)
    config.model.check(config)
    # A run that was trained with a wrong code, or with a value without effect, can still be used
    if not isinstance(composed, dict):
        check_languages(config)
        for group in ("data", "model", "optim"):
            check_effects(group, getattr(config, group))
    return config


def is_text_encoding(name: str) -> bool:
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, ValueError):
        return False


def without_former_keys(saved: dict[str, Any]) -> dict[str, Any]:
    present = dict(saved)
    for group, names in FORMER.items():
        values = saved.get(group)
        if isinstance(values, dict):
            present[group] = {key: value for key, value in values.items() if key not in names}
    return present


def check_plain(key: str, value: Any) -> None:
    """Raise UserError unless this is nested plain data, whose texts are short and printable.

    No text may refer to another value.
    """
    if isinstance(value, dict):
        for name, below in value.items():
            if not isinstance(name, str) or not KEY.fullmatch(name) or key.count(".") > DEEPEST:
                raise UserError(
                    f"The configuration has a key {name!r:.60} in '{key}', which is not a valid "
                    "key."
                )
            check_plain(f"{key}.{name}" if key else name, below)
    elif isinstance(value, list):
        for below in value:
            if isinstance(below, (dict, list)):
                raise UserError(f"Configuration key '{key}': a list holds plain values alone.")
            check_plain(key, below)
    elif isinstance(value, str):
        if len(value) > LONGEST_TEXT or not is_printable(value) or "${" in value:
            raise UserError(
                f"{key}={value!r:.60} is not possible: too long, not printable, or with ${{…}}."
            )
    elif isinstance(value, int) and abs(value) >= 2**64:
        raise UserError(f"The number of {key} is not possible; it has more than 64 bits.")
    elif not (value is None or isinstance(value, (bool, int, float))):
        raise UserError(f"Configuration key '{key}': {type(value).__name__} is not a plain value.")


def check_value(key: str, value: Any, rules: Mapping[str, Any]) -> None:
    """One value by itself, against the metadata of its field."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{key}={value} is not possible; it must be a finite number.")
    for each in value if isinstance(value, list) else [value]:
        if rules["choices"] and each is not None and each not in rules["choices"]:
            raise UserError(
                f"{key}={each} is not possible; choose one of {', '.join(rules['choices'])}."
            )
    if not isinstance(value, (int, float)):
        return
    for name, (holds, _) in BOUNDS.items():
        if rules[name] is not None and not holds(value, rules[name]):
            raise UserError(f"{key}={value} is not possible; it must be {describe_range(rules)}.")
    if abs(value) > LARGEST and rules["maximum"] is None and rules["below"] is None:
        raise UserError(f"{key}={value:.10g} is not possible; its size must be at most {LARGEST}.")


def check_decode(**values: int | None) -> None:
    """Raise UserError for values of decode.KEY that are not possible; None is one not given."""
    for field in fields(DecodeConfig):
        value = values.get(field.name)
        if value is not None:
            check_value(field.name, value, field.metadata)


def describe_range(rules: Mapping[str, Any]) -> str:
    """Such as `greater than 0`, `at least 0 and less than 1`, or `-1 to 0`."""
    if rules["minimum"] is not None and rules["maximum"] is not None:
        return f"{rules['minimum']} to {rules['maximum']}"
    present = [name for name in BOUNDS if rules[name] is not None]
    return " and ".join(f"{BOUNDS[name][1]} {rules[name]}" for name in present)


def check_run(config: Config) -> None:
    """Name, folders and device of a run."""
    if not NAME.fullmatch(config.name):
        raise UserError(
            f"name={config.name!r:.60} cannot name a run; use up to 200 letters, digits, '.', '_', "
            "'+', '-'."
        )
    for key in ("data_folder", "run_folder"):
        name = getattr(config, key)
        if not name.strip() or os.path.isfile(name):
            fault = "a file" if name.strip() else "empty"
            raise UserError(f"{key}={name} is {fault}; give the name of a folder.")
    if not DEVICE.fullmatch(config.device):
        raise UserError(
            f"device={config.device:.60} is not possible; choose auto, cpu, cuda, or cuda:1 and so "
            "on."
        )


def check_data(data: DataConfig) -> None:
    """Languages, server and encoding of the text."""
    for side in ("source", "target"):
        language = getattr(data, side)
        if not LANGUAGE.fullmatch(language):
            raise UserError(
                f"data.{side}={language!r:.60} cannot be the ending of a file; give a code such as "
                "de."
            )
    if not ADDRESS.fullmatch(data.opus_url):
        raise UserError(
            f"data.opus_url={data.opus_url!r:.60} is not an address that begins with http."
        )
    if data.encoding != "auto" and not is_text_encoding(data.encoding):
        possible = "auto, utf-8, utf-16, cp1252, shift_jis and other names that Python knows"
        raise UserError(
            f"data.encoding={data.encoding!r:.60} is not an encoding; possible are {possible}."
        )
    if data.source == data.target:
        raise UserError(f"data.source and data.target are both '{data.source}'; they must differ.")


def check_training(config: Config) -> None:
    """The end of the training, R-Drop and the optimizer."""
    train = config.train
    betas = config.optim.betas
    if train.max_steps is None and train.max_epochs is None and train.max_minutes is None:
        raise UserError(
            "The training has no end; give train.max_steps, train.max_epochs or train.max_minutes."
        )
    if train.r_drop and config.model.dropout == 0:
        raise UserError(
            f"train.r_drop={train.r_drop:g} changes nothing with model.dropout=0; choose a "
            "dropout, or train.r_drop=0."
        )
    for name in ("lora", "recompute"):
        if getattr(train, name) and config.model.kind != "transformer":
            raise UserError(
                f"train.{name}={as_override(getattr(train, name))} is not possible with "
                f"model.kind={config.model.kind}: it is for the layers of a Transformer."
            )
    if train.recompute and train.compile:
        raise UserError(
            "train.compile=true is not possible with train.recompute=true; choose one of them."
        )
    if train.lora and config.optim.algorithm == "muon":
        raise UserError(
            f"optim.algorithm=muon changes nothing with train.lora={train.lora}, which trains no "
            "hidden matrix; choose optim.algorithm=adamw."
        )
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise UserError(
            f"optim.betas={betas} is not possible; give two that are at least 0 and less than 1."
        )


def check_languages(config: Config) -> None:
    """Raise UserError for a code that is not of a language, but looks like one."""
    for side in ("source", "target"):
        code = getattr(config.data, side)
        if code in NO_LANGUAGES:
            raise UserError(
                f"data.{side}={code} is not the code of a language; it is {NO_LANGUAGES[code]}, in "
                "names of files too."
            )


def check_effects(group: str, config: Any) -> None:
    """Raise UserError for a value of a group that has no effect beside the others of the group."""
    for field in fields(config):
        value = getattr(config, field.name)
        if value == field.default:
            continue
        for other, values in field.metadata["requires"].items():
            if getattr(config, other) not in values:
                key = f"{group}.{field.name}"
                raise UserError(
                    f"{key}={as_override(value)} changes nothing with "
                    f"{group}.{other}={getattr(config, other)}; choose "
                    f"{group}.{other}={' or '.join(values)}, or {key}={as_override(field.default)}."
                )


def as_override(value: Any) -> str:
    return "null" if value is None else str(value).lower()


def all_keys(node: Any, prefix: str = "") -> list[str]:
    """All keys of a composed configuration, groups and leaves."""
    keys = []
    for key in node:
        keys.append(prefix + str(key))
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not (child._is_none() or child._is_missing()):
            keys += all_keys(child, f"{prefix}{key}.")
    return keys


def first_line(error: Exception) -> str:
    """An error of OmegaConf without its lines of context, at most 300 characters."""
    return str(error).strip().split("\n")[0][:300].rstrip(".")
