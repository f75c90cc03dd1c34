"""From the words of data.train, data.valid and data.test to the origins of their pairs.

PREFIX                 one sentence a line in PREFIX.de and PREFIX.en; for several languages also a
                       set that nmt wrote, with its tags, in PREFIX.de+fr and PREFIX.en
FILE+FILE              the same in files of any names: source, target
FILE.tsv .csv          two columns of a table (tables.py)
FILE.jsonl .json       two fields of objects, one object a line (tables.py)
FILE.parquet           two columns (tables.py)
FILE.xlsx .ods         two columns of a sheet (spreadsheets.py)
FILE.tmx .xlf .xliff   units of a translation memory in both languages (translation_memory.py)
FILE.zip               two aligned files, as OPUS packs them, or one file of the kinds above
opus:CORPUS/VERSION    a corpus of OPUS (opus.py)
hub:OWNER/NAME         a data set of the Hugging Face hub (hub.py)
split                  for valid and test: pairs of data.train that are held out (split.py)

All but .zip, .parquet, .xlsx and .ods may be packed as .gz, .bz2, .xz or .zst. All words are looked
at before the first download. A further kind of file is an entry of READERS, a further place for
downloads an entry of DOWNLOADS: names, messages and the keys of a corpus follow from them.
"""

import logging
import os.path
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus import hub, multi30k, opus, phrasebook
from nmt.corpus.encoding import with_encoding
from nmt.corpus.language_pairs import each_pair, is_multilingual, of_pair
from nmt.corpus.origin import Origin, encoded_sides, plain_origin, prefix_origin, two_files
from nmt.corpus.packed import OPENERS, PackedFile, member_names, without_packing
from nmt.corpus.spreadsheets import read_workbook
from nmt.corpus.tables import Pair, Skipped, listed, read_jsonl, read_parquet, read_table
from nmt.corpus.translation_memory import read_units
from nmt.errors import UserError

log = logging.getLogger("nmt")
SPLIT = "split"
BLANK = "a side without text"
MOST_COMPARED = 100  # pairs of a file that is read for several pairs of languages
Fetch = Callable[[], Origin]  # gives the pairs of a word, after a download if need be
# The ending of a file → what reads its pairs. It counts the records that are no pair.
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
# The beginning of a word → what finds the corpus, given the folder for downloads.
DOWNLOADS: dict[str, Callable[[str, DataConfig, Path], Fetch]] = {
    "opus:": opus.find_corpus,
    "hub:": hub.find_data_set,
}
ENDINGS = (*READERS, ".zip")
BUILT_IN: dict[str, Any] = {"phrasebook": phrasebook, "multi30k": multi30k}  # by data.kind


def set_names(data: DataConfig) -> dict[str, list[str]]:
    """The words of train, valid and each test set; raises UserError."""
    groups = {"train": as_list("train", data.train), "valid": as_list("valid", data.valid)}
    tests = [] if data.test is None else as_list("test", data.test)
    for word in tests:
        name = "test" if word == SPLIT and data.kind == "files" else set_name(word)
        if name in ("train", "valid"):
            raise UserError(
                f"data.test={word} cannot be named '{name}' like another set; rename or copy its "
                "files."
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
    """The name of a test set.

    It is the last part of a PREFIX, a file's name without endings, or NAME-SPLIT of a data set.
    """
    if word.startswith(tuple(DOWNLOADS)):
        return word.partition(":")[2].partition("@")[0].replace("/", "-").replace(":", "-")
    name = (two_sides(word) or [Path(word)])[0].name
    while Path(name).suffix.lower() in (*OPENERS, *ENDINGS):
        name = Path(name).stem
    return name


def as_list(role: str, value: Any) -> list[str]:
    """A string or list of strings as a list; raises UserError if it is neither or empty."""
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names:
        if all(isinstance(name, str) and name.strip("?") for name in names):
            return names
    also = " or data.test=null" if role == "test" else ""
    if isinstance(value, int) and not isinstance(value, bool):
        also += f"; a name that is a number is written data.{role}=./{value}"
    raise UserError(
        f"data.{role}={value} is not possible; give data.{role}=NAME or "
        f"data.{role}=[NAME,NAME]{also}."
    )


def find_sets(data: DataConfig, downloads: Path) -> dict[str, list[Origin]]:
    """The origins of train, valid and each test set, in this order; [] for a set that is split.

    What is not on the disk is downloaded to `downloads`. Raises UserError.
    """
    groups = set_names(data)
    if data.kind == "files":
        return own_sets(data, groups, downloads)
    built_in = BUILT_IN[data.kind]
    built_in.check_sets(data, groups)
    return built_in.find_sets(data, groups, downloads)


def own_sets(
    data: DataConfig, groups: dict[str, list[str]], downloads: Path
) -> dict[str, list[Origin]]:
    """The origins of a user's own words; an impossible word is a UserError before any download."""
    fetches = []
    for name, words in groups.items():
        for part, word in enumerate(words):
            if word != SPLIT:
                for pair, fetch in find_for_pairs(word, data, downloads):
                    fetches.append((name, part, pair, fetch))
    sets: dict[str, list[Origin]] = {name: [] for name in groups}
    for name, part, pair, fetch in fetches:
        sets[name].append(replace(of_pair(fetch(), pair, data), part=part))
    return sets


def find_for_pairs(word: str, data: DataConfig, downloads: Path) -> list[tuple[DataConfig, Fetch]]:
    """What fetches a word, for each language pair that it has; raises UserError if it has none.

    A set that nmt wrote with several languages, tags included, is fetched as a whole.
    """
    prefix = os.path.expanduser(word)
    is_whole = all(os.path.isfile(f"{prefix}.{side}") for side in (data.source, data.target))
    if is_multilingual(data) and is_whole:
        return [(data, find_origin(word, data, downloads))]
    fetches = []
    errors = []
    beginnings: list[list[Pair]] = []  # of local files
    for pair in each_pair(data):
        try:
            fetch = find_origin(word, pair, downloads)
            if is_multilingual(data) and (os.path.isfile(prefix) or two_sides(word)):
                # Raises if the file has other languages
                beginnings.append(list(islice(fetch().pairs(Skipped()), MOST_COMPARED)))
            fetches.append((pair, fetch))
        except UserError as error:
            errors.append(error)
            if is_multilingual(data):
                if has_sides(prefix, pair):
                    raise  # both languages are there, but cannot be read
                log.info("%s: no %s-%s.", word, pair.source, pair.target)
    if not fetches:
        raise errors[0]
    if any(first == second for first, second in combinations(beginnings, 2)):
        raise UserError(
            f"{word} does not say which of its text is in which language; with several pairs of "
            "languages, name two files PREFIX.LANGUAGE, or columns after their languages."
        )
    return fetches


def has_sides(prefix: str, pair: DataConfig) -> bool:
    """Whether there are files PREFIX.LANGUAGE of both languages, plain or packed."""
    for side in (pair.source, pair.target):
        if not any(os.path.isfile(f"{prefix}.{side}{packing}") for packing in ("", *OPENERS)):
            return False
    return True


def find_origin(word: str, data: DataConfig, downloads: Path) -> Fetch:
    """What gives the origin of a word in one language pair; raises UserError for a missing file."""
    for beginning, find in DOWNLOADS.items():
        if word.startswith(beginning):
            return find(word, data, downloads)
    origin = local_origin(word, data)
    return lambda: origin


def local_origin(word: str, data: DataConfig) -> Origin:
    path = Path(word).expanduser()
    is_file = os.path.isfile(path)
    has_known_ending = PackedFile(path).ending in ENDINGS
    if is_file and has_known_ending:
        return file_origin(word, path, data)
    if any(os.path.isfile(f"{path}.{data.source}{packing}") for packing in ("", *OPENERS)):
        return prefix_origin(word, data)
    sides = two_sides(word)
    if sides:
        return plain_origin(word, *sides, data=data)
    if is_file:
        side = without_packing(path)
        if side.suffix in (f".{data.source}", f".{data.target}"):
            raise UserError(
                f"{word} is one side of a corpus; {side.with_suffix('')} names both files."
            )
        raise UserError(
            f"{word} is not a kind of file that nmt knows; files of pairs end in "
            f"{', '.join(ENDINGS)}."
        )
    if has_known_ending:
        raise UserError(f"There is no file {word}.")
    return prefix_origin(word, data)  # raises: it names the files that are not there


def reviewed_pairs(path: Path, data: DataConfig) -> list[Pair]:
    """The pairs of a file that people have worked on; raises UserError.

    What the file marks as not reviewed yet, and what is no pair of texts, is counted on stderr.
    """
    skipped = Skipped()
    pairs = file_origin(str(path), path, data, reviewed=True).read(skipped, "strict")
    return complete_pairs(path, pairs, skipped)


def complete_pairs(path: Path, pairs: Iterable[Pair], skipped: Skipped) -> list[Pair]:
    """The pairs with a text on both sides; what a file has beside them is counted on stderr."""
    complete = []
    for pair in pairs:
        if all(map(str.strip, pair)):
            complete.append(pair)
        else:
            skipped[BLANK] += 1
    for reason, count in skipped.items():
        log.info("%s: %s left out: %s.", path, f"{count:,}", reason)
    return complete


def two_sides(word: str) -> tuple[Path, Path] | None:
    """The files of FILE+FILE, whose lines n are pair n; None if it does not name two files."""
    for place, sign in enumerate(word):
        if sign == "+":
            source = Path(word[:place]).expanduser()
            target = Path(word[place + 1 :]).expanduser()
            if os.path.isfile(source) and os.path.isfile(target):
                return source, target
    return None


def file_origin(word: str, path: Path, data: DataConfig, reviewed: bool = False) -> Origin:
    """The origin of one file, or of an archive with two aligned files or one of another kind.

    `reviewed`: without what the file marks as not reviewed yet.
    """
    file = PackedFile(path)
    if file.ending == ".zip":
        names = member_names(path)
        sides = None
        with suppress(UserError):
            sides = opus.find_sides(path, data)
        if sides:
            sides = encoded_sides(sides, data)
            return two_files(word, set_name(word), str(path.resolve()), [path], sides, {})
        known = [name for name in names if PackedFile(path, name).ending in READERS]
        if len(known) != 1:
            raise UserError(
                f"{path} has {len(known) or 'no'} files of pairs, and not one file that ends in "
                f".{data.source} and one in .{data.target}; it has "
                f"{listed(names, 8) or 'no files'}."
            )
        file = PackedFile(path, known[0])

    reader = READERS[file.ending]
    if reviewed and reader is read_units:
        reader = partial(read_units, reviewed=True)
    if reader in (read_parquet, read_workbook) and (file.member or path.suffix in OPENERS):
        raise UserError(f"{file} cannot be read while it is packed; unpack it.")
    is_text = reader in (read_table, read_jsonl)
    if is_text:
        file = with_encoding(file, data.encoding, data.source, data.target)

    def read(skipped: Skipped, errors: str) -> Iterator[Pair]:
        return reader(replace(file, errors=errors), data, skipped)

    return Origin(
        word,
        set_name(word),
        str(without_packing(path.resolve())),
        str(file),
        [path],
        read,
        table=file if is_text else None,
    )
