"""Curves of several runs, readable with ten of them and without color vision.

Colors are those of Okabe & Ito (2008); after eight they begin again with another line style, and
the marker changes with every curve, so that no two curves differ in color alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nmt.view.labels import find_fonts, make_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#B8A800", "#0072B2", "#D55E00", "#CC79A7")
MARKERS = "osD^vP*X<>hp"
LINE_STYLES = ("-", "--", ":", "-.")


def plot_curves(
    curves: Mapping[str, Sequence[float]],
    counts: Mapping[str, int],
    title: str,
) -> Figure:
    """A curve of BLEU for each run, by length; `counts`: the sentences of each length.

    The legend to the right names the curves in the order of their right ends.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families, missing = find_fonts(frozenset("".join([*curves, title])))
    size = 4.5 + 0.75 * max(len(counts), 6), max(4.2, 1.6 + 0.27 * len(curves))  # inches
    # only matplotlib's objects, so that threads may draw
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=10, fontfamily=families, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    lines = []
    for number, values in enumerate(curves.values()):
        color = COLORS[number % len(COLORS)]
        line_style = LINE_STYLES[number // len(COLORS) % len(LINE_STYLES)]
        marker = MARKERS[number % len(MARKERS)]
        lines += axes.plot(values, color=color, linestyle=line_style, marker=marker)
    labels = [f"{label}\nn = {count}" for label, count in counts.items()]
    axes.set_xticks(range(len(counts)), labels, fontsize=9)
    axes.set(xlabel="words of the source", ylabel="BLEU")
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    ends = sorted(zip(lines, curves, strict=True), key=lambda pair: -curves[pair[1]][-1])
    # matplotlib leaves out names that begin with _
    names = [f" {make_label(name, missing, 60)}" for _, name in ends]
    font = {"family": families, "size": 9}
    legend = figure.legend(
        [line for line, _ in ends], names, loc="outside right upper", frameon=False, prop=font
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure
