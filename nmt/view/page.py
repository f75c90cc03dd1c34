"""HTML pages that need no other file, and the tables in them, which are Markdown as well."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.view.text import escape_html, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
NONE = "–"  # in a cell of a table
NUMBER = re.compile(r"[\d., ±+–-]*")
# an underscore between letters begins no italics
MARKUP = re.compile(r"[\\`*\[\]<~&|]|(?<![^\W_])_|_(?![^\W_])")
STYLE = """body { margin: 2rem auto; max-width: 96rem; padding: 0 1rem; }
body { font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid #ddd; }
th, td { text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
td:first-child { min-width: 7rem; overflow-wrap: anywhere; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.note, figcaption { color: #555; font-size: .88rem; max-width: 60rem; overflow-wrap: anywhere; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
figure { margin: 0; } img { max-width: 100%; } .small figure { width: 31rem; }
@media print {
  @page { margin: 1cm; }
  body { margin: 0; padding: 0; }
  table { font-size: 7pt; }
  th, td { padding: .15rem .25rem; }
  td:first-child { min-width: 4rem; }
  .note, figcaption { font-size: 8pt; }
  figure, tr { break-inside: avoid; }
}
"""


def html_page(title: str, body: str, style: str = STYLE, scripts: bool = False) -> str:
    """A whole document, which may load nothing, and may run scripts only with `scripts`."""
    policy = POLICY
    if scripts:
        policy += "; script-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape_html(title)}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


@dataclass
class Table:
    """Rows of text under a heading; `notes` are sentences below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def numeric_columns(self) -> list[bool]:
        columns = zip(self.columns, *self.rows, strict=True)
        return [all(map(NUMBER.fullmatch, cells)) for _, *cells in columns]

    def markdown(self) -> str:
        """With padded columns, so that the source is readable, too."""
        padded = []
        columns = zip(self.columns, *self.rows, strict=True)
        for is_number, column in zip(self.numeric_columns(), columns, strict=True):
            cells = list(map(escape_markdown, column))
            width = max(3, *map(len, cells))
            ruler = "-" * width
            pad = str.ljust
            if is_number:
                ruler = f"{ruler[1:]}:"
                pad = str.rjust
            head, *rest = [pad(cell, width) for cell in cells]
            padded.append([head, ruler, *rest])
        lines = [f"## {escape_markdown(self.title)}", ""]
        for row in zip(*padded, strict=True):
            lines.append(f"| {' | '.join(row)} |")
        if self.notes:
            lines.append("")
        for note in self.notes:
            lines.append(f"- {escape_markdown(note)}")
        return "\n".join([*lines, ""])

    def html(self) -> str:
        title = escape_html(self.title)
        numeric = self.numeric_columns()
        lines = [
            f"<h2>{title}</h2>",
            f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>',
        ]
        tag = "th"  # of the first row
        for row in (self.columns, *self.rows):
            cells = ""
            for text, is_number in zip(row, numeric, strict=True):
                text = escape_html(text).replace("_", "_<wbr>")  # where the names of runs may break
                name = ' class="number"' if is_number else ""
                cells += f"<{tag}{name}>{text}</{tag}>"
            lines.append(f"<tr>{cells}</tr>")
            tag = "td"
        lines.append("</table></div>")
        notes = "\n".join(f'<p class="note">{escape_html(note)}</p>' for note in self.notes)
        return "\n".join([*lines, notes])


def escape_markdown(text: str) -> str:
    """Text on one line that Markdown shows unchanged."""
    return MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))


def figure_html(png: bytes, caption: str) -> str:
    """An image inside the page, with what it shows below it."""
    caption = escape_html(caption)
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    image = f'<img alt="{caption}" src="{source}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
