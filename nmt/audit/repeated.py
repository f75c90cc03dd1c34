"""Pairs that repeat an earlier one, found by their hashes in a bounded amount of memory."""

from collections.abc import Callable, Iterator

import numpy as np

PAIRS_AT_ONCE = 2_000_000  # whose hashes are in memory, 24 bytes each
Hashes = tuple[np.ndarray, np.ndarray, np.ndarray]  # exact, near, number of each pair
EXACT, NEAR = "duplicate", "near duplicate"


def find_repeated(read: Callable[[], Iterator[Hashes]], pairs: int) -> dict[str, np.ndarray]:
    """For each of EXACT and NEAR the numbers of the pairs that repeat an earlier one, and of that one [2 found].

    `read` gives the hashes of all pairs, part by part; it is called once for each share of them. Equal pairs have
    equal near hashes, so they are in one share. A near hash of 0 is none.
    """
    shares = 1 + pairs // PAIRS_AT_ONCE
    found: dict[str, list[np.ndarray]] = {EXACT: [], NEAR: []}
    for share in range(shares):
        chosen = [take_share(part, share, shares) for part in read()]
        columns = [np.concatenate(column) for column in zip(*chosen, strict=True)] if chosen else []
        if columns and len(columns[0]):
            for kind, numbers in repeated(*columns).items():
                found[kind].append(numbers)
    return {kind: in_order(numbers) for kind, numbers in found.items()}


def take_share(hashes: Hashes, share: int, shares: int) -> Hashes:
    exact, near, numbers = hashes
    near = np.where(near == 0, exact, near)
    chosen = near % np.uint64(shares) == np.uint64(share)
    return exact[chosen], near[chosen], numbers[chosen]


def in_order(numbers: list[np.ndarray]) -> np.ndarray:
    """All columns, sorted by the first row."""
    both = np.concatenate([np.zeros((2, 0), np.int64), *numbers], axis=1)
    return both[:, np.argsort(both[0], kind="stable")]


def repeated(exact: np.ndarray, near: np.ndarray, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """The repeated pairs of one share [2 found]."""
    order = np.lexsort((numbers, exact, near))
    exact, near, numbers = exact[order], near[order], numbers[order].astype(np.int64)
    new_near = np.concatenate(([True], near[1:] != near[:-1]))
    new_exact = new_near | np.concatenate(([True], exact[1:] != exact[:-1]))
    exact_firsts = numbers[np.flatnonzero(new_exact)[np.cumsum(new_exact) - 1]]
    starts = np.flatnonzero(new_near)
    near_firsts = np.minimum.reduceat(numbers, starts)[np.cumsum(new_near) - 1]
    variant = new_exact & (numbers != near_firsts)
    return {
        EXACT: np.stack([numbers[~new_exact], exact_firsts[~new_exact]]),
        NEAR: np.stack([numbers[variant], near_firsts[variant]]),
    }
