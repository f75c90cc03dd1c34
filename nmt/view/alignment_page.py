"""Attention as one HTML file: pointing at a word highlights the words it attends to, or that attend to it.

The file needs no network, no server and no other file, and its own policy forbids it to load any. All text is escaped;
the script reads words and weights from a block of JSON and inserts words as text only, never as markup.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from nmt.view.heatmap import CAPTION, GoldLinks, Marks, WindowSpans, make_marks
from nmt.view.text import clean_text, escape_html

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
USAGE = "Point at a word, tap it or go to it with the Tab key; a click pins it, Escape releases it."
NO_SCRIPT = "The weights are shown by a script in this file, which is not allowed to run."
LEGEND_SAMPLES = {"sure link": ("sure",), "possible link": ("possible",), "window": ("first", "last")}


@dataclass
class PagePair:
    """A sentence pair with one or more matrices of attention weights."""

    source: list[str]
    target: list[str]
    matrices: dict[str, np.ndarray]  # by displayed name: [target words, source words], weights in 0..1
    gold: GoldLinks | None = None  # sure and possible links (source word, target word), from 0
    window_spans: WindowSpans | None = None  # per target word None or (p_t, first, last) in columns, as for `heatmap`


def alignment_page(title: str, pairs: Sequence[PagePair], provenance: Mapping[str, str]) -> str:
    """One self-contained HTML file; `provenance` names its origin: run, checkpoint, versions, command.

    Raises ValueError when words, weights and marks of a pair do not fit each other.
    """
    marks = [make_marks(pair.gold, pair.window_spans, (len(pair.target), len(pair.source))) for pair in pairs]
    data = [pair_data(pair, mark) for pair, mark in zip(pairs, marks, strict=True)]
    names = [name for name in (*LEGEND_SAMPLES, "its centre pₜ") if any(name in mark.names for mark in marks)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape_html(title)}</title>
<style>
{read_asset("page.css")}</style>
</head>
<body>
<header>
<h1><bdi>{escape_html(title)}</bdi></h1>
<p>The page shows {CAPTION}. {USAGE}</p>
{legend_html(names)}<noscript><p>{NO_SCRIPT}</p></noscript>
</header>
<main>
{"".join(pair_html(number, pair) for number, pair in enumerate(pairs, 1))}</main>
<footer>
{provenance_html(provenance)}</footer>
<script type="application/json" id="pairs">{to_json(data)}</script>
<script>
{read_asset("page.js")}</script>
</body>
</html>
"""


def read_asset(name: str) -> str:
    """The text of page.css or page.js, which are in this package."""
    return resources.files("nmt.view").joinpath(name).read_text(encoding="utf-8")


def pair_data(pair: PagePair, marks: Marks) -> dict[str, Any]:
    """The input of the script: words, each matrix as thousandths row after row, gold links, windows."""
    shape = (len(pair.target), len(pair.source))
    if not pair.matrices:
        raise ValueError("A pair without a matrix cannot be shown.")
    for name, matrix in pair.matrices.items():
        if matrix.shape != shape:
            raise ValueError(f"Matrix {name} {matrix.shape} does not fit {shape[0]} target, {shape[1]} source words.")
        if not ((matrix >= -1e-3) & (matrix <= 1 + 1e-3)).all():  # false for NaN, too
            raise ValueError(f"Matrix {name} has weights outside 0..1.")
    return {
        "source": [clean_text(word) for word in pair.source],
        "target": [clean_text(word) for word in pair.target],
        "matrices": [
            np.rint(1000 * matrix.clip(0, 1).astype(np.float64)).astype(int).ravel().tolist()
            for matrix in pair.matrices.values()
        ],
        "sure": sorted(marks.sure),
        "possible": sorted(marks.possible),
        "window_spans": [span and [round(float(value), 3) for value in span] for span in marks.window_spans],
    }


def to_json(data: Any) -> str:
    """JSON that cannot end its <script> element nor begin a comment in it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def text_direction(words: Sequence[str]) -> str:
    """ltr or rtl, after the first letter with a strong direction (Unicode Standard Annex 9, rule P2).

    HTML's own `dir="auto"` would skip the words, since each of them is in a <bdi>.
    """
    for character in " ".join(words):
        bidi_class = unicodedata.bidirectional(character)
        if bidi_class in ("L", "R", "AL"):
            return "ltr" if bidi_class == "L" else "rtl"
    return "ltr"


def pair_html(number: int, pair: PagePair) -> str:
    """The section of one pair: the choice of a matrix, both sentences, and empty elements that the script fills."""
    return f"""<section class="pair" aria-label="pair {number}">
<h2>{number}</h2>
{matrix_choice(list(pair.matrices))}{sentence_html("source", pair.source)}{sentence_html("target", pair.target)}\
<p class="summary" aria-live="polite"></p>
<div class="scroll"><table class="map" aria-label="weights: a row for each target word"></table></div>
</section>
"""


def matrix_choice(names: Sequence[str]) -> str:
    """A <select> of several matrices; the name alone of a single one."""
    if len(names) == 1:
        return f'<p class="side"><bdi>{escape_html(names[0])}</bdi></p>\n'
    options = "".join(f'<option value="{index}">{escape_html(name)}</option>' for index, name in enumerate(names))
    return f'<label class="side">shown: <select autocomplete="off">{options}</select></label>\n'


def sentence_html(side: str, words: Sequence[str]) -> str:
    """The words of one side as buttons."""
    buttons = "".join(f'<button type="button"><bdi>{escape_html(word)}</bdi></button>\n' for word in words)
    direction = text_direction(words)
    return (
        f'<span class="side">{side}</span>\n'
        f'<div class="words {side}" role="group" aria-label="{side}" dir="{direction}">\n{buttons}</div>\n'
    )


def legend_html(names: Sequence[str]) -> str:
    """A sample of each mark that occurs on the page, with its name."""
    if not names:
        return ""
    entries = []
    for name in names:
        marks = "".join(f'<i class="{mark}"></i>' for mark in LEGEND_SAMPLES.get(name, ()))
        marks = marks or '<i class="centre" style="left: 50%"></i>'
        entries.append(f'<li><span class="sample" aria-hidden="true">{marks}</span>{name}</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>\n'


def provenance_html(provenance: Mapping[str, str]) -> str:
    """A table of what the page was made from."""
    if not provenance:
        return ""
    rows = "".join(
        f"<tr><th>{escape_html(key)}</th><td><bdi>{escape_html(value)}</bdi></td></tr>\n"
        for key, value in provenance.items()
    )
    return f'How this page was made\n<table class="provenance">\n{rows}</table>\n'
