"""Attention heatmaps: a row for each target word, a column for each source word.

Only matplotlib's objects are used, no pyplot: no global state, so threads may draw. matplotlib is
imported where it is used, so that the command line starts fast. The order of columns and rows is
that of the sentence: the first word is left or on top in every script.

A mark on the weights (a gold link, the window of local attention and its centre p_t) is a dark line
on a wider white one: it stands out from light and dark cells (at least 3 : 1 in luminance on every
color of the map), needs no color vision and survives a grey printer. Coordinates of marks are those
of the axes: column j reaches from j − ½ to j + ½.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.view.labels import clean, find_fonts, make_label, warn_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORMAP = "Blues"  # light to dark: reads like ink, also without color vision and on a grey printer
CAPTION = "attention weights – not an explanation"
# The numbers of darker cells are white, of others black: 4.5 : 1 or more on every cell.
WHITE_TEXT_ABOVE = 0.715
GOLD = "#7f2704"
WINDOW = "#222222"
CASING = "white"
GREY = "#666666"
DASHES = (0, (2.2, 1.6))  # in line widths
DPI = 100
MARGIN = 0.1  # inches
MAX_LARGE = 12  # a matrix of at most this many rows and columns has large cells
CARD_WIDTH = 335  # pixels of TensorBoard's narrowest card
NUMBER_POINTS = 14  # size of the number in a cell
READABLE_POINTS = 6  # a number that would be smaller on that card is not written
MAX_CELL_WIDTH = 1.0  # inches: a large cell is as wide as the widest source word, up to this
# Inches: all large cells together are at most this wide. Wider pictures have larger letters,
# because they are shown smaller
MAX_WIDTH = 5.5
LETTERS = 50  # points of a letter for each inch of a cell
MAX_ONE_SIDED = 25  # a single matrix of more rows or columns than this has its words on both sides
# Points: where cells are too small for this, only every second word has a label, or every third, …
MIN_FONT_SIZE = 6
# Inches: beyond that cells and words shrink; a heatmap of 1000 × 1000 words would fill the memory.
MAX_SIDE = 40
Link = tuple[int, int]  # (source word, target word), from 0
GoldLinks = tuple[set[Link], set[Link]]  # sure, possible
# For each target word: p_t, first and last word of its window.
WindowSpans = Sequence[tuple[float, float, float] | None]


@dataclass(frozen=True)
class Marks:
    """The marks of one sentence pair; the same on every panel of a figure."""

    sure: set[Link]
    possible: set[Link]  # without the sure ones
    window_spans: WindowSpans

    @property
    def names(self) -> list[str]:
        """The marks that occur, as a legend names them."""
        names = []
        if self.sure:
            names.append("sure link")
        if self.possible:
            names.append("possible link")
        if any(self.window_spans):
            names += ["window", "its centre pₜ"]
        return names


def make_marks(
    gold: GoldLinks | None, window_spans: WindowSpans | None, shape: tuple[int, int]
) -> Marks:
    """The marks of a matrix of `shape` [target words, source words].

    Raises ValueError when they do not fit it.
    """
    rows, columns = shape
    sure, possible = gold or (set(), set())
    for source, target in sure | possible:
        if not (0 <= source < columns and 0 <= target < rows):
            raise ValueError(
                f"Link {source}-{target} is outside {rows} target, {columns} source words."
            )
    if window_spans is not None and len(window_spans) != rows:
        raise ValueError(f"{len(window_spans)} windows do not fit {rows} target words.")
    return Marks(sure, possible - sure, window_spans or [])


def grid(
    panels: dict[str, np.ndarray],
    source_words: list[str],
    target_words: list[str],
    gold: GoldLinks | None = None,
    window_spans: WindowSpans | None = None,
    target_name: str = "target",
    note: str = "",
    columns: int = 2,
) -> Figure:
    """One figure of matrices over the same words, by title, such as the heads of a layer.

    A matrix [target words, source words] has weights in 0..1. A title may have several lines.
    gold: (sure, possible) links (source word, target word), from 0.
    window_spans: for each target word None or (p_t, first, last), in columns. The window of local
        attention reaches from the left edge of the word `first` to the right edge of `last`;
        fractions are allowed.
    target_name: the name of the axis of the target words.
    note: the end of the caption.
    columns: panels in a row.

    The figure has the size of the panels. Words, legend and caption stand outside of it, and `png`
    makes the picture large enough for them. Raises ValueError if anything does not fit.
    """
    from matplotlib.figure import Figure

    height = len(target_words)
    width = len(source_words)
    marks = make_marks(gold, window_spans, (height, width))
    shapes = [matrix.shape for matrix in panels.values()]
    if 0 in (height, width) or set(shapes) != {(height, width)}:
        raise ValueError(f"Matrices {shapes} do not fit {height} target, {width} source words.")

    # Words, in fonts that have their letters
    words = [*source_words, *target_words]
    families, missing = find_fonts(frozenset("".join(map(clean, [*words, *panels]))))
    warn_missing(missing)
    labels = [make_label(word, missing) for word in words]
    sources = labels[:width]
    targets = labels[width:]

    # Cells, and which words are named
    rows = math.ceil(len(panels) / columns)
    columns = min(columns, len(panels))
    single = columns == 1
    large = single and max(height, width) <= MAX_LARGE
    usual_cell = 0.5 if large else 0.26
    cell = min(usual_cell, MAX_SIDE / max(columns * width, rows * height))
    step = math.ceil(MIN_FONT_SIZE / (LETTERS * cell))  # one word in so many is named
    points = 11 if columns * width * cell <= MAX_WIDTH else 13
    style: dict[str, Any] = {"fontfamily": families, "fontsize": min(points, LETTERS * cell * step)}
    style["parse_math"] = False  # $ starts no formula
    figure = Figure(dpi=DPI, facecolor="white")
    source_width = longest(figure, sources[::step], style)
    target_width = longest(figure, targets[::step], style)
    widest = min(MAX_CELL_WIDTH, MAX_WIDTH / width)
    cell_width = cell
    if large and source_width + 0.12 <= widest:
        cell_width = max(cell, source_width + 0.12)
    rotation = 0
    above = 0.25  # inches of the source words
    if source_width >= 0.95 * cell_width * step:
        rotation = 90
        above = source_width

    # Panels, and the whole figure
    panel_width = width * cell_width
    panel_height = height * cell
    across = panel_width + target_width + 0.3  # to the next panel
    down = panel_height + above + 0.6
    total_width = (columns - 1) * across + panel_width
    total_height = (rows - 1) * down + panel_height
    picture_width = target_width + total_width + 0.9  # the bar and the margins are beside the cells
    # Numbers can be read where TensorBoard's narrowest card does not shrink the picture too much
    shown_points = NUMBER_POINTS * CARD_WIDTH / (DPI * picture_width)
    numbered = large and shown_points >= READABLE_POINTS
    below = single and height > MAX_ONE_SIDED  # whether words stand there as well
    right = single and width > MAX_ONE_SIDED
    figure.set_size_inches(total_width, total_height)
    for index, (title, matrix) in enumerate(panels.items()):
        row, column = divmod(index, columns)
        x = column * across / total_width
        y = (rows - 1 - row) * down / total_height
        axes = figure.add_axes((x, y, panel_width / total_width, panel_height / total_height))
        draw_cells(axes, matrix, numbered)
        axes.set_xticks(range(0, width, step), sources[::step], rotation=rotation, **style)
        axes.set_yticks(range(0, height, step), targets[::step], **style)
        axes.tick_params(top=False, bottom=False, left=False, right=False, pad=3)
        axes.tick_params(labeltop=True, labelbottom=below, labelright=right)
        lines = filter(None, title.split("\n"))
        heading = "\n".join(make_label(line, missing, max_length=60) for line in lines)
        axes.set_title(heading, loc="left", pad=9, **style)
        axes.xaxis.set_label_position("top")
        if row == 0:
            axes.set_xlabel("source", color=GREY, fontsize=style["fontsize"])
        if column == 0:
            axes.set_ylabel(target_name, color=GREY, fontsize=style["fontsize"])
        draw_marks(axes, marks, min(1.6, 6 * cell))

    # The bar of colors
    bar_height = min(panel_height, 1.5) / total_height
    bar_distance = 0.15
    if right:
        bar_distance += target_width + 0.1
    bar_x = 1 + bar_distance / total_width
    bar = figure.add_axes((bar_x, 1 - bar_height, 0.1 / total_width, bar_height))
    figure.colorbar(figure.axes[0].images[0], cax=bar, ticks=[0, 0.5, 1])
    bar.tick_params(labelsize=9, length=2)

    # Legend and caption
    notes = [CAPTION]
    if step > 1:
        notes.append(f"one word in {step} is named")
    notes.append(note)
    left = -target_width / total_width
    distance = 0.1
    if below:
        distance += above + 0.1
    text = "; ".join(filter(None, notes))
    draw_caption(figure, marks.names, text, left, -distance / total_height, 0.25 / total_height)
    return figure


def draw_caption(
    figure: Figure, names: Sequence[str], text: str, left: float, top: float, line: float
) -> None:
    """Write the text below a figure, under a legend of the marks with these names.

    left, top, and the height of a line: in parts of the figure.
    """
    if names:
        figure.legend(
            handles=legend_handles(names),
            ncols=len(names),
            frameon=False,
            fontsize=9,
            handlelength=1.4,
            loc="upper left",
            bbox_to_anchor=(left, top),
            borderaxespad=0,
            borderpad=0,
        )
        top -= line
    figure.text(left, top, text, va="top", color=GREY, fontfamily="DejaVu Sans", fontsize=9)


def longest(figure: Figure, words: list[str], style: dict[str, Any]) -> float:
    """The width in inches of the widest word."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    width = 0.0
    for word in words:
        text = figure.text(0, 0, word, fontdict=style)
        width = max(width, text.get_window_extent(renderer).width)
        text.remove()
    return width / DPI


def draw_cells(axes: Axes, matrix: np.ndarray, numbered: bool) -> None:
    axes.imshow(matrix, cmap=COLORMAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.autoscale(False)
    axes.set_xticks(np.arange(matrix.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(matrix.shape[0] + 1) - 0.5, minor=True)
    axes.tick_params(which="minor", top=False, bottom=False, left=False)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.spines[:].set_color("#999999")
    if not numbered:
        return
    for (row, column), weight in np.ndenumerate(matrix):
        color = "white" if weight > WHITE_TEXT_ABOVE else "black"
        number = f"{weight:.2f}".removeprefix("0")
        axes.text(
            column, row, number, ha="center", va="center", fontsize=NUMBER_POINTS, color=color
        )


def draw_marks(axes: Axes, marks: Marks, width: float) -> None:
    """Draw squares in linked cells, brackets around windows, and arrows below p_t.

    width: of lines, in points.
    """
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    squares: list[tuple[set[Link], float, Any, float]] = [
        (marks.sure, 0.07, "-", width),
        (marks.possible, 0.19, DASHES, 0.75 * width),
    ]
    for links, inset, style, line in squares:
        side = 1 - 2 * inset
        for source, target in links:
            square = Rectangle(
                (source - 0.5 + inset, target - 0.5 + inset),
                side,
                side,
                facecolor="none",
                edgecolor=GOLD,
                linestyle=style,
                linewidth=line,
                zorder=3,
                path_effects=[withStroke(linewidth=2.2 * line, foreground=CASING)],
            )
            axes.add_patch(square)
    for row, span in enumerate(marks.window_spans):
        if not span:
            continue
        p_t, first, last = span
        for edge, hook in ((first - 0.5, 0.12), (last + 0.5, -0.12)):
            axes.plot(
                [edge + hook, edge, edge, edge + hook],
                [row - 0.4, row - 0.4, row + 0.4, row + 0.4],
                clip_on=False,
                color=WINDOW,
                linewidth=0.75 * width,
                zorder=4,
                path_effects=[withStroke(linewidth=2 * width, foreground=CASING)],
            )
        axes.plot(
            p_t,
            row + 0.33,
            marker="^",
            markersize=3.5 * width,
            color=WINDOW,
            markeredgecolor=CASING,
            markeredgewidth=0.5 * width,
            clip_on=False,
            zorder=5,
        )


def legend_handles(names: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    line: dict[str, Any] = {"color": WINDOW, "linestyle": ""}
    samples: dict[str, Any] = {
        "sure link": Patch(facecolor="none", edgecolor=GOLD, linewidth=1.3),
        "possible link": Patch(facecolor="none", edgecolor=GOLD, linestyle=DASHES),
        "window": Line2D([], [], marker="$[ \\, ]$", markersize=9, **line),
        "its centre pₜ": Line2D([], [], marker="^", markersize=5, **line),
    }
    for name, sample in samples.items():
        sample.set_label(name)
    return [samples[name] for name in names]


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, bbox_inches="tight", pad_inches=MARGIN)
    return file.getvalue()


def pixels(figure: Figure) -> np.ndarray:
    """The figure as RGB, uint8 [height width 3]."""
    from matplotlib.image import imread

    return np.rint(255 * imread(io.BytesIO(png(figure)))[..., :3]).astype(np.uint8)
