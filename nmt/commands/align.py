"""nmt align: links, heatmaps, JSON or tables of a model's attention weights between words."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from nmt.commands import check_sentence, heatmaps, open_run
from nmt.commands.alignment_error_rates import print_error_rates, table_extractors
from nmt.data.links import format_links
from nmt.data.packed import PackedFile
from nmt.data.parallel_text import read_lines, read_pairs
from nmt.decode.forced_decoding import IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, encode_pairs, translate_to_pairs
from nmt.evaluate.gold import GoldAlignments, read_gold_alignments
from nmt.runs.run import Run
from nmt.view.alignment_page import PagePair
from nmt.view.progress import Progress


def run(options: argparse.Namespace) -> int:
    """Print or draw the attention weights of pairs under forced decoding, or their alignment error rate."""
    check_pairs(options)
    check_options(options)
    run = open_run(options)
    extractor = run.make_extractor(options.layer, options.head, options.decoder_step, options.method)
    model = run.translator.model
    gold = read_gold(options) if options.gold else None
    if gold is not None and not (options.png or options.html):
        extractors = table_extractors(model, options.layer, options.head, options.heads, options.method)
        if extractor.head is not None and extractor not in extractors:
            extractors.insert(0, extractor)
        print_error_rates(run.translator, gold, extractors, options.threshold, options.links, options.reverse)
    else:
        write_alignments(options, run, extractor, gold)
    return 0


def check_pairs(options: argparse.Namespace) -> None:
    """Raise UserError unless the options say which pairs to align."""
    if (options.sentence is None) == (options.source is None):
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    if options.target and not options.source:
        raise UserError("--target FILE belongs to --source FILE; give a TARGET sentence after SOURCE instead.")
    if options.gold and (not options.target or options.pharaoh):
        raise UserError("--gold FILE belongs to --source FILE and --target FILE, without --pharaoh.")
    if options.format == "jsonl" and (options.pharaoh or options.gold):
        raise UserError("--format jsonl writes words, weights and links; it cannot go with --pharaoh or --gold FILE.")


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that would change nothing."""
    if options.heads and not (options.png or options.html or options.gold):
        raise UserError("--heads shows every head; it needs --png FILE, --html FILE or --gold FILE.")
    if options.heads and options.head is not None:
        raise UserError("--heads shows every head; it cannot go with --head.")
    if options.heads and options.method == "rollout":
        raise UserError("--heads shows every head; it cannot go with --method rollout.")
    prints_links = options.pharaoh or options.format == "jsonl"
    if options.threshold is not None and not (options.gold or prints_links):
        raise UserError("--threshold X decides what is a link; it needs --pharaoh or --gold FILE, or --format jsonl.")
    if (options.reverse or options.links) and not options.gold:
        raise UserError(f"--{'reverse' if options.reverse else 'links'} needs --gold FILE.")
    if options.links and (options.png or options.html):
        raise UserError("--links belongs to the table of --gold FILE; it cannot go with --png or --html.")
    if options.threshold is not None and (options.png or options.html) and not prints_links:
        raise UserError("--threshold X decides what is a link; a heatmap shows weights.")
    if options.base and not (options.gold or options.pharaoh):
        raise UserError("--base counts the words of links; it needs --pharaoh or --gold FILE.")


def read_gold(options: argparse.Namespace) -> GoldAlignments:
    """The links of --gold for the pairs of --source and --target."""
    pairs = list(read_pairs(Path(options.source), Path(options.target)))
    return read_gold_alignments(Path(options.gold), pairs, options.base, options.reverse, options.tokenized)


def write_alignments(options: argparse.Namespace, run: Run, extractor: Extractor, gold: GoldAlignments | None) -> None:
    """Print each pair, or draw it with --png and --html."""
    page_pairs: list[PagePair] = []
    alignments = run.align_all(id_pairs(options, run.translator), extractor, options.tokenized)
    for number, alignment in enumerate(shown(alignments, options), 1):
        if gold is not None:
            gold.check(number - 1, alignment.word_pair)
        links = gold.links[number - 1] if gold else None
        if options.png:
            path = heatmaps.numbered(Path(options.png), number if options.source else None)
            heatmaps.write_heatmap(path, alignment, options.heads, links)
        if options.html and alignment.word_pair.target:
            page_pairs.append(alignment.page_pair(options.heads, links))
        if options.format == "jsonl":
            entry = alignment.to_dict(options.threshold, weights=True)
            print(json.dumps({"line": number} | entry, ensure_ascii=False))
        elif options.pharaoh:
            print(format_links(alignment.extract_links(options.threshold), options.base))
        elif not (options.png or options.html):
            print(f"{alignment}\n" if options.source else alignment)
    if options.html:
        heatmaps.write_page(Path(options.html), options.name, page_pairs, run, extractor)


def shown(alignments: Iterator[Alignment], options: argparse.Namespace) -> Iterator[Alignment]:
    """The alignments, with a bar for those of a file, unless they are printed on the terminal."""
    if not options.source or (sys.stdout.isatty() and not (options.png or options.html)):
        yield from alignments
        return
    with Progress(PackedFile(Path(options.source)).count_lines(), "pair", f"aligning {options.source}") as bar:
        for alignment in alignments:
            yield alignment
            bar.update(1)


def id_pairs(options: argparse.Namespace, translator: Translator) -> Iterator[IdPair]:
    """The pairs to align; a source without a target is translated."""
    if options.target:
        return encode_pairs(translator, read_pairs(Path(options.source), Path(options.target)))
    if options.source:
        return translate_to_pairs(translator, read_lines(Path(options.source)))
    source = check_sentence(options.sentence, "--source")
    if options.translation is None:
        return translate_to_pairs(translator, [source])
    return encode_pairs(translator, [(source, check_sentence(options.translation, "--target"))])
