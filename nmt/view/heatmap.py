"""Attention as a picture: one row for each target word, one column for each source word, source above.

Only matplotlib's objects are used, no pyplot: no global state, so threads may draw. matplotlib is imported where it is
used, because the command line shall start fast. Arabic and Hebrew words are shaped and run right to left with
matplotlib ≥ 3.11; before that their letters stand apart and in logical order. The order of columns and rows is always
that of the sentence: the first word is left or on top in every script.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.view.labels import clean, fonts, label, missing_glyphs, warn_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["grid", "heatmap", "missing_glyphs", "pixels", "png"]

COLOURS = "Blues"  # light to dark: reads like ink, also without colour vision and on a grey printer
CAPTION = "where the model looked – not a proof of why"
NUMBERED = 12  # a matrix of at most this many rows and columns has large cells with numbers in them
DPI = 100
LARGEST = 40  # inches: beyond that cells and words shrink, since a picture of 1000 × 1000 words would fill the memory


@dataclass
class Layout:
    """Where the panels of a figure stand; everything in inches from the lower left corner."""

    rows: int
    columns: int
    panel: tuple[float, float]  # the cells: width, height
    left: float  # of the target words
    top: float  # of the source words
    heading: float  # of a panel's title: width

    @property
    def pitch(self) -> tuple[float, float]:
        """From one panel to the next."""
        return self.left + max(self.panel[0], self.heading), self.panel[1] + self.top + (0.5 if self.heading else 0.15)

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole figure: the colour bar stands on the right, the caption below."""
        return max(self.columns * self.pitch[0] + 0.8, 3.6), self.rows * self.pitch[1] + 0.35

    def place(self, index: int) -> tuple[float, float, float, float]:
        """The rectangle of one panel's cells, in shares of the figure."""
        row, column = divmod(index, self.columns)
        x = column * self.pitch[0] + self.left
        y = (self.rows - 1 - row) * self.pitch[1] + 0.35
        width, height = self.size
        return x / width, y / height, self.panel[0] / width, self.panel[1] / height


def heatmap(matrix: np.ndarray, source_words: list[str], target_words: list[str], title: str = "") -> Figure:
    """A figure of weights in 0..1; matrix [target words, source words]; raises ValueError when the words do not fit."""
    large = max(matrix.shape) <= NUMBERED
    return panels([matrix], source_words, target_words, [title], 1, 0.5 if large else 0.26, large)


def grid(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    titles: list[str] | None = None,
    columns: int = 4,
) -> Figure:
    """One figure of many matrices over the same words, such as the heads of a layer; titles are head 1, head 2, …"""
    titles = titles or [f"head {number}" for number in range(1, len(matrices) + 1)]
    return panels(matrices, source_words, target_words, titles, min(columns, len(matrices)), 0.24, False)


def panels(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    titles: list[str],
    columns: int,
    cell: float,
    numbers: bool,
) -> Figure:
    """The common drawing; cells are squares of `cell` inches and the margins as large as the longest words need."""
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
    size = 11 if numbers else min(9, 35 * cell)
    style: dict[str, Any] = {"fontfamily": families, "fontsize": size, "parse_math": False}  # $ is no formula

    figure, width = canvas(style)
    upright = max(map(width, sources)) < 0.95 * cell
    layout = Layout(
        rows=rows,
        columns=columns,
        panel=(shape[1] * cell, shape[0] * cell),
        left=max(map(width, targets)) + 0.2,
        top=0.25 if upright else max(map(width, sources)) + 0.1,
        heading=max(map(width, titles)),
    )
    figure.set_size_inches(*layout.size)
    for index, (matrix, title) in enumerate(zip(matrices, titles, strict=True)):
        axes = figure.add_axes(layout.place(index))
        axes.set_xticks(range(shape[1]), sources, rotation=0 if upright else 90, **style)
        axes.set_yticks(range(shape[0]), targets, **style)
        axes.set_title(title, loc="left", **style)
        draw(axes, matrix, numbers)
    finish(figure, layout)
    return figure


def canvas(style: dict[str, Any]) -> tuple[Figure, Callable[[str], float]]:
    """An empty figure, and a function that measures the width of a word in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=DPI, facecolor="white")
    renderer = FigureCanvasAgg(figure).get_renderer()

    def width(word: str) -> float:
        text = figure.text(0, 0, word, fontdict=style)
        extent = text.get_window_extent(renderer).width
        text.remove()
        return extent / DPI

    return figure, width


def draw(axes: Axes, matrix: np.ndarray, numbers: bool) -> None:
    """One matrix as squares with thin white lines between them."""
    axes.imshow(matrix, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.tick_params(top=False, labeltop=True, bottom=False, labelbottom=False, left=False, pad=3)
    axes.set_xticks(np.arange(matrix.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(matrix.shape[0] + 1) - 0.5, minor=True)
    axes.tick_params(which="minor", top=False, bottom=False, left=False)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.spines[:].set_color("#999999")
    for (row, column), weight in np.ndenumerate(matrix if numbers else np.empty((0, 0))):
        colour = "white" if weight > 0.55 else "#333333"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=colour)


def finish(figure: Figure, layout: Layout) -> None:
    """The colour bar beside the first row of panels, and the caption."""
    width, height = layout.size
    x, y, _, high = layout.place(0)
    x += ((layout.columns - 1) * layout.pitch[0] + layout.panel[0] + 0.15) / width
    bar_high = min(high, 1.5 / height)
    bar = figure.add_axes((x, y + high - bar_high, 0.1 / width, bar_high))
    figure.colorbar(figure.axes[0].images[0], cax=bar, ticks=[0, 0.5, 1])
    bar.tick_params(labelsize=8, length=2)
    figure.text(0.1 / width, 0.1 / height, CAPTION, fontsize=8, color="#666666", fontfamily="DejaVu Sans")


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
