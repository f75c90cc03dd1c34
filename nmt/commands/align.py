"""nmt align: links, heatmaps, JSON or tables of a model's attention weights between words."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from nmt.alignments import (
    Extractor,
    GoldAlignments,
    encode_pairs,
    extract_links,
    read_gold_alignments,
    record_words,
    translate_to_pairs,
)
from nmt.commands import check_sentence, heatmaps, open_run
from nmt.commands.alignment_error_rates import print_error_rates, table_extractors
from nmt.commands.attention_options import check_extractor, check_method, make_extractor
from nmt.commands.json_output import attention_entry
from nmt.data.lines import read_lines, read_pairs
from nmt.decode.forced_decoding import AttentionRecord, IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import format_links
from nmt.evaluate.words import WordPair
from nmt.runs import Run
from nmt.view.alignment_page import PagePair

MIN_WEIGHT = 0.05  # of a source word in the table


def align(options: argparse.Namespace) -> int:
    """Print or draw the attention weights of pairs under forced decoding, or their alignment error rate."""
    check_pairs(options)
    check_options(options)
    run = open_run(options)
    model = run.translator.model
    check_extractor(options, model)
    gold = read_gold(options) if options.gold else None
    if gold is not None and not (options.png or options.html):
        extractors = table_extractors(model, options.layer, options.head, options.heads, options.method)
        print_error_rates(run.translator, gold, extractors, options.threshold, options.links, options.reverse)
    else:
        write_records(options, run, gold)
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
    check_method(options)
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


def write_records(options: argparse.Namespace, run: Run, gold: GoldAlignments | None) -> None:
    """Print each pair, or draw it with --png and --html."""
    extractor = make_extractor(options, run.config)
    page_pairs: list[PagePair] = []
    records = run.translator.force_decode_all(id_pairs(options, run.translator))
    for number, record in enumerate(records, 1):
        words = record_words(record, options.tokenized)
        if gold is not None:
            gold.check(number - 1, words)
        links = gold.links[number - 1] if gold else None
        if options.png:
            path = heatmaps.numbered(Path(options.png), number if options.source else None)
            heatmaps.write_heatmap(path, record, words, extractor, links, options.heads)
        if options.html and words.target:
            page_pairs.append(heatmaps.page_pair(record, words, extractor, links, options.heads))
        if options.format == "jsonl":
            entry = attention_entry(record, words, extractor, options.threshold, weights=True)
            print(json.dumps({"line": number} | entry, ensure_ascii=False))
        elif options.pharaoh:
            weights = extractor.word_weights(record, words)
            print(format_links(extract_links(weights, options.threshold), options.base))
        elif not (options.png or options.html):
            print(table(record, words, extractor) + ("\n" if options.source else ""))
    if options.html:
        heatmaps.write_page(Path(options.html), options.name, page_pairs, run, extractor)


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


def table(record: AttentionRecord, words: WordPair, extractor: Extractor) -> str:
    """One line for each target word: the word, then the source words with at least MIN_WEIGHT of its attention."""
    lines = []
    for weights, word in zip(extractor.word_weights(record, words), words.target, strict=True):
        ranked = sorted(zip(weights.tolist(), words.columns, strict=True), reverse=True)
        lines.append("\t".join([word, *(f"{name} {weight:.2f}" for weight, name in ranked if weight >= MIN_WEIGHT)]))
    return "\n".join(lines)
