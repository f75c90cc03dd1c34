"""Sentence pairs in a workbook: .xlsx of Excel or .ods of OpenDocument, as calamine reads it.

The sheet with the most pairs is read. A formula counts as the result that was saved with it.
Numbers are read without their format, dates as 2024-12-31.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from nmt.config.schema import DataConfig
from nmt.corpus.packed import OLE, PackedFile, archive_entries, archive_problem
from nmt.corpus.tables import (
    SAMPLE,
    Columns,
    Pair,
    Skipped,
    find_layout,
    from_first_row,
    select,
    warn_once,
)
from nmt.corpus.words import has_letters
from nmt.errors import UserError, needs_extra, printable

Row = list[str]
ODF_PARTS = {"mimetype", "META-INF/manifest.xml", "content.xml"}  # that have the cells
ODF_SPACES = {b"tab": b"\t", b"line-break": b"\n"}
ODF_SPACE = re.compile(rb"<text:(tab|line-break)\b[^>]*/>")

# The place of a cell in the XML of a sheet, such as B12, and how far apart cells may be: calamine
# holds all cells between the first and the last, also those without a value.
PLACE = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
LONGEST_PLACE = 16
MOST_CELLS = 50_000_000


class Sheet(NamedTuple):
    """A sheet of a workbook; `rows` reads it from the beginning."""

    name: str  # as messages may show it
    table: str  # the name behind that of the file
    rows: Callable[[], Iterator[Row]]


def read_workbook(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of the sheet that has the most of them. Raises UserError."""
    sheets = open_workbook(file)
    best = largest_sheet(file, sheets, data) if len(sheets) > 1 else sheets[0]
    columns = Columns(data, best.table)
    yield from select(as_table(best.rows, best.table), columns, skipped)


def largest_sheet(file: PackedFile, sheets: list[Sheet], data: DataConfig) -> Sheet:
    """The sheet with the most pairs, which is logged; raises UserError if none has the columns."""
    counts = []
    shown = []
    errors = []
    for sheet in sheets:
        count = 0
        try:
            count = count_pairs(sheet, data)
        except UserError as error:
            errors.append(error)
        counts.append(count)
        shown.append(f"{sheet.name} ({count:,})")
    if errors and not any(counts):
        raise errors[0]

    best = counts.index(max(counts))
    del shown[best]
    warn_once(
        f"{file}: sheet {sheets[best].name} is read ({counts[best]:,} pairs), not "
        f"{', '.join(shown)}."
    )
    return sheets[best]


def count_pairs(sheet: Sheet, data: DataConfig) -> int:
    """How many rows have letters in both columns; raises UserError without these columns."""
    rows = as_table(sheet.rows)
    first = list(islice(rows, SAMPLE))
    if not first:
        return 0
    layout, _ = find_layout(first, Columns(data, sheet.table))
    pairs = 0
    for row in chain(first[layout.has_header :], rows):
        pairs += has_letters(row[layout.source]) and has_letters(row[layout.target])
    return pairs


def workbook_rows(file: PackedFile) -> Iterator[Row]:
    """The rows of the sheet with the most rows of two texts or more; raises UserError."""

    def count_texts(sheet: Sheet) -> int:
        return sum(sum(map(has_letters, row)) > 1 for row in as_table(sheet.rows))

    sheets = open_workbook(file)
    if len(sheets) > 1:
        sheets.sort(key=count_texts, reverse=True)
    return as_table(sheets[0].rows)


def open_workbook(file: PackedFile) -> list[Sheet]:
    """The sheets of a workbook, in their order; raises UserError."""
    with needs_extra("documents"):
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    protected = UserError(
        f"{file} is protected by a password, or of an Excel before 2007; save it as .xlsx "
        "without a password."
    )
    with file.open() as opened:
        if opened.read(len(OLE)) == OLE:
            raise protected
    entries = archive_entries(file.path)
    problem = archive_problem(entries)
    if problem:
        raise UserError(f"{file}: {problem}.")
    for entry in entries:
        if entry.filename.startswith("xl/worksheets/sheet"):
            check_extent(file, entry.filename)
    is_odf = ODF_PARTS <= {entry.filename for entry in entries}
    content = with_spaces(file) if is_odf else file.path
    try:
        book = CalamineWorkbook.from_object(content)
    except PasswordError:
        raise protected from None
    except CalamineError as error:
        raise UserError(f"{file} cannot be read as a workbook ({printable(error, 100)}).") from None
    if not book.sheet_names:
        raise UserError(f"{file} has no sheets.")

    def rows(name: str) -> Iterator[Row]:
        try:
            cells = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
        except CalamineError as error:
            raise UserError(
                f"{file}, sheet {printable(name)}, cannot be read ({printable(error, 100)})."
            ) from None
        for row in cells:
            yield list(map(cell_text, row))

    sheets = []
    for name in book.sheet_names:
        shown = printable(name)
        sheets.append(Sheet(shown, f"{file}, sheet {shown}", partial(rows, name)))
    return sheets


def check_extent(file: PackedFile, sheet: str) -> None:
    """Raise UserError for a sheet with too many cells between its first and its last one."""
    columns = set[bytes]()
    rows = set[bytes]()
    rest = b""
    for block in PackedFile(file.path, sheet).blocks():
        text = rest + block
        for column, row in PLACE.findall(text):
            columns.add(column)
            rows.add(row)
        rest = text[-LONGEST_PLACE:]
    last_column = max(columns, key=lambda column: (len(column), column), default=b"A")
    last_row = max(map(int, rows), default=1)
    if column_number(last_column) * last_row > MOST_CELLS:
        raise UserError(
            f"{file}, {sheet}: a cell is in column {last_column.decode()} and one in row "
            f"{last_row:,}, with too many empty cells between; delete what is far from the table, "
            "or save the sheet as CSV."
        )


def column_number(letters: bytes) -> int:
    """From 1: A, B, …, Z, AA, AB …"""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def with_spaces(file: PackedFile) -> io.BytesIO:
    """A workbook of OpenDocument with the tabs and line breaks inside its cells.

    calamine leaves out their elements, so that two words would become one.
    """
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        for name in sorted(ODF_PARTS):
            content = b"".join(PackedFile(file.path, name).blocks())
            archive.writestr(name, ODF_SPACE.sub(lambda match: ODF_SPACES[match[1]], content))
    copy.seek(0)
    return copy


def as_table(rows: Callable[[], Iterator[Row]], table: str = "") -> Iterator[Row]:
    """The rows that are not blank, without titles above them.

    `table`: what messages call it; without it nothing is logged.
    """
    return from_first_row(filter(any, rows()), table)


def cell_text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float):
        return f"{cell:.15g}"  # the digits that a spreadsheet has
    return str(cell)
