"""Sentence pairs in two columns of a table: TSV, CSV, JSON lines, Parquet, and rows of any kind.

Columns are chosen by name, or by number where TSV and CSV have no header. A field `translation` with one sentence for
each language is two columns, `translation.de` and `translation.en`; so is any object in an object. A row is a pair if
it has as many columns as most of the first rows. CSV has the delimiter (comma, semicolon or tab) that gives the
columns, and quotes as the csv module reads them. In TSV a quote is a character like others, unless the first lines are
quoted as spreadsheets do it.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import pyarrow
from pyarrow import parquet

from nmt.config.schema import DataConfig
from nmt.data.languages import same_language
from nmt.data.packed import LONGEST_LINE, PackedFile
from nmt.data.parallel_text import is_unicode, read_lines
from nmt.errors import UserError, printable

Pair = tuple[str, str]
Skipped = Counter[str]  # records that are no pair, by reason
OTHER_WIDTH, NO_TEXT, NO_COLUMN = "another number of columns", "no text in a column", "a column missing"
QUOTED = re.compile(r'(?:^|(?<=\t))"((?:[^"]|"")*)"(?=\t|$)', re.MULTILINE)  # a cell as spreadsheets write it
QUOTE = re.compile(r'(?:^|\t)"', re.MULTILINE)
SAMPLE = 1000  # lines or rows at the beginning by which a table is understood
ROWS = 4096  # of Parquet that are held in memory
MAX_SHOWN = 12  # columns that a message names


TRANSLATION = "translation."  # before the language, of columns in an object


class Columns:
    """Which two columns hold the sentences: the first of `choices` that a table has.

    These are data.columns, or columns named after the languages, `translation`, or source and target.
    """

    def __init__(self, data: DataConfig) -> None:
        source, target, given = data.source, data.target, data.columns
        self.choices: list[tuple[Any, Any]] = [
            (source, target), (TRANSLATION + source, TRANSLATION + target), ("source", "target"), ("src", "tgt"),
        ]  # fmt: skip
        self.languages = (source, target) if given is None else ()
        if given is not None:
            pairs = list(zip(given[::2], given[1::2], strict=False)) if isinstance(given, list) else []
            texts = [pair for pair in pairs if all(isinstance(column, str) and column for column in pair)]
            numbers = [pair for pair in pairs if all(type(column) is int and column > 0 for column in pair)]
            is_mixed = len(texts) + len(numbers) < len(pairs) or any(source == target for source, target in pairs)
            if not pairs or len(given) % 2 or is_mixed:
                raise UserError(
                    f"data.columns={given} is not possible; give two names, data.columns=[NAME,NAME], or two numbers "
                    "from 1 for tables without a header, or several pairs of them for several tables."
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
        """The first of the choices that is among these names, else two names that mean the languages (de-DE for de)."""
        for pair in self.choices:
            if pair[0] in names and pair[1] in names:
                return pair
        for beginning in ("", TRANSLATION) if self.languages else ():
            codes = {name.removeprefix(beginning): name for name in names if name.startswith(beginning)}
            sides = [same_language(code, codes) for code in self.languages]
            if all(len(found) == 1 for found in sides):
                return codes[sides[0][0]], codes[sides[1][0]]
        return None

    def find(self, names: Sequence[str], table: str) -> tuple[Any, Any]:
        """The two names that the table has; raises UserError, naming those that are there."""
        pair = self.named(names)
        if pair is not None:
            twice = [name for name in pair if names.count(name) > 1]
            if twice:
                raise UserError(f"{table} has several columns '{printable(twice[0])}'; give each its own name.")
            return pair
        wanted = " nor ".join(f"'{source}' and '{target}'" for source, target in self.choices)
        shown = ", ".join(map(printable, names[:MAX_SHOWN])) + (", …" if len(names) > MAX_SHOWN else "")
        raise UserError(
            f"{table} has no columns {wanted}; it has {shown or 'none'}. Choose with data.columns=[SOURCE,TARGET]; "
            "numbers are for TSV and CSV without a header."
        )


def read_table(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a TSV or CSV file. Raises UserError."""
    lines, columns = read_lines(file), Columns(data)
    first = list(islice(lines, SAMPLE))
    csv.field_size_limit(LONGEST_LINE)  # of this process; a field may have as much as a line
    if file.ending == ".tsv" and not is_quoted("\n".join(first)):
        yield from select(map(tsv_cells, chain(first, lines)), columns, skipped, str(file))
        return
    delimiter = "\t" if file.ending == ".tsv" else find_delimiter(first[0] if first else "", columns)
    # Line ends have been removed by decoding; inside quotes they belong to the text.
    reader = csv.reader((f"{line}\n" for line in chain(first, lines)), delimiter=delimiter, strict=True)
    start = 1  # the line in which the row begins that is read now

    def rows() -> Iterator[list[str]]:
        nonlocal start
        for row in reader:
            yield row
            start = reader.line_num + 1

    try:
        yield from select(rows(), columns, skipped, str(file))
    except csv.Error as error:
        begun = f"; the row began in line {start}" if start < reader.line_num else ""
        raise UserError(
            f"{file}, line {reader.line_num}: {str(error).partition(' - ')[0]}{begun}. Lines end in line feeds, and a "
            "quote inside a quoted field is doubled."
        ) from None


def is_quoted(text: str) -> bool:
    """Whether cells that begin with a quote also end in one, and all cells do or inner quotes are doubled."""
    quoted, rest = QUOTED.findall(text), QUOTED.sub("", text)
    return bool(quoted) and not QUOTE.search(rest) and (any('""' in cell for cell in quoted) or not rest.strip())


def tsv_cells(line: str) -> list[str]:
    """The cells of a line; one in quotes that has doubled ones is as a spreadsheet writes it."""
    return [
        cell[1:-1].replace('""', '"') if '""' in cell[1:-1] and QUOTED.fullmatch(cell) else cell
        for cell in line.split("\t")
    ]


def find_delimiter(line: str, columns: Columns) -> str:
    """The delimiter with which the first line has the columns, else that with which it has most of them."""
    headers = {each: next(csv.reader(line.splitlines(), delimiter=each), []) for each in ",;\t"}
    return max(headers, key=lambda delimiter: (columns.has(headers[delimiter]), len(headers[delimiter])))


def select(rows: Iterable[list[str]], columns: Columns, skipped: Skipped, table: str) -> Iterator[Pair]:
    """The two columns of rows of strings, the first of which is the header unless columns go by number."""
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    if columns.numbers is None:
        header = first.pop(0) if first else []
        source, target = (header.index(name) for name in columns.find(header, table))
    widths = Counter(len(row) for row in first if row not in ([], [""]))
    width = widths.most_common(1)[0][0] if widths else 0
    if columns.numbers is not None:
        source, target = columns.numbers
        if max(columns.numbers) >= width:
            columns.find([str(number) for number in range(1, width + 1)], table)  # raises
    elif width and width != len(header):
        raise UserError(f"{table} has {len(header)} columns in its header, and {width} in most rows; both must agree.")
    for row in chain(first, rows):
        if len(row) == width:
            yield row[source], row[target]
        elif row not in ([], [""]):  # an empty line
            skipped[OTHER_WIDTH] += 1


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
            chosen = columns.find(table.schema_arrow.empty_table().flatten().column_names, str(file))
            for batch in table.iter_batches(ROWS, columns=list(chosen), use_threads=False):
                yield from select_fields(batch.to_pylist(), columns, skipped, str(file))
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read as Parquet: {printable(error, 200)}") from None


def select_fields(
    rows: Iterable[Mapping[str, Any]], columns: Columns, skipped: Skipped, table: str, errors: str = "strict"
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
        if all(isinstance(side, str) and (side.isascii() or is_unicode(side, errors)) for side in pair):
            yield pair
        else:
            skipped[NO_TEXT if None not in pair else NO_COLUMN] += 1


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which the fields of objects are columns of their own, such as `translation.de`."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = {f"{name}.{each}": content for each, content in value.items()} if isinstance(value, dict) else {}
        found |= inner or {str(name): value}
    return found
