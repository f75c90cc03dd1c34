"""The languages of a run, from its folder and from what the user asks for."""

import re
from collections.abc import Sequence
from pathlib import Path

from nmt.convert.pretrained.files import read_optional
from nmt.corpus.languages import base_code, is_known
from nmt.errors import UserError

LANGUAGE_NAMES = re.compile(r"\w[\w-]{0,20}(\+\w[\w-]{0,20})*")


def language_names(
    folder: Path, source: Sequence[str], target: Sequence[str], several_targets: bool
) -> tuple[str, str]:
    """The languages of the configuration, by default those in tokenizer_config.json.

    The files of a corpus end in the names of its languages. So the target's are turned round where
    both sides have the same. Raises UserError where nothing says them, and where a folder says that
    it has others.
    """
    stored = read_optional(folder / "tokenizer_config.json")
    target = target[::-1] if list(source) == list(target) else target
    names = []
    for side, given in (("source", source), ("target", target)):
        told = stored.get(f"{side}_lang")
        if given and isinstance(told, str) and not (side == "target" and several_targets):
            check_told(side, told, given)
        name = "+".join(given) or told
        if not isinstance(name, str) or not LANGUAGE_NAMES.fullmatch(name):
            raise UserError("it does not say what its languages are; give --source and --target")
        names.append(name)
    return names[0], names[1]


def check_told(side: str, told: str, given: Sequence[str]) -> None:
    """Raise UserError where a folder tells another language than those that are given."""
    is_other = base_code(told) not in map(base_code, given)
    if is_other and is_known(told) and all(map(is_known, given)):
        raise UserError(
            f"its {side} language is {told}, as tokenizer_config.json says, and not "
            f"{'+'.join(given)}; leave out --{side}, or correct that file"
        )
