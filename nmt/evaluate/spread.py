"""What differs between seeds: mean, sample standard deviation and range of a few figures."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """x̄ = Σ x / n and s = √(Σ (x − x̄)² / (n − 1)), which is None for a single figure."""

    mean: float
    deviation: float | None
    least: float
    most: float
    number: int  # of figures


def spread(figures: Sequence[float]) -> Spread:
    """The spread of at least one figure; raises ValueError for none."""
    if not figures:
        raise ValueError("There are no figures.")
    deviation = statistics.stdev(figures) if len(figures) > 1 else None
    return Spread(statistics.fmean(figures), deviation, min(figures), max(figures), len(figures))
