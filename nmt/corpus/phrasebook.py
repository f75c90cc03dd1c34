"""The built-in corpus: five sets of German-English sentence pairs with gold word links.

data/phrasebook/README.md says how it was made.
"""

import hashlib
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.corpus.links import parse_links
from nmt.corpus.origin import Origin, plain_origin
from nmt.corpus.parallel_text import read_lines
from nmt.errors import UserError

SETS = ("train", "valid", "test", "test_seen", "test_unseen")
Groups = dict[str, list[str]]


def phrasebook_folder() -> Path:
    """data/phrasebook: beside the package in a checkout, inside it after a plain `pip install`."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "phrasebook"
    return installed if installed.is_dir() else package.parent / "data" / "phrasebook"


def digest() -> str:
    """The sha256 of all files."""
    digest = hashlib.sha256()
    for path in sorted(phrasebook_folder().glob("*.bz2")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check_sets(data: DataConfig, groups: Groups) -> None:
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


def find_sets(data: DataConfig, groups: Groups, downloads: Path) -> dict[str, list[Origin]]:
    """The origins of the sets; nothing is downloaded."""
    folder = phrasebook_folder()
    sets: dict[str, list[Origin]] = {name: [] for name in groups}
    for name, parts in groups.items():
        for part in parts:
            source = folder / f"{part}.{data.source}.bz2"
            target = folder / f"{part}.{data.target}.bz2"
            sets[name].append(plain_origin(part, source, target))
    return sets


def write_links(data: DataConfig, groups: Groups, corpus: Path) -> None:
    """Write NAME.align, source side first, for each set in a corpus folder that has all pairs."""
    for name, parts in groups.items():
        lines: list[str] = []
        for part in parts:
            lines += read_lines(phrasebook_folder() / f"{part}.align.bz2")
        if len(lines) != sum(1 for _ in read_lines(corpus / f"{name}.{data.source}")):
            continue
        if data.source != "de":
            lines = list(map(swap_sides, lines))
        with open(corpus / f"{name}.align", "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)


def swap_sides(line: str) -> str:
    """A Pharaoh line with source and target exchanged, sorted again."""
    sure, possible = parse_links(line, reverse=True)
    links = []
    for left, right in sorted(possible):
        links.append(f"{left}{'-' if (left, right) in sure else 'p'}{right}")
    return " ".join(links)
