"""Medians over rounds, and tables in Markdown."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Figures = dict[str, Any]


class Spread(NamedTuple):
    """Median, least and most of one figure over several rounds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return short(self.median)
        return f"{short(self.median)} ({short(self.least)}–{short(self.most)})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def summarize(rounds: Sequence[Figures]) -> dict[str, Spread]:
    numbers = [key for key, value in rounds[0].items() if isinstance(value, (int, float))]
    return {key: spread([figures[key] for figures in rounds]) for key in numbers}


def columns(rounds: Sequence[Figures], titles: Mapping[str, str]) -> dict[str, Spread]:
    """The cells of a measured system: for every title of a column, the spread of the figure that it
    names."""
    summary = summarize(rounds)
    return {title: summary[figure] for title, figure in titles.items()}


def short(value: float) -> str:
    """A number with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(value: object) -> str:
    """The text of a table's cell: numbers are rounded by `short`, integers keep all digits."""
    if isinstance(value, (str, Spread)):
        return str(value)
    return (
        short(value)
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with the same keys as a Markdown table; the first column is text, the others are
    figures."""
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    lines = [
        list(rows[0]),
        rule,
        *([cell(value).replace("|", "¦") for value in row.values()] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
