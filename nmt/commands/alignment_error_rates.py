"""nmt align --gold: the alignment error rate of a model's attention under forced decoding."""

import argparse
from pathlib import Path

from nmt.alignments import ROWS, Extractor, Gold, every_layer, from_below, rates, read_gold, shape
from nmt.data.lines import read_pairs
from nmt.evaluate.alignment import Link, format_links
from nmt.runs import Run


def score(options: argparse.Namespace, run: Run) -> int:
    """Print AER, precision and recall of each layer, head and row that was asked for, tab-separated.

    With --links, after an empty line, the links of the best of them follow as the gold file would write them.
    """
    gold = known(options)
    lines: dict[Extractor, list[str]] = {}

    def keep(reading: Extractor, links: set[Link]) -> None:
        lines.setdefault(reading, []).append(format_links(links, options.base, options.reverse))

    wanted = readings(options, run)
    found = rates(run.translator, gold, wanted, options.threshold, keep if options.links else None)
    print("layer\thead\trow\tAER\tprecision\trecall")
    for reading, rate in found.items():
        print("\t".join([*reading.name(), *(f"{value:.4f}" for value in rate)]))
    if options.links:
        best = min(found, key=lambda reading: found[reading].aer)
        print("", *lines[best], sep="\n")
    return 0


def known(options: argparse.Namespace) -> Gold:
    """The links of --gold for the pairs of --source and --target."""
    pairs = list(read_pairs(Path(options.source), Path(options.target)))
    return read_gold(Path(options.gold), pairs, options.base, options.reverse, options.tokenised)


def readings(options: argparse.Namespace, run: Run) -> list[Extractor]:
    """Every layer and means of the upper ones, or --layer; mean of heads, --head, or with --heads each; both rows."""
    if options.method == "rollout":
        return [Extractor(row=row, method="rollout") for row in ROWS]
    layers, heads, _ = shape(run.translator)
    chosen = every_layer(layers) if options.layer is None else [from_below(options.layer, layers)]
    columns = [None, *range(heads)] if options.heads else [options.head]
    return [Extractor(layer, head, row) for layer in chosen for head in columns for row in ROWS]
