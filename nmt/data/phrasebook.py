"""The built-in corpus: five sets of German-English sentence pairs with gold word links
(data/phrasebook/README.md)."""

import hashlib
import re
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.data.origin import Origin, plain_origin
from nmt.data.parallel_text import read_lines
from nmt.errors import UserError

SETS = ("train", "valid", "test", "test_seen", "test_unseen")
Groups = dict[str, list[str]]


def folder() -> Path:
    """data/phrasebook: beside the package in a checkout, inside it after a plain `pip install`."""
    package = Path(__file__).resolve().parents[1]
    return (
        package / "phrasebook"
        if (package / "phrasebook").is_dir()
        else package.parent / "data" / "phrasebook"
    )


def digest() -> str:
    """The sha256 of all files."""
    found = hashlib.sha256()
    for path in sorted(folder().glob("*.bz2")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def check(data: DataConfig, groups: Groups) -> None:
    """Raise UserError for languages or sets that the phrasebook does not have."""
    if {data.source, data.target} != {"de", "en"}:
        raise UserError(
            f"The phrasebook has no {data.source}-{data.target}; choose de and en, or en and de."
        )
    for role, names in groups.items():
        for name in names:
            if name not in SETS or (role != "train") == (name == "train"):
                raise UserError(
                    f"data: the phrasebook has no set '{name}' for {role}; it has "
                    f"{', '.join(SETS)}."
                )


def find(data: DataConfig, groups: Groups) -> dict[str, list[Origin]]:
    """The origins of the sets."""

    def origin(part: str) -> Origin:
        source, target = (
            folder() / f"{part}.{language}.bz2" for language in (data.source, data.target)
        )
        return plain_origin(part, source, target)

    return {name: [origin(part) for part in parts] for name, parts in groups.items()}


def write_links(data: DataConfig, groups: Groups, corpus: Path) -> None:
    """Write NAME.align for the sets in a corpus folder of which no pair was left out; the source
    side comes first."""
    for name, parts in groups.items():
        lines = [line for part in parts for line in read_lines(folder() / f"{part}.align.bz2")]
        if len(lines) == sum(1 for _ in read_lines(corpus / f"{name}.{data.source}")):
            with open(corpus / f"{name}.align", "w", encoding="utf-8", newline="\n") as file:
                file.writelines(
                    f"{line if data.source == 'de' else swap_sides(line)}\n" for line in lines
                )


def swap_sides(line: str) -> str:
    """A Pharaoh line with source and target exchanged, sorted again."""
    links = [
        (int(right), int(left), mark) for left, mark, right in re.findall(r"(\d+)([-p])(\d+)", line)
    ]
    return " ".join(f"{left}{mark}{right}" for left, right, mark in sorted(links))
