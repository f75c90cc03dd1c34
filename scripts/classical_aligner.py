"""Align words as was done before attention: the figures beside which an AER of attention must be read.

python scripts/classical_aligner.py --source F --target F [--with em] [--rule NAME]     links, Pharaoh, from 0
python scripts/classical_aligner.py --source F --target F --gold F [--base 1]           AER of every rule

The pairs to align are words that spaces separate. `--more-source F … --more-target F …` are further pairs to learn
from, in plain text. `--test-first N` writes and scores the links of the first N pairs only. Everything is lower-cased.
Links, those of `--rule`, go to stdout or to `--output F`; with a gold, stdout has the table. No aligner sees the gold,
but all learn from the text of the test set as well, as is usual. `--with`:

em          Dyer, Chahuneau & Smith 2013 ("fast_align"), in em_aligner.py
fast_align  its authors' program, as SYSTRAN packs it: pip install systran-align
eflomal     Östling & Tiedemann 2016; it samples from a new seed each time. With a C compiler:
            pip install cython setuptools; pip install --no-build-isolation eflomal
diagonal    learns nothing: a word and the one at the same share of the other sentence
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from em_aligner import Links, Pair, diagonal, em, grow

from nmt.data.lines import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.alignment import AlignmentCounts, Link, format_links, parse_links

WORD = re.compile(r"\w+?(?=n't\b)|n't|'?\w+|[^\w\s]")  # as in the gold sets: do n't, it 's


def both(one_way: Callable[[list[Pair]], Links]) -> Callable[[list[Pair]], dict[str, Links]]:
    """A model of one direction in both."""

    def two_ways(pairs: list[Pair]) -> dict[str, Links]:
        turned = one_way([(target, source) for source, target in pairs])
        return {"forward": one_way(pairs), "backward": [{(i, j) for j, i in links} for links in turned]}

    return two_ways


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
    number = len(pairs) if options.test_first is None else options.test_first
    if not 0 < number <= len(pairs):
        raise UserError(f"--test-first {number} is not possible; {options.source} has {len(pairs)} pairs.")
    if len(options.more_source) != len(options.more_target):
        raise UserError(
            f"{len(options.more_source)} files after --more-source, {len(options.more_target)} after --more-target."
        )
    for files in zip(options.more_source, options.more_target, strict=True):
        pairs += [(words(source), words(target)) for source, target in read_pairs(*files)]
    return pairs, number


def words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("’", "'"))


def check(options: argparse.Namespace) -> None:
    """Refuse options that would change nothing."""
    if options.rule and options.aligner == "fast_align":
        raise UserError("--with fast_align joins the directions by a rule of its own; --rule says nothing.")
    if options.rule and options.gold and not options.output:
        raise UserError("--gold scores every rule; --rule says which links are written, and needs --output FILE.")
    if options.base and not options.gold:
        raise UserError("--base needs --gold FILE; links are written from 0.")


def align(pairs: list[Pair], number: int, aligner: str) -> dict[str, Links]:
    """The links of the first `number` pairs, by rule."""
    try:
        found = ALIGNERS[aligner](pairs)
    except ImportError as error:
        raise UserError(f"--with {aligner} is not installed: {error}.") from None
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
    parser.add_argument("--rule", choices=RULES, help="which links are written (default: grow-diag-final-and)")
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--base", type=int, choices=(0, 1), default=0, help="what the gold calls the first word")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    try:
        check(options)
        pairs, number = read(options)
        gold = known(options.gold, options.base, pairs[:number]) if options.gold else None
        found = align(pairs, number, options.aligner)
        if gold:
            table(found, gold)
        if options.output or not gold:
            rule = "symmetrised" if "symmetrised" in found else options.rule or "grow-diag-final-and"
            write(found[rule], options.output)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def write(found: Links, output: Path | None) -> None:
    """Pharaoh lines to a file or to stdout."""
    text = "".join(format_links(links) + "\n" for links in found)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--output {output} cannot be written: {error.strerror or error}.") from None


def known(gold: Path, base: int, pairs: list[Pair]) -> list[tuple[set[Link], set[Link]]]:
    """The sure and the possible links of the pairs; raises UserError for other links or another number of lines."""
    lines = list(read_lines(gold))
    if len(lines) != len(pairs):
        raise UserError(f"{gold} has {len(lines)} lines, but there are {len(pairs)} pairs to align; see --test-first.")
    links = [parse_links(line, base, f"{gold}:{number}") for number, line in enumerate(lines, 1)]
    for number, (pair, (_, possible)) in enumerate(zip(pairs, links, strict=True), 1):
        for side, name in enumerate(("source", "target")):
            highest = max((link[side] for link in possible), default=-1)
            if highest >= len(pair[side]):
                raise UserError(
                    f"{gold}:{number}: a link names {name} word {highest + base}, but the {name} has "
                    f"{len(pair[side])} words, counted from {base}; see --base."
                )
    return links


def table(found: dict[str, Links], gold: list[tuple[set[Link], set[Link]]]) -> None:
    """AER, precision and recall of every rule, tab-separated."""
    print("rule", "AER", "precision", "recall", sep="\t")
    for name, links in found.items():
        counts = AlignmentCounts()
        for some, known_links in zip(links, gold, strict=True):
            counts = counts.add(some, *known_links)
        print(name, *(f"{share:.4f}" for share in counts.score()), sep="\t")


if __name__ == "__main__":
    main()
