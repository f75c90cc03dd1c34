"""Sentence pairs in a workbook, .xlsx of Excel or .ods of OpenDocument; numbers and dates are texts
as they are shown.

Of several sheets the one with the most pairs is read. Its files are unpacked and read as streams. A
formula counts as the result that was saved with it.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from nmt.config.schema import DataConfig
from nmt.data.number_formats import BUILT_IN, GENERAL, shown
from nmt.data.packed import DAMAGED, MOST_UNPACKED, PackedFile, archive_entries, archive_problem
from nmt.data.tables import SAMPLE, Columns, Pair, Skipped, find_layout, from_first_row, say, select
from nmt.errors import UserError, install_extra, printable

Row = list[str]
MOST_COLUMNS = 16_384  # of a sheet of Excel
# what a file of an Office before 2007 begins with, and one with a password
OLE = bytes.fromhex("d0cf11e0a1b11ae1")
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # a character, as Excel writes it
REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+")
LONGEST_GAP = 1000  # spaces that one element stands for


class Sheet(NamedTuple):
    """A sheet of a workbook; `rows` reads it from the beginning."""

    name: str
    rows: Callable[[], Iterator[Row]]


def read_workbook(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of the sheet that has the most of them. Raises UserError."""
    columns = Columns(data)
    sheets = open_workbook(file)
    chosen = sheets[0]
    if len(sheets) > 1:
        counts = [0] * len(sheets)
        errors = []
        for number, sheet in enumerate(sheets):
            if next(as_table(sheet.rows), None) is None:  # it is empty
                continue
            try:
                counts[number] = count_pairs(
                    as_table(sheet.rows), columns, f"{file}, sheet {printable(sheet.name)}"
                )
            except UserError as error:
                errors.append(error)
        if errors and not any(counts):
            raise errors[0]
        best = counts.index(max(counts))
        chosen = sheets[best]
        others = [
            f"{printable(sheet.name)} ({count:,})"
            for sheet, count in zip(sheets, counts, strict=True)
            if sheet is not chosen
        ]
        say(
            f"{file}: sheet {printable(chosen.name)} is read ({counts[best]:,} pairs), not "
            f"{', '.join(others)}."
        )
    table = f"{file}, sheet {printable(chosen.name)}"
    yield from select(as_table(chosen.rows, table), columns, skipped, table)


def count_pairs(rows: Iterator[Row], columns: Columns, table: str) -> int:
    """How many rows have two texts with letters in the columns; raises UserError without these
    columns."""
    first = list(islice(rows, SAMPLE))
    layout, _ = find_layout(first, columns, table)
    return sum(
        has_letters(row[layout.source]) and has_letters(row[layout.target])
        for row in chain(first[layout.has_header :], rows)
    )


def has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def workbook_rows(file: PackedFile) -> Iterator[Row]:
    """The rows of the sheet with the most rows of two texts or more; raises UserError."""

    def texts(sheet: Sheet) -> int:
        return sum(sum(map(has_letters, row)) > 1 for row in as_table(sheet.rows))

    sheets = open_workbook(file)
    return as_table((max(sheets, key=texts) if len(sheets) > 1 else sheets[0]).rows)


def open_workbook(file: PackedFile) -> list[Sheet]:
    """The sheets of a workbook, in their order; raises UserError, also for one that unpacks to too
    much."""
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
    sheets = ods_sheets(file, names) if "content.xml" in names else xlsx_sheets(file, names)
    if not sheets:
        raise UserError(f"{file} has no sheets.")
    return sheets


def as_table(rows: Callable[[], Iterator[Row]], table: str = "") -> Iterator[Row]:
    """The rows that are not blank, from the first one with two cells on, all as wide as the widest
    of the first.

    `table`: what messages call it; without it nothing is said.
    """
    found = from_first_row(filter(any, rows()), table)
    first = list(islice(found, SAMPLE))
    width = max(map(len, first), default=0)
    for row in chain(first, found):
        yield [*row[:width], *[""] * (width - len(row))]


# Excel: a workbook names its sheets, and a file of relationships the file of each.


def xlsx_sheets(file: PackedFile, names: Collection[str]) -> list[Sheet]:
    book = next(iter(related(file, names, "", "officeDocument").values()), "xl/workbook.xml")
    if book not in names:
        raise UserError(f"{file} is no workbook; it has no {book} inside.")
    of_sheets = related(file, names, book, "worksheet")
    strings = [
        path for path in related(file, names, book, "sharedStrings").values() if path in names
    ]
    styles = [path for path in related(file, names, book, "styles").values() if path in names]
    texts = [text for path in strings for text in shared_strings(file, path)]
    formats = [code for path in styles for code in cell_formats(file, path)]
    found = []
    is_1904 = False
    for element in elements(file, book, "workbookPr", "sheet"):
        if local_name(element) == "workbookPr":
            is_1904 = element.get("date1904") in ("1", "true")
            continue
        path = of_sheets.get(attribute(element, "id", ""), "")
        if path in names:
            rows = partial(xlsx_rows, file, path, Values(texts, formats, is_1904))
            found.append(Sheet(element.get("name", ""), rows))
    return found


class Values(NamedTuple):
    """What the cells of a workbook refer to."""

    texts: list[str]
    formats: list[str]  # of numbers, by the styles of cells
    is_1904: bool  # days count from 1904, as on a Macintosh


def related(file: PackedFile, names: Collection[str], of: str, kind: str) -> dict[str, str]:
    """The files of a kind that a file of the archive refers to, by their keys."""
    folder, name = posixpath.split(of)
    path = posixpath.join(folder, "_rels", f"{name}.rels")
    if path not in names:
        return {}
    found = {}
    for element in elements(file, path, "Relationship"):
        if element.get("Type", "").endswith(f"/{kind}"):
            target = element.get("Target", "")
            found[element.get("Id", "")] = posixpath.normpath(
                posixpath.join("/" + folder, target)
            ).lstrip("/")
    return found


def elements(file: PackedFile, path: str, *wanted: str, begun: str = "") -> Iterator[Any]:
    """The elements of a file of the archive with these names, each when it is complete, and others
    when they begin.

    Memory does not grow with the file. Raises UserError.
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


def local_name(element: Any) -> str:
    return element.tag.rpartition("}")[2]


def shared_strings(file: PackedFile, path: str) -> Iterator[str]:
    return map(xlsx_text, elements(file, path, "si"))


def xlsx_text(element: Any) -> str:
    """The text of a string, without how it is pronounced."""
    parts: list[str] = []
    for child in element:
        name = local_name(child)
        if name == "t":
            parts.append(child.text or "")
        elif name == "r":
            parts += [each.text or "" for each in child if local_name(each) == "t"]
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), "".join(parts))


def cell_formats(file: PackedFile, path: str) -> list[str]:
    """The code of the format of numbers for each style of cells."""
    codes = dict(BUILT_IN)
    found = []
    for element in elements(file, path, "numFmt", "cellXfs"):
        if local_name(element) == "numFmt":
            codes[int(element.get("numFmtId", "0"))] = element.get("formatCode", GENERAL)
        else:
            found += [codes.get(int(style.get("numFmtId", "0")), GENERAL) for style in element]
    return found


def xlsx_rows(file: PackedFile, path: str, values: Values) -> Iterator[Row]:
    for element in elements(file, path, "row"):
        row: Row = []
        for cell in element:
            match = REFERENCE.fullmatch(cell.get("r", ""))
            column = column_number(match[1]) if match else len(row)
            if column >= MOST_COLUMNS:
                raise UserError(
                    f"{file} has a cell {cell.get('r')}; a sheet has at most "
                    f"{MOST_COLUMNS:,} columns."
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
        return "".join(xlsx_text(child) for child in cell if local_name(child) == "is")
    value = next((child.text or "" for child in cell if local_name(child) == "v"), "")
    if kind == "s":
        place = int(value) if value.isdecimal() else -1
        return values.texts[place] if 0 <= place < len(values.texts) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind != "n" or not value:
        return ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    style = cell.get("s", "0")
    place = int(style) if style.isdecimal() else 0
    return shown(
        value, values.formats[place] if place < len(values.formats) else GENERAL, values.is_1904
    )


# OpenDocument: all sheets are in content.xml, and a cell has its text as it is shown.


def ods_sheets(file: PackedFile, names: Collection[str]) -> list[Sheet]:
    manifest = "META-INF/manifest.xml"
    if manifest in names and b"encryption-data" in b"".join(
        PackedFile(file.path, manifest).blocks()
    ):
        raise UserError(f"{file} is protected by a password; save it without one.")
    tables = elements(file, "content.xml", begun="table")
    titles = [attribute(table, "name", "") for table in tables]
    return [Sheet(title, partial(ods_rows, file, number)) for number, title in enumerate(titles)]


def ods_rows(file: PackedFile, number: int) -> Iterator[Row]:
    """The rows of a table by its number, from 0; those that are repeated as often as they are
    shown."""
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
        text = "\n".join(ods_text(child) for child in cell if local_name(child) == "p")
        times = int(attribute(cell, "number-columns-repeated", "1"))
        if not text:
            blank += times
            continue
        row += [""] * min(blank, MOST_COLUMNS) + [text] * min(times, MOST_COLUMNS - len(row))
        blank = 0
    return row


def ods_text(element: Any) -> str:
    """The text of a paragraph, in which spaces, tabs and line breaks are elements; without
    notes."""
    parts = [element.text or ""]
    for child in element:
        name = local_name(child)
        if name == "s":
            parts.append(" " * min(int(attribute(child, "c", "1")), LONGEST_GAP))
        elif name in ("tab", "line-break"):
            parts.append("\t" if name == "tab" else "\n")
        elif name not in ("annotation", "note"):
            parts.append(ods_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def attribute(element: Any, name: str, default: str) -> str:
    """An attribute by its name in whatever namespace."""
    return next(
        (value for key, value in element.items() if key.rpartition("}")[2] == name), default
    )
