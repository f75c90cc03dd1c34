"""A reliability diagram: of the words with a confidence of about 0.8, which share is right?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
