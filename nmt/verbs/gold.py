"""nmt align --gold: the alignment error rate of a model's attention under forced decoding."""

import argparse
from pathlib import Path
from typing import NamedTuple

from nmt.data.lines import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.alignment import Link, aer, argmax_links, parse_links
from nmt.evaluate.words import merge
from nmt.runs import Run
from nmt.verbs import check_choice, look_at

ROWS = ("predicts", "reads")


class Choice(NamedTuple):
    """Which of a model's weights are read off: a layer, and the row of the step that predicts a word or reads it."""

    layer: int
    row: str


def score(options: argparse.Namespace, run: Run) -> int:
    """Print AER, precision and recall of each layer (or of --layer) and row, tab-separated; raises UserError."""
    sure: list[set[Link]] = []
    possible: list[set[Link]] = []
    found: dict[Choice, list[set[Link]]] = {}
    gold = Path(options.gold)
    pairs = list(read_pairs(Path(options.source), Path(options.target)))
    lines = list(read_lines(gold))
    if len(lines) != len(pairs):
        raise UserError(f"{gold} has {len(lines)} lines, but there are {len(pairs)} sentence pairs.")
    for number, ((source, target), line) in enumerate(zip(pairs, lines, strict=True), 1):
        for wanted, links in zip((sure, possible), parse_links(line, options.base, f"{gold}:{number}"), strict=True):
            wanted.append(links)
        for choice, drawn in drawn_links(options, run, source, target, number).items():
            found.setdefault(choice, []).append(drawn)
    print("layer\trow\tAER\tprecision\trecall")
    for choice, links_found in sorted(found.items()):
        result = aer(links_found, sure, possible)
        print(f"{choice.layer}\t{choice.row}\t{result.aer:.4f}\t{result.precision:.4f}\t{result.recall:.4f}")
    return 0


def drawn_links(
    options: argparse.Namespace, run: Run, source: str, target: str, number: int
) -> dict[Choice, set[Link]]:
    """One link for each target word, to the source word with the largest weight, for each layer and row.

    A decoder step reads the word before the one that it predicts (Luong et al. 2015, footnote 14): the step in whose
    row a word is predicted stands one above the step that reads it.
    """
    look = look_at(run.translator, source, target, number)
    assert look.weights is not None
    check_choice(look, options.layer or 0, options)
    layers = range(len(look.weights)) if options.layer is None else [options.layer % len(look.weights)]
    links = {}
    for layer in layers:
        weights = look.chosen(layer, options.head)
        for row in ROWS:
            chosen = weights if row == "predicts" else weights[1:]
            matrix, *_ = merge(chosen, look.source_pieces, look.target_pieces)
            links[Choice(layer, row)] = argmax_links(matrix)
    return links
