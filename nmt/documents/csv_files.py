"""CSV and TSV: texts in one column, translations in another one; every other byte stays."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.corpus.languages import base_code
from nmt.corpus.words import has_letters
from nmt.documents.messages import value_parts
from nmt.documents.segment import (
    TRANSLATED,
    Document,
    Malformed,
    TextFile,
    check_text,
)

Languages = tuple[str, str]  # the codes of the source language and of the target language
SEPARATORS = "\t;|,"  # the first of those that are equally likely; commas are in texts too
STATED = re.compile(r"sep=(.)\r?\n")  # a first line, for Excel
HEADER = "names of columns"
OTHERS = "in other columns"


def cell_pattern(separator: str) -> re.Pattern[str]:
    """A cell, in quotation marks or not, with the separator or the line end behind it."""
    end = rf"[{separator}\r\n]"
    quoted = rf'"(?P<quoted>[^"]*(?:""[^"]*)*)"(?={end}|\Z)'
    plain = rf"[^{separator}\r\n]*"
    return re.compile(rf"(?P<cell>{quoted}|{plain})(?P<end>[{separator}]|\r\n|\r|\n|\Z)")


CELL = {separator: cell_pattern(separator) for separator in SEPARATORS}


class Cell(NamedTuple):
    """A cell, and where it is in the text."""

    text: str
    start: int
    end: int
    is_quoted: bool


class Columns(NamedTuple):
    """The numbers of the columns, from 0; a translation may replace its text."""

    source: int
    target: int


def read_table(
    data: bytes, retranslate: bool, columns: str = "", languages: Languages = ("", "")
) -> Document:
    """A table whose first line has the names of its columns; raises Malformed.

    `columns`: the numbers or names of those with texts and with translations, such as 2:3. Without
    it they are called `source` and `target`, or by the codes or English names of the languages.
    """
    document = TextFile(data.decode())
    text = document.text
    check_text(text)
    separator = find_separator(text)
    rows = records(text, separator)
    header = next(rows, [])
    places = find_columns([cell.text.strip() for cell in header], columns, languages)
    leave_cells(document, header, HEADER)
    for row in rows:
        for cell in row:
            # Between tabs a quotation mark without its partner may be text.
            if separator != "\t" and not cell.is_quoted and cell.text.startswith('"'):
                raise Malformed("a quotation mark has no end, or text behind it", cell.start)
        if len(row) <= places.source or not row[places.source].text.strip():
            leave_cells(document, row, OTHERS)
            continue
        source = row[places.source].text
        for number, cell in enumerate(row):
            if number not in (places.source, places.target):
                leave_cells(document, [cell], OTHERS)
        if any(cell.text.strip() for cell in row[len(header) :]):
            line = text.count("\n", 0, row[0].start) + 1
            raise Malformed(f"{len(row)} cells, but {len(header)} columns have a name", line=line)
        old = row[places.target].text if len(row) > places.target else ""
        is_translated = old.strip() not in ("", source.strip()) and places.source != places.target
        if is_translated and not retranslate:
            document.leave(f"{source}\n{old}", TRANSLATED)
            continue

        # The target cell, behind the end of a record that is too short
        last = row[min(places.target, len(row) - 1)]
        missing = max(places.target + 1 - len(row), 0)
        start = last.end if missing else last.start
        is_quoted = row[places.source].is_quoted or (last.is_quoted and not missing)
        write = partial(write_cell, row[places.source], is_quoted, separator, missing)
        document.add(value_parts(source), start, last.end, write)
    return document


def leave_cells(document: Document, cells: Sequence[Cell], reason: str) -> None:
    for cell in cells:
        if has_letters(cell.text):
            document.leave(cell.text, reason)


def write_cell(source: Cell, is_quoted: bool, separator: str, missing: int, text: str) -> str:
    """A translation as a cell, behind those that a record has too few."""
    has_bare_quotes = '"' in source.text and not source.is_quoted and not text.startswith('"')
    special = {separator, "\r", "\n"}
    if not has_bare_quotes:
        special.add('"')
    if is_quoted or special & set(text):
        text = '"' + text.replace('"', '""') + '"'
    return separator * missing + text


def records(text: str, separator: str) -> Iterator[list[Cell]]:
    """The records that are not blank, in order."""
    stated = STATED.match(text)
    position = stated.end() if stated else 0
    row: list[Cell] = []
    for match in CELL[separator].finditer(text, position):
        is_quoted = match["quoted"] is not None
        content = match["quoted"].replace('""', '"') if is_quoted else match["cell"]
        row.append(Cell(content, *match.span("cell"), is_quoted))
        if match["end"] == separator:
            continue
        if len(row) > 1 or row[0].text or is_quoted:
            yield row
        row = []
        if not match["end"]:
            return


def find_separator(text: str) -> str:
    """The sign that divides the names of the columns into the most cells, or a tab."""
    stated = STATED.match(text)
    if stated and stated[1] in SEPARATORS:
        return stated[1]
    sizes = {separator: len(next(records(text, separator), [])) for separator in SEPARATORS}
    return "\t" if sizes["\t"] > 1 else max(SEPARATORS, key=lambda separator: sizes[separator])


def find_columns(names: list[str], columns: str, languages: Languages) -> Columns:
    """Raises Malformed where the columns are not said, or not there."""
    if columns:
        first, _, second = columns.partition(":")
        return Columns(find_column(names, first), find_column(names, second))
    lower = [name.lower() for name in names]
    if lower.count("source") == lower.count("target") == 1:
        return Columns(lower.index("source"), lower.index("target"))
    codes = [base_code(name) for name in names]
    source, target = (base_code(code) for code in languages)
    if codes.count(source) == codes.count(target) == 1 and source != target:
        return Columns(codes.index(source), codes.index(target))
    raise Malformed(
        "which of its columns have the texts and the translations is not known; say it with "
        f"--columns, such as --columns 2:3 (2:2 replaces the texts). {listed(names)}"
    )


def find_column(names: list[str], wanted: str) -> int:
    """The place of a column by its number, from 1, or by its name."""
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    if names.count(wanted) == 1:
        return names.index(wanted)
    problem = "two columns are named" if wanted in names else "there is no column"
    raise Malformed(f"--columns: {problem} {wanted}. {listed(names)}")


def listed(names: list[str]) -> str:
    shown = [f"{number} {name[:40]}" for number, name in enumerate(names[:30], 1)]
    return f"Its columns are: {', '.join(shown) or 'none'}"


def count_table(data: bytes) -> Counter[str]:
    """Records, and the cells of each column that are not blank, by the module csv.

    With tabs by `records`: quotes may be text.
    """
    text = data.decode("utf-8-sig")
    separator = find_separator(text)
    csv.field_size_limit(max(csv.field_size_limit(), len(data)))
    rows: Iterable[list[str]] = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    if separator == "\t":
        rows = ([cell.text for cell in row] for row in records(text, separator))
    counts = Counter[str]()
    for row in rows:
        counts["records"] += 1
        for number, cell in enumerate(row, 1):
            counts[f"cells in column {number}"] += bool(cell.strip())
    return counts
