"""A comparison of runs as a document: tables as Markdown, and one HTML page that carries its pictures inside itself."""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

NUMBER = set("0123456789.,±+-–%() ")
MARKUP = re.compile(r"[\\`*\[\]<~&]|(?<![^\W_])_|_(?![^\W_])")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 96rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal; }
td.number, th.number { text-align: right; }
.note, figcaption { color: #555; font-size: .88rem; max-width: 60rem; }
.maps, .small { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
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

    def numeric(self) -> list[bool]:
        """Which columns hold figures only, and stand on the right."""
        return [all(set(row[place]) <= NUMBER for row in self.rows) for place in range(len(self.columns))]


@dataclass
class Picture:
    """A PNG, what it shows in words, and a caption that stands below it."""

    png: bytes
    alt: str
    caption: str = ""


@dataclass
class Section:
    """Pictures under a heading, side by side; `small` ones fit three to a row."""

    title: str
    pictures: Sequence[Picture]
    notes: Sequence[str] = ()
    small: bool = False


def markdown(tables: Sequence[Table]) -> str:
    """All tables as Markdown, columns padded so that the text reads well as it is."""
    return "\n\n".join(one_markdown(table) for table in tables) + "\n"


def one_markdown(table: Table) -> str:
    """A heading, the table, and its notes as a list."""
    right = table.numeric()
    rows = [[cell(text) for text in row] for row in [table.columns, *table.rows]]
    widths = [max(3, *(shown_width(row[place]) for row in rows)) for place in range(len(right))]
    ruler = [
        "-" * (width - 1) + ":" if at_right else "-" * width for width, at_right in zip(widths, right, strict=True)
    ]
    padded = [
        [pad(text, width, at_right) for text, width, at_right in zip(row, widths, right, strict=True)] for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in [padded[0], ruler, *padded[1:]]]
    notes = ["", *(f"- {escape(note)}" for note in table.notes)] if table.notes else []
    return "\n".join([f"## {escape(table.title)}", "", *lines, *notes])


def cell(text: str) -> str:
    """The same within a table."""
    return escape(text).replace("|", r"\|")


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is; an underscore between letters begins no italics."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def shown_width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def pad(text: str, width: int, right: bool) -> str:
    """A text as wide as its column."""
    space = " " * (width - shown_width(text))
    return space + text if right else text + space


def page(title: str, introduction: Sequence[str], parts: Sequence[Table | Section]) -> str:
    """One HTML page that needs nothing beside it: no script, no style sheet, no picture file."""
    body = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(text)}</p>" for text in introduction)]
    body += [table_html(part) if isinstance(part, Table) else section_html(part) for part in parts]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n' + "\n".join(
        [*body, "</body></html>\n"]
    )


def table_html(table: Table) -> str:
    """A table of the page."""
    right = [' class="number"' if numeric else "" for numeric in table.numeric()]

    def line(kind: str, texts: Sequence[str]) -> str:
        cells = (f"<{kind}{side}>{html.escape(text)}</{kind}>" for text, side in zip(texts, right, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    rows = [f"<thead>{line('th', table.columns)}</thead><tbody>", *(line("td", row) for row in table.rows), "</tbody>"]
    inside = f'<div class="wide"><table>{chr(10).join(rows)}</table></div>'
    return f"<h2>{html.escape(table.title)}</h2>\n{inside}\n{notes_html(table.notes)}"


def section_html(section: Section) -> str:
    """Pictures of the page."""
    figures = [
        f'<figure><img alt="{html.escape(one.alt)}" src="data:image/png;base64,{base64.b64encode(one.png).decode()}">'
        f"<figcaption>{html.escape(one.caption)}</figcaption></figure>"
        for one in section.pictures
    ]
    kind = "small" if section.small else "maps"
    inside = f'<div class="{kind}">{chr(10).join(figures)}</div>'
    return f"<h2>{html.escape(section.title)}</h2>\n{notes_html(section.notes)}\n{inside}"


def notes_html(notes: Sequence[str]) -> str:
    """Sentences in small letters."""
    return "\n".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
