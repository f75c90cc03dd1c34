"""`nmt train memory.tmx`: what a file of sentence pairs says about its languages and columns.

A translation memory names its languages. A table has them in its header, or its two longest columns are judged by
their frequent words (nmt/data/inspect/language.py).
"""

import csv
import logging
import os
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from nmt.config.validation import is_text_encoding
from nmt.data.encoding import with_encoding
from nmt.data.inspect.language import FREQUENT_WORDS, SCRIPT_OF, guess_language
from nmt.data.languages import base_code
from nmt.data.packed import PackedFile
from nmt.data.parallel_text import read_lines
from nmt.data.sources import ENDINGS
from nmt.data.tables import SAMPLE, flat, is_quoted, json_rows, tsv_cells
from nmt.data.translation_memory import unit_texts, units
from nmt.errors import UserError

log = logging.getLogger("nmt")
CODES = sorted(FREQUENT_WORDS.keys() | SCRIPT_OF.keys())
LEAST_SHARE = 0.5  # of the evidence, for a language
Found = tuple[list[str | None], list[int] | None]  # languages of source and target, and numbers of their columns


def with_file(overrides: Sequence[str]) -> list[str]:
    """The words of a command line with KEY=VALUE instead of a file; raises UserError where it tells too little."""
    files = [word for word in overrides if "=" not in word and os.path.isfile(word)]
    if lost := [word for word in overrides if "=" not in word and word not in files and word.endswith(ENDINGS)]:
        raise UserError(f"There is no file {lost[0]}.")
    if not files:
        return list(overrides)
    rest = [word for word in overrides if word not in files]
    given = dict(word.split("=", 1) for word in rest if "=" in word)
    name, kinds = "+".join(files), [PackedFile(Path(each)).ending in ENDINGS for each in files]
    if len(files) > 2 or (len(files) == 2 and any(kinds)) or "data.train" in given:
        raise UserError(
            f"{' '.join(files)}: one file of pairs can be given so, or two of sentences that are line by line each "
            "other's translation; several files of pairs are data.train=[FILE,FILE]."
        )
    if len(files) == 1 and not kinds[0]:
        raise UserError(f"{name} is no kind of file that is known; files of pairs end in {', '.join(ENDINGS)}.")
    encoding = given.get("data.encoding", "auto")
    encoding = encoding if is_text_encoding(encoding) else "auto"  # a wrong one is refused with the other keys
    opened = [with_encoding(PackedFile(Path(each)), encoding) for each in files]
    if len(files) == 2:
        languages, columns = [guess_side(each) for each in opened], None
    elif opened[0].ending in (".tmx", ".xlf", ".xliff"):
        languages, columns = guess_memory(PackedFile(Path(name)))
    else:
        languages, columns = guess_table(opened[0])
    words = {"data": "files", "data.train": name}
    words |= {f"data.{side}": code for side, code in zip(("source", "target"), languages, strict=True) if code}
    words |= {"data.columns": f"[{columns[0]},{columns[1]}]"} if columns else {}
    if missing := [f"{key}=…" for key in ("data.source", "data.target") if key not in given.keys() | words.keys()]:
        raise UserError(f"{name} does not tell its languages; give {' '.join(missing)}.")
    added = [f"{key}={value}" for key, value in words.items() if key not in given]
    log.info("%s is read as %s.", name, " ".join(added))
    return [*added, *rest]


def guess_side(file: PackedFile) -> str | None:
    """By the ending of the name, as in text.de, else by the text of the first lines."""
    if (ending := base_code(file.ending[1:])) in CODES:
        return ending
    lines = islice(read_lines(file), SAMPLE)
    (code, share), *_ = guess_language(" ".join(lines), CODES)
    return code if share > LEAST_SHARE else None


def guess_memory(file: PackedFile) -> Found:
    """The two most frequent languages of the first units, in the order in which a unit has them."""
    seen = Counter[str](
        base_code(code) for unit, codes in islice(units(file), SAMPLE) for code in unit_texts(unit, codes)
    )
    most = {code for code, _ in seen.most_common(2) if code}
    found: list[str | None] = [code for code in seen if code in most]
    return (found if len(found) == 2 else [None, None]), None


def guess_table(file: PackedFile) -> Found:
    """By the header or the fields of the first object, else by the text of the two columns with the most letters."""
    if file.ending in (".json", ".jsonl"):
        fields = [name.rpartition(".")[2] for row in islice(json_rows(file), 1) for name in flat(row)]
        return named_languages(fields) or [None, None], None
    if file.ending not in (".tsv", ".csv"):
        return [None, None], None
    lines = list(islice(read_lines(file), SAMPLE))
    if file.ending == ".tsv" and not is_quoted("\n".join(lines)):
        rows = [tsv_cells(line) for line in lines]
    else:
        counts = {sign: len(next(csv.reader(lines[:1], delimiter=sign), [])) for sign in ",;\t"}
        rows = list(csv.reader(lines, delimiter=max(counts, key=counts.__getitem__)))
    header = [cell.strip() for cell in rows[0]] if rows else []
    if named := named_languages(header):
        return named, None
    has_header = any({source, target} <= set(header) for source, target in (("source", "target"), ("src", "tgt")))
    texts = [" ".join(row[column] for row in rows[has_header:] if len(row) > column) for column in range(len(header))]
    longest = sorted(sorted(range(len(texts)), key=lambda column: -len(texts[column]))[:2])
    chosen = (
        [header.index(name) for name in header if name in ("source", "src", "target", "tgt")] if has_header else longest
    )
    best = [guess_language(texts[column], CODES)[0] for column in chosen]
    languages = [code if share > LEAST_SHARE else None for code, share in best]
    if len(chosen) < 2:
        raise UserError(f"{file} has {len(header)} columns in its first line; a file of pairs has two or more.")
    return languages, None if has_header else [chosen[0] + 1, chosen[1] + 1]


def named_languages(names: Sequence[str]) -> list[str | None] | None:
    """The two codes of languages among the names of columns."""
    found: list[str | None] = [name for name in names if base_code(name) in CODES and len(name) < 6]
    if len(found) > 2 and "id" in found:  # a number more often than Indonesian
        found.remove("id")
    return found if len(found) == 2 else None
