"""Align words as was done before attention: the figures beside which an AER of attention must be read.

python scripts/classical_aligner.py --source F --target F [--with em] [--rule NAME]     links, Pharaoh, from 0
python scripts/classical_aligner.py --source F --target F --gold F [--base 1]           AER of every rule

The pairs to align are words that spaces separate. `--more-source F … --more-target F …` are further pairs to learn
from, in plain text. `--test-first N` writes and scores the links of the first N pairs only. Everything is lower-cased.
Links go to stdout or to `--output F`; with a gold, stdout has the table. No aligner sees the gold, but all learn from
the text of the test set as well, as is usual. `--with`:

em          Dyer, Chahuneau & Smith 2013 ("fast_align"), below
fast_align  the authors' program as a package: pip install systran-align
eflomal     Östling & Tiedemann 2016; it samples from a new seed each time. With a C compiler:
            pip install cython setuptools; pip install --no-build-isolation eflomal
diagonal    learns nothing: a word and the one at the same share of the other sentence
"""

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nmt.data.lines import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.alignment import Link, aer, format_links, parse_links

Pair = tuple[list[str], list[str]]
Links = list[set[Link]]
WORD = re.compile(r"\w+?(?=n't\b)|n't|'?\w+|[^\w\s]")  # as in the gold sets: do n't, it 's

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
    groups.pop((0, 0), None)
    sources, targets = (numbered([pair[side] for pair in pairs]) for side in (0, 1))
    words = 1 + max((max(line, default=0) for line in targets), default=0)
    cells = {  # [N J I+1]: source word × words + target word, of every possible link of sentences of one shape
        shape: np.array([[0, *sources[n]] for n in found])[:, None] * words
        + np.array([targets[n] for n in found])[..., None]
        for shape, found in groups.items()
        if shape[1]
    }
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
    """ψ(x) = ψ(x + 6) − Σ 1/(x + k), ψ(x + 6) by its asymptotic series; error below 1e-9 for x > 0."""
    shift = sum(1 / (x + k) for k in range(6))
    x = x + 6
    return np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - shift


def both(one_way: Callable[[list[Pair]], Links]) -> Callable[[list[Pair]], dict[str, Links]]:
    """A model of one direction in both."""

    def two_ways(pairs: list[Pair]) -> dict[str, Links]:
        turned = one_way([(target, source) for source, target in pairs])
        return {"forward": one_way(pairs), "backward": [{(i, j) for j, i in links} for links in turned]}

    return two_ways


def diagonal(pairs: list[Pair]) -> Links:
    """Target word j of J and source word round(j · I / J), at most the last; both count from 0."""
    return [
        {(min(round(j * len(source) / len(target)), len(source) - 1), j) for j in range(len(target) if source else 0)}
        for source, target in pairs
    ]


def eflomal(pairs: list[Pair]) -> dict[str, Links]:
    """Both directions of eflomal, as its defaults are."""
    import eflomal as program

    with tempfile.TemporaryDirectory() as folder:
        ways = {"forward": f"{folder}/forward", "backward": f"{folder}/backward"}
        sides = [[" ".join(pair[side]) + "\n" for pair in pairs] for side in (0, 1)]
        program.Aligner().align(*sides, *ways.values(), quiet=True)
        return {way: [parse_links(line)[0] for line in read_lines(Path(file))] for way, file in ways.items()}


def fast_align(pairs: list[Pair]) -> dict[str, Links]:
    """systran-align with the options that fast_align recommends (-d -o -v); it joins the directions by itself."""
    import systran_align as program

    kept = [(source, target) for source, target in pairs if source and target]
    with tempfile.TemporaryDirectory() as folder:
        text, forward, backward = (f"{folder}/{name}" for name in ("text", "forward", "backward"))
        Path(text).write_text("".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in kept), encoding="utf-8")
        program.generate_alignment_probabilities(
            text, forward, backward, favor_diagonal=True, optimize_tension=True, variational_bayes=True
        )
        aligner = program.Aligner(forward, backward)
        found = [set(aligner.align(s, t)["alignments"]) if s and t else set() for s, t in pairs]
    return {"symmetrised": found}


ALIGNERS = {"em": both(em), "eflomal": eflomal, "fast_align": fast_align, "diagonal": both(diagonal)}


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


RULES: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
    "forward": lambda forward, backward: forward,
    "backward": lambda forward, backward: backward,
    "intersection": set.intersection,
    "union": set.union,
    "grow-diag-final-and": grow,
}


def read(options: argparse.Namespace) -> tuple[list[Pair], int]:
    """All pairs in words, those to align first, and the number of these."""
    pairs = [(s.lower().split(), t.lower().split()) for s, t in read_pairs(options.source, options.target)]
    number = min(options.test_first or len(pairs), len(pairs))
    if len(options.more_source) != len(options.more_target):
        raise UserError(
            f"{len(options.more_source)} files after --more-source, {len(options.more_target)} after --more-target."
        )
    for files in zip(options.more_source, options.more_target, strict=True):
        pairs += [(words(source), words(target)) for source, target in read_pairs(*files)]
    return pairs, number


def words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("’", "'"))


def align(options: argparse.Namespace) -> dict[str, Links]:
    """The links of the pairs to align, by rule."""
    pairs, number = read(options)
    try:
        found = ALIGNERS[options.aligner](pairs)
    except ImportError as error:
        raise UserError(f"--with {options.aligner} is not installed: {error}.") from None
    found = {way: links[:number] for way, links in found.items()}
    if "forward" not in found:
        return found
    ways = list(zip(found["forward"], found["backward"], strict=True))
    return {name: [rule(*pair) for pair in ways] for name, rule in RULES.items()}


def main() -> None:
    """Read the arguments, align, and write links or a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--more-source", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--more-target", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--test-first", type=int, metavar="N")
    parser.add_argument("--with", dest="aligner", choices=ALIGNERS, default="em")
    parser.add_argument("--rule", choices=RULES, default="grow-diag-final-and", help="which links are written")
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--base", type=int, default=0, help="the number of the first word in the gold")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    try:
        found = align(options)
        if options.gold:
            table(found, options.gold, options.base)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    text = "".join(format_links(links) + "\n" for links in found.get(options.rule, next(iter(found.values()))))
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    elif not options.gold:
        print(text, end="")


def table(found: dict[str, Links], gold: Path, base: int) -> None:
    """AER, precision and recall of every rule, tab-separated; raises UserError when the gold is of another length."""
    lines = [parse_links(line, base, f"{gold}:{number}") for number, line in enumerate(read_lines(gold), 1)]
    sure, possible = [line[0] for line in lines], [line[1] for line in lines]
    print("rule", "AER", "precision", "recall", sep="\t")
    for name, links in found.items():
        print(name, *(f"{share:.4f}" for share in aer(links, sure, possible)), sep="\t")


if __name__ == "__main__":
    main()
