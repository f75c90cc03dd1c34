"""Attention heatmaps: one row for each target word, one column for each source word, source words above.

Only matplotlib's objects are used, no pyplot: no global state, so threads may draw. matplotlib is imported where it is
used, so that the command line starts fast. Arabic and Hebrew words run right to left; with matplotlib < 3.11, which
cannot do that, Hebrew words are reversed and Arabic ones are boxes (`labels.to_visual_order`). The order of columns and
rows is always that of the sentence: the first word is left or on top in every script.

A mark on the weights (a gold link, the window of local attention and its centre p_t) is a dark line on a wider white
one: it stands out from light and dark cells (at least 3 : 1 in luminance on every color of the map), needs no color
vision and survives a grey printer. Coordinates of marks are those of the axes: column j reaches from j − ½ to j + ½.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.view.labels import clean, find_fonts, make_label, warn_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLORMAP = "Blues"  # light to dark: reads like ink, also without color vision and on a grey printer
CAPTION = "attention weights – not an explanation"
MAX_NUMBERED = 12  # a matrix of at most this many rows and columns has large cells with numbers in them
MAX_CELL_WIDTH = 1.0  # inches: numbered cells become as wide as the longest source word, up to here
MAX_ONE_SIDED = 25  # a single matrix of more rows or columns than this has its words on both sides
MIN_FONT_SIZE = 6  # points: where cells are too small for this, only every second word has a label, or every third, …
DPI = 100
CAPTION_STYLE: dict[str, Any] = {"fontfamily": "DejaVu Sans", "fontsize": 8}  # of the legend, too
WHITE_TEXT_ABOVE = 0.715  # the numbers of darker cells are white, of others black: 4.5 : 1 or more on every cell
MAX_SIDE = 40  # inches: beyond that cells and words shrink; a heatmap of 1000 × 1000 words would fill the memory
Link = tuple[int, int]  # (source word, target word), from 0
GoldLinks = tuple[set[Link], set[Link]]  # sure, possible
WindowSpans = Sequence[
    tuple[float, float, float] | None
]  # for each target word: p_t, first and last word of its window

GOLD, WINDOW, CASING = "#7f2704", "#222222", "white"
SURE_INSET, POSSIBLE_INSET = 0.07, 0.19  # how far inside its cell a link is outlined, in cells
DASHES = (0, (2.2, 1.6))  # in line widths
LEGEND_HEIGHT = 0.2  # inches: the height of a line of the legend and its sample cells


@dataclass
class AxisLabels:
    """The words along the axes: every `step`-th, in one font size, horizontal or vertical."""

    sources: list[str]
    targets: list[str]
    step: int
    horizontal: bool  # source words; otherwise they are rotated by 90°
    repeat_below: bool  # source words are also below the cells
    repeat_right: bool  # target words are also to the right of the cells
    style: dict[str, Any]


def heatmap(
    matrix: np.ndarray,
    source_words: list[str],
    target_words: list[str],
    title: str = "",
    gold: GoldLinks | None = None,
    window_spans: WindowSpans | None = None,
) -> Figure:
    """A figure of weights in 0..1; matrix [target words, source words]; raises ValueError when anything does not fit.

    gold: (sure, possible) links (source word, target word), from 0. window_spans: for each target word None or (p_t,
    first, last), in columns: the window of local attention reaches from the left edge of the word `first` to the right
    edge of `last`; fractions are allowed.
    """
    numbered = max(matrix.shape) <= MAX_NUMBERED
    marks = make_marks(gold, window_spans, (len(target_words), len(source_words)))
    cell_height = 0.5 if numbered else 0.26
    return draw_panels([matrix], source_words, target_words, [title], 1, cell_height, numbered, marks)


def grid(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    columns: int = 4,
    gold: GoldLinks | None = None,
    window_spans: WindowSpans | None = None,
) -> Figure:
    """One figure of many matrices over the same words, such as the heads of a layer; titles are head 0, head 1, …

    gold and window_spans are as for `heatmap`, the same on every panel.
    """
    titles = [f"head {number}" for number in range(len(matrices))]
    marks = make_marks(gold, window_spans, (len(target_words), len(source_words)))
    return draw_panels(matrices, source_words, target_words, titles, min(columns, len(matrices)), 0.24, False, marks)


def draw_panels(
    matrices: list[np.ndarray],
    source_words: list[str],
    target_words: list[str],
    titles: list[str],
    columns: int,
    cell_height: float,
    numbered: bool,
    marks: Marks,
) -> Figure:
    """The figure of `heatmap` and `grid`: cells `cell_height` inches high, margins as large as the longest word."""
    shape = (len(target_words), len(source_words))
    check_shapes(matrices, shape)
    families, missing = find_fonts(frozenset("".join(map(clean, source_words + target_words + titles))))
    warn_missing(missing)
    sources, targets = ([make_label(word, missing) for word in words] for words in (source_words, target_words))
    titles = [make_label(title, missing, max_length=80) if title else "" for title in titles]
    rows = -(-len(matrices) // columns)
    cell_height = min(cell_height, MAX_SIDE / max(columns * shape[1], rows * shape[0]))
    step = math.ceil(MIN_FONT_SIZE / (35 * cell_height))
    font_size = 11 if numbered else min(9, 35 * cell_height * step)
    style: dict[str, Any] = {"fontfamily": families, "fontsize": font_size, "parse_math": False}  # $ starts no formula

    figure, text_width = make_canvas()
    source_width = max(text_width(word, style) for word in sources[::step])
    target_width = max(text_width(word, style) for word in targets[::step])
    flexible = numbered and source_width + 0.12 <= MAX_CELL_WIDTH
    cell_width = max(cell_height, source_width + 0.12) if flexible else cell_height
    horizontal, single = source_width < 0.95 * cell_width * step, len(matrices) == 1
    repeat_below, repeat_right = (single and count > MAX_ONE_SIDED for count in shape)
    labels = AxisLabels(sources, targets, step, horizontal, repeat_below, repeat_right, style)
    top = 0.25 if horizontal else source_width + 0.1
    caption = CAPTION if step == 1 else f"{CAPTION}; one word in {step} is named"
    caption_width = functools.partial(text_width, style=CAPTION_STYLE)
    layout = Layout(
        rows=rows,
        columns=columns,
        panel=(shape[1] * cell_width, shape[0] * cell_height),
        left=target_width + 0.2,
        top=top,
        right=target_width + 0.1 if repeat_right else 0.0,
        bottom=top if repeat_below else 0.0,
        title_width=max(text_width(title, style) for title in titles),
        footer_height=0.35 + (LEGEND_HEIGHT + 0.1 if marks.names else 0),
        footer_width=max(3.6, legend_width(marks.names, caption_width) + 0.2, caption_width(caption) + 0.2),
    )
    figure.set_size_inches(*layout.size)
    for index, (matrix, title) in enumerate(zip(matrices, titles, strict=True)):
        axes = figure.add_axes(layout.panel_rectangle(index))
        axes.set_title(title, loc="left", pad=9, **style)
        draw_cells(axes, matrix, numbered)
        draw_labels(axes, labels, shape)
        draw_marks(axes, marks, min(1.6, 6 * cell_height))
    draw_colorbar(figure, layout)
    figure.text(0.1 / layout.size[0], 0.1 / layout.size[1], caption, color="#666666", **CAPTION_STYLE)
    if marks.names:
        draw_legend(figure, marks.names, 0.35, caption_width, CAPTION_STYLE)
    return figure


def check_shapes(matrices: list[np.ndarray], shape: tuple[int, int]) -> None:
    """Raises ValueError unless there are words on both sides and every matrix is [target words, source words]."""
    if not all(shape) or not matrices or any(matrix.shape != shape for matrix in matrices):
        shapes = [matrix.shape for matrix in matrices]
        raise ValueError(f"Matrices {shapes} do not fit {shape[0]} target, {shape[1]} source words.")


def make_canvas() -> tuple[Figure, Callable[..., float]]:
    """An empty figure, and a function that measures the width of a text in a style, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=DPI, facecolor="white")
    renderer = FigureCanvasAgg(figure).get_renderer()

    def text_width(words: str, style: dict[str, Any]) -> float:
        text = figure.text(0, 0, words, fontdict=style)
        extent = text.get_window_extent(renderer).width
        text.remove()
        return extent / DPI

    return figure, text_width


def draw_cells(axes: Axes, matrix: np.ndarray, numbered: bool) -> None:
    """Draw one matrix as cells with thin grey lines between them."""
    axes.imshow(matrix, cmap=COLORMAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.autoscale(False)
    axes.set_xticks(np.arange(matrix.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(matrix.shape[0] + 1) - 0.5, minor=True)
    axes.tick_params(which="minor", top=False, bottom=False, left=False)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.spines[:].set_color("#999999")
    for (row, column), weight in np.ndenumerate(matrix if numbered else np.empty((0, 0))):
        color = "white" if weight > WHITE_TEXT_ABOVE else "black"
        axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=color)


def draw_labels(axes: Axes, labels: AxisLabels, shape: tuple[int, int]) -> None:
    """Draw the words left of the cells and above them, and on the opposite sides where `labels` repeats them."""
    rows, columns = (range(0, count, labels.step) for count in shape)
    rotation = 0 if labels.horizontal else 90
    axes.set_xticks(columns, labels.sources[:: labels.step], rotation=rotation, **labels.style)
    axes.set_yticks(rows, labels.targets[:: labels.step], **labels.style)
    axes.tick_params(top=False, bottom=False, left=False, right=False, pad=3)
    axes.tick_params(labeltop=True, labelbottom=labels.repeat_below, labelleft=True, labelright=labels.repeat_right)


def draw_colorbar(figure: Figure, layout: Layout) -> None:
    """Draw the color bar to the right of the first row of panels."""
    width, height = layout.size
    x, y, _, panel_height = layout.panel_rectangle(0)
    x += ((layout.columns - 1) * layout.pitch[0] + layout.panel[0] + layout.right + 0.15) / width
    bar_height = min(panel_height, 1.5 / height)
    bar = figure.add_axes((x, y + panel_height - bar_height, 0.1 / width, bar_height))
    figure.colorbar(figure.axes[0].images[0], cax=bar, ticks=[0, 0.5, 1])
    bar.tick_params(labelsize=8, length=2)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def pixels(figure: Figure) -> np.ndarray:
    """The figure as RGB, uint8 [height width 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


@dataclass
class Layout:
    """The positions of a figure's panels, in inches from the lower left corner."""

    rows: int
    columns: int
    panel: tuple[float, float]  # the cells: width, height
    left: float  # of the target words
    top: float  # of the source words
    right: float  # of the target words on the right
    bottom: float  # of the source words below
    title_width: float  # of the longest panel title
    footer_height: float  # of caption and legend
    footer_width: float  # of the wider of them

    @property
    def pitch(self) -> tuple[float, float]:
        """The distance from one panel to the next, across and down."""
        across = self.left + max(self.panel[0] + self.right, self.title_width)
        return across, self.panel[1] + self.top + self.bottom + (0.5 if self.title_width else 0.15)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the figure, with the color bar on the right, legend and caption below."""
        across, down = self.pitch
        return max(self.columns * across + 0.8, self.footer_width), self.rows * down + self.footer_height

    def panel_rectangle(self, index: int) -> tuple[float, float, float, float]:
        """(left, bottom, width, height) of one panel's cells as fractions of the figure."""
        row, column = divmod(index, self.columns)
        x = column * self.pitch[0] + self.left
        y = (self.rows - 1 - row) * self.pitch[1] + self.footer_height + self.bottom
        width, height = self.size
        return x / width, y / height, self.panel[0] / width, self.panel[1] / height


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
