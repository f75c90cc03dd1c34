"""The families of models that can be imported, and which folders cannot be.

A further family is a subclass of Family (family.py) in a module of its own, and an entry here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.pretrained.family import Family
from nmt.convert.pretrained.files import read_json, read_optional
from nmt.convert.pretrained.m2m100 import M2M100
from nmt.convert.pretrained.marian import Marian
from nmt.convert.pretrained.pegasus import Pegasus
from nmt.convert.pretrained.weights import QUANTIZED
from nmt.errors import UserError

# by model_type of config.json
FAMILIES: dict[str, Family] = {"marian": Marian(), "m2m_100": M2M100(), "pegasus": Pegasus()}
*FIRST, LAST = [family.label for family in FAMILIES.values()]
READABLE = f"{', '.join(FIRST)}, and {LAST}"
LFS = b"version https://git-lfs"
LONGEST_POINTER = 1024  # bytes


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that config.json names; raises UserError for another."""
    name = str(config.get("model_type"))
    if name not in FAMILIES:
        raise UserError(
            f"a model of type '{name:.40}' is of another architecture; choose one of {READABLE}"
        )
    return FAMILIES[name]


def check_folder(folder: Path) -> dict[str, Any]:
    """The configuration of a model that can be read, from its small files.

    Raises UserError for one that cannot be read.
    """
    for path in folder.iterdir():
        if (
            path.is_file()
            and path.stat().st_size <= LONGEST_POINTER
            and path.read_bytes().startswith(LFS)
        ):
            raise UserError(
                f"{path.name} is a pointer of git-lfs; run `git lfs pull` in its folder to get the "
                "file"
            )
    config = read_json(folder / "config.json")
    family = family_of(config)
    if config.get("quantization_config"):
        raise UserError(QUANTIZED)
    family.check(config, read_optional(folder / "tokenizer_config.json"))
    return config
