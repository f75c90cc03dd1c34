"""What is drawn on top of the weights: gold links, and for local attention the window and its centre p_t.

A mark is a dark line on a wider white one. The line stands out from light cells and the white from dark ones (at least
3 : 1 in luminance on every colour of the map), so that marks need no colour vision and survive a grey printer.
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
Gold = tuple[set[Link], set[Link]]  # sure, possible
Focus = Sequence[tuple[float, float, float] | None]  # for each target word: p_t, first and last word of its window

GOLD, WINDOW, CASING = "#7f2704", "#222222", "white"
SURE, POSSIBLE = 0.07, 0.19  # how far inside its cell a link is outlined, in cells
DASHES = (0, (2.2, 1.6))  # in line widths
ENTRY = 0.2  # inches: the height of a line of the legend and its sample cells


@dataclass(frozen=True)
class Marks:
    """The marks of one sentence pair; the same on every panel of a figure."""

    sure: set[Link]
    possible: set[Link]  # without the sure ones
    focus: Focus

    @property
    def names(self) -> list[str]:
        """What the legend has to explain."""
        shown = {
            "sure link": self.sure,
            "possible link": self.possible,
            "window": any(self.focus),
            "its centre pₜ": any(self.focus),
        }
        return [name for name, there in shown.items() if there]


def collect(gold: Gold | None, focus: Focus | None, shape: tuple[int, int]) -> Marks:
    """The marks of a matrix of `shape`, target × source; raises ValueError when they do not fit it."""
    rows, columns = shape
    sure, possible = gold or (set(), set())
    for source, target in sure | possible:
        if not (0 <= source < columns and 0 <= target < rows):
            raise ValueError(f"Link {source}-{target} is outside {rows} target, {columns} source words.")
    if focus is not None and len(focus) != rows:
        raise ValueError(f"{len(focus)} windows do not fit {rows} target words.")
    return Marks(sure, possible - sure, focus or [])


def draw_marks(axes: Axes, marks: Marks, pen: float) -> None:
    """All marks on one panel; `pen` is the width of a line in points."""
    outline(axes, marks.sure, SURE, "solid", pen)
    outline(axes, marks.possible, POSSIBLE, DASHES, 0.75 * pen)
    for row, seen in enumerate(marks.focus):
        if seen:
            bracket(axes, row, seen[1], seen[2], 0.75 * pen)
            arrow(axes, row, seen[0], 3.5 * pen)


def outline(axes: Axes, links: set[Link], inset: float, style: Any, pen: float) -> None:
    """A square just inside the cell of each link."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    size = 1 - 2 * inset
    squares = [Rectangle((column + inset - 0.5, row + inset - 0.5), size, size) for column, row in sorted(links)]
    for colour, width, line in ((CASING, 2.2 * pen, "solid"), (GOLD, pen, style)):
        axes.add_collection(
            PatchCollection(squares, facecolor="none", edgecolor=colour, linewidth=width, linestyle=line, zorder=3),
            autolim=False,
        )


def bracket(axes: Axes, row: float, first: float, last: float, pen: float) -> None:
    """Square brackets around a row's window, from the left edge of column `first` to the right edge of `last`."""
    from matplotlib.collections import LineCollection

    high, hook = 0.4, 0.12
    lines = [
        [(edge + turn, row - high), (edge, row - high), (edge, row + high), (edge + turn, row + high)]
        for edge, turn in ((first - 0.5, hook), (last + 0.5, -hook))
    ]
    for colour, width in ((CASING, 2.6 * pen), (WINDOW, pen)):
        axes.add_collection(
            LineCollection(lines, colors=colour, linewidths=width, clip_on=False, zorder=4), autolim=False
        )


def arrow(axes: Axes, row: float, place: float, size: float) -> None:
    """A small arrowhead below the number of a cell, pointing up to p_t."""
    from matplotlib.lines import Line2D

    axes.add_line(
        Line2D(
            [place], [row + 0.33], linestyle="none", marker="^", markersize=size, markerfacecolor=WINDOW,
            markeredgecolor=CASING, markeredgewidth=0.15 * size, clip_on=False, zorder=5,
        )
    )  # fmt: skip


def legend_width(names: Sequence[str], width: Callable[[str], float]) -> float:
    """Inches of the legend of these marks; `width` measures a text."""
    return sum(1.5 * ENTRY + width(name) + 0.15 for name in names)


def draw_legend(
    figure: Figure, names: Sequence[str], bottom: float, width: Callable[[str], float], style: dict[str, Any]
) -> None:
    """One line that shows a sample of each mark and says what it is, `bottom` inches above the figure's edge."""
    sizes = figure.get_size_inches()
    wide = legend_width(names, width)
    axes = figure.add_axes((0.1 / sizes[0], bottom / sizes[1], wide / sizes[0], ENTRY / sizes[1]), label="legend")
    axes.set_axis_off()
    axes.set(xticks=[], yticks=[], xlim=(-0.5, wide / ENTRY - 0.5), ylim=(0.5, -0.5))
    place, pen = 0.0, 1.3
    for name in names:
        sample = (place, 0)  # a link to column `place`, row 0
        if name == "sure link":
            outline(axes, {sample}, SURE, "solid", pen)  # type: ignore[arg-type]
        elif name == "possible link":
            outline(axes, {sample}, POSSIBLE, DASHES, 0.75 * pen)  # type: ignore[arg-type]
        elif name == "window":
            bracket(axes, 0, place, place, 0.75 * pen)
        else:
            arrow(axes, -0.25, place, 3.5 * pen)
        axes.text(place + 0.85, 0, name, va="center_baseline", color="#444444", **style)
        place += (1.5 * ENTRY + width(name) + 0.15) / ENTRY
