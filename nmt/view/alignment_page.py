"""Attention as one HTML file: pointing at a word highlights what it attends to, or what attends.

All text is escaped; the script reads words and weights from a block of JSON and inserts words as
text only, never as markup.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from nmt.view.heatmap import CAPTION, GoldLinks, WindowSpans, make_marks
from nmt.view.page import html_page
from nmt.view.text import clean_text, escape_html

NO_SCRIPT = "The weights are shown by a script in this file, which is not allowed to run."
USAGE = "Point at a word, tap it or go to it with the Tab key; a click pins it, Escape releases it."
LEGEND_SAMPLES = {
    "sure link": '<i class="sure"></i>',
    "possible link": '<i class="possible"></i>',
    "window": '<i class="first"></i><i class="last"></i>',
    "its centre pₜ": '<i class="centre" style="left: 50%"></i>',
}


@dataclass
class PagePair:
    """A sentence pair with one or more matrices of attention weights."""

    source: list[str]
    target: list[str]
    # by displayed name: [target words, source words], weights in 0..1
    matrices: dict[str, np.ndarray]
    gold: GoldLinks | None = None  # sure and possible links (source word, target word), from 0
    # per target word None or (p_t, first, last) in columns, as for `grid`
    window_spans: WindowSpans | None = None


def alignment_page(title: str, pairs: Sequence[PagePair], provenance: Mapping[str, str]) -> str:
    """One self-contained HTML file.

    `provenance` names its origin: run, checkpoint, versions, command. Raises ValueError when words,
    weights and marks of a pair do not fit each other.
    """
    data: list[dict[str, Any]] = []
    names: set[str] = set()
    for pair in pairs:
        shape = (len(pair.target), len(pair.source))
        marks = make_marks(pair.gold, pair.window_spans, shape)
        names.update(marks.names)
        matrices = []  # in thousandths, row after row
        for name, matrix in pair.matrices.items():
            are_weights = ((matrix >= -1e-3) & (matrix <= 1 + 1e-3)).all()  # false for NaN, too
            if matrix.shape != shape or not are_weights:
                raise ValueError(
                    f"Matrix {name} {matrix.shape} has weights outside 0..1, or does not fit "
                    f"{shape}."
                )
            thousandths = np.rint(1000 * matrix.clip(0, 1).astype(np.float64))
            matrices.append(thousandths.astype(int).ravel().tolist())
        spans = []
        for span in marks.window_spans:
            spans.append(span and [round(float(value), 3) for value in span])
        data.append(
            {
                "source": [*map(clean_text, pair.source)],
                "target": [*map(clean_text, pair.target)],
                "matrices": matrices,
                "sure": sorted(marks.sure),
                "possible": sorted(marks.possible),
                "window_spans": spans,
            }
        )
    body = f"""<header>
<h1><bdi>{escape_html(title)}</bdi></h1>
<p>The page shows {CAPTION}. {USAGE}</p>
{legend_html([name for name in LEGEND_SAMPLES if name in names])}\
<noscript><p>{NO_SCRIPT}</p></noscript>
</header>
<main>
{"".join(pair_html(number, pair) for number, pair in enumerate(pairs, 1))}</main>
<footer>
{provenance_html(provenance)}</footer>
<script type="application/json" id="pairs">{to_json(data)}</script>
<script>
{read_asset("page.js")}</script>"""
    return html_page(title, body, read_asset("page.css"), scripts=True)


def read_asset(name: str) -> str:
    """The text of page.css or page.js, which are in this package."""
    return resources.files("nmt.view").joinpath(name).read_text(encoding="utf-8")


def to_json(data: Any) -> str:
    """JSON that cannot end its <script> element nor begin a comment in it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def text_direction(words: Sequence[str]) -> str:
    """ltr or rtl, by the first letter with a strong direction (Unicode Annex 9, rule P2).

    HTML's own `dir="auto"` would skip the words, since each of them is in a <bdi>.
    """
    for character in "".join(words):
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return "ltr" if direction == "L" else "rtl"
    return "ltr"


def pair_html(number: int, pair: PagePair) -> str:
    """The choice of a matrix, both sentences, and empty elements that the script fills."""
    names = [escape_html(name) for name in pair.matrices]
    choice = f'<p class="side"><bdi>{names[0]}</bdi></p>'
    if len(names) > 1:
        options = "".join(
            f'<option value="{index}">{name}</option>' for index, name in enumerate(names)
        )
        choice = f'<label class="side">shown: <select autocomplete="off">{options}</select></label>'
    return f"""<section class="pair" aria-label="pair {number}">
<h2>{number}</h2>
{choice}
{sentence_html("source", pair.source)}{sentence_html("target", pair.target)}\
<p class="summary" aria-live="polite"></p>
<div class="scroll" tabindex="0" role="region" aria-label="weights of pair {number}">
<table class="map" aria-label="weights: a row for each target word"></table></div>
</section>
"""


def sentence_html(side: str, words: Sequence[str]) -> str:
    buttons = "".join(
        f'<button type="button"><bdi>{escape_html(word)}</bdi></button>\n' for word in words
    )
    return (
        f'<span class="side">{side}</span>\n'
        f'<div class="words {side}" role="group" aria-label="{side}" '
        f'dir="{text_direction(words)}">\n{buttons}</div>\n'
    )


def legend_html(names: Sequence[str]) -> str:
    """A sample of each mark that occurs on the page, with its name."""
    if not names:
        return ""
    entries = ""
    for name in names:
        sample = f'<span class="sample" aria-hidden="true">{LEGEND_SAMPLES[name]}</span>'
        entries += f"<li>{sample}{name}</li>"
    return f'<ul class="legend">{entries}</ul>\n'


def provenance_html(provenance: Mapping[str, str]) -> str:
    if not provenance:
        return ""
    rows = ""
    for key, value in provenance.items():
        rows += f"<tr><th>{escape_html(key)}</th><td><bdi>{escape_html(value)}</bdi></td></tr>\n"
    return f'How this page was made\n<table class="provenance">\n{rows}</table>\n'
