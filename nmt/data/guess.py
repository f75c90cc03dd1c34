"""`nmt train memory.tmx`: what files of sentence pairs say about their languages.

A translation memory names its languages. A table has them in its header, or its text tells them
(nmt/data/inspect/language.py). Which columns of each table have them is found when it is read
(nmt/data/tables.py).
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from nmt.config.validation import is_text_encoding
from nmt.data.encoding import with_encoding
from nmt.data.inspect.language import LANGUAGES_TOLD, language_of_text
from nmt.data.languages import base_code, language_of_column
from nmt.data.packed import PackedFile
from nmt.data.parallel_text import read_lines
from nmt.data.sources import ENDINGS, two_sides
from nmt.data.spreadsheets import workbook_rows
from nmt.data.tables import (
    SAMPLE,
    columns_of_text,
    flat,
    json_rows,
    source_and_target,
    text_rows,
)
from nmt.data.translation_memory import unit_texts, units
from nmt.errors import UserError

log = logging.getLogger("nmt")
Languages = list[str | None]  # of source and target; None where it is not told
UNTOLD: Languages = [None, None]
SIDES = ("data.source", "data.target")


def with_file(overrides: Sequence[str]) -> list[str]:
    """The words of a command line with KEY=VALUE instead of files of pairs, and with the languages
    that they tell.

    The files are words by themselves, or those of data.train. Raises UserError where they tell too
    little.
    """
    given = dict(word.split("=", 1) for word in overrides if "=" in word)
    files = [word for word in overrides if "=" not in word and os.path.isfile(word)]
    if lost := [
        word
        for word in overrides
        if "=" not in word and word not in files and word.endswith(ENDINGS)
    ]:
        raise UserError(f"There is no file {lost[0]}.")
    rest = [word for word in overrides if word not in files]
    if files:
        words = words_of_files(files, given)
    elif given.keys() & {"from", "experiment"} or given.get("data", "files") != "files":
        return list(overrides)
    else:
        words = as_words(given.get("data.train", ""))
        if not any(map(is_known, words)):
            return list(overrides)
    name = words[0] if len(words) == 1 else f"[{','.join(words)}]"
    found = {"data": "files", "data.train": name}
    missing = [key for key in SIDES if key not in given]
    if missing:
        languages = guess_languages(words, given)
        if len(missing) == 1:  # it is the other one than the one that is given
            (known,) = given.keys() & set(SIDES)
            languages = [
                code for code in languages if code and base_code(code) != base_code(given[known])
            ]
        found |= {key: code for key, code in zip(missing, languages, strict=False) if code}
    missing = [key for key in missing if key not in found]
    if missing:
        raise UserError(
            f"{name} does not tell its languages; give {' '.join(f'{key}=…' for key in missing)}."
        )
    added = [f"{key}={value}" for key, value in found.items() if key not in given]
    if added:
        log.info("%s is read as %s.", name, " ".join(added))
    return [*added, *rest]


def words_of_files(files: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """The words of data.train for files on the command line; raises UserError where they are no
    pairs."""
    known = [is_known(file) for file in files]
    if (
        "data.train" in given
        or (any(known) and not all(known))
        or (len(files) > 2 and not all(known))
    ):
        raise UserError(
            f"{' '.join(files)}: files of pairs can be given so, or two of sentences that are line "
            "by line each "
            f"other's translation; files of pairs end in {', '.join(ENDINGS)}."
        )
    if all(known):
        return list(files)
    if len(files) == 1:
        raise UserError(
            f"{files[0]} is no kind of file that is known; files of pairs end in "
            f"{', '.join(ENDINGS)}."
        )
    return ["+".join(files)]


def as_words(value: str) -> list[str]:
    """The words of data.train=WORD and of data.train=[WORD,WORD]."""
    is_list = value.startswith("[") and value.endswith("]")
    parts = value[1:-1].split(",") if is_list else [value]
    return [part.strip().strip("'\"") for part in parts]


def is_known(word: str) -> bool:
    """Whether a word is a file of pairs."""
    return os.path.isfile(word) and PackedFile(Path(word)).ending in ENDINGS


def guess_languages(words: Sequence[str], given: Mapping[str, str]) -> Languages:
    """The languages of source and target, which the first word that tells both gives; raises
    UserError.

    The others may have them in another order, and a word need not tell any; but two words that tell
    other languages are refused.
    """
    encoding = given.get("data.encoding", "auto")
    # a wrong one is refused with the other keys
    encoding = encoding if is_text_encoding(encoding) else "auto"
    told = {word: guess_word(word, encoding) for word in words}
    complete = {word: languages for word, languages in told.items() if None not in languages}
    if not complete:
        return next((languages for languages in told.values() if languages != UNTOLD), UNTOLD)
    first, *others = complete
    for word in others:
        if set(complete[word]) != set(complete[first]) and not given.keys() >= set(SIDES):
            both = [
                f"{each} has {' and '.join(map(str, complete[each]))}" for each in (first, word)
            ]
            raise UserError(f"{', but '.join(both)}; give {' '.join(f'{key}=…' for key in SIDES)}.")
    return complete[first]


def guess_word(word: str, encoding: str) -> Languages:
    """The languages of a word of data.train, if it is a file of pairs or FILE+FILE; raises
    UserError."""
    if is_known(word):
        file = with_encoding(PackedFile(Path(word)), encoding)
        return GUESSES.get(file.ending, lambda file: UNTOLD)(file)
    sides = two_sides(word)
    return (
        [guess_side(with_encoding(PackedFile(side), encoding)) for side in sides]
        if sides
        else UNTOLD
    )


def guess_side(file: PackedFile) -> str | None:
    """By the ending of the name, as in text.de, else by the text of the first lines."""
    ending = base_code(file.ending[1:])
    if ending in LANGUAGES_TOLD:
        return ending
    return language_of_text(" ".join(islice(read_lines(file), SAMPLE)))


def guess_memory(file: PackedFile) -> Languages:
    """The two most frequent languages of the first units, in the order in which a unit has them."""
    seen = Counter[str](
        base_code(code)
        for unit, codes in islice(units(file), SAMPLE)
        for code in unit_texts(unit, codes)
    )
    most = {code for code, _ in seen.most_common(2) if code}
    found: Languages = [code for code in seen if code in most]
    return found if len(found) == 2 else UNTOLD


def guess_objects(file: PackedFile) -> Languages:
    """By the names of the fields of its objects, else by their text."""
    rows = list(islice(map(flat, json_rows(file)), SAMPLE))
    names = list(rows[0]) if rows else []
    cells = [[str(row.get(name) or "") for name in names] for row in rows]
    return guess_rows(file, [name.rpartition(".")[2] for name in names], cells)


def guess_table(file: PackedFile) -> Languages:
    """By the header, if there is one, else by the text."""
    rows = list(islice(text_rows(file), SAMPLE))
    return guess_rows(file, rows[0] if rows else [], rows)


def guess_workbook(file: PackedFile) -> Languages:
    """The same of a sheet."""
    rows = list(islice(workbook_rows(file), SAMPLE))
    return guess_rows(file, rows[0] if rows else [], rows)


def guess_rows(file: PackedFile, header: list[str], rows: list[list[str]]) -> Languages:
    """By the names of two columns with text, else by the text of source and target or of the two
    longest columns.

    Raises UserError for less than two columns, and where the names of columns tell more than two
    languages.
    """
    if len(header) < 2:
        raise UserError(
            f"{file} has {len(header)} columns in its first line; a file of pairs has two or more."
        )
    texts = columns_of_text(rows)
    named = {
        column: base_code(language_of_column(header[column]))
        for column in texts
        if column < len(header)
    }
    languages = list(dict.fromkeys(filter(None, named.values())))
    if len(languages) == 2:
        return [languages[0], languages[1]]
    if len(languages) > 2:
        raise UserError(
            f"{file} has columns in {', '.join(languages)}; give "
            f"{' '.join(f'{key}=…' for key in SIDES)}."
        )
    longest = sorted(texts, key=lambda column: -len(texts[column]))[:2]
    sides = source_and_target(header) or sorted(longest)
    told: Languages = [
        named.get(column) or language_of_text(texts.get(column, "")) for column in sides
    ]
    return told if len(told) == 2 and told[0] != told[1] else UNTOLD


# The ending of a file → what guesses its languages.
GUESSES: dict[str, Callable[[PackedFile], Languages]] = {
    ".tsv": guess_table,
    ".csv": guess_table,
    ".xlsx": guess_workbook,
    ".ods": guess_workbook,
    ".json": guess_objects,
    ".jsonl": guess_objects,
    ".tmx": guess_memory,
    ".xlf": guess_memory,
    ".xliff": guess_memory,
}
