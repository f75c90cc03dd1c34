"""nmt align: links, heatmaps, JSON or tables of a model's attention weights between words."""

import argparse
import itertools
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nmt
from nmt.commands import check_given, check_sentence, open_run, say_if_unfit
from nmt.commands.evaluate import read_gold
from nmt.commands.output import check_can_be_written, report_output_errors, warn_of_replacing
from nmt.corpus.files import write_atomic
from nmt.corpus.links import Link, format_links
from nmt.corpus.packed import PackedFile
from nmt.corpus.parallel_text import read_lines, read_pairs
from nmt.decode.forced_decoding import IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments, alignment_error_rates
from nmt.evaluate.alignment import Alignment, GoldLinks
from nmt.evaluate.extraction import (
    DECODER_STEPS,
    Extractor,
    absolute_layers,
    encode_pairs,
    layer_candidates,
    translate_to_pairs,
)
from nmt.runs.run import Run
from nmt.view.alignment_page import PagePair, alignment_page
from nmt.view.heatmap import png
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
NEEDS = {
    "--target": "--source",
    "--gold": "--target",
    "--heads": "--png --html --gold",
    "--threshold": "--pharaoh --gold --format=jsonl",
    "--reverse": "--gold",
    "--links": "--gold",
    "--base": "--pharaoh --gold",
}
NOT_WITH = {
    "SOURCE": "--source",
    "--pharaoh": "--gold --format=jsonl",
    "--gold": "--format=jsonl",
    "--heads": "--head --method=rollout",
    "--links": "--png --html",
}


def run(options: argparse.Namespace) -> int:
    """Print or draw the attention weights of pairs, or print their alignment error rate."""
    check_given(options, NEEDS, NOT_WITH)
    if options.sentence is None and options.source is None:
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    for option, path in (("--png", options.png), ("--html", options.html)):
        if path:
            check_can_be_written(path, option)
    run = open_run(options)
    if not options.target:
        say_if_unfit(run)  # it writes the target itself
    extractor = run.make_extractor(
        options.layer, options.head, options.decoder_step, options.method
    )
    gold = None
    if options.gold:
        gold = read_gold(options, Path(options.source), Path(options.target))
    if gold is None or options.png or options.html:
        write_alignments(options, run, extractor, gold)
    else:
        print_error_rates(options, run.translator, extractor, gold)
    return 0


def print_error_rates(
    options: argparse.Namespace, translator: Translator, extractor: Extractor, gold: GoldAlignments
) -> None:
    """Print AER, precision and recall by layer, head and decoder step, tab-separated.

    The lines are --layer, or every layer and means of the upper ones, each with both decoder steps,
    and of each the mean of the heads, or --head, or with --heads the mean and each head. With
    --links, after an empty line, the links of the best line follow as the gold file would write
    them.
    """
    model = translator.model
    layers = layer_candidates(model.num_layers)
    if options.layer is not None:
        layers = [absolute_layers(options.layer, model.num_layers)]
    heads = [None, *range(model.num_heads)] if options.heads else [options.head]
    if options.method == "rollout":
        extractors = [Extractor(decoder_step=step, method="rollout") for step in DECODER_STEPS]
    else:
        extractors = [
            Extractor(*choice) for choice in itertools.product(layers, heads, DECODER_STEPS)
        ]
    extractor = extractor.absolute(model.num_layers)
    if extractor.head is not None and extractor not in extractors:
        extractors.insert(0, extractor)
    lines: dict[Extractor, list[str]] = {}

    def keep(extractor: Extractor, links: set[Link]) -> None:
        lines.setdefault(extractor, []).append(format_links(links, gold.base, options.reverse))

    scores = alignment_error_rates(
        translator, gold, extractors, options.threshold, keep if options.links else None
    )
    print("layer\thead\tstep\tAER\tprecision\trecall")
    for extractor, score in scores.items():
        print("\t".join([*extractor.labels(), *(f"{value:.4f}" for value in score)]))
    if options.links:
        best = min(scores, key=lambda extractor: scores[extractor].aer)
        print("", *lines[best], sep="\n")


def write_alignments(
    options: argparse.Namespace, run: Run, extractor: Extractor, gold: GoldAlignments | None
) -> None:
    """Print each pair, or draw it with --png and --html."""
    page_pairs: list[PagePair] = []
    draws = options.png or options.html
    alignments = run.align_all(id_pairs(options, run.translator), extractor, options.tokenized)
    with ExitStack() as stack:
        bar = None
        if options.source and (draws or not sys.stdout.isatty()):
            count = PackedFile(Path(options.source)).count_lines()
            bar = stack.enter_context(Progress(count, "pair", f"aligning {options.source}"))
        for number, alignment in enumerate(alignments, 1):
            links = None
            if gold is not None:
                gold.check(number - 1, alignment.word_pair)
                links = gold.links[number - 1]
            if options.png:
                draw(options, run.name, number, alignment, links)
            if options.html and alignment.word_pair.target:
                page_pairs.append(alignment.page_pair(options.heads, links))
            if options.format == "jsonl":
                entry = alignment.to_dict(options.threshold, weights=True)
                print(json.dumps({"line": number} | entry, ensure_ascii=False))
            elif options.pharaoh:
                print(format_links(alignment.extract_links(options.threshold), options.base))
            elif not draws:
                print(f"{alignment}\n" if options.source else alignment)
            if bar:
                bar.update(1)
    if options.html and page_pairs:
        write_page(Path(options.html), run, extractor, page_pairs)
    elif options.html:
        log.warning("%s is not written: there is no word to draw.", options.html)


def write_page(path: Path, run: Run, extractor: Extractor, pairs: list[PagePair]) -> None:
    """Write the page of all pairs, with what it was made from."""
    checkpoints = []
    corpora = []
    for model in run.provenance["models"]:
        checkpoints.append(f"{model['checkpoint']} ({model['origin']}, seed {model['seed']})")
        corpora.append(model["corpus_hash"][:12])
    provenance = {
        "run": run.name,
        "checkpoint": ", ".join(checkpoints),
        "corpus": ", ".join(dict.fromkeys(corpora)),
        "weights": f"decoder step {extractor.decoder_step}, forced decoding of the target in "
        "float32",
        "made with": f"nmt {nmt.__version__}",
    }
    page = alignment_page(run.name, pairs, provenance)
    write(path, page.encode(), "--html")


def draw(
    options: argparse.Namespace,
    name: str,
    number: int,
    alignment: Alignment,
    links: GoldLinks | None,
) -> None:
    """Write the heatmap of one pair; of several each has its number in its name."""
    path = Path(options.png)
    if options.source and path.name:
        path = path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")
    if alignment.word_pair.target:
        write(path, png(alignment.figure(options.heads, links, name)), "--png")
    else:
        log.warning("%s is not written: there is no word to draw.", path)


def write(path: Path, content: bytes, option: str) -> None:
    warn_of_replacing(path)
    with report_output_errors(path, option):
        write_atomic(path, content)
    log.info("%s", path)


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
