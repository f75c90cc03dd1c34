"""Sentence pairs in a workbook: .xlsx of Excel or .ods of OpenDocument.

The sheet with the most pairs is read. The files of a workbook are unpacked and read as streams. A
formula counts as the result that was saved with it. Excel saves numbers without their format: they
are read as plain numbers, dates as 2024-12-31. OpenDocument has both as they are shown.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from nmt.config.schema import DataConfig
from nmt.corpus.packed import (
    DAMAGED,
    MOST_UNPACKED,
    OLE,
    PackedFile,
    archive_entries,
    archive_problem,
)
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
from nmt.corpus.translation_memory import local_name
from nmt.corpus.words import has_letters
from nmt.errors import UserError, install_extra, printable

Row = list[str]
MOST_COLUMNS = 16_384  # of a sheet of Excel
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # a character, as Excel writes it
REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+")
LONGEST_GAP = 1000  # spaces that one element stands for
DATE_FORMATS = (*range(14, 23), 45, 46, 47)  # of the formats that Excel has built in
# What is no part of a date in the code of a format: texts, gaps, colours and conditions.
LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
DATE_PART = re.compile("[ymdhs]", re.IGNORECASE)
SECONDS = 86_400  # of a day


class Sheet(NamedTuple):
    """A sheet of a workbook; `rows` reads it from the beginning."""

    name: str
    rows: Callable[[], Iterator[Row]]


def read_workbook(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of the sheet that has the most of them. Raises UserError."""
    columns = Columns(data)
    sheets = open_workbook(file)
    best = largest_sheet(file, sheets, columns) if len(sheets) > 1 else sheets[0]
    table = f"{file}, sheet {printable(best.name)}"
    yield from select(as_table(best.rows, table), columns, skipped, table)


def largest_sheet(file: PackedFile, sheets: list[Sheet], columns: Columns) -> Sheet:
    """The sheet with the most pairs, which is logged; raises UserError if none has the columns."""
    counts = []
    shown = []
    errors = []
    for sheet in sheets:
        name = printable(sheet.name)
        count = 0
        try:
            count = count_pairs(sheet, columns, f"{file}, sheet {name}")
        except UserError as error:
            errors.append(error)
        counts.append(count)
        shown.append(f"{name} ({count:,})")
    if errors and not any(counts):
        raise errors[0]

    best = counts.index(max(counts))
    del shown[best]
    warn_once(
        f"{file}: sheet {printable(sheets[best].name)} is read ({counts[best]:,} pairs), not "
        f"{', '.join(shown)}."
    )
    return sheets[best]


def count_pairs(sheet: Sheet, columns: Columns, table: str) -> int:
    """How many rows have letters in both columns; raises UserError without these columns."""
    rows = as_table(sheet.rows)
    first = list(islice(rows, SAMPLE))
    if not first:
        return 0
    layout, _ = find_layout(first, columns, table)
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
    with file.open() as opened:
        if opened.read(len(OLE)) == OLE:
            raise UserError(
                f"{file} is protected by a password, or of an Excel before 2007; save it as .xlsx "
                "without a password."
            )
    entries = archive_entries(file.path)
    problem = archive_problem(entries)
    if problem:
        raise UserError(f"{file}: {problem}.")
    names = {entry.filename for entry in entries}
    read_sheets = ods_sheets if "content.xml" in names else xlsx_sheets
    sheets = read_sheets(file, names)
    if not sheets:
        raise UserError(f"{file} has no sheets.")
    return sheets


def as_table(rows: Callable[[], Iterator[Row]], table: str = "") -> Iterator[Row]:
    """The rows that are not blank, without titles above them, all of the same width.

    The width is that of the widest of the first rows. `table`: what messages call it; without it
    nothing is logged.
    """
    filled = from_first_row(filter(any, rows()), table)
    first = list(islice(filled, SAMPLE))
    width = max(map(len, first), default=0)
    for row in chain(first, filled):
        yield row[:width] + [""] * (width - len(row))


# Excel: a workbook names its sheets, and a file of relationships names the file of each sheet.


class Values(NamedTuple):
    """What the cells of a workbook refer to."""

    texts: list[str]
    date_styles: set[str]  # the styles of cells in which a number is a date
    is_1904: bool  # days count from 1904, as on a Macintosh


def xlsx_sheets(file: PackedFile, names: Collection[str]) -> list[Sheet]:
    book = next(iter(related(file, names, "", "officeDocument").values()), "xl/workbook.xml")
    if book not in names:
        raise UserError(f"{file} is not a workbook; it has no {book} inside.")
    paths = related(file, names, book, "worksheet")
    texts: list[str] = []
    for path in related(file, names, book, "sharedStrings").values():
        texts += map(xlsx_text, elements(file, path, "si"))
    date_styles: set[str] = set()
    for path in related(file, names, book, "styles").values():
        date_styles |= find_date_styles(file, path)

    sheets = []
    is_1904 = False
    for element in elements(file, book, "workbookPr", "sheet"):
        if local_name(element) == "workbookPr":
            is_1904 = element.get("date1904") in ("1", "true")
            continue
        path = paths.get(attribute(element, "id", ""), "")
        if path:
            rows = partial(xlsx_rows, file, path, Values(texts, date_styles, is_1904))
            sheets.append(Sheet(element.get("name", ""), rows))
    return sheets


def related(file: PackedFile, names: Collection[str], of: str, kind: str) -> dict[str, str]:
    """The files of a kind that a file of the archive refers to, by their keys."""
    folder, name = posixpath.split(of)
    relationships = posixpath.join(folder, "_rels", f"{name}.rels")
    if relationships not in names:
        return {}
    paths = {}
    for element in elements(file, relationships, "Relationship"):
        if element.get("Type", "").endswith(f"/{kind}"):
            target = posixpath.join("/" + folder, element.get("Target", ""))
            path = posixpath.normpath(target).lstrip("/")
            if path in names:
                paths[element.get("Id", "")] = path
    return paths


def elements(file: PackedFile, path: str, *wanted: str, begun: str = "") -> Iterator[Any]:
    """The elements with these names in a file of the archive, each when it is complete.

    Those called `begun` come when they begin. Memory does not grow with the file. Raises UserError.
    """
    try:
        from lxml import etree
    except ImportError:
        raise UserError(f"{file} is read by lxml: {install_extra('documents')}.") from None
    with PackedFile(file.path, path).open() as opened:
        parser = etree.iterparse(
            opened,
            ("start", "end"),
            tag=[f"{{*}}{name}" for name in (*wanted, begun) if name],
            resolve_entities=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            for event, element in parser:
                if event == "start" and local_name(element) == begun:
                    yield element
                elif event == "end" and local_name(element) != begun:
                    yield element
                    element.clear()
                    while element.getprevious() is not None:
                        del element.getparent()[0]
        except (etree.XMLSyntaxError, *DAMAGED) as error:
            raise UserError(
                f"{file} is damaged: {path} inside cannot be read ({printable(error, 100)})."
            ) from None


def xlsx_text(element: Any) -> str:
    """The text of a string, without how it is pronounced."""
    text = ""
    for child in element:
        name = local_name(child)
        if name == "t":
            text += child.text or ""
        elif name == "r":
            text += "".join(run.text or "" for run in child.iterchildren("{*}t"))
    return unescape(text)


def unescape(text: str) -> str:
    """A text without Excel's escapes, such as _x000a_ for a new line; half a character is �."""
    text = ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def find_date_styles(file: PackedFile, path: str) -> set[str]:
    """The numbers of the styles of cells that show a number as a date or a time."""
    formats = set(map(str, DATE_FORMATS))
    styles = set()
    for element in elements(file, path, "numFmt", "cellXfs"):
        if local_name(element) == "cellXfs":
            for number, style in enumerate(element):
                if style.get("numFmtId") in formats:
                    styles.add(str(number))
        elif DATE_PART.search(LITERAL.sub("", element.get("formatCode", ""))):
            formats.add(element.get("numFmtId", ""))
    return styles


def xlsx_rows(file: PackedFile, path: str, values: Values) -> Iterator[Row]:
    for element in elements(file, path, "row"):
        row: Row = []
        for cell in element:
            match = REFERENCE.fullmatch(cell.get("r", ""))
            column = column_number(match[1]) if match else len(row)
            if column >= MOST_COLUMNS:
                raise UserError(
                    f"{file} has a cell {cell.get('r')}; a sheet has at most {MOST_COLUMNS:,} "
                    "columns."
                )
            row += [""] * (column - len(row))
            row.append(cell_text(cell, values))
        yield row


def column_number(letters: str) -> int:
    """A is 0, Z is 25, AA is 26."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def cell_text(cell: Any, values: Values) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(map(xlsx_text, cell.iterchildren("{*}is")))
    value = cell.findtext("{*}v", "")
    if kind == "s":
        if value.isdecimal() and int(value) < len(values.texts):
            return values.texts[int(value)]
        return ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind == "e":  # an error, such as #N/A
        return ""
    if kind != "n":
        return unescape(value)
    return number_text(value, cell.get("s", "0") in values.date_styles, values.is_1904)


def number_text(value: str, is_date: bool, is_1904: bool) -> str:
    """The number of a cell without a format, or the date, the time or both that it stands for."""
    try:
        number = float(value)
        if is_date and number >= 0:
            start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)
            moment = start + timedelta(seconds=round(number * SECONDS))
            if number < 1:
                return str(moment.time())
            return str(moment.date() if number.is_integer() else moment)
    except (ValueError, OverflowError):
        return value
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.15g}"  # the digits that a spreadsheet has


# OpenDocument: all sheets are in content.xml, and a cell has its text as it is shown.


def ods_sheets(file: PackedFile, names: Collection[str]) -> list[Sheet]:
    manifest = "META-INF/manifest.xml"
    if manifest in names:
        content = b"".join(PackedFile(file.path, manifest).blocks())
        if b"encryption-data" in content:
            raise UserError(f"{file} is protected by a password; save it without one.")
    sheets = []
    for number, table in enumerate(elements(file, "content.xml", begun="table")):
        sheets.append(Sheet(attribute(table, "name", ""), partial(ods_rows, file, number)))
    return sheets


def ods_rows(file: PackedFile, number: int) -> Iterator[Row]:
    """The rows of table `number`, from 0; a row that is repeated comes as often as it is shown."""
    current = -1
    size = 0
    for element in elements(file, "content.xml", "table-row", begun="table"):
        if local_name(element) == "table":
            current += 1
            continue
        row = ods_row(element) if current == number else []
        times = int(attribute(element, "number-rows-repeated", "1")) if any(row) else 1
        size += times * sum(map(len, row))
        if size > MOST_UNPACKED:
            raise UserError(f"{file} repeats its rows to more than {MOST_UNPACKED:,} characters.")
        yield from repeat(row, times)


def ods_row(element: Any) -> Row:
    row: Row = []
    blank = 0  # cells before the next one with a text
    for cell in element:
        if local_name(cell) not in ("table-cell", "covered-table-cell"):
            continue
        text = "\n".join(map(ods_text, cell.iterchildren("{*}p")))
        if is_error(cell):
            text = ""
        times = int(attribute(cell, "number-columns-repeated", "1"))
        if not text:
            blank += times
            continue
        row += [""] * min(blank, MOST_COLUMNS) + [text] * min(times, MOST_COLUMNS - len(row))
        blank = 0
    return row


def is_error(cell: Any) -> bool:
    """Whether a cell shows an error, such as #N/A."""
    return any(name.endswith("}value-type") and kind == "error" for name, kind in cell.items())


def ods_text(element: Any) -> str:
    """The text of a paragraph without notes; its spaces, tabs and line breaks are elements."""
    parts = [element.text or ""]
    for child in element:
        name = local_name(child)
        if name == "s":
            parts.append(" " * min(int(attribute(child, "c", "1")), LONGEST_GAP))
        elif name == "tab":
            parts.append("\t")
        elif name == "line-break":
            parts.append("\n")
        elif name not in ("annotation", "note"):
            parts.append(ods_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def attribute(element: Any, name: str, default: str) -> str:
    """An attribute by its name in whatever namespace."""
    for key, value in element.items():
        if key.rpartition("}")[2] == name:
            return value
    return default
