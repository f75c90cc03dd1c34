"""What a sentence begins with, and the languages of a run, from the folder and from what the user
asks for."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.convert.pretrained.files import read_optional
from nmt.data.languages import base_code, choose_language, codes_of, describe_codes, is_known
from nmt.data.tags import language_tag, opus_tag
from nmt.errors import UserError

LANGUAGE_NAMES = re.compile(r"\w[\w-]{0,20}(\+\w[\w-]{0,20})*")
Prefixes = dict[str, list[int]]


def language_prefixes(
    family: str, languages: Mapping[str, int], source: Sequence[str], target: Sequence[str]
) -> tuple[Prefixes, Prefixes]:
    """What source and target begin with, by the tag before the source; "" where one direction is
    imported.

    Marian is told the target language by the first piece of the source, which its own tag, >>fra<<,
    asks for as well; with one target language it has no such piece, and that tag is left out.
    M2M-100 and NLLB-200 are told each side's language by its own first piece. Languages are given
    in any form. Raises UserError for one that the model lacks.
    """
    if not languages:
        codes = codes_of(target[0]) if family == "marian" and target else []
        return {tag: [] for tag in ("", *map(opus_tag, codes))} if codes else {}, {}
    told_both = family == "m2m_100"
    if not target or told_both and not source:
        raise UserError(
            "say what it is to translate with --source and --target; "
            f"{describe_codes('en', sorted(languages))}"
        )
    targets = {code: languages[choose_language(code, languages)] for code in target}
    if not told_both:
        tags = {
            language_tag(code) if target[1:] else "": [number] for code, number in targets.items()
        }
        return tags | {opus_tag(code): [number] for code, number in languages.items()}, {}
    sources = {code: languages[choose_language(code, languages)] for code in source}
    prefixes: tuple[Prefixes, Prefixes] = ({}, {})
    pairs = [(here, there) for here in source for there in target if here != there]
    for here, there in pairs:
        tag = language_tag(there, here) if pairs[1:] else ""
        prefixes[0][tag] = [sources[here]]
        prefixes[1][tag] = [targets[there]]
    return prefixes


def language_names(
    folder: Path, source: Sequence[str], target: Sequence[str], several_targets: bool
) -> tuple[str, str]:
    """The languages of the configuration, by default those that the tokenizer's says.

    Those of the target are turned round where both sides have the same: the files of a corpus end
    in their languages. Raises UserError where nothing says them, and where a folder says that it
    has others.
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
    """Raise UserError where languages that are given are not the one that a folder tells, if both
    are known."""
    is_other = base_code(told) not in map(base_code, given)
    if is_other and is_known(told) and all(map(is_known, given)):
        raise UserError(
            f"its {side} language is {told}, as tokenizer_config.json says, and not "
            f"{'+'.join(given)}; "
            f"leave out --{side}, or correct that file"
        )
