"""What is drawn on top of the weights: gold links, and for local attention the window and its centre p_t.

A mark is a dark line on a wider white one. The line stands out from light cells and the white from dark ones (at least
3 : 1 in luminance on every color of the map), so that marks need no color vision and survive a grey printer.
Coordinates are those of the axes: column j reaches from j − ½ to j + ½, and rows likewise, downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Link = tuple[int, int]  # (source word, target word), from 0
GoldLinks = tuple[set[Link], set[Link]]  # sure, possible
WindowSpans = Sequence[
    tuple[float, float, float] | None
]  # for each target word: p_t, first and last word of its window

GOLD, WINDOW, CASING = "#7f2704", "#222222", "white"
SURE_INSET, POSSIBLE_INSET = 0.07, 0.19  # how far inside its cell a link is outlined, in cells
DASHES = (0, (2.2, 1.6))  # in line widths
LEGEND_HEIGHT = 0.2  # inches: the height of a line of the legend and its sample cells


@dataclass(frozen=True)
class Marks:
    """The marks of one sentence pair; the same on every panel of a figure."""

    sure: set[Link]
    possible: set[Link]  # without the sure ones
    window_spans: WindowSpans

    @property
    def names(self) -> list[str]:
        """The marks that occur, as the legend names them."""
        marks = {
            "sure link": self.sure,
            "possible link": self.possible,
            "window": any(self.window_spans),
            "its centre pₜ": any(self.window_spans),
        }
        return [name for name, occurs in marks.items() if occurs]


def make_marks(gold: GoldLinks | None, window_spans: WindowSpans | None, shape: tuple[int, int]) -> Marks:
    """The marks of a matrix of `shape` [target words, source words]; raises ValueError when they do not fit it."""
    rows, columns = shape
    sure, possible = gold or (set(), set())
    for source, target in sure | possible:
        if not (0 <= source < columns and 0 <= target < rows):
            raise ValueError(f"Link {source}-{target} is outside {rows} target, {columns} source words.")
    if window_spans is not None and len(window_spans) != rows:
        raise ValueError(f"{len(window_spans)} windows do not fit {rows} target words.")
    return Marks(sure, possible - sure, window_spans or [])


def draw_marks(axes: Axes, marks: Marks, line_width: float) -> None:
    """Draw all marks on one panel; `line_width` is in points."""
    draw_outlines(axes, marks.sure, SURE_INSET, "solid", line_width)
    draw_outlines(axes, marks.possible, POSSIBLE_INSET, DASHES, 0.75 * line_width)
    for row, span in enumerate(marks.window_spans):
        if span:
            p_t, first, last = span
            draw_brackets(axes, row, first, last, 0.75 * line_width)
            draw_arrow(axes, row, p_t, 3.5 * line_width)


def draw_outlines(axes: Axes, links: set[Link], inset: float, style: Any, line_width: float) -> None:
    """Draw a square just inside the cell of each link."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    size = 1 - 2 * inset
    squares = [Rectangle((column + inset - 0.5, row + inset - 0.5), size, size) for column, row in sorted(links)]
    for color, width, line_style in ((CASING, 2.2 * line_width, "solid"), (GOLD, line_width, style)):
        axes.add_collection(
            PatchCollection(
                squares, facecolor="none", edgecolor=color, linewidth=width, linestyle=line_style, zorder=3
            ),
            autolim=False,
        )


def draw_brackets(axes: Axes, row: float, first: float, last: float, line_width: float) -> None:
    """Draw square brackets around a row's window, from the left edge of `first` to the right edge of `last`."""
    from matplotlib.collections import LineCollection

    half_height, hook = 0.4, 0.12
    top, bottom = row - half_height, row + half_height
    lines = [
        [(edge + turn, top), (edge, top), (edge, bottom), (edge + turn, bottom)]
        for edge, turn in ((first - 0.5, hook), (last + 0.5, -hook))
    ]
    for color, width in ((CASING, 2.6 * line_width), (WINDOW, line_width)):
        axes.add_collection(
            LineCollection(lines, colors=color, linewidths=width, clip_on=False, zorder=4), autolim=False
        )


def draw_arrow(axes: Axes, row: float, column: float, size: float) -> None:
    """Draw a small arrowhead below the number of a cell, pointing up to p_t."""
    from matplotlib.lines import Line2D

    axes.add_line(
        Line2D(
            [column], [row + 0.33], linestyle="none", marker="^", markersize=size, markerfacecolor=WINDOW,
            markeredgecolor=CASING, markeredgewidth=0.15 * size, clip_on=False, zorder=5,
        )
    )  # fmt: skip


def legend_width(names: Sequence[str], text_width: Callable[[str], float]) -> float:
    """Inches that the legend of these marks takes; `text_width` measures a text."""
    return sum(1.5 * LEGEND_HEIGHT + text_width(name) + 0.15 for name in names)


def draw_legend(
    figure: Figure, names: Sequence[str], bottom: float, text_width: Callable[[str], float], style: dict[str, Any]
) -> None:
    """Draw one line with a sample of each mark and its name, `bottom` inches above the figure's lower edge."""
    figure_width, figure_height = figure.get_size_inches()
    width = legend_width(names, text_width)
    rectangle = (0.1 / figure_width, bottom / figure_height, width / figure_width, LEGEND_HEIGHT / figure_height)
    axes = figure.add_axes(rectangle, label="legend")
    axes.set_axis_off()
    axes.set(xticks=[], yticks=[], xlim=(-0.5, width / LEGEND_HEIGHT - 0.5), ylim=(0.5, -0.5))
    column, line_width = 0.0, 1.3
    for name in names:
        sample = (column, 0)  # a link in row 0
        if name == "sure link":
            draw_outlines(axes, {sample}, SURE_INSET, "solid", line_width)  # type: ignore[arg-type]
        elif name == "possible link":
            draw_outlines(axes, {sample}, POSSIBLE_INSET, DASHES, 0.75 * line_width)  # type: ignore[arg-type]
        elif name == "window":
            draw_brackets(axes, 0, column, column, 0.75 * line_width)
        else:
            draw_arrow(axes, -0.25, column, 3.5 * line_width)
        axes.text(column + 0.85, 0, name, va="center_baseline", color="#444444", **style)
        column += (1.5 * LEGEND_HEIGHT + text_width(name) + 0.15) / LEGEND_HEIGHT
