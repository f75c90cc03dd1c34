"""A word aligner from before attention, for scripts/classical_aligner.py: one direction, and how two are joined.

N sentences of one shape, I source words, J target words. A link (i, j) counts both from 0.
"""

from collections import defaultdict

import numpy as np

from nmt.evaluate.alignment import Link

Pair = tuple[list[str], list[str]]
Links = list[set[Link]]
NEIGHBOURS = (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)
NULL, TENSION, ALPHA, ROUNDS = 0.08, 4.0, 0.01, 5  # p_0, λ, the prior of t(f | e), iterations


def em(pairs: list[Pair]) -> Links:
    """One link or none for each target word j: argmax_i δ(i | j, I, J) t(f_j | e_i) (Dyer 2013 §2).

    δ(0) = p_0, δ(i) ∝ (1 − p_0) exp(−λ |i/I − j/J|), i and j from 1; t by EM with a Dirichlet prior (variational
    Bayes). Deviation: λ stays 4, where the paper fits it.
    """
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, (source, target) in enumerate(pairs):
        groups[len(source), len(target)].append(number)
    sources, targets = (numbered([pair[side] for pair in pairs]) for side in (0, 1))
    words = 1 + max((max(line, default=0) for line in targets), default=0)
    cells = {  # [N J I+1]: source word × words + target word, of every possible link of sentences of one shape
        shape: np.array([[0, *sources[n]] for n in found])[:, None] * words
        + np.array([targets[n] for n in found])[..., None]
        for shape, found in groups.items()
        if shape[1]
    }
    if not cells:
        return [set() for _ in pairs]
    entries = np.unique(np.concatenate([cell.ravel() for cell in cells.values()]))
    places = {shape: np.searchsorted(entries, cell).astype(np.int32) for shape, cell in cells.items()}
    del cells
    owners, table = entries // words, np.ones(len(entries))
    for _ in range(ROUNDS):
        counts = np.full(len(entries), ALPHA)
        for shape, place in places.items():
            shares = table[place] * near_diagonal(*shape)
            np.add.at(counts, place, shares / shares.sum(-1, keepdims=True))
        table = np.exp(digamma(counts) - digamma(np.bincount(owners, counts))[owners])
    links: Links = [set() for _ in pairs]
    for shape, place in places.items():
        best = (table[place] * near_diagonal(*shape)).argmax(-1)
        for number, row in zip(groups[shape], best, strict=True):
            links[number] = {(int(i) - 1, j) for j, i in enumerate(row) if i}
    return links


def numbered(lines: list[list[str]]) -> list[list[int]]:
    """Words as numbers from 1; 0 is the empty word."""
    known: dict[str, int] = {}
    return [[known.setdefault(word, len(known) + 1) for word in line] for line in lines]


def near_diagonal(source: int, target: int) -> np.ndarray:
    """δ [J I+1]; column 0 is the empty word."""
    i, j = np.arange(1, source + 1) / max(source, 1), np.arange(1, target + 1)[:, None] / target
    weights = np.exp(-TENSION * np.abs(i - j))
    shares = (1 - NULL) * weights / weights.sum(-1, keepdims=True)
    return np.hstack([np.full((target, 1), NULL), shares])


def digamma(x: np.ndarray) -> np.ndarray:
    """ψ(x) = ψ(x + 6) − Σ 1/(x + k), ψ(x + 6) by its asymptotic series; error below 1e-8 for x > 0."""
    shift = sum(1 / (x + k) for k in range(6))
    x = x + 6
    return np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - shift


def diagonal(pairs: list[Pair]) -> Links:
    """Target word j of J and source word round(j · I / J), at most the last; both count from 0."""
    return [
        {(min(round(j * len(source) / len(target)), len(source) - 1), j) for j in range(len(target) if source else 0)}
        for source, target in pairs
    ]


def grow(forward: set[Link], backward: set[Link]) -> set[Link]:
    """grow-diag-final-and (Koehn, Och & Marcu 2003; Koehn 2005).

    From the intersection, neighbours (also diagonal ones) that are in the union are added as long as one of their words
    has no link yet; at last any link of either direction of which neither word has one.
    """
    union, links = forward | backward, forward & backward
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for i, j in sorted(union):
            for down, right in NEIGHBOURS if (i, j) in links else ():
                near = i + down, j + right
                if near in union - links and (near[0] not in sources or near[1] not in targets):
                    add(near)
                    grown = True
    for way in (forward, backward):
        for link in sorted(way):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return links
