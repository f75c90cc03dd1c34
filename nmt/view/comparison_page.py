"""A comparison of runs as a document: tables as Markdown, and one HTML page that contains its figures."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.view.text import escape_html, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
NUMBER = set("0123456789.,±+-–%() ")
MARKUP = re.compile(r"[\\`*\[\]<~&]|(?<![^\W_])_|_(?![^\W_])")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 96rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal; }
td.number, th.number { text-align: right; }
.note, figcaption { color: #555; font-size: .88rem; max-width: 60rem; }
.figures, .small { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.small figure { width: 23rem; }
figure { margin: 0 0 1rem; max-width: 100%; }
img { max-width: 100%; height: auto; }
"""


@dataclass
class Table:
    """Rows of text under a heading; `notes` are sentences below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def numeric_columns(self) -> list[bool]:
        """For each column, whether it holds numbers only and is aligned to the right."""
        return [all(set(row[index]) <= NUMBER for row in self.rows) for index in range(len(self.columns))]


@dataclass
class PageFigure:
    """A PNG, a description of it, and a caption below it."""

    png: bytes
    alt: str
    caption: str = ""


@dataclass
class Section:
    """Figures under a heading, side by side; of `small` ones three fit into a row."""

    title: str
    figures: Sequence[PageFigure]
    notes: Sequence[str] = ()
    small: bool = False


def to_markdown(tables: Sequence[Table]) -> str:
    """All tables as Markdown, with padded columns so that the source is readable, too."""
    return "\n\n".join(table_markdown(table) for table in tables) + "\n"


def table_markdown(table: Table) -> str:
    """A heading, the table, and its notes as a list."""
    numeric = table.numeric_columns()
    rows = [[escape_markdown(text).replace("|", r"\|") for text in row] for row in [table.columns, *table.rows]]
    widths = [max(3, *(display_width(row[index]) for row in rows)) for index in range(len(numeric))]
    ruler = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    padded = [
        [pad(text, width, right) for text, width, right in zip(row, widths, numeric, strict=True)] for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in [padded[0], ruler, *padded[1:]]]
    notes = ["", *(f"- {escape_markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join([f"## {escape_markdown(table.title)}", "", *lines, *notes])


def escape_markdown(text: str) -> str:
    """Text on one line that Markdown shows unchanged; an underscore between letters begins no italics."""
    return MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))


def display_width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    full_width = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + full_width - sum(bool(unicodedata.combining(character)) for character in text)


def pad(text: str, width: int, right: bool) -> str:
    """A text with spaces up to the width of its column, aligned to the right or left."""
    space = " " * (width - display_width(text))
    return space + text if right else text + space


def comparison_page(title: str, introduction: Sequence[str], parts: Sequence[Table | Section]) -> str:
    """One HTML page that needs no other file: no script, no style sheet, no image."""
    body = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(text)}</p>" for text in introduction)]
    body += [table_html(part) if isinstance(part, Table) else section_html(part) for part in parts]
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head = f'<meta charset="utf-8">{policy}<meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title>"
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n' + "\n".join(
        [*body, "</body></html>\n"]
    )


def escape(text: str) -> str:
    """Text as HTML; what is empty stays empty."""
    return escape_html(text) if text else ""


def table_html(table: Table) -> str:
    """A table of the page with its heading and notes."""
    classes = [' class="number"' if numeric else "" for numeric in table.numeric_columns()]

    def row_html(tag: str, texts: Sequence[str]) -> str:
        cells = (f"<{tag}{name}>{escape(text)}</{tag}>" for text, name in zip(texts, classes, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    head = f"<thead>{row_html('th', table.columns)}</thead><tbody>"
    content = "\n".join([head, *(row_html("td", row) for row in table.rows), "</tbody>"])
    content = f'<div class="scroll"><table>{content}</table></div>'
    return f"<h2>{escape(table.title)}</h2>\n{content}\n{notes_html(table.notes)}"


def section_html(section: Section) -> str:
    """The figures of a section with its heading and notes."""
    figures = "\n".join(
        f'<figure><img alt="{escape(figure.alt)}" '
        f'src="data:image/png;base64,{base64.b64encode(figure.png).decode()}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        for figure in section.figures
    )
    content = f'<div class="{"small" if section.small else "figures"}">{figures}</div>'
    return f"<h2>{escape(section.title)}</h2>\n{notes_html(section.notes)}\n{content}"


def notes_html(notes: Sequence[str]) -> str:
    """Each note as a paragraph in small letters."""
    return "\n".join(f'<p class="note">{escape(note)}</p>' for note in notes)
