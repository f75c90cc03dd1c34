"""Curves over an axis of buckets, one for each run, readable with ten of them and without color vision.

Colors are those of Okabe & Ito (2008); after eight they begin again with another line style, and the marker changes
with every curve, so that no two curves differ in color alone. A legend to the right of the plot names the curves in the
order of their right ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nmt.view.labels import find_fonts, make_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


COLORS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
DARKER = {"#F0E442": "#B8A800"}  # the palette's yellow is hard to see on white
MARKERS = "osD^vP*X<>hp"
LINE_STYLES = ("-", "--", ":", "-.")
MIN_SENTENCES = 20  # a point over fewer is drawn hollow


@dataclass
class Curve:
    """One run: a value for each bucket, None where there is none."""

    name: str
    values: Sequence[float | None]


def plot_curves(
    curves: Sequence[Curve], labels: Sequence[str], counts: Sequence[int], title: str, x_label: str, y_label: str
) -> Figure:
    """A figure of curves over buckets; `counts` are the sentences in each; points over fewer than 20 are hollow.

    Raises ValueError when a curve has more or fewer values than there are buckets, or there is no bucket.
    """
    if not labels or any(len(curve.values) != len(labels) for curve in curves) or len(counts) != len(labels):
        lengths = [len(curve.values) for curve in curves]
        raise ValueError(f"{len(labels)} buckets do not fit curves of {lengths} values.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [curve.name for curve in curves]
    families, missing = find_fonts(frozenset("".join([*names, title, x_label, y_label])))
    figure = Figure(figsize=(4.5 + 0.75 * max(len(labels), 6), max(4.2, 1.6 + 0.27 * len(curves))), dpi=100)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    lines = []
    for number, curve in enumerate(curves):
        color = COLORS[number % len(COLORS)]
        style: dict[str, Any] = {"color": DARKER.get(color, color), "marker": MARKERS[number % len(MARKERS)]}
        line_style = LINE_STYLES[number // len(COLORS) % len(LINE_STYLES)]
        values = [float("nan") if value is None else value for value in curve.values]
        lines += axes.plot(values, linestyle=line_style, linewidth=1.6, markersize=6, **style)
        few = [index for index, count in enumerate(counts) if count < MIN_SENTENCES]
        axes.plot(few, [values[index] for index in few], linestyle="", markersize=6, markerfacecolor="white", **style)
    ticks = [f"{text}\nn = {count}" for text, count in zip(labels, counts, strict=True)]
    axes.set_xticks(range(len(labels)), ticks, fontsize=9)
    axes.set_xlabel(x_label, fontfamily=families)
    axes.set_ylabel(y_label, fontfamily=families)
    axes.set_title(title, loc="left", fontsize=10, fontfamily=families, parse_math=False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.05)
    add_legend(figure, lines, curves, [make_label(name, missing, 60) for name in names], families)
    return figure


def add_legend(
    figure: Figure, lines: list[Line2D], curves: Sequence[Curve], names: list[str], families: list[str]
) -> None:
    """Name the curves on the right, from the highest right end to the lowest."""
    from matplotlib.font_manager import FontProperties

    ends = [next((value for value in reversed(curve.values) if value is not None), -1.0) for curve in curves]
    order = sorted(range(len(curves)), key=lambda number: -ends[number])
    legend = figure.legend(
        [lines[number] for number in order],
        [f" {names[number]}" for number in order],  # matplotlib leaves out names that begin with _
        loc="outside right upper",
        frameon=False,
        handlelength=3.2,
        prop=FontProperties(family=families, size=9),
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


COLOR, BARS = "#0072B2", "#dddddd"


def reliability_diagram(bins: Sequence[tuple[int, float, float]], title: str) -> Figure:
    """bins: words, mean confidence and share that is right, of confidences in equal intervals of 0 … 1.

    Points on the diagonal are calibrated; bars are the shares of the words in each interval.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.6), dpi=100)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    total, width = max(1, sum(count for count, _, _ in bins)), 1 / max(1, len(bins))
    places = [(number + 0.5) * width for number in range(len(bins))]
    axes.bar(places, [count / total for count, _, _ in bins], width=0.9 * width, color=BARS, label="share of the words")
    axes.plot([0, 1], [0, 1], color="#888888", linestyle=":", label="calibrated")
    points = [(confidence, right) for count, confidence, right in bins if count]
    axes.plot([x for x, _ in points], [y for _, y in points], color=COLOR, marker="o", label="right")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence of a word", ylabel="share that the reference has")
    axes.set_title(title, loc="left", fontsize=10, parse_math=False)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
