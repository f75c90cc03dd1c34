"""Sentence pairs in two columns of a table: TSV, CSV, JSON lines, Parquet, and rows of any kind.

Columns are chosen by name, or by number if TSV and CSV have no header. A field `translation` with
one sentence for each language counts as two columns, `translation.de` and `translation.en`; so does
any object in an object. If no name tells the columns, their text does, provided that it is surely
in the two languages. A row is a pair if it has as many columns as most of the first rows.

CSV is read with the delimiter (comma, semicolon, tab or |) that gives the columns, and with quotes
as the csv module reads them; `quoted_rows` says how stray ones are read. In TSV a quote is a
character like others, unless the first lines are quoted as spreadsheets do it.
"""

import csv
import json
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, takewhile
from statistics import median
from typing import Any, NamedTuple

import pyarrow
from pyarrow import parquet

from nmt.config.schema import DataConfig
from nmt.corpus.inspect.language import LANGUAGES_TOLD, Pair, language_of_text
from nmt.corpus.languages import (
    SENTENCE_ENDS,
    base_code,
    find_language,
    is_also_word,
    language_of_column,
    same_language,
)
from nmt.corpus.packed import LONGEST_LINE, PackedFile
from nmt.corpus.parallel_text import is_unicode, read_lines
from nmt.errors import UserError, printable

log = logging.getLogger("nmt")
Skipped = Counter[str]  # records that are no pair, by reason
BLANK_ROWS: tuple[list[str], ...] = ([], [""])  # of an empty line
OTHER_WIDTH = "another number of columns"
NO_TEXT = "no text in a column"
NO_COLUMN = "a column missing"
# A cell in quotes as spreadsheets write it, and the beginning of any cell in quotes.
QUOTED = re.compile(r'(?:^|(?<=\t))"((?:[^"]|"")*)"(?=\t|$)', re.MULTILINE)
QUOTE = re.compile(r'(?:^|\t)"', re.MULTILINE)
SAMPLE = 1000  # lines or rows at the beginning by which a table is understood
FIRST_OBJECTS = 100  # rows with names, one of which has all columns
ROWS = 4096  # of Parquet that are held in memory
MAX_SHOWN = 12  # columns that a message names
DELIMITERS = ",;\t|"
STATED = re.compile(r"sep=([,;\t|])")  # a first line, for Excel
LONGEST_CELL = 4  # lines of a cell in quotes that may all look like rows
RETURN = "\udc0d"  # stands for a carriage return; decoded text has no such character
LONGEST_STRAY = 4000  # characters of a line whose stray quotation marks are looked into
FARTHEST = 200  # lines in which the end of a cell in quotes is looked for
TEXT_SHARE = 0.2  # of the letters of the longest column, which another column of text has
# In a key, such as menu.open, btn_save and labelText: what joins its parts.
KEY_SIGN = re.compile(r"\w[._/:#-]+\w|[a-z][A-Z0-9]")
SPACE = re.compile(r"\s")
NAMES = [("source", "target"), ("src", "tgt")]  # of columns in any languages
ROLES = {*chain(*NAMES), "translation", "original", "text"}  # what columns of text are called
TRANSLATION = "translation."  # before the language, of columns in an object
HEADER_SHARE = 0.95  # of the rows that the names of columns are unlike
LONGEST_HEADER = 40  # characters of a column's name
FEWEST_ROWS = 5  # with which a first row is compared


class Columns:
    """Which two columns hold the sentences: the first of `choices` that a table has.

    These are data.columns, or columns named after the languages, `translation`, or then NAMES:
    source and target. `table`: what messages call it.
    """

    def __init__(self, data: DataConfig, table: str) -> None:
        self.table = table
        self.languages: tuple[str, ...] = ()
        self.choices: list[tuple[Any, Any]]
        if data.columns is not None:
            self.choices = given_columns(data.columns)
        else:
            self.languages = (data.source, data.target)
            inside = (TRANSLATION + data.source, TRANSLATION + data.target)
            self.choices = [(data.source, data.target), inside]

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The two numbers, from 0, if columns go by number."""
        source, target = self.choices[0]
        return (source - 1, target - 1) if isinstance(source, int) else None

    def named(self, names: Sequence[str]) -> tuple[Any, Any] | None:
        """The two of these names that mean the source and the target, if there are two."""
        if not self.languages:
            return self.first_of(self.choices, names)
        return (
            self.first_of(self.choices, names)
            or self.named_after_languages(names)
            or self.first_of(NAMES, names)
        )

    def first_of(
        self, choices: Sequence[tuple[Any, Any]], names: Sequence[str]
    ) -> tuple[Any, Any] | None:
        """The first of the choices that is among these names."""
        lower = {name.strip().lower(): name for name in names}
        for source, target in choices:
            if source in names and target in names:
                return source, target
            if self.languages and source.lower() in lower and target.lower() in lower:
                return lower[source.lower()], lower[target.lower()]
        return None

    def named_after_languages(self, names: Sequence[str]) -> tuple[str, str] | None:
        """The two names that mean the languages in another form, such as de-DE for de."""
        for beginning in ("", TRANSLATION):
            told = []
            for name in names:
                if name.startswith(beginning):
                    bare = name.removeprefix(beginning)
                    told.append((language_of_column(bare) or bare.strip(), name))
            sides = []
            for language in self.languages:
                codes = same_language(language, dict(told))
                sides.append([name for code, name in told if code in codes])
            source, target = sides
            if len(source) == len(target) == 1 and source != target:
                return source[0], target[0]
        return None

    def find(self, names: Sequence[str]) -> tuple[Any, Any]:
        """The two names that the table has; raises UserError if it lacks one or has one twice."""
        pair = self.named(names)
        if pair is None:
            raise self.missing(names)
        for name in pair:
            if names.count(name) > 1:
                raise UserError(
                    f"{self.table} has several columns '{printable(name)}'; give each its own name."
                )
        return pair

    def refuse_keys(self, name: str, cells: Sequence[str]) -> None:
        """Raise UserError if a column with keys is taken for a language by a name such as `id`."""
        if self.languages and is_also_word(name) and are_keys(cells):
            language = find_language(name).name
            key = printable(next(filter(None, cells)), LONGEST_HEADER)
            raise UserError(
                f"{self.table}: the column '{name}' has keys, such as {key}, and no {language} "
                "text; rename it, or choose two columns with data.columns=[SOURCE,TARGET]."
            )

    def missing(self, names: Sequence[str]) -> UserError:
        choices = [*self.choices, *NAMES] if self.languages else self.choices
        wanted = " nor ".join(f"'{source}' and '{target}'" for source, target in choices)
        return UserError(
            f"{self.table} has no columns {wanted}; it has {listed(names) or 'none'}. Name two so; "
            "to train, data.columns=[SOURCE,TARGET] chooses, by number in TSV and CSV without a "
            "header."
        )


def given_columns(given: Any) -> list[tuple[Any, Any]]:
    """The pairs of columns of data.columns; raises UserError if they are not possible."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, list) and len(given) % 2 == 0:
        pairs = list(zip(given[::2], given[1::2], strict=True))
    if not pairs or not all(map(are_columns, pairs)):
        raise UserError(
            f"data.columns={given} is not possible; give two names, data.columns=[NAME,NAME], or "
            "two numbers from 1 for tables without a header, or several pairs of them for several "
            "tables."
        )
    return pairs


def are_columns(pair: tuple[Any, Any]) -> bool:
    """Whether these are two different names, or two different numbers from 1."""
    source, target = pair
    if source == target or type(source) is not type(target):
        return False
    if isinstance(source, str):
        return all(pair)
    return type(source) is int and min(pair) > 0


def listed(names: Sequence[str], most: int = MAX_SHOWN) -> str:
    """The first names, and an ellipsis for the others."""
    shown = list(map(printable, names[:most]))
    if len(names) > most:
        shown.append("…")
    return ", ".join(shown)


def source_and_target(header: Sequence[str]) -> tuple[int, int] | None:
    """The columns source and target of a header, or src and tgt; None without them."""
    names = [name.strip().lower() for name in header]
    for source, target in NAMES:
        if source in names and target in names:
            return names.index(source), names.index(target)
    return None


class Layout(NamedTuple):
    """Where the two sides are in the rows of a table, and how the rows look."""

    source: int  # columns, from 0
    target: int
    width: int  # columns of most rows
    has_header: bool


def read_table(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a TSV or CSV file. Raises UserError."""
    columns = Columns(data, str(file))
    yield from select(text_rows(file, columns), columns, skipped)


def text_rows(file: PackedFile, columns: Columns | None = None) -> Iterator[list[str]]:
    """The rows of a TSV or CSV file; `columns` help to find the delimiter. Raises UserError."""
    return from_first_row(all_text_rows(file, columns), str(file))


def all_text_rows(file: PackedFile, columns: Columns | None) -> Iterator[list[str]]:
    lines = read_lines(file)
    first = list(islice(lines, SAMPLE))
    first += rest_of_cell(first, lines)
    csv.field_size_limit(LONGEST_LINE)  # of this process; a field may have as much as a line
    if file.ending == ".tsv" and not is_quoted("\n".join(first)):
        return map(tsv_cells, chain(first, lines))
    stated = STATED.fullmatch(first[0]) if first else None
    if stated:
        return quoted_rows(file, first[1:], lines, stated[1], number=2)
    delimiter = "\t" if file.ending == ".tsv" else find_delimiter(first, columns)
    return quoted_rows(file, first, lines, delimiter, number=1)


def rest_of_cell(first: Sequence[str], lines: Iterator[str]) -> Iterator[str]:
    """The next lines up to the end of the cell in quotes that these lines end in, if they do."""
    is_inside = sum(line.count('"') for line in first) % 2 == 1
    for line in islice(lines, FARTHEST if is_inside else 0):
        yield line
        if line.count('"') % 2 == 1:
            return


def is_quoted(text: str) -> bool:
    """Whether the lines of a TSV file are quoted as spreadsheets do it.

    Every cell that begins with a quote ends with one; and quotes inside cells are doubled, or all
    cells are quoted, or those with a comma and no others, or the lines have equally many cells only
    if a quoted cell may have a line break.
    """
    quoted = QUOTED.findall(text)
    rest = QUOTED.sub("", text)
    if not quoted or QUOTE.search(rest):
        return False
    if any('""' in cell for cell in quoted) or not rest.strip():
        return True
    if "," not in rest and all("," in cell for cell in quoted):
        return True
    on_one_line = QUOTED.sub(lambda cell: cell[0].replace("\n", " "), text)
    return not has_equal_rows(text) and has_equal_rows(on_one_line)


def has_equal_rows(text: str) -> bool:
    """Whether all lines have the same number of tabs."""
    return len({line.count("\t") for line in text.split("\n") if line}) == 1


def tsv_cells(line: str) -> list[str]:
    """The cells of a line; one in quotes that has doubled ones is as a spreadsheet writes it."""
    cells = line.split("\t")
    if '""' not in line:
        return cells
    for column, cell in enumerate(cells):
        if '""' in cell[1:-1] and QUOTED.fullmatch(cell):
            cells[column] = without_quotes(cell)
    return cells


def without_quotes(cell: str) -> str:
    return cell[1:-1].replace('""', '"')


def find_delimiter(lines: Sequence[str], columns: Columns | None) -> str:
    """The delimiter that gives the first line the columns, else most lines as many cells."""

    def fitness(delimiter: str) -> tuple[bool, int, int]:
        try:
            header = next(csv.reader(lines[:1], delimiter=delimiter), [])
        except csv.Error:
            header = []
        has_columns = columns is not None and columns.named(header) is not None
        delimiters = Counter(line.count(delimiter) for line in lines)
        del delimiters[0]
        [(number, rows)] = delimiters.most_common(1) or [(0, 0)]
        return has_columns, rows, number

    return max(DELIMITERS, key=fitness)


def quoted_rows(
    file: PackedFile, first: list[str], lines: Iterator[str], delimiter: str, number: int
) -> Iterator[list[str]]:
    """The rows of lines in which cells may be quoted.

    `first`: the first of the lines, which tell the width; `number`: that of the first line.

    A row is what the csv module reads, from one line or several. If a quotation mark is not closed,
    or not doubled inside a cell, the row is one line, read as `stray_cells` does it. So are several
    lines that would all be rows by themselves, if they are too many for a cell or if a quotation
    mark has been stray before.
    """
    skips_spaces = has_spaces(first, delimiter)
    width = usual_width(first, delimiter, skips_spaces)
    rest = chain(first, lines)
    waiting: deque[str] = deque()
    stray: list[int] = []
    lost = 0
    while True:
        waiting.extend(islice(rest, FARTHEST - len(waiting)))
        if not waiting:
            break
        row, used = csv_cells(waiting, delimiter, skips_spaces)
        if row is not None and used > 1:
            are_rows = all(line.count(delimiter) == width - 1 for line in islice(waiting, used))
            if len(row) != width or (are_rows and (used > LONGEST_CELL or stray)):
                row = None
        if row is None:
            row = stray_cells(waiting[0], delimiter, width)
            used = 1
            stray.append(number)
            lost += len(row) != width
        yield row
        number += used
        for _ in range(used):
            waiting.popleft()

    if stray:
        kept = f"{lost:,} of them have another number of columns" if lost else "no row is lost"
        warn_once(
            f"{file}: {len(stray):,} lines have a quotation mark that is not closed or not doubled "
            f"(lines {listed(list(map(str, stray)))}); it is read as text, and {kept}."
        )


def has_spaces(lines: Sequence[str], delimiter: str) -> bool:
    """Whether most cells in quotes stand behind a delimiter and a space."""
    behind_space = sum(line.count(f'{delimiter} "') for line in lines)
    return behind_space > sum(line.count(f'{delimiter}"') for line in lines)


def usual_width(lines: Sequence[str], delimiter: str, skips_spaces: bool) -> int:
    """How many columns most rows have; if quotation marks are stray, each line is a row."""
    try:
        rows = list(csv_reader(lines, delimiter, skips_spaces))
    except csv.Error:
        rows = [csv_cells([line], delimiter, skips_spaces)[0] or [] for line in lines]
    return most_frequent_width(filter(None, rows))


def most_frequent_width(rows: Iterable[Sequence[str]]) -> int:
    [(width, _)] = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    return width


def csv_cells(
    lines: Iterable[str], delimiter: str, skips_spaces: bool
) -> tuple[list[str] | None, int]:
    """The cells of the row with which these lines begin, and how many lines it has.

    None instead of the cells if its quotes are wrong.
    """
    reader = csv_reader(lines, delimiter, skips_spaces)
    try:
        row = next(reader)
    except csv.Error:
        return None, 1
    return [cell.replace(RETURN, "\r") for cell in row], reader.line_num


def csv_reader(lines: Iterable[str], delimiter: str, skips_spaces: bool) -> Any:
    """The csv module's reader of lines without their ends, with RETURN for a carriage return.

    Inside quotes the ends of lines belong to the text. A carriage return in a cell without quotes
    would be an error.
    """
    ended = (line.replace("\r", RETURN) + "\n" for line in lines)
    return csv.reader(ended, delimiter=delimiter, strict=True, skipinitialspace=skips_spaces)


def stray_cells(line: str, delimiter: str, width: int) -> list[str]:
    """The cells of a line with a stray quotation mark, in the first way that gives the width.

    Cells may be in quotes without others inside, or in quotes with others inside; else no quotation
    mark has a meaning.
    """
    sign = re.escape(delimiter)
    if len(line) > LONGEST_STRAY:  # the second pattern takes time ∝ length²
        return line.split(delimiter)
    for inside in ('[^"]*(?:""[^"]*)*', ".*?"):
        cells = re.findall(rf'(?:^|(?<={sign}))("{inside}"|[^{sign}]*)(?={sign}|$)', line)
        if len(cells) == width:
            for column, cell in enumerate(cells):
                if re.fullmatch('".*"', cell):
                    cells[column] = without_quotes(cell)
            return cells
    return line.split(delimiter)


@cache  # once for each file, which is read several times
def warn_once(text: str) -> None:
    log.warning("%s", text)


def from_first_row(rows: Iterable[list[str]], table: str) -> Iterator[list[str]]:
    """The rows from the first one with two cells on: before it a sheet may have a title.

    `table`: what the message about rows left out calls it; without it nothing is logged.
    """
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    titles = list(takewhile(has_one_cell, first))
    if len(titles) == len(first):
        titles = []
    table_rows = first[len(titles) :]
    if table and any(map(any, titles)):
        warn_once(
            f"{table}: the rows before {shown_row(table_rows[0])} are left out, as none has two "
            "cells."
        )
    yield from table_rows
    yield from rows


def has_one_cell(row: Sequence[str]) -> bool:
    """Whether at most one cell has a text."""
    return sum(map(bool, row)) <= 1


def shown_row(row: Sequence[str]) -> str:
    return " | ".join(printable(cell, LONGEST_HEADER) for cell in row[:MAX_SHOWN])


def select(rows: Iterable[list[str]], columns: Columns, skipped: Skipped) -> Iterator[Pair]:
    """The two columns of rows of strings."""
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    layout, remark = find_layout(first, columns)
    if remark:
        warn_once(remark)
    for row in chain(first[layout.has_header :], rows):
        if len(row) == layout.width:
            yield row[layout.source], row[layout.target]
        elif row not in BLANK_ROWS:
            skipped[OTHER_WIDTH] += 1


def find_layout(rows: list[list[str]], columns: Columns) -> tuple[Layout, str]:
    """Where the pairs are in a table that begins with these rows: by number, by name or by text.

    Also a sentence for the user if the text alone tells the columns, or if the first row of a table
    without names is taken for names; else "". Raises UserError.
    """
    header = rows[0] if rows else []
    is_named = columns.numbers is None and columns.named(header) is not None
    width = most_frequent_width(row for row in rows[is_named:] if row not in BLANK_ROWS)
    if is_named:
        if width not in (0, len(header)):
            raise UserError(
                f"{columns.table} has {len(header)} columns in its header, and {width} in most "
                "rows; both must agree."
            )
        source, target = map(header.index, columns.find(header))
        for column in (source, target):
            cells = [row[column] for row in rows[1:] if len(row) > column]
            columns.refuse_keys(header[column], cells)
        return Layout(source, target, width, True), ""

    sides = columns.numbers
    names = [str(number) for number in range(1, width + 1)]
    if sides is None:
        names = header
        if columns.languages:
            sides = find_sides(rows, columns.languages)
    if sides is None or max(sides) >= width:
        raise columns.missing(names)
    source, target = sides
    has_header = looks_like_header(rows, source, target)
    layout = Layout(source, target, width, has_header)

    read_as = "names of columns" if has_header else "a pair"
    remark = f"the first row, {shown_row(header)}, is read as {read_as}."
    if columns.numbers is None:
        languages = " and ".join(columns.languages)
        numbers = f"columns {source + 1} and {target + 1}"
        remark = f"{numbers} are read as {languages}, by their text; {remark}"
    elif not has_header:
        return layout, ""
    return layout, f"{columns.table}: {remark}"


def columns_of_text(rows: Sequence[Sequence[str]]) -> dict[int, str]:
    """The text of each column that has not much fewer letters than the longest, by its number.

    Columns of keys are left out.
    """
    texts = []
    letters = []
    for column in range(max(map(len, rows), default=0)):
        cells = [row[column] for row in rows if len(row) > column]
        text = "\n".join(cells)
        texts.append(text)
        # The first row may have names of columns.
        letters.append(0 if are_keys(cells[1:]) else sum(map(str.isalpha, text)))
    fewest = TEXT_SHARE * max(letters, default=0)
    return {column: text for column, text in enumerate(texts) if letters[column] > fewest}


def are_single(cells: Iterable[str]) -> bool:
    """Whether no cell has a space, as keys have none."""
    return not any(SPACE.search(cell.strip()) for cell in cells)


def are_keys(cells: Sequence[str]) -> bool:
    """Whether the cells are keys: numbers; or none has a space, and most have parts: menu.open."""
    filled = [cell for cell in cells if cell.strip()]
    if filled and not any(map(str.isalpha, "".join(filled))):
        return True
    # Other letters than ASCII's are text, which Chinese writes without spaces.
    joined = sum(cell.isascii() and KEY_SIGN.search(cell) is not None for cell in filled)
    return 2 * joined > len(filled) and are_single(filled)


def find_sides(rows: Sequence[Sequence[str]], languages: Sequence[str]) -> tuple[int, int] | None:
    """The two columns that have the text of the two languages; None if that is not sure.

    A language that no text tells is that of the only other column with text.
    """
    texts = columns_of_text(rows)
    column_of: dict[str | None, int] = {}  # by language, the one with the longest text
    for column in sorted(texts, key=lambda column: len(texts[column]), reverse=True):
        column_of.setdefault(language_of_text(texts[column], languages), column)
    untold = [language for language in languages if language not in column_of]
    if len(untold) == 1:
        others = texts.keys() - set(map(column_of.get, languages))
        if len(others) != 1 or base_code(untold[0]) in LANGUAGES_TOLD:
            return None
        column_of[untold[0]] = others.pop()
    source, target = map(column_of.get, languages)
    if source is None or target is None or source == target:
        return None
    return source, target


def looks_like_header(rows: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Whether the first row has the names of columns.

    These are names of languages or kinds of text, or they are unlike the other rows.
    """
    if not rows or len(rows[0]) <= max(source, target):
        return False
    first = [cell.strip() for cell in rows[0]]
    names = first[source], first[target]
    if not all(map(may_be_name, names)):
        return False
    if told_by_name(names[0]) != told_by_name(names[1]):
        return True
    others = [row for row in rows[1:] if len(row) == len(first)]
    if len(others) < FEWEST_ROWS:
        return False
    columns = list(zip(*others, strict=True))
    if any(map(is_above_numbers, first, columns)):
        return True
    return is_above_sentences(first[source], columns[source]) and is_above_sentences(
        first[target], columns[target]
    )


def may_be_name(cell: str) -> bool:
    return bool(cell) and len(cell) <= LONGEST_HEADER and not cell.endswith(SENTENCE_ENDS)


def told_by_name(name: str) -> str:
    """The language or the role of a column with this name; "" if it tells none."""
    language = language_of_column(name)
    if language or name.lower() not in ROLES:
        return language
    return name.lower()


def is_above_numbers(name: str, cells: Sequence[str]) -> bool:
    """Whether a cell is a word, and those below it are numbers."""
    if not name or is_number(name):
        return False
    return sum(map(is_number, cells)) >= HEADER_SHARE * len(cells)


def is_number(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def is_above_sentences(name: str, cells: Sequence[str]) -> bool:
    """Whether a cell is much shorter than those below it, and most of them end as sentences do."""
    cells = [cell.strip() for cell in cells]
    sentences = sum(cell.endswith(SENTENCE_ENDS) for cell in cells)
    longer = sum(len(cell) > len(name) for cell in cells)
    is_short = 2 * len(name) < median(map(len, cells)) and longer >= HEADER_SHARE * len(cells)
    return is_short and 2 * sentences > len(cells)


def read_jsonl(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a file with one JSON object a line. Raises UserError."""
    columns = Columns(data, str(file))
    yield from select_fields(json_rows(file), columns, skipped, file.errors)


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
            raise UserError(f"{file}, line {number}, is not a JSON object; each line must be one.")
        yield row


def read_parquet(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a Parquet file. Raises UserError."""
    columns = Columns(data, str(file))
    yield from select_fields(parquet_rows(file, columns.find), columns, skipped)


def parquet_rows(
    file: PackedFile, choose: Callable[[list[str]], Sequence[str]] = list
) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file with the columns that `choose` takes, read in small parts.

    Raises UserError.
    """
    try:
        with parquet.ParquetFile(file.path, buffer_size=1 << 20, pre_buffer=False) as table:
            names = table.schema_arrow.empty_table().flatten().column_names
            chosen = list(choose(names))
            for batch in table.iter_batches(ROWS, columns=chosen, use_threads=False):
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as Parquet: {printable(error, 200)}") from None


def select_fields(
    rows: Iterable[Mapping[str, Any]],
    columns: Columns,
    skipped: Skipped,
    errors: str = "strict",
) -> Iterator[Pair]:
    """The two columns of rows with names; one of the first hundred rows has them. Raises UserError.

    A text with a lone surrogate is skipped unless `errors` lets it pass.
    """
    flat_rows = map(flat, rows)
    first = list(islice(flat_rows, FIRST_OBJECTS))
    if not first:
        return
    names = next((list(row) for row in first if columns.named(list(row))), list(first[0]))
    source, target = columns.find(names)
    for name in (source, target):
        columns.refuse_keys(name, [str(row.get(name) or "") for row in first])
    for row in chain(first, flat_rows):
        pair: Any = row.get(source), row.get(target)
        if is_text(pair[0], errors) and is_text(pair[1], errors):
            yield pair
        else:
            skipped[NO_COLUMN if None in pair else NO_TEXT] += 1


def is_text(value: Any, errors: str) -> bool:
    return isinstance(value, str) and (value.isascii() or is_unicode(value, errors))


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which the fields of objects are columns of their own, such as `translation.de`."""
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value:
            for inner, content in value.items():
                columns[f"{name}.{inner}"] = content
        else:
            columns[str(name)] = value
    return columns
