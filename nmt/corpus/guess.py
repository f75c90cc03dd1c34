"""What files of sentence pairs say about their languages, for `nmt train memory.tmx`.

A translation memory names its languages. A table has them in its header, or its text tells them
(nmt/corpus/inspect/language.py). Which columns hold the two sides is decided later, when each table
is read (nmt/corpus/tables.py).
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any

from nmt.config.compose import NOT_QUOTED, quoted_name
from nmt.config.validation import is_text_encoding
from nmt.corpus.encoding import with_encoding
from nmt.corpus.inspect.language import language_of_text
from nmt.corpus.languages import (
    LANGUAGES,
    base_code,
    find_language,
    is_also_word,
    language_of_column,
)
from nmt.corpus.packed import PackedFile, member_names
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.sources import ENDINGS, READERS, two_sides
from nmt.corpus.spreadsheets import workbook_rows
from nmt.corpus.tables import (
    SAMPLE,
    are_single,
    columns_of_text,
    flat,
    json_rows,
    parquet_rows,
    source_and_target,
    text_rows,
)
from nmt.corpus.translation_memory import unit_texts, units
from nmt.errors import UserError, printable

log = logging.getLogger("nmt")
Languages = tuple[str | None, str | None]  # of source and target; None if it is not told
UNTOLD: Languages = (None, None)
SIDES = ("data.source", "data.target")


def with_file(overrides: Sequence[str]) -> list[str]:
    """A command line in which KEY=VALUE stands for files of pairs and for the languages they tell.

    Files are given by their names alone, or as data.train. Raises UserError if they tell too
    little.
    """
    given = dict(word.split("=", 1) for word in overrides if "=" in word)
    files = []
    rest = []
    for word in overrides:
        if "=" in word:
            rest.append(word)
        elif os.path.isfile(word):
            files.append(word)
        elif word.endswith(ENDINGS):
            raise UserError(f"There is no file {word}.")
        else:
            rest.append(word)

    words = words_of_files(files, given) if files else words_of_train(given)
    if not words:
        return list(overrides)
    name = words[0]
    if len(words) > 1:
        has_signs = not NOT_QUOTED.isdisjoint("".join(words))
        parts = map(quoted_name, words) if has_signs else words
        name = f"[{','.join(parts)}]"
    settings = {"data": "files", "data.train": name, **missing_languages(name, words, given)}
    added = [f"{key}={value}" for key, value in settings.items() if key not in given]
    if added:
        log.info("%s is read as %s.", name, " ".join(added))
    return [*added, *rest]


def words_of_files(files: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """What data.train is for files on the command line; raises UserError if they are no pairs."""
    endings = f"files of pairs end in {', '.join(ENDINGS)}"
    if "data.train" not in given:
        known = [is_known(file) for file in files]
        if all(known):
            return list(files)
        if len(files) == 1:
            raise UserError(f"{files[0]} is not a kind of file that nmt knows; {endings}.")
        if len(files) == 2 and not any(known):
            return ["+".join(files)]
    raise UserError(
        f"{' '.join(files)}: give files of pairs, or two files of sentences in which each line "
        f"translates the same line of the other; {endings}."
    )


def words_of_train(given: Mapping[str, str]) -> list[str]:
    """The words of data.train if it alone says what is trained on and has a file of pairs."""
    if "from" in given or "experiment" in given or given.get("data", "files") != "files":
        return []
    words = as_words(given.get("data.train", ""))
    return words if any(map(is_known, words)) else []


def as_words(value: str) -> list[str]:
    """The words of data.train=WORD and of data.train=[WORD,WORD]."""
    is_list = value.startswith("[") and value.endswith("]")
    words = value[1:-1].split(",") if is_list else [value]
    return [word.strip().strip("'\"") for word in words]


def is_known(word: str) -> bool:
    """Whether a word is a file of pairs."""
    return os.path.isfile(word) and PackedFile(Path(word)).ending in ENDINGS


def missing_languages(name: str, words: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Those of data.source and data.target that are not given; raises UserError if words lack any.

    `name`: what messages call the words.
    """
    missing = [key for key in SIDES if key not in given]
    if not missing:
        return {}
    languages = list(guess_languages(words, given))
    if len(missing) == 1:
        # It is the language that is not given for the other side.
        (known,) = given.keys() & set(SIDES)
        base = base_code(given[known])
        languages = [code for code in languages if code and base_code(code) != base]

    told: dict[str, str] = {}
    untold = []
    for key, code in zip_longest(missing, languages[: len(missing)]):
        if code:
            told[key] = code
        else:
            untold.append(f"{key}=…")
    if untold:
        raise UserError(f"{name} does not tell its languages; give {' '.join(untold)}.")
    return told


def guess_languages(words: Sequence[str], given: Mapping[str, str]) -> Languages:
    """The languages of source and target, from the first word that tells both.

    The other words may have the two in another order, or tell none. Raises UserError if a word
    tells other languages.
    """
    encoding = given.get("data.encoding", "auto")
    if not is_text_encoding(encoding):
        encoding = "auto"  # a wrong one is refused later, with the other keys
    first = ""  # the first word that tells both
    languages = UNTOLD
    for word in words:
        told = guess_word(word, encoding)
        if None in told:
            if languages == UNTOLD:
                languages = told
        elif not first:
            first = word
            languages = told
        elif set(told) != set(languages):
            one = f"{first} has {' and '.join(map(str, languages))}"
            other = f"{word} has {' and '.join(map(str, told))}"
            raise UserError(f"{one}, but {other}; give {SIDES[0]}=… {SIDES[1]}=….")
    return languages


def guess_word(word: str, encoding: str) -> Languages:
    """The languages of one word of data.train, a file of pairs or FILE+FILE. Raises UserError."""
    if is_known(word):
        return guess_file(with_encoding(PackedFile(Path(word)), encoding))
    sides = two_sides(word)
    if sides is None:
        return UNTOLD
    return guess_side(sides[0], encoding), guess_side(sides[1], encoding)


def guess_side(path: Path, encoding: str) -> str | None:
    """By the ending of the name, as in text.de, else by the text of the first lines."""
    file = with_encoding(PackedFile(path), encoding)
    ending = base_code(file.ending[1:])
    if ending in LANGUAGES:
        return ending
    return language_of_text(" ".join(islice(read_lines(file), SAMPLE)))


def guess_file(file: PackedFile) -> Languages:
    """The languages of a file of pairs. Raises UserError."""
    match file.ending:
        case ".tmx" | ".xlf" | ".xliff":
            return guess_memory(file)
        case ".json" | ".jsonl":
            return guess_objects(file, json_rows(file))
        case ".parquet":
            return guess_objects(file, parquet_rows(file))
        case ".zip":
            return guess_archive(file.path)
        case ".tsv" | ".csv":
            rows = text_rows(file)
        case ".xlsx" | ".ods":
            rows = workbook_rows(file)
        case _:
            return UNTOLD
    first = list(islice(rows, SAMPLE)) or [[]]
    return guess_table(file, first[0], first)


def guess_memory(file: PackedFile) -> Languages:
    """The two most frequent languages of the first units, in the order in which a unit has them."""
    seen = Counter[str]()
    for unit, codes in islice(units(file), SAMPLE):
        seen.update(base_code(code) for code in unit_texts(unit, codes))
    most = dict(seen.most_common(2))
    languages = [code for code in seen if code and code in most]
    others = [printable(code) for code in seen if code and code not in most]
    if others:
        log.warning(
            "%s also has %s; %s=… %s=… choose other languages.", file, ", ".join(others), *SIDES
        )
    return (languages[0], languages[1]) if len(languages) == 2 else UNTOLD


def guess_archive(path: Path) -> Languages:
    """By the endings of two files in it, else as its only file of pairs. Raises UserError."""
    members = [PackedFile(path, name) for name in member_names(path)]
    endings = [PurePosixPath(member.member).suffix[1:] for member in members]
    codes = [ending for ending in endings if base_code(ending) in LANGUAGES]
    if len(codes) == 2:
        return codes[0], codes[1]
    tables = [member for member in members if member.ending in READERS]
    return guess_file(with_encoding(tables[0], "auto")) if len(tables) == 1 else UNTOLD


def guess_objects(file: PackedFile, rows: Iterator[dict[str, Any]]) -> Languages:
    """By the names of the fields of its rows, else by their text."""
    names: list[str] = []
    cells = []
    for row in map(flat, islice(rows, SAMPLE)):
        names = names or list(row)
        cells.append([str(row.get(name) or "") for name in names])
    return guess_table(file, [name.rpartition(".")[2] for name in names], cells)


def guess_table(file: PackedFile, header: list[str], rows: list[list[str]]) -> Languages:
    """By the names of two columns of text, else by the text of the two sides.

    The sides are the columns source and target, or else the two with the most text. Raises
    UserError for fewer than two columns, and if names tell more than two languages.
    """
    if len(header) < 2:
        raise UserError(
            f"{file} has {len(header)} columns in its first line; a file of pairs has two or more."
        )
    texts = columns_of_text(rows)
    named = {}
    languages = []
    for column, text in texts.items():
        if column < len(header):
            code = base_code(language_of_column(header[column]))
            named[column] = code
            if code and code not in languages:
                languages.append(code)
            other = other_reading(code, text, len(texts)) if is_also_word(header[column]) else ""
            if other:
                raise UserError(
                    f"{file}: the column '{header[column]}' may have {find_language(code).name} "
                    f"by its name, or {other} by its text; give {SIDES[0]}=… {SIDES[1]}=…."
                )
    if len(languages) == 2:
        return languages[0], languages[1]
    if len(languages) > 2:
        raise UserError(
            f"{file} has columns in {', '.join(languages)}; give {SIDES[0]}=… {SIDES[1]}=…."
        )

    sides = source_and_target(header)
    if sides is None:
        longest = sorted(texts, key=lambda column: len(texts[column]), reverse=True)[:2]
        if len(longest) < 2:
            return UNTOLD
        sides = min(longest), max(longest)
    by_name = named.get(sides[0]), named.get(sides[1])
    source, target = by_name
    source = source or language_of_text(texts.get(sides[0], ""))
    target = target or language_of_text(texts.get(sides[1], ""))
    # A language like the one that a name tells, such as Nigerian Pidgin beside English
    return (source, target) if source != target else by_name


def other_reading(code: str, text: str, columns: int) -> str:
    """What a column may have if its name is no language, such as `to` beside `from`; or "".

    That is another language of its text. It may also be keys, if there are two other columns.
    """
    language = language_of_text(text)
    if language not in (None, code):
        return find_language(str(language)).name
    is_single = text.isascii() and are_single(text.split("\n")[1:])
    return "keys" if columns > 2 and is_single else ""
