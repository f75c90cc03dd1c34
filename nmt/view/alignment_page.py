"""Attention as a page: one HTML file where a word that is pointed at lights up what it looked at.

The file needs no network, no server and no other file, and its own policy forbids it to load any. All text is escaped;
the script reads words and weights from a block of JSON and writes words as text only, never as markup.
"""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from nmt.view.heatmap import CAPTION
from nmt.view.labels import NOTHING, STRANGE
from nmt.view.marks import Focus, Gold, Marks, collect

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
HOW = "Point at a word, tap it or go to it with the Tab key; a click keeps it, Escape lets it go."
SILENT = "The weights are shown by a script in this file, which is not allowed to run here."
SAMPLES = {"sure link": ("sure",), "possible link": ("possible",), "window": ("first", "last")}


@dataclass
class PagePair:
    """A sentence pair and where the model looked."""

    source: list[str]
    target: list[str]
    matrices: dict[str, np.ndarray]  # by the name that is shown: [target words, source words], weights in 0..1
    gold: Gold | None = None  # sure and possible links (source word, target word), from 0
    focus: Focus | None = None  # per target word None or (p_t, first, last) in columns, as for `heatmap`


def page(title: str, pairs: Sequence[PagePair], made: Mapping[str, str]) -> str:
    """One self-contained HTML file; `made` says what it was made from: run, checkpoint, versions, command.

    Raises ValueError when words, weights and marks of a pair do not fit each other.
    """
    marks = [collect(pair.gold, pair.focus, (len(pair.target), len(pair.source))) for pair in pairs]
    data = [values(pair, mark) for pair, mark in zip(pairs, marks, strict=True)]
    names = [name for name in (*SAMPLES, "its centre pₜ") if any(name in mark.names for mark in marks)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{part("page.css")}</style>
</head>
<body>
<header>
<h1><bdi>{escape(title)}</bdi></h1>
<p>The page shows {CAPTION}. {HOW}</p>
{legend(names)}<noscript><p>{SILENT}</p></noscript>
</header>
<main>
{"".join(section(number, pair) for number, pair in enumerate(pairs, 1))}</main>
<footer>
{origin(made)}</footer>
<script type="application/json" id="pairs">{block(data)}</script>
<script>
{part("page.js")}</script>
</body>
</html>
"""


def part(name: str) -> str:
    """The style sheet or the script, which lie beside this file."""
    return resources.files("nmt.view").joinpath(name).read_text(encoding="utf-8")


def values(pair: PagePair, marks: Marks) -> dict[str, Any]:
    """What the script reads: words, each matrix as thousandths row after row, gold links, windows."""
    shape = (len(pair.target), len(pair.source))
    if not pair.matrices:
        raise ValueError("A pair without a matrix cannot be shown.")
    for name, matrix in pair.matrices.items():
        if matrix.shape != shape:
            raise ValueError(f"Matrix {name} {matrix.shape} does not fit {shape[0]} target, {shape[1]} source words.")
        if not ((matrix >= -1e-3) & (matrix <= 1 + 1e-3)).all():  # a NaN is not, either
            raise ValueError(f"Matrix {name} has weights outside 0..1.")
    return {
        "source": [readable(word) for word in pair.source],
        "target": [readable(word) for word in pair.target],
        "matrices": [
            np.rint(1000 * matrix.clip(0, 1).astype(np.float64)).astype(int).ravel().tolist()
            for matrix in pair.matrices.values()
        ],
        "sure": sorted(marks.sure),
        "possible": sorted(marks.possible),
        "focus": [seen and [round(float(place), 3) for place in seen] for seen in marks.focus],
    }


def block(data: Any) -> str:
    """JSON that cannot end its <script> element nor begin a comment in it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def readable(text: str) -> str:
    """Text without control characters and halves of characters, which HTML and UTF-8 cannot hold.

    Unlike in a picture, joiners stay: Persian and the scripts of India are written with them.
    """
    kept = "".join(STRANGE if unicodedata.category(character) == "Cs" else character for character in text)
    kept = "".join(" " if unicodedata.category(character) == "Cc" else character for character in kept)
    return " ".join(kept.split()) or NOTHING


def escape(text: str) -> str:
    """Readable text as HTML, also within quotes."""
    return html.escape(readable(text), quote=True)


def direction(words: Sequence[str]) -> str:
    """Where a line begins: its first letter of a clear direction says so (Unicode Standard Annex 9, rule P2).

    HTML's own `dir="auto"` would not look into the words, since each of them stands in a <bdi>.
    """
    for character in " ".join(words):
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return "ltr" if kind == "L" else "rtl"
    return "ltr"


def section(number: int, pair: PagePair) -> str:
    """One pair: choice of matrix, both lines, and room for what the script draws."""
    return f"""<section class="pair" aria-label="pair {number}">
<h2>{number}</h2>
{choice(list(pair.matrices))}{line("source", pair.source)}{line("target", pair.target)}\
<p class="says" aria-live="polite"></p>
<div class="scroll"><table class="map" aria-label="weights: a row for each target word"></table></div>
</section>
"""


def choice(names: Sequence[str]) -> str:
    """A choice among several matrices; a single one is only named."""
    if len(names) == 1:
        return f'<p class="side"><bdi>{escape(names[0])}</bdi></p>\n'
    options = "".join(f'<option value="{index}">{escape(name)}</option>' for index, name in enumerate(names))
    return f'<label class="side">shown: <select autocomplete="off">{options}</select></label>\n'


def line(side: str, words: Sequence[str]) -> str:
    """The words of one side as buttons."""
    chips = "".join(f'<button type="button"><bdi>{escape(word)}</bdi></button>\n' for word in words)
    return (
        f'<span class="side">{side}</span>\n'
        f'<div class="words {side}" role="group" aria-label="{side}" dir="{direction(words)}">\n{chips}</div>\n'
    )


def legend(names: Sequence[str]) -> str:
    """A sample of each mark that the page has, and what it is."""
    if not names:
        return ""
    entries = []
    for name in names:
        marks = "".join(f'<i class="{mark}"></i>' for mark in SAMPLES.get(name, ()))
        marks = marks or '<i class="centre" style="left: 50%"></i>'
        entries.append(f'<li><span class="sample" aria-hidden="true">{marks}</span>{name}</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>\n'


def origin(made: Mapping[str, str]) -> str:
    """What the page was made from, as a table."""
    if not made:
        return ""
    rows = "".join(
        f"<tr><th>{escape(key)}</th><td><bdi>{escape(value)}</bdi></td></tr>\n" for key, value in made.items()
    )
    return f'How this page was made\n<table class="made">\n{rows}</table>\n'
