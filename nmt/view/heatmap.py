"""Attention as a picture: one row for each target word, one column for each source word, source above.

Only matplotlib's objects are used, no pyplot: no global state, so threads may draw. matplotlib is imported where it is
used, because the command line shall start fast. Arabic and Hebrew words run right to left; with matplotlib < 3.11,
which cannot do that, Hebrew words are turned round and Arabic ones are boxes (`labels.turned`). The order of columns
and rows is always that of the sentence: the first word is left or on top in every script.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.view.labels import clean, fonts, label, warn_missing
from nmt.view.marks import ENTRY, Focus, Gold, Marks, collect, draw_legend, draw_marks, legend_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "Blues"  # light to dark: reads like ink, also without colour vision and on a grey printer
CAPTION = "where the model looked – not a proof of why"
NUMBERED = 12  # a matrix of at most this many rows and columns has large cells with numbers in them
WIDEST = 1.0  # inches: numbered cells become as wide as the longest source word, up to here, so that it lies flat
FAR = 25  # a matrix alone, of more rows or columns than this, names its words on both sides
SMALLEST = 6  # points: where cells are too small for this, only every second word is named, or every third, …
DPI = 100
SMALL: dict[str, Any] = {"fontfamily": "DejaVu Sans", "fontsize": 8}  # caption and legend
DARK = 0.715  # the numbers of darker cells are white, of others black: 4.5 : 1 or more on every cell
LARGEST = 40  # inches: beyond that cells and words shrink, since a picture of 1000 × 1000 words would fill the memory


@dataclass
class Layout:
    """Where the panels of a figure stand; everything in inches from the lower left corner."""

    rows: int
    columns: int
    panel: tuple[float, float]  # the cells: width, height
    left: float  # of the target words
    top: float  # of the source words
    right: float  # of the target words once more
    under: float  # of the source words once more
    heading: float  # of a panel's title: width
    footing: float  # of the caption and the legend: height
    widest: float  # the legend or caption: width

    @property
    def pitch(self) -> tuple[float, float]:
        """From one panel to the next."""
        across = self.left + max(self.panel[0] + self.right, self.heading)
        return across, self.panel[1] + self.top + self.under + (0.5 if self.heading else 0.15)

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole figure: the colour bar stands on the right, legend and caption below."""
        return max(self.columns * self.pitch[0] + 0.8, self.widest), self.rows * self.pitch[1] + self.footing

    def place(self, index: int) -> tuple[float, float, float, float]:
        """The rectangle of one panel's cells, in shares of the figure."""
        row, column = divmod(index, self.columns)
        x = column * self.pitch[0] + self.left
        y = (self.rows - 1 - row) * self.pitch[1] + self.footing + self.under
        width, height = self.size
        return x / width, y / height, self.panel[0] / width, self.panel[1] / height


@dataclass
class Names:
    """The words along the axes: every `step`-th, in one size, flat or upright."""

    sources: list[str]
    targets: list[str]
    step: int
    flat: bool  # source words lie above their columns; else they stand on end
    below: bool  # source words stand below the cells, too
    beyond: bool  # target words stand to the right of the cells, too
    style: dict[str, Any]


def heatmap(
    matrix: np.ndarray,
    source_words: list[str],
    target_words: list[str],
    title: str = "",
    gold: Gold | None = None,
    focus: Focus | None = None,
) -> Figure:
    """A figure of weights in 0..1; matrix [target words, source words]; raises ValueError when anything does not fit.

    gold: (sure, possible) links (source word, target word), from 0. focus: for each target word None or (p_t, first,
    last), in columns: the window of local attention reaches from the left edge of the word `first` to the right edge of
    `last`; fractions are allowed.
    """
    large = max(matrix.shape) <= NUMBERED
    marks = collect(gold, focus, (len(target_words), len(source_words)))
    return panels([matrix], source_words, target_words, [title], 1, 0.5 if large else 0.26, large, marks)


def grid(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    titles: list[str] | None = None,
    columns: int = 4,
    gold: Gold | None = None,
    focus: Focus | None = None,
) -> Figure:
    """One figure of many matrices over the same words, such as the heads of a layer; titles are head 1, head 2, …

    gold and focus as for `heatmap`, the same on every panel.
    """
    titles = titles or [f"head {number}" for number in range(1, len(matrices) + 1)]
    marks = collect(gold, focus, (len(target_words), len(source_words)))
    return panels(matrices, source_words, target_words, titles, min(columns, len(matrices)), 0.24, False, marks)


def panels(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    titles: list[str],
    columns: int,
    cell: float,
    numbers: bool,
    marks: Marks,
) -> Figure:
    """The common drawing; cells are `cell` inches high and the margins as large as the longest words need."""
    shape = (len(target_words), len(source_words))
    if not all(shape) or not matrices or any(matrix.shape != shape for matrix in matrices):
        raise ValueError(
            f"Matrices {[m.shape for m in matrices]} do not fit {shape[0]} target, {shape[1]} source words."
        )
    families, missing = fonts(frozenset("".join(map(clean, source_words + target_words + titles))))
    warn_missing(missing)
    sources, targets = ([label(word, missing) for word in words] for words in (source_words, target_words))
    titles = [label(title, missing, longest=80) if title else "" for title in titles]
    rows = -(-len(matrices) // columns)
    cell = min(cell, LARGEST / max(columns * shape[1], rows * shape[0]))
    step = math.ceil(SMALLEST / (35 * cell))
    size = 11 if numbers else min(9, 35 * cell * step)
    style: dict[str, Any] = {"fontfamily": families, "fontsize": size, "parse_math": False}  # $ is no formula

    figure, width = canvas()
    longest = [max(width(word, style) for word in words[::step]) for words in (sources, targets)]
    wide = max(cell, longest[0] + 0.12) if numbers and longest[0] + 0.12 <= WIDEST else cell
    flat, alone = longest[0] < 0.95 * wide * step, len(matrices) == 1
    names = Names(sources, targets, step, flat, alone and shape[0] > FAR, alone and shape[1] > FAR, style)
    top = 0.25 if names.flat else longest[0] + 0.1
    caption = CAPTION if step == 1 else f"{CAPTION}; one word in {step} is named"
    legend = legend_width(marks.names, lambda text: width(text, SMALL))
    layout = Layout(
        rows=rows,
        columns=columns,
        panel=(shape[1] * wide, shape[0] * cell),
        left=longest[1] + 0.2,
        top=top,
        right=longest[1] + 0.1 if names.beyond else 0.0,
        under=top if names.below else 0.0,
        heading=max(width(title, style) for title in titles),
        footing=0.35 + (ENTRY + 0.1 if marks.names else 0),
        widest=max(3.6, legend + 0.2, width(caption, SMALL) + 0.2),
    )
    figure.set_size_inches(*layout.size)
    for index, (matrix, title) in enumerate(zip(matrices, titles, strict=True)):
        axes = figure.add_axes(layout.place(index))
        axes.set_title(title, loc="left", pad=9, **style)
        draw(axes, matrix, numbers)
        name(axes, names, shape)
        draw_marks(axes, marks, min(1.6, 6 * cell))
    finish(figure, layout, caption)
    if marks.names:
        draw_legend(figure, marks.names, 0.35, lambda text: width(text, SMALL), SMALL)
    return figure


def canvas() -> tuple[Figure, Callable[[str, dict[str, Any]], float]]:
    """An empty figure, and a function that measures the width of a text in a style, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=DPI, facecolor="white")
    renderer = FigureCanvasAgg(figure).get_renderer()

    def width(words: str, style: dict[str, Any]) -> float:
        text = figure.text(0, 0, words, fontdict=style)
        extent = text.get_window_extent(renderer).width
        text.remove()
        return extent / DPI

    return figure, width


def draw(axes: Axes, matrix: np.ndarray, numbers: bool) -> None:
    """One matrix as cells with thin grey lines between them."""
    axes.imshow(matrix, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.autoscale(False)
    axes.set_xticks(np.arange(matrix.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(matrix.shape[0] + 1) - 0.5, minor=True)
    axes.tick_params(which="minor", top=False, bottom=False, left=False)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.spines[:].set_color("#999999")
    for (row, column), weight in np.ndenumerate(matrix if numbers else np.empty((0, 0))):
        colour = "white" if weight > DARK else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=colour)


def name(axes: Axes, names: Names, shape: tuple[int, int]) -> None:
    """The words beside and above the cells, and on the far sides too where those are far."""
    step = names.step
    axes.set_xticks(range(0, shape[1], step), names.sources[::step], rotation=0 if names.flat else 90, **names.style)
    axes.set_yticks(range(0, shape[0], step), names.targets[::step], **names.style)
    axes.tick_params(top=False, bottom=False, left=False, right=False, pad=3)
    axes.tick_params(labeltop=True, labelbottom=names.below, labelleft=True, labelright=names.beyond)


def finish(figure: Figure, layout: Layout, caption: str) -> None:
    """The colour bar beside the first row of panels, and the caption."""
    width, height = layout.size
    x, y, _, high = layout.place(0)
    x += ((layout.columns - 1) * layout.pitch[0] + layout.panel[0] + layout.right + 0.15) / width
    bar_high = min(high, 1.5 / height)
    bar = figure.add_axes((x, y + high - bar_high, 0.1 / width, bar_high))
    figure.colorbar(figure.axes[0].images[0], cax=bar, ticks=[0, 0.5, 1])
    bar.tick_params(labelsize=8, length=2)
    figure.text(0.1 / width, 0.1 / height, caption, color="#666666", **SMALL)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def pixels(figure: Figure) -> np.ndarray:
    """The figure as colours, uint8 [height width 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    surface = FigureCanvasAgg(figure)
    surface.draw()
    return np.asarray(surface.buffer_rgba())[..., :3].copy()
