"""From the words of data.train, data.valid and data.test to the origins of their pairs.

PREFIX                  PREFIX.de and PREFIX.en, one sentence a line FILE+FILE               the
same of any names: source, target FILE.tsv .csv .jsonl    two columns of a table
(nmt/data/tables.py); so are .json, with one object a line, and .parquet FILE.xlsx .ods          two
columns of a sheet (nmt/data/spreadsheets.py) FILE.tmx .xlf .xliff    the units of a translation
memory that have both languages (nmt/data/translation_memory.py) FILE.zip                two aligned
files, as OPUS packs them, or one file of the kinds above opus:CORPUS/VERSION     a corpus of OPUS
(nmt/data/opus.py) hub:OWNER/NAME          a data set of the Hugging Face hub (nmt/data/hub.py)
split                   for valid and test: pairs of data.train that are held out
(nmt/data/split.py)

All but .zip, .parquet, .xlsx and .ods may be packed as .gz, .bz2 or .xz. All words are looked at
before the first download. A further kind is an entry of READERS or DOWNLOADS: names, messages and
the keys of a corpus follow from them.
"""

import logging
import os.path
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data import hub, multi30k, opus, phrasebook
from nmt.data.encoding import with_encoding
from nmt.data.language_pairs import each_pair, is_multilingual, of_pair
from nmt.data.origin import Origin, plain_origin, prefix_origin, two_files
from nmt.data.packed import OPENERS, PackedFile, member_names, without_packing
from nmt.data.spreadsheets import read_workbook
from nmt.data.tables import Pair, Skipped, read_jsonl, read_parquet, read_table
from nmt.data.translation_memory import read_units
from nmt.errors import UserError, printable

log = logging.getLogger("nmt")
SPLIT = "split"
Fetch = Callable[[], Origin]  # gives the pairs of a word, after a download if need be
# The ending of a file → what reads its pairs; (file, configuration, records that are no pair) →
# pairs.
READERS: dict[str, Callable[[PackedFile, DataConfig, Skipped], Iterator[Pair]]] = {
    ".tsv": read_table,
    ".csv": read_table,
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
    ".parquet": read_parquet,
    ".xlsx": read_workbook,
    ".ods": read_workbook,
    ".tmx": read_units,
    ".xlf": read_units,
    ".xliff": read_units,
}
# The beginning of a word → what finds it; (word, configuration, folder for downloads) → Fetch.
DOWNLOADS: dict[str, Callable[[str, DataConfig, Path], Fetch]] = {
    "opus:": opus.find,
    "hub:": hub.find,
}
ENDINGS = (*READERS, ".zip")


def set_names(data: DataConfig) -> dict[str, list[str]]:
    """The words of train, valid and each test set; raises UserError."""
    groups = {"train": as_list("train", data.train), "valid": as_list("valid", data.valid)}
    for word in as_list("test", data.test) if data.test is not None else []:
        name = "test" if word == SPLIT and data.kind == "files" else set_name(word)
        if name in ("train", "valid"):
            raise UserError(
                f"data.test={word} cannot be named '{name}' like another set; rename "
                "or copy its files."
            )
        if name in groups:
            raise UserError(
                f"data.test names two sets '{name}'; a test set goes by the last part of its name."
            )
        groups[name] = [word]
    if data.kind == "files" and SPLIT in groups["train"]:
        raise UserError(
            "data.train=split is not possible: validation and test sets are split from data.train."
        )
    if data.kind == "files" and SPLIT in groups["valid"] and len(groups["valid"]) > 1:
        raise UserError("data.valid is either split or a list of files, not both.")
    return groups


def set_name(word: str) -> str:
    """The name of a test set: the last part of a PREFIX, a file's name without endings, NAME-SPLIT
    of a data set."""
    if word.startswith(tuple(DOWNLOADS)):
        return word.partition(":")[2].partition("@")[0].replace("/", "-").replace(":", "-")
    name = (two_sides(word) or [Path(word)])[0].name
    while Path(name).suffix.lower() in (*OPENERS, *ENDINGS):
        name = Path(name).stem
    return name


def as_list(role: str, value: Any) -> list[str]:
    """A string or list of strings as a list; raises UserError when it is neither or empty."""
    names = [value] if isinstance(value, str) else value
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) and name.strip("?") for name in names)
    ):
        also = " or data.test=null" if role == "test" else ""
        if isinstance(value, int) and not isinstance(value, bool):
            also += f"; a name that is a number is written data.{role}=./{value}"
        raise UserError(
            f"data.{role}={value} is not possible; give data.{role}=NAME or "
            f"data.{role}=[NAME,NAME]{also}."
        )
    return names


def find_sets(data: DataConfig, downloads: Path) -> dict[str, list[Origin]]:
    """The origins of train, valid and each test set, in this order, [] where a set is split; raises
    UserError.

    What is not on the disk is downloaded to `downloads`.
    """
    groups = set_names(data)
    if data.kind == "files":
        return own_sets(data, groups, downloads)
    if data.kind == "phrasebook":
        return phrasebook.find(data, groups)
    return multi30k.find(data, groups, downloads)


def own_sets(
    data: DataConfig, groups: dict[str, list[str]], downloads: Path
) -> dict[str, list[Origin]]:
    """The origins of one's own words; raises UserError, for a word that is not possible before any
    download."""
    fetches = {
        name: [
            (part, pair, fetch)
            for part, word in enumerate(words)
            if word != SPLIT
            for pair, fetch in find_for_pairs(word, data, downloads)
        ]
        for name, words in groups.items()
    }
    return {
        name: [replace(of_pair(fetch(), pair, data), part=part) for part, pair, fetch in found]
        for name, found in fetches.items()
    }


def find_for_pairs(word: str, data: DataConfig, downloads: Path) -> list[tuple[DataConfig, Fetch]]:
    """What fetches the origins of a word, for each language pair that it has; raises UserError if
    it has none."""
    found = []
    errors = []
    for pair in each_pair(data):
        try:
            found.append((pair, find_origin(word, pair, downloads)))
        except UserError as error:
            errors.append(error)
            if is_multilingual(data):
                log.info("%s: no %s-%s.", word, pair.source, pair.target)
    if not found:
        raise errors[0]
    return found


def find_origin(word: str, data: DataConfig, downloads: Path) -> Fetch:
    """What gives the origin of a word in one language pair; raises UserError for a missing file."""
    for beginning, find in DOWNLOADS.items():
        if word.startswith(beginning):
            return find(word, data, downloads)
    path = Path(word).expanduser()
    is_known = PackedFile(path).ending in ENDINGS
    is_there = os.path.isfile(path)
    if is_known and is_there:
        origin = file_origin(word, path, data)
    elif any(os.path.isfile(f"{path}.{data.source}{ending}") for ending in ("", *OPENERS)):
        origin = prefix_origin(word, data)
    elif sides := two_sides(word):
        origin = plain_origin(word, *sides, data=data)
    elif is_there:
        side = without_packing(path)
        if side.suffix in (f".{data.source}", f".{data.target}"):
            raise UserError(
                f"{word} is one side of a corpus; {side.with_suffix('')} names both files."
            )
        raise UserError(
            f"{word} is not a kind of file that nmt knows; files of pairs end in "
            f"{', '.join(ENDINGS)}."
        )
    elif is_known:
        raise UserError(f"There is no file {word}.")
    else:
        origin = prefix_origin(word, data)  # raises
    return lambda: origin


def two_sides(word: str) -> tuple[Path, Path] | None:
    """The files of FILE+FILE, whose lines n are pair n; None where it does not name two files."""
    places = [place for place, sign in enumerate(word) if sign == "+"]
    pairs = (
        (Path(word[:place]).expanduser(), Path(word[place + 1 :]).expanduser()) for place in places
    )
    return next((pair for pair in pairs if all(map(os.path.isfile, pair))), None)


def file_origin(word: str, path: Path, data: DataConfig) -> Origin:
    file = PackedFile(path)
    if file.ending == ".zip":
        names = member_names(path)
        with suppress(UserError):
            sides = opus.find_sides(path, data)
            return two_files(word, set_name(word), str(path.resolve()), [path], sides, {})
        known = [name for name in names if PackedFile(path, name).ending in READERS]
        if len(known) != 1:
            shown = ", ".join(map(printable, names[:8])) + (", …" if len(names) > 8 else "")
            raise UserError(
                f"{path} has {len(known) or 'no'} files of pairs, and not one file that ends in "
                f".{data.source} "
                f"and one in .{data.target}; it has {shown or 'no files'}."
            )
        file = PackedFile(path, known[0])
    reader = READERS[file.ending]
    if reader in (read_parquet, read_workbook) and (file.member or path.suffix in OPENERS):
        raise UserError(f"{file} cannot be read while it is packed; unpack it.")

    if reader in (read_table, read_jsonl):
        file = with_encoding(file, data.encoding, data.source, data.target)

    def read(skipped: Skipped, errors: str) -> Iterator[Pair]:
        return reader(replace(file, errors=errors), data, skipped)

    table = file if reader in (read_table, read_jsonl) else None
    return Origin(
        word,
        set_name(word),
        str(without_packing(path.resolve())),
        str(file),
        [path],
        read,
        table=table,
    )
