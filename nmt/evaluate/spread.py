"""How much results differ between seeds: mean, sample standard deviation and range."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """x̄ = Σ x / n and s = √(Σ (x − x̄)² / (n − 1)), which is None for a single value."""

    mean: float
    deviation: float | None
    minimum: float
    maximum: float
    num_values: int  # n


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value; raises ValueError for none."""
    if not values:
        raise ValueError("There are no values.")
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation, min(values), max(values), len(values))
