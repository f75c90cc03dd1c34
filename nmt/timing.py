"""Which of several ways is the fastest on this machine; names of processors do not tell."""

import time
from collections.abc import Callable

TURNS = 5


def least_seconds(*ways: Callable[[], object]) -> list[float]:
    """The least that each way took: one call each that does not count, then TURNS rounds in turn."""
    for way in ways:
        way()
    rounds = [[seconds(way) for way in ways] for _ in range(TURNS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def seconds(way: Callable[[], object]) -> float:
    """What one call takes."""
    began = time.perf_counter()
    way()
    return time.perf_counter() - began
