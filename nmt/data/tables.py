"""Sentence pairs in two columns of a table: TSV, CSV, JSON lines, Parquet, and rows of any kind.

Columns are chosen by name, or by number where TSV and CSV have no header. A field `translation`
with one sentence for each language is two columns, `translation.de` and `translation.en`; so is any
object in an object. Where no name tells the columns, their text does, if it is surely in the two
languages. A row is a pair if it has as many columns as most of the first rows.

CSV has the delimiter (comma, semicolon or tab) that gives the columns, and quotes as the csv module
reads them; how stray ones are read is said at `quoted_rows`. In TSV a quote is a character like
others, unless the first lines are quoted as spreadsheets do it.
"""

import csv
import json
import logging
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from statistics import median
from typing import Any, NamedTuple

import pyarrow
from pyarrow import parquet

from nmt.config.schema import DataConfig
from nmt.data.inspect.language import LANGUAGES_TOLD, language_of_text
from nmt.data.languages import SENTENCE_ENDS, base_code, language_of_column, same_language
from nmt.data.packed import LONGEST_LINE, PackedFile
from nmt.data.parallel_text import is_unicode, read_lines
from nmt.errors import UserError, printable

log = logging.getLogger("nmt")
Pair = tuple[str, str]
Skipped = Counter[str]  # records that are no pair, by reason
OTHER_WIDTH = "another number of columns"
NO_TEXT = "no text in a column"
NO_COLUMN = "a column missing"
# a cell as spreadsheets write it
QUOTED = re.compile(r'(?:^|(?<=\t))"((?:[^"]|"")*)"(?=\t|$)', re.MULTILINE)
QUOTE = re.compile(r'(?:^|\t)"', re.MULTILINE)
SAMPLE = 1000  # lines or rows at the beginning by which a table is understood
ROWS = 4096  # of Parquet that are held in memory
MAX_SHOWN = 12  # columns that a message names
DELIMITERS = ",;\t"
STATED = re.compile(r"sep=([,;\t])")  # a first line, for Excel
LONGEST_CELL = 4  # lines of a cell in quotes that may all look like rows
FARTHEST = 200  # lines in which the end of a cell in quotes is looked for
TEXT_SHARE = 0.2  # of the letters of the longest column, which another column of text has
NAMES = [("source", "target"), ("src", "tgt")]  # of columns in any languages
ROLES = {*chain(*NAMES), "translation", "original", "text"}  # what columns of text are called
HEADER_SHARE = 0.95  # of the rows that the names of columns are unlike
LONGEST_HEADER = 40  # characters of a column's name
FEWEST_ROWS = 5  # with which a first row is compared


TRANSLATION = "translation."  # before the language, of columns in an object


class Columns:
    """Which two columns hold the sentences: the first of `choices` that a table has.

    These are data.columns, or columns named after the languages, `translation`, or source and
    target.
    """

    def __init__(self, data: DataConfig) -> None:
        source = data.source
        target = data.target
        given = data.columns
        self.choices: list[tuple[Any, Any]] = [
            (source, target),
            (TRANSLATION + source, TRANSLATION + target),
            *NAMES,
        ]
        self.languages = (source, target) if given is None else ()
        if given is not None:
            pairs = (
                list(zip(given[::2], given[1::2], strict=False)) if isinstance(given, list) else []
            )
            texts = [
                pair for pair in pairs if all(isinstance(column, str) and column for column in pair)
            ]
            numbers = [
                pair for pair in pairs if all(type(column) is int and column > 0 for column in pair)
            ]
            is_mixed = len(texts) + len(numbers) < len(pairs) or any(
                source == target for source, target in pairs
            )
            if not pairs or len(given) % 2 or is_mixed:
                raise UserError(
                    f"data.columns={given} is not possible; give two names, "
                    "data.columns=[NAME,NAME], or two numbers "
                    "from 1 for tables without a header, or several pairs of them for several "
                    "tables."
                )
            self.choices = pairs

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The two numbers, from 0, if columns go by number."""
        source, target = self.choices[0]
        return (source - 1, target - 1) if isinstance(source, int) else None

    def has(self, names: Sequence[str]) -> bool:
        """Whether these names are enough."""
        return self.named(names) is not None

    def named(self, names: Sequence[str]) -> tuple[Any, Any] | None:
        """The first of the choices that is among these names, else two names that mean the
        languages (de-DE for de)."""
        lower = {name.strip().lower(): name for name in names}
        for source, target in self.choices:
            if source in names and target in names:
                return source, target
            if self.languages and source.lower() in lower and target.lower() in lower:
                return lower[source.lower()], lower[target.lower()]
        for beginning in ("", TRANSLATION) if self.languages else ():
            told = [
                (told_by(name.removeprefix(beginning)), name)
                for name in names
                if name.startswith(beginning)
            ]
            sides = []
            for language in self.languages:
                codes = same_language(language, [code for code, _ in told])
                sides.append([name for code, name in told if code in codes])
            if all(len(found) == 1 for found in sides) and sides[0] != sides[1]:
                return sides[0][0], sides[1][0]
        return None

    def find(self, names: Sequence[str], table: str) -> tuple[Any, Any]:
        """The two names that the table has; raises UserError, naming those that are there."""
        pair = self.named(names)
        if pair is not None:
            twice = [name for name in pair if names.count(name) > 1]
            if twice:
                raise UserError(
                    f"{table} has several columns '{printable(twice[0])}'; give each its own name."
                )
            return pair
        wanted = " nor ".join(f"'{source}' and '{target}'" for source, target in self.choices)
        shown = ", ".join(map(printable, names[:MAX_SHOWN])) + (
            ", …" if len(names) > MAX_SHOWN else ""
        )
        raise UserError(
            f"{table} has no columns {wanted}; it has {shown or 'none'}. Choose with "
            "data.columns=[SOURCE,TARGET]; "
            "numbers are for TSV and CSV without a header."
        )


def source_and_target(header: Sequence[str]) -> tuple[int, int] | None:
    """The columns source and target of a header, or src and tgt; None without them."""
    names = [name.strip().lower() for name in header]
    for source, target in NAMES:
        if source in names and target in names:
            return names.index(source), names.index(target)
    return None


def told_by(name: str) -> str:
    """The language that the name of a column tells, else the name itself."""
    return language_of_column(name) or name.strip()


class Layout(NamedTuple):
    """Where the two sides are in the rows of a table, and how the rows look."""

    source: int  # columns, from 0
    target: int
    width: int  # columns of most rows
    has_header: bool


def read_table(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a TSV or CSV file. Raises UserError."""
    columns = Columns(data)
    yield from select(text_rows(file, columns), columns, skipped, str(file))


def text_rows(file: PackedFile, columns: Columns | None = None) -> Iterator[list[str]]:
    """The rows of a TSV or CSV file; `columns` help to find the delimiter. Raises UserError."""
    return from_first_row(all_text_rows(file, columns), str(file))


def all_text_rows(file: PackedFile, columns: Columns | None) -> Iterator[list[str]]:
    lines = read_lines(file)
    first = list(islice(lines, SAMPLE))
    csv.field_size_limit(LONGEST_LINE)  # of this process; a field may have as much as a line
    if file.ending == ".tsv" and not is_quoted("\n".join(first)):
        return map(tsv_cells, chain(first, lines))
    if len(first) == 1 and "\r" in first[0]:
        raise UserError(
            f"{file}, line 1: its lines end in carriage returns; convert the file to line feeds."
        )
    stated = STATED.fullmatch(first[0]) if first else None
    if stated:
        delimiter = stated[1]
        del first[0]
    else:
        delimiter = "\t" if file.ending == ".tsv" else find_delimiter(first, columns)
    return quoted_rows(file, first, lines, delimiter, 1 + bool(stated))


def quoted_rows(
    file: PackedFile, first: list[str], lines: Iterator[str], delimiter: str, number: int
) -> Iterator[list[str]]:
    """The rows of lines in which cells may be quoted, the `first` of which tell the width;
    `number`: of the first line.

    A row is what the csv module reads, from one line or several. Where a quotation mark is not
    closed, or not doubled inside a cell, the row is one line. It is read in the first of these ways
    that gives it as many columns as most rows have: cells in quotes without others inside, cells in
    quotes with others inside, no cell in quotes. Several lines that would all be rows by themselves
    are read so, too, if they are too many for a cell, or if a quotation mark has been stray before.
    """
    width = usual_width(first, delimiter)
    rest = chain(first, lines)
    waiting: deque[str] = deque()
    stray: list[int] = []
    lost = 0
    while True:
        waiting.extend(islice(rest, FARTHEST - len(waiting)))
        if not waiting:
            break
        row, used = csv_cells(waiting, delimiter)
        looks_like_rows = (used > LONGEST_CELL or bool(stray)) and all(
            line.count(delimiter) == width - 1 for line in islice(waiting, used)
        )
        if row is None or (used > 1 and (looks_like_rows or len(row) != width)):
            row = stray_cells(waiting[0], delimiter, width)
            used = 1
            stray.append(number)
            lost += len(row) != width
        yield row
        number += used
        for _ in range(used):
            waiting.popleft()
    if stray:
        places = ", ".join(map(str, stray[:MAX_SHOWN])) + (", …" if len(stray) > MAX_SHOWN else "")
        kept = f"{lost:,} of them have another number of columns" if lost else "no row is lost"
        say(
            f"{file}: {len(stray):,} lines have a quotation mark that is not closed or not doubled "
            f"(lines {places}); "
            f"it is read as text, and {kept}."
        )


def usual_width(lines: Sequence[str], delimiter: str) -> int:
    """How many columns most rows have, of which each is a line if quotation marks are stray."""
    try:
        rows = list(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True))
    except csv.Error:
        rows = [csv_cells([line], delimiter)[0] or [] for line in lines]
    widths = Counter(len(row) for row in rows if row)
    return widths.most_common(1)[0][0] if widths else 0


def csv_cells(lines: Iterable[str], delimiter: str) -> tuple[list[str] | None, int]:
    """The cells of the row with which these lines begin, and of how many it is; None where its
    quotes are wrong."""
    # Line ends have been removed by decoding; inside quotes they belong to the text.
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        return next(reader), reader.line_num
    except csv.Error:
        return None, 1


def stray_cells(line: str, delimiter: str, width: int) -> list[str]:
    """The cells of a line with a stray quotation mark: in the first way of `quoted_rows` that gives
    the width."""
    for inside in ('[^"]*(?:""[^"]*)*', ".*?"):
        sign = re.escape(delimiter)
        cells = re.findall(rf'(?:^|(?<={sign}))("{inside}"|[^{sign}]*)(?={sign}|$)', line)
        if len(cells) == width:
            return [
                cell[1:-1].replace('""', '"') if re.fullmatch('".*"', cell) else cell
                for cell in cells
            ]
    return line.split(delimiter)


@cache  # once for each file, which is read several times
def say(text: str) -> None:
    log.warning("%s", text)


def is_quoted(text: str) -> bool:
    """Whether cells that begin with a quote also end in one, and all cells do or inner quotes are
    doubled."""
    quoted = QUOTED.findall(text)
    rest = QUOTED.sub("", text)
    return (
        bool(quoted)
        and not QUOTE.search(rest)
        and (any('""' in cell for cell in quoted) or not rest.strip())
    )


def tsv_cells(line: str) -> list[str]:
    """The cells of a line; one in quotes that has doubled ones is as a spreadsheet writes it."""
    return [
        cell[1:-1].replace('""', '"') if '""' in cell[1:-1] and QUOTED.fullmatch(cell) else cell
        for cell in line.split("\t")
    ]


def find_delimiter(lines: Sequence[str], columns: Columns | None) -> str:
    """The delimiter with which the first line has the columns, else with which most lines have as
    many cells."""

    def fitness(delimiter: str) -> tuple[bool, int, int]:
        header = next(csv.reader(lines[:1], delimiter=delimiter), [])
        widths = Counter(line.count(delimiter) + 1 for line in lines if delimiter in line)
        width, rows = widths.most_common(1)[0] if widths else (1, 0)
        return columns is not None and columns.has(header), rows, width

    return max(DELIMITERS, key=fitness)


def from_first_row(rows: Iterable[list[str]], table: str) -> Iterator[list[str]]:
    """The rows from the first one with two cells on: before it a sheet may have a title. What is
    left out is said.

    `table`: what the message calls it; without it nothing is said.
    """
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    start = next((number for number, row in enumerate(first) if sum(map(bool, row)) > 1), 0)
    if table and any(map(any, first[:start])):
        say(
            f"{table}: the rows before {shown_row(first[start])} are left out, as none has two "
            "cells."
        )
    yield from first[start:]
    yield from rows


def shown_row(row: Sequence[str]) -> str:
    return " | ".join(printable(cell, LONGEST_HEADER) for cell in row[:MAX_SHOWN])


def select(
    rows: Iterable[list[str]], columns: Columns, skipped: Skipped, table: str
) -> Iterator[Pair]:
    """The two columns of rows of strings."""
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    layout, remark = find_layout(first, columns, table)
    if remark:
        say(remark)
    for row in chain(first[layout.has_header :], rows):
        if len(row) == layout.width:
            yield row[layout.source], row[layout.target]
        elif row not in ([], [""]):  # an empty line
            skipped[OTHER_WIDTH] += 1


def find_layout(rows: list[list[str]], columns: Columns, table: str) -> tuple[Layout, str]:
    """Where the pairs are in a table that begins with these rows: by number, by name or by text.
    Raises UserError.

    Also a sentence for the user, if only the text tells the columns, or if the first row of a table
    without names is taken for names; else "".
    """
    header = rows[0] if rows else []
    is_named = columns.numbers is None and columns.has(header)
    widths = Counter(len(row) for row in rows[is_named:] if row not in ([], [""]))
    width = widths.most_common(1)[0][0] if widths else 0
    if is_named:
        if width and width != len(header):
            raise UserError(
                f"{table} has {len(header)} columns in its header, and {width} in most rows; both "
                "must agree."
            )
        source, target = (header.index(name) for name in columns.find(header, table))
        return Layout(source, target, width, True), ""
    if columns.numbers is not None:
        source, target = columns.numbers
        if max(columns.numbers) >= width:
            columns.find([str(number) for number in range(1, width + 1)], table)  # raises
    else:
        sides = find_sides(rows, columns.languages) if columns.languages else None
        if sides is None:
            columns.find(header, table)  # raises
        assert sides is not None
        source, target = sides
    has_header = looks_like_header(rows, source, target)
    layout = Layout(source, target, width, has_header)
    of_first = (
        f"the first row, {shown_row(header)}, is read as "
        f"{'names of columns' if has_header else 'a pair'}"
    )
    if columns.numbers is not None:
        return layout, f"{table}: {of_first}." if has_header else ""
    languages = " and ".join(columns.languages)
    return layout, (
        f"{table}: columns {source + 1} and {target + 1} are read as {languages}, by "
        f"their text; {of_first}."
    )


def columns_of_text(rows: Sequence[Sequence[str]]) -> dict[int, str]:
    """The text of each column that has not much fewer letters than the longest, by its number."""
    width = max(map(len, rows), default=0)
    texts = {
        column: "\n".join(row[column] for row in rows if len(row) > column)
        for column in range(width)
    }
    letters = {column: sum(map(str.isalpha, text)) for column, text in texts.items()}
    most = max(letters.values(), default=0)
    return {column: text for column, text in texts.items() if letters[column] > TEXT_SHARE * most}


def find_sides(rows: Sequence[Sequence[str]], languages: Sequence[str]) -> tuple[int, int] | None:
    """The two columns that have the text of the two languages; None where that is not sure.

    A language that no text tells is that of the only other column with text.
    """
    texts = columns_of_text(rows)
    told = {column: language_of_text(text, languages) for column, text in texts.items()}
    found = []
    for language in languages:
        fitting = [column for column in texts if told[column] == language]
        found.append(max(fitting, key=lambda column: len(texts[column])) if fitting else None)
    known = [column for column in found if column is not None]
    if len(known) == 1:
        unknown = languages[found.index(None)]
        others = [column for column in texts if column not in known]
        if len(others) != 1 or base_code(unknown) in LANGUAGES_TOLD:
            return None
        found[found.index(None)] = others[0]
    source, target = found
    return None if source is None or target is None or source == target else (source, target)


def looks_like_header(rows: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Whether the first row has the names of columns: names of languages or texts, or it is unlike
    the other rows."""
    if not rows or len(rows[0]) <= max(source, target):
        return False
    first = [cell.strip() for cell in rows[0]]
    names = first[source], first[target]
    if any(
        not name or len(name) > LONGEST_HEADER or name.endswith(SENTENCE_ENDS) for name in names
    ):
        return False
    told = [
        language_of_column(name) or (name.lower() if name.lower() in ROLES else "")
        for name in names
    ]
    if any(told) and told[0] != told[1]:
        return True
    others = [row for row in rows[1:] if len(row) == len(first)]
    if len(others) < FEWEST_ROWS:
        return False
    for column, name in enumerate(first):
        numbers = [is_number(row[column]) for row in others]
        if name and not is_number(name) and sum(numbers) >= HEADER_SHARE * len(others):
            return True
    return all(
        is_unlike(first[side], [row[side].strip() for row in others]) for side in (source, target)
    )


def is_number(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def is_unlike(name: str, cells: Sequence[str]) -> bool:
    """Whether a cell is much shorter than those below it, of which most end as sentences do."""
    sentences = sum(cell.endswith(SENTENCE_ENDS) for cell in cells)
    longer = sum(len(cell) > len(name) for cell in cells)
    is_short = 2 * len(name) < median(map(len, cells)) and longer >= HEADER_SHARE * len(cells)
    return is_short and 2 * sentences > len(cells)


def read_jsonl(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a file with one JSON object a line. Raises UserError."""
    yield from select_fields(json_rows(file), Columns(data), skipped, str(file), file.errors)


def json_rows(file: PackedFile) -> Iterator[dict[str, Any]]:
    """The objects of a file with one a line; raises UserError."""
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{file}, line {number}, is no JSON object; each line must be one.")
        yield row


def read_parquet(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a Parquet file, read in small parts. Raises UserError."""
    columns = Columns(data)
    try:
        with parquet.ParquetFile(file.path, buffer_size=1 << 20, pre_buffer=False) as table:
            chosen = columns.find(
                table.schema_arrow.empty_table().flatten().column_names, str(file)
            )
            for batch in table.iter_batches(ROWS, columns=list(chosen), use_threads=False):
                yield from select_fields(batch.to_pylist(), columns, skipped, str(file))
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as Parquet: {printable(error, 200)}") from None


def select_fields(
    rows: Iterable[Mapping[str, Any]],
    columns: Columns,
    skipped: Skipped,
    table: str,
    errors: str = "strict",
) -> Iterator[Pair]:
    """The two columns of rows with names; one of the first hundred rows has them. Raises UserError.

    A text with a lone surrogate is skipped unless `errors` lets it pass.
    """
    flat_rows = map(flat, rows)
    first = list(islice(flat_rows, 100))
    if not first:
        return
    names = next((list(row) for row in first if columns.has(list(row))), list(first[0]))
    source, target = columns.find(names, table)
    for row in chain(first, flat_rows):
        pair: Any = row.get(source), row.get(target)
        if all(
            isinstance(side, str) and (side.isascii() or is_unicode(side, errors)) for side in pair
        ):
            yield pair
        else:
            skipped[NO_TEXT if None not in pair else NO_COLUMN] += 1


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which the fields of objects are columns of their own, such as `translation.de`."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = (
            {f"{name}.{each}": content for each, content in value.items()}
            if isinstance(value, dict)
            else {}
        )
        found |= inner or {str(name): value}
    return found
