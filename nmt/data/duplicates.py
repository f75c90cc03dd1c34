"""Counts what repeats an earlier pair, in a bounded amount of memory.

After every HELD_PAIRS pairs their hashes go to files in a folder, a file for each value of the first hash's first byte.
Equal hashes are in the same file, so that the files are counted one by one.
"""

import itertools
from array import array
from pathlib import Path

import numpy as np

HELD_PAIRS = 4_000_000  # whose hashes are held in memory, 64 MB for one hash each
PARTS = 256
FIRSTS = 5  # numbers of pairs that are given


class DuplicateCounter:
    """Pairs with one or more hashes each; pairs that agree in one hash agree in all before it.

    `columns`: how many hashes a pair has. A pair counts in the last column in which it repeats an earlier one.
    """

    def __init__(self, folder: Path, columns: int = 1) -> None:
        self.folder, self.columns = folder, columns
        self.rows = array("Q")  # the hashes of a pair, then its number

    def add(self, *row: int) -> None:
        """Add a pair by its hashes and its number in the order read. Raises OSError."""
        self.rows.extend(row)
        self.write_full()

    def add_all(self, hashes: np.ndarray, first: int) -> None:
        """Add pairs by their hashes [pairs, columns]; they have the numbers first, first + 1, …. Raises OSError."""
        numbers = np.arange(first, first + len(hashes), dtype=np.uint64)
        self.rows.frombytes(np.concatenate([hashes, numbers[:, None]], axis=1).tobytes())
        self.write_full()

    def write_full(self) -> None:
        """Write the pairs in memory when they are HELD_PAIRS or more."""
        if len(self.rows) >= HELD_PAIRS * (self.columns + 1):
            self.write_parts()

    def table(self) -> np.ndarray:
        """The pairs in memory [pairs, columns + 1], which are forgotten."""
        table, self.rows = np.asarray(self.rows, np.uint64).reshape(-1, self.columns + 1), array("Q")
        return table

    def write_parts(self) -> None:
        """Append the pairs in memory to the files."""
        table = self.table()
        part = table[:, 0] >> np.uint64(56)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(PARTS + 1))
        for number, (start, end) in enumerate(itertools.pairwise(bounds.tolist())):
            with open(self.folder / f"hashes-{number}", "ab") as file:
                file.write(table[order[start:end]].tobytes())

    def count(self) -> list[tuple[int, list[int]]]:
        """For each column how many pairs repeat an earlier one there, and the numbers of the first that do."""
        if not (self.folder / "hashes-0").exists():
            found = [repeated_numbers(self.table())]
        else:
            self.write_parts()
            found = [self.count_part(self.folder / f"hashes-{number}") for number in range(PARTS)]
        return [count_column([part[column] for part in found]) for column in range(self.columns)]

    def count_part(self, path: Path) -> list[list[int]]:
        """The repeated pairs of one file, which is deleted."""
        table = np.fromfile(path, np.uint64).reshape(-1, self.columns + 1)
        path.unlink()
        return repeated_numbers(table)


def count_column(parts: list[list[int]]) -> tuple[int, list[int]]:
    """How many numbers there are in all parts, and the first of them."""
    return sum(map(len, parts)), sorted(itertools.chain(*(numbers[:FIRSTS] for numbers in parts)))[:FIRSTS]


def repeated_numbers(table: np.ndarray) -> list[list[int]]:
    """For each column of hashes the numbers of the pairs that repeat an earlier one there, and in no later column."""
    last = np.full(len(table), -1)
    for column in range(table.shape[1] - 1):
        _, first = np.unique(table[:, column], return_index=True)
        repeated = np.ones(len(table), dtype=bool)
        repeated[first] = False
        last[repeated] = column
    return [table[last == column, -1].tolist() for column in range(table.shape[1] - 1)]
