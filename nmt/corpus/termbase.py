"""The terms of a glossary in any of its files, as lines SOURCE<TAB>TARGET|TARGET.

.csv .xlsx .ods    a table with a column for each language, or with two columns and no names
.tbx               TBX (ISO 30042), 2 or 3: the terms of a concept in both languages
all others         the lines themselves; a table with tabs if the first line names the columns

Of a table or a TBX the targets of all rows or concepts with the same source are alternatives. TBX
marks terms as deprecated or superseded: such a term is read as a source, but never written. So is
the target of a row that a column of a table marks as forbidden, by a name such as "Forbidden" and a
yes, or by a name such as "Status" and a value such as "deprecated". A mark that belongs to a term
in another language says nothing about the target.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from nmt.config.schema import DataConfig
from nmt.corpus.languages import language_of_column, same_language
from nmt.corpus.packed import PackedFile
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.spreadsheets import Row, open_workbook
from nmt.corpus.tables import (
    QUOTED,
    Columns,
    is_quoted,
    listed,
    text_rows,
    tsv_cells,
    warn_once,
    without_quotes,
)
from nmt.corpus.translation_memory import XML_LANG, events, in_language, local_name, normal_code
from nmt.errors import UserError, printable

CONCEPTS = {"termEntry", "conceptEntry"}  # of TBX 2 and 3
LANGUAGES = {"langSet", "langSec"}
NOT_WRITTEN = ("deprecatedTerm", "supersededTerm")  # how the status of such a term begins
# What a table calls terms that are not to be written, and the columns that say so
FORBIDDEN = (
    "forbidden|prohibited|banned|blacklisted|deprecated|superseded|obsolete|not recommended"
    "|(?:do not|don['’]t|not to be|never) used?"
)
SAYS_FORBIDDEN = re.compile(FORBIDDEN)
IS_FORBIDDEN = re.compile(rf"(?:{FORBIDDEN})(?: ?term.*)?")
STATUS = re.compile(rf"status|usage|term info|{FORBIDDEN}")
YES = {"1", "x", "y", "yes", "true", "j", "ja", "wahr", "oui", "vrai", "sí", "si", "sì", "vero"}
HEADER_ROWS = 20  # that are not blank, among which the names of the columns are
MOST_NAMED = 8  # rows left out, in a message


class Term(NamedTuple):
    """A term of a concept in TBX."""

    text: str
    is_written: bool  # whether translations may have it


def term_lines(path: Path, source: str, target: str) -> list[str]:
    """The lines of a glossary, at the numbers of their rows or concepts; raises UserError."""
    match PackedFile(path).ending:
        case ".csv":
            return table_lines(str(path), text_rows(PackedFile(path)), source, target)
        case ".xlsx" | ".ods":
            return workbook_lines(path, source, target)
        case ".tbx":
            return tbx_lines(path, source, target)
    return tabbed_lines(str(path), list(read_lines(path)), source, target)


def tabbed_lines(
    table: str,
    lines: list[str],
    source: str,
    target: str,
    warn: Callable[[str], None] = warn_once,
) -> list[str]:
    """Lines without the quotes of a spreadsheet; the terms of a table if the first line has names.

    `warn`: is told of rows that are left out. Raises UserError.
    """
    if is_quoted("\n".join(lines)):
        lines = [QUOTED.sub(lambda cell: without_quotes(cell[0]), line) for line in lines]
    else:
        lines = ["\t".join(tsv_cells(line)) for line in lines]
    rows = [line.split("\t") for line in lines]
    first = with_single_spaces(next((row for row in rows if any(row)), []))
    if all(first) and columns_of(source, target).named(first):
        return table_lines(table, rows, source, target, warn)
    return lines


def workbook_lines(path: Path, source: str, target: str) -> list[str]:
    """The terms of the first sheet that names the languages, else of the first sheet."""
    sheets = open_workbook(PackedFile(path))
    columns = columns_of(source, target)
    chosen = sheets[0]
    for sheet in sheets:
        if any(columns.named(row) for row in islice(filter(any, sheet.rows()), HEADER_ROWS)):
            chosen = sheet
            break
    table = chosen.table if len(sheets) > 1 else str(path)
    return table_lines(table, chosen.rows(), source, target)


def columns_of(source: str, target: str) -> Columns:
    """The columns that are named after two languages, or source and target."""
    return Columns(DataConfig("files", source, target, None, None, None, 1, 1.0), "")


def with_single_spaces(row: Row) -> Row:
    return [" ".join(cell.split()) for cell in row]


def table_lines(
    table: str,
    rows: Iterable[Row],
    source: str,
    target: str,
    warn: Callable[[str], None] = warn_once,
) -> list[str]:
    """The terms of the rows that have both; `warn` is told of the others. Raises UserError."""
    rows = list(map(with_single_spaces, rows))
    columns = columns_of(source, target)
    names: Row = []
    sides = 0, 1
    begin = 0
    filled = ((number, row) for number, row in enumerate(rows) if any(row))
    for number, row in islice(filled, HEADER_ROWS):
        named = columns.named(row)
        if named:
            names = row
            sides = row.index(named[0]), row.index(named[1])
            begin = number + 1
            break
    if not names and max(map(len, rows), default=0) != 2:
        first = next(filter(any, rows), [])
        raise UserError(
            f"{table} has no columns '{source}' and '{target}'; its first row has "
            f"{listed([printable(cell) for cell in first]) or 'nothing'}."
        )

    marks = columns_of_marks(names, sides[1], target)
    pairs: dict[int, tuple[str, str]] = {}
    without = []
    forbidden = 0
    for number, row in enumerate(rows[begin:], begin + 1):
        cells = [*row, *[""] * (max(*sides, *marks) + 1 - len(row))]
        pair = cells[sides[0]], cells[sides[1]]
        if any(is_forbidden(names[column], cells[column]) for column in marks):
            forbidden += 1
        elif all(pair):
            pairs[number] = pair
        elif any(row):
            shown = printable(next(filter(None, row)), 30)
            without.append(f"{number} ('{shown}')")
    if without:
        warn(
            f"{table}: {len(without):,} rows have no terms in both {source} and {target}: "
            f"{listed(without, MOST_NAMED)}."
        )
    if forbidden:
        warn(f"{table}: {forbidden:,} rows are marked as forbidden, and not used.")
    if not pairs:
        raise UserError(f"{table} has no row with terms in {source} and {target} that may be used.")
    return merged(pairs)


def columns_of_marks(names: Row, target_column: int, target: str) -> list[int]:
    """The columns of a header that may forbid the target of a row.

    A column belongs to the language in its name. Without one, it belongs to the term before it if
    the header has several of this name, as in "German, Info, English, Info"; else to the row.
    """
    columns = []
    previous = target_column  # the last column with a language
    for column, name in enumerate(names):
        language = language_of_column(name)
        if not STATUS.search(as_words(name)):
            if language or column == target_column:
                previous = column
        elif language:
            if same_language(target, [language]):
                columns.append(column)
        elif names.count(name) == 1 or previous == target_column:
            columns.append(column)
    return columns


def is_forbidden(name: str, cell: str) -> bool:
    """Whether a cell in a column with this name forbids a term.

    Other texts than a yes in a column "Forbidden" may be the terms to avoid instead of this one.
    """
    value = as_words(cell)
    if SAYS_FORBIDDEN.search(as_words(name)) and value in YES:
        return True
    return any(IS_FORBIDDEN.fullmatch(part.strip()) for part in re.split("[;,|]", value))


def as_words(text: str) -> str:
    return text.replace("_", " ").casefold()


def merged(pairs: dict[int, tuple[str, str]]) -> list[str]:
    """Lines at their numbers; a source that comes again gives the first one more targets."""
    targets: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    for number, (source, target) in pairs.items():
        numbers.setdefault(source, number)
        targets.setdefault(source, []).append(target)
    lines = [""] * max(numbers.values(), default=0)
    for source, number in numbers.items():
        lines[number - 1] = f"{source}\t{'|'.join(targets[source])}"
    return lines


def tbx_lines(path: Path, source: str, target: str) -> list[str]:
    """The terms of the concepts that have both languages; the others are counted on stderr."""
    pairs: dict[int, tuple[str, str]] = {}
    languages = set[str]()
    number = 0
    without = 0
    forbidden = 0
    for event, concept in events(PackedFile(path), CONCEPTS):
        if event == "start" or local_name(concept) not in CONCEPTS:
            continue
        terms = terms_of(concept)
        languages |= terms.keys()
        of_source = in_language(terms, source) or []
        of_target = []
        for term in in_language(terms, target) or []:
            if term.is_written:
                of_target.append(term.text)
            else:
                forbidden += 1
        if not of_source or not of_target:
            without += 1
        for term in of_source if of_target else []:
            number += 1
            pairs[number] = term.text, "|".join(of_target)
    if forbidden:
        warn_once(f"{path}: {forbidden:,} terms are deprecated or superseded, and not written.")
    if not pairs:
        named = ", ".join(sorted(map(printable, languages))) or "none"
        raise UserError(
            f"{path} has no concept with terms in {source} and {target}; its languages are: "
            f"{named}."
        )
    if without:
        warn_once(f"{path}: {without:,} concepts have no terms in both {source} and {target}.")
    return merged(pairs)


def terms_of(concept: Element) -> dict[str, list[Term]]:
    """The terms of a concept by their languages."""
    terms: dict[str, list[Term]] = {}
    for section in concept:
        if local_name(section) not in LANGUAGES:
            continue
        language = normal_code(section.get(XML_LANG, ""))
        for group in section:
            status = "".join(text for text in group.itertext() if text.startswith(NOT_WRITTEN))
            for element in group.iter():
                text = " ".join("".join(element.itertext()).split())
                if local_name(element) == "term" and text:
                    terms.setdefault(language, []).append(Term(text, not status))
    return terms
