"""Lines over an axis of buckets, one line a run, readable with ten of them and without colour vision.

Colours are those of Okabe & Ito (2008); after eight they begin again with another stroke, and the marker changes with
every line, so that no two lines differ in colour alone. Names stand in a legend beside the plot, in the order of the
lines' right ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nmt.view.labels import fonts, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
DARKER = {"#F0E442": "#B8A800"}  # the palette's yellow is hard to see on white
MARKERS = "osD^vP*X<>hp"
STROKES = ("-", "--", ":", "-.")
FEW = 20  # sentences: a point over fewer is drawn hollow


@dataclass
class Line:
    """One run: a figure for each bucket, None where there is none."""

    name: str
    values: Sequence[float | None]


def curves(
    lines: Sequence[Line], labels: Sequence[str], counts: Sequence[int], title: str, horizontal: str, vertical: str
) -> Figure:
    """A figure of lines over buckets; `counts` are the sentences in each; points over fewer than 20 are hollow.

    Raises ValueError when a line has more or fewer values than there are buckets, or there is no bucket.
    """
    if not labels or any(len(line.values) != len(labels) for line in lines) or len(counts) != len(labels):
        raise ValueError(f"{len(labels)} buckets do not fit lines of {[len(line.values) for line in lines]} values.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [line.name for line in lines]
    families, missing = fonts(frozenset("".join([*names, title, horizontal, vertical])))
    figure = Figure(figsize=(4.5 + 0.75 * max(len(labels), 6), max(4.2, 1.6 + 0.27 * len(lines))), dpi=100)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    handles = []
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        style: dict[str, Any] = {"color": DARKER.get(colour, colour), "marker": MARKERS[number % len(MARKERS)]}
        stroke = STROKES[number // len(COLOURS) % len(STROKES)]
        heights = [float("nan") if value is None else value for value in line.values]
        handles += axes.plot(heights, linestyle=stroke, linewidth=1.6, markersize=6, **style)
        few = [place for place, count in enumerate(counts) if count < FEW]
        axes.plot(few, [heights[place] for place in few], linestyle="", markersize=6, markerfacecolor="white", **style)
    ticks = [f"{text}\nn = {count}" for text, count in zip(labels, counts, strict=True)]
    axes.set_xticks(range(len(labels)), ticks, fontsize=9)
    axes.set_xlabel(horizontal, fontfamily=families)
    axes.set_ylabel(vertical, fontfamily=families)
    axes.set_title(title, loc="left", fontsize=10, fontfamily=families, parse_math=False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.05)
    legend(figure, handles, lines, [label(name, missing, 60) for name in names], families)
    return figure


def legend(figure: Figure, handles: list[Line2D], lines: Sequence[Line], names: list[str], families: list[str]) -> None:
    """Names on the right, from the highest right end to the lowest."""
    from matplotlib.font_manager import FontProperties

    ends = [next((value for value in reversed(line.values) if value is not None), -1.0) for line in lines]
    order = sorted(range(len(lines)), key=lambda number: -ends[number])
    shown = figure.legend(
        [handles[number] for number in order],
        [f" {names[number]}" for number in order],  # matplotlib leaves out names that begin with _
        loc="outside right upper",
        frameon=False,
        handlelength=3.2,
        prop=FontProperties(family=families, size=9),
    )
    for text in shown.get_texts():
        text.set_parse_math(False)
