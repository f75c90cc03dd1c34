"""nmt align: where the model looked."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.alignments import Extractor, encoded, in_words, links_in, translated, words_of
from nmt.commands import alignment_error_rates, heatmaps, one_line, open_run
from nmt.commands.attention_options import check_method, check_reading, chosen
from nmt.commands.json_output import looked
from nmt.data.lines import read_lines, read_pairs
from nmt.decode.attention_record import AttentionRecord, IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import format_links
from nmt.view.alignment_page import PagePair


def align(options: argparse.Namespace) -> int:
    """Where the model looked: links, pictures, JSON, or a table in words."""
    check_words(options)
    check_options(options)
    run = open_run(options)
    check_reading(options, run.translator)
    draws = options.png or options.html
    if options.gold and not draws:
        return alignment_error_rates.score(options, run)
    known = alignment_error_rates.known(options) if options.gold else None
    reading = chosen(options, run)
    several = options.source is not None
    pages: list[PagePair] = []
    for number, look in enumerate(run.translator.looks(aligned(options, run.translator)), 1):
        if known:
            known.check(number - 1, words_of(look, options.tokenised))
        links = known.links[number - 1] if known else None
        if options.png:
            heatmaps.draw(look, reading, options, links, number if several else None)
        if options.html and (shown := heatmaps.paged(look, reading, options, links)):
            pages.append(shown)
        if options.pharaoh or options.format == "jsonl" or not draws:
            print(written(look, reading, options, number))
    if options.html:
        heatmaps.write_page(pages, options, run)
    return 0


def check_words(options: argparse.Namespace) -> None:
    """Refuse what does not say which pairs to look at."""
    if (options.sentence is None) == (options.source is None):
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    if options.target and not options.source:
        raise UserError("--target FILE belongs to --source FILE; give a TARGET sentence after SOURCE instead.")
    if options.gold and (not options.target or options.pharaoh):
        raise UserError("--gold FILE belongs to --source FILE and --target FILE, without --pharaoh.")
    if options.format == "jsonl" and (options.pharaoh or options.gold):
        raise UserError("--format jsonl writes words, weights and links; it cannot go with --pharaoh or --gold FILE.")


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that would change nothing."""
    if options.heads and not (options.png or options.html or options.gold):
        raise UserError("--heads shows every head; it needs --png FILE, --html FILE or --gold FILE.")
    if options.heads and options.head is not None:
        raise UserError("--heads shows every head; it cannot go with --head.")
    check_method(options)
    linked = options.pharaoh or options.format == "jsonl"
    if options.threshold is not None and not (options.gold or linked):
        raise UserError("--threshold X decides what is a link; it needs --pharaoh or --gold FILE, or --format jsonl.")
    if (options.reverse or options.links) and not options.gold:
        raise UserError(f"--{'reverse' if options.reverse else 'links'} needs --gold FILE.")
    if options.links and (options.png or options.html):
        raise UserError("--links belongs to the table of --gold FILE; it cannot go with --png or --html.")
    if options.threshold is not None and (options.png or options.html) and not linked:
        raise UserError("--threshold X decides what is a link; a picture shows weights.")
    if options.base and not (options.gold or options.pharaoh):
        raise UserError("--base counts the words of links; it needs --pharaoh or --gold FILE.")


def aligned(options: argparse.Namespace, translator: Translator) -> Iterator[IdPair]:
    """The pairs to look at; a source without a target is translated."""
    if options.target:
        return encoded(translator, read_pairs(Path(options.source), Path(options.target)))
    if options.source:
        return translated(translator, read_lines(Path(options.source)))
    if options.translation is not None:
        return encoded(
            translator, [(one_line(options.sentence, "--source"), one_line(options.translation, "--target"))]
        )
    return translated(translator, [one_line(options.sentence, "--source")])


def written(look: AttentionRecord, reading: Extractor, options: argparse.Namespace, number: int) -> str:
    """What stdout has of a pair: its links, a record, or a table."""
    if options.format == "jsonl":
        record = looked(look, reading, options.tokenised, options.threshold, weights=True)
        return json.dumps({"line": number} | record, ensure_ascii=False)
    matrix, source, target = in_words(look, reading, options.tokenised)
    if options.pharaoh:
        return format_links(links_in(matrix, options.threshold), options.base)
    return table(matrix, source, target) + ("\n" if options.source is not None else "")


def table(matrix: np.ndarray, source: list[str], target: list[str]) -> str:
    """One line for each target word: the word, then the source words that had at least 5 % of its attention."""
    lines = []
    for row, word in zip(matrix, target, strict=True):
        seen = sorted(
            ((weight, name) for weight, name in zip(row, source, strict=True) if weight >= 0.05), reverse=True
        )
        lines.append("\t".join([word, *(f"{name} {weight:.2f}" for weight, name in seen)]))
    return "\n".join(lines)
