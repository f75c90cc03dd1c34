"""nmt align: where the model looked."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.alignments import Reading, encoded, in_words, links_in, shape, translated, words_of
from nmt.data.lines import read_lines, read_pairs
from nmt.decode.look import IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import format_links
from nmt.verbs import gold, one_line, open_run, pictures
from nmt.view.page import PagePair


def align(options: argparse.Namespace) -> int:
    """Where the model looked: links, pictures, or a table in words."""
    check_words(options)
    check_options(options)
    run = open_run(options)
    if not run.translator.model.attends:
        raise UserError(f"The model of {options.name} has no attention to look at.")
    check_reading(options, run.translator)
    draws = options.png or options.html
    if options.gold and not draws:
        return gold.score(options, run)
    known = gold.known(options) if options.gold else None
    layer = run.config.train.picture_layer if options.layer is None else options.layer
    reading = Reading(layer, options.head, options.row, options.method)
    several = options.source is not None
    pages: list[PagePair] = []
    for number, look in enumerate(run.translator.looks(aligned(options, run.translator)), 1):
        if known:
            known.check(number - 1, words_of(look, options.tokenised))
        links = known.links[number - 1] if known else None
        matrix, source_words, target_words = in_words(look, reading, options.tokenised)
        if options.png:
            pictures.draw(look, reading, options, links, number if several else None)
        if options.html and (shown := pictures.paged(look, reading, options, links)):
            pages.append(shown)
        if options.pharaoh:
            print(format_links(links_in(matrix, options.threshold), options.base))
        elif not draws:
            print(table(matrix, source_words, target_words) + ("\n" if several else ""))
    if options.html:
        pictures.write_page(pages, options, run)
    return 0


def check_words(options: argparse.Namespace) -> None:
    """Refuse what does not say which pairs to look at."""
    if (options.sentence is None) == (options.source is None):
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    if options.target and not options.source:
        raise UserError("--target FILE belongs to --source FILE; give a TARGET sentence after SOURCE instead.")
    if options.gold and (not options.target or options.pharaoh):
        raise UserError("--gold FILE belongs to --source FILE and --target FILE, without --pharaoh.")


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that would change nothing."""
    if options.heads and not (options.png or options.html or options.gold):
        raise UserError("--heads shows every head; it needs --png FILE, --html FILE or --gold FILE.")
    if options.heads and options.head is not None:
        raise UserError("--heads shows every head; it cannot go with --head.")
    if options.method == "rollout" and (options.heads or options.layer is not None or options.head is not None):
        raise UserError("--method rollout goes through all layers and heads; --layer, --head or --heads say nothing.")
    if options.threshold is not None and not (options.gold or options.pharaoh):
        raise UserError("--threshold X decides what is a link; it needs --pharaoh or --gold FILE.")
    if (options.reverse or options.links) and not options.gold:
        raise UserError(f"--{'reverse' if options.reverse else 'links'} needs --gold FILE.")
    if options.links and (options.png or options.html):
        raise UserError("--links belongs to the table of --gold FILE; it cannot go with --png or --html.")
    if options.threshold is not None and (options.png or options.html) and not options.pharaoh:
        raise UserError("--threshold X decides what is a link; a picture shows weights.")
    if options.base and not (options.gold or options.pharaoh):
        raise UserError("--base counts the words of links; it needs --pharaoh or --gold FILE.")


def check_reading(options: argparse.Namespace, translator: Translator) -> None:
    """Refuse a layer, head or rollout that is not there."""
    layers, heads, rolls = shape(translator)
    chosen = (options.layer,) if isinstance(options.layer, int) else options.layer or ()
    if wrong := [layer for layer in chosen if not -layers <= layer < layers]:
        raise UserError(f"--layer {wrong[0]} is not there; the model has layers 0 to {layers - 1}.")
    if options.head is not None and not 0 <= options.head < heads:
        raise UserError(f"--head {options.head} is not there; the model has heads 0 to {heads - 1}.")
    if options.method == "rollout" and not rolls:
        raise UserError(
            f"--method rollout needs the weights of self-attention, which the model of {options.name} does not have."
        )


def aligned(options: argparse.Namespace, translator: Translator) -> Iterator[IdPair]:
    """The pairs to look at; a source without a target is translated."""
    if options.target:
        return encoded(translator, read_pairs(Path(options.source), Path(options.target)))
    if options.source:
        return translated(translator, read_lines(Path(options.source)))
    if options.translation is not None:
        return encoded(translator, [(one_line(options.sentence), one_line(options.translation))])
    return translated(translator, [one_line(options.sentence)])


def table(matrix: np.ndarray, source: list[str], target: list[str]) -> str:
    """One line for each target word: the word, then the source words that had at least 5 % of its attention."""
    lines = []
    for row, word in zip(matrix, target, strict=True):
        seen = sorted(
            ((weight, name) for weight, name in zip(row, source, strict=True) if weight >= 0.05), reverse=True
        )
        lines.append("\t".join([word, *(f"{name} {weight:.2f}" for weight, name in seen)]))
    return "\n".join(lines)
