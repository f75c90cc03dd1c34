"""The heatmaps of nmt align: one file a pair, or one HTML page of all pairs."""

import logging
from pathlib import Path
from typing import Any

import nmt
from nmt.alignments import Extractor, absolute_layers, describe_layers
from nmt.decode.forced_decoding import AttentionRecord
from nmt.errors import UserError
from nmt.evaluate.alignment import Link
from nmt.evaluate.words import WordPair
from nmt.files import write_atomic
from nmt.runs import Run
from nmt.view.alignment_page import PagePair, alignment_page
from nmt.view.heatmap import grid, heatmap, png

log = logging.getLogger("nmt")
GoldLinks = tuple[set[Link], set[Link]]  # sure, possible


def numbered(path: Path, number: int | None) -> Path:
    """FILE-1.png for FILE.png, or the same path for None."""
    if number is None or not path.name:
        return path
    return path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")


def write_heatmap(
    path: Path,
    record: AttentionRecord,
    words: WordPair,
    extractor: Extractor,
    links: GoldLinks | None,
    every_head: bool,
) -> None:
    """Write the heatmap of one pair, or with `every_head` of each head of a layer."""
    if not words.target:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    source, spans = words.columns, extractor.window_spans(record, words)
    if every_head:
        heads = range(record.num_heads)
        matrices = [extractor._replace(head=head).word_weights(record, words) for head in heads]
        names = [f"head {head}" for head in heads]
        figure = grid(matrices, source, words.target, names, gold=links, window_spans=spans)
    else:
        weights = extractor.word_weights(record, words)
        figure = heatmap(weights, source, words.target, gold=links, window_spans=spans)
    write(path, png(figure), "--png")


def page_pair(
    record: AttentionRecord, words: WordPair, extractor: Extractor, links: GoldLinks | None, every_head: bool
) -> PagePair:
    """One pair of the page, with the weights of every layer."""
    extractors = page_extractors(record, extractor, every_head)
    matrices = {name: each.word_weights(record, words) for name, each in extractors.items()}
    return PagePair(words.columns, words.target, matrices, links, extractor.window_spans(record, words))


def page_extractors(record: AttentionRecord, extractor: Extractor, every_head: bool) -> dict[str, Extractor]:
    """By name on the page: `extractor` first, then the other layers, the rollout, and with `every_head` each head."""
    num_layers, num_heads, step = record.num_layers, record.num_heads, extractor.decoder_step
    extractors = [extractor._replace(layer=absolute_layers(extractor.layer, num_layers))]
    if extractor.head is None:
        extractors += [Extractor(layer, None, step) for layer in range(num_layers)]
        extractors += [Extractor(decoder_step=step, method="rollout")] * (record.rollout is not None)
    if every_head:
        extractors += [Extractor(layer, head, step) for layer in range(num_layers) for head in range(num_heads)]
    return {describe_extractor(each, num_heads): each for each in extractors}


def describe_extractor(extractor: Extractor, num_heads: int) -> str:
    """Its name on the page: `layer 1, head 0`, `layer 1, mean of 4 heads` or `rollout through all layers`."""
    if extractor.method != "mean":
        return "rollout through all layers"
    layers = describe_layers(extractor.labels()[0])
    if extractor.head is not None:
        return f"{layers}, head {extractor.head}"
    return f"{layers}, mean of {num_heads} heads" if num_heads > 1 else layers


def write_page(path: Path, name: str, pairs: list[PagePair], run: Run, extractor: Extractor) -> None:
    """Write the HTML page of --html under the title `name`, with the provenance of the weights."""
    if not pairs:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    models: list[dict[str, Any]] = run.provenance["models"]
    provenance = {
        "run": name,
        "checkpoint": ", ".join(f"{each['checkpoint']} ({each['origin']}, seed {each['seed']})" for each in models),
        "corpus": ", ".join(dict.fromkeys(each["corpus_hash"][:12] for each in models)),
        "weights": f"decoder step {extractor.decoder_step}, forced decoding of the target in float32",
        "made with": f"nmt {nmt.__version__}",
    }
    write(path, alignment_page(name, pairs, provenance).encode(), "--html")


def write(path: Path, content: bytes, option: str) -> None:
    """Write the file of an option; raises UserError where it cannot be written."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror or error}.") from None
    log.info("%s", path)
