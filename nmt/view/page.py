"""HTML pages that need no other file, and the tables in them, which are Markdown as well."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.view.text import escape_html, visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
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
    """A whole document; its policy forbids it to load anything, and without `scripts` to run
    any."""
    policy = POLICY + ("; script-src 'unsafe-inline'" if scripts else "")
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
        return [
            all(NUMBER.fullmatch(row[index]) for row in self.rows)
            for index in range(len(self.columns))
        ]

    def markdown(self) -> str:
        """With padded columns, so that the source is readable, too."""
        numeric = self.numeric_columns()
        rows = [[escape_markdown(text) for text in row] for row in [self.columns, *self.rows]]
        widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
        ruler = [
            "-" * (width - 1) + (":" if right else "-")
            for width, right in zip(widths, numeric, strict=True)
        ]
        align = [str.rjust if right else str.ljust for right in numeric]
        lines = [
            [pad(text, width) for pad, text, width in zip(align, row, widths, strict=True)]
            for row in rows
        ]
        table = [f"| {' | '.join(line)} |" for line in [lines[0], ruler, *lines[1:]]]
        notes = ["", *(f"- {escape_markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([f"## {escape_markdown(self.title)}", "", *table, *notes, ""])

    def html(self) -> str:
        classes = [' class="number"' if numeric else "" for numeric in self.numeric_columns()]
        lines = []
        for tag, row in [("th", self.columns), *(("td", row) for row in self.rows)]:
            # where the names of runs may break
            texts = (escape_html(text).replace("_", "_<wbr>") for text in row)
            cells = (
                f"<{tag}{name}>{text}</{tag}>" for text, name in zip(texts, classes, strict=True)
            )
            lines.append(f"<tr>{''.join(cells)}</tr>")
        region = (
            '<div class="scroll" tabindex="0" role="region" '
            f'aria-label="{escape_html(self.title)}">'
        )
        table = "\n".join([f"{region}<table>", *lines, "</table></div>"])
        notes = "\n".join(f'<p class="note">{escape_html(note)}</p>' for note in self.notes)
        return f"<h2>{escape_html(self.title)}</h2>\n{table}\n{notes}"


def escape_markdown(text: str) -> str:
    """Text on one line that Markdown shows unchanged."""
    return MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))


def figure_html(png: bytes, caption: str) -> str:
    """An image inside the page, with what it shows below it."""
    image = (
        f'<img alt="{escape_html(caption)}" '
        f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
    )
    return f"<figure>{image}<figcaption>{escape_html(caption)}</figcaption></figure>"
