"""What nmt align draws: heatmaps, one file a pair, or one page of all pairs."""

import argparse
import logging
from pathlib import Path
from typing import Any

import nmt
from nmt.alignments import Extractor, focus_of, from_below, in_words, say_layer
from nmt.decode.attention_record import AttentionRecord
from nmt.errors import UserError
from nmt.evaluate.alignment import Link
from nmt.files import write_atomic
from nmt.runs import Run
from nmt.view.alignment_page import PagePair, alignment_page
from nmt.view.heatmap import grid, heatmap, png

log = logging.getLogger("nmt")
Links = tuple[set[Link], set[Link]]


def draw(
    look: AttentionRecord, reading: Extractor, options: argparse.Namespace, links: Links | None, number: int | None
) -> None:
    """Write the heatmap of one pair, or of every head of a layer."""
    path = Path(options.png)
    if number is not None and path.name:
        path = path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")
    matrix, source, target = in_words(look, reading, options.tokenised)
    if not target:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    focus = focus_of(look, reading, options.tokenised)
    if options.heads:
        heads = [reading._replace(head=head) for head in range(look.heads)]
        matrices = [in_words(look, one, options.tokenised)[0] for one in heads]
        names = [f"head {head}" for head in range(len(matrices))]
        figure = grid(matrices, source, target, names, gold=links, window_spans=focus)
    else:
        figure = heatmap(matrix, source, target, gold=links, window_spans=focus)
    write(path, png(figure), "--png")


def paged(
    look: AttentionRecord, reading: Extractor, options: argparse.Namespace, links: Links | None
) -> PagePair | None:
    """One pair of the page, to be looked at layer by layer; None without a word."""
    _, source, target = in_words(look, reading, options.tokenised)
    if not target:
        return None
    chosen = readings(look, reading, options)
    matrices = {name: in_words(look, one, options.tokenised)[0] for name, one in chosen.items()}
    return PagePair(source, target, matrices, links, focus_of(look, reading, options.tokenised))


def readings(look: AttentionRecord, reading: Extractor, options: argparse.Namespace) -> dict[str, Extractor]:
    """What was asked for comes first, the other layers, the rollout and with --heads every head follow."""
    assert look.weights is not None
    layers, heads = look.weights.shape[:2]
    every = [reading._replace(layer=from_below(reading.layer, layers))]
    if reading.head is None:
        every += [Extractor(layer, None, reading.row) for layer in range(layers)]
        every += [Extractor(row=reading.row, method="rollout")] * (look.rollout is not None)
    if options.heads:
        every += [Extractor(layer, head, reading.row) for layer in range(layers) for head in range(heads)]
    return {told(one, heads): one for one in every}


def told(reading: Extractor, heads: int) -> str:
    """Its name on the page."""
    if reading.method != "mean":
        return "rollout through all layers"
    layer, head, _ = reading.name()
    if reading.head is not None:
        return f"{say_layer(layer)}, head {head}"
    return f"{say_layer(layer)}, mean of {heads} heads" if heads > 1 else say_layer(layer)


def write_page(pairs: list[PagePair], options: argparse.Namespace, run: Run) -> None:
    """Write the page of --html."""
    if not pairs:
        log.warning("%s is not written: there is no word to draw.", options.html)
        return
    models: list[dict[str, Any]] = run.made["models"]
    made = {
        "run": options.name,
        "checkpoint": ", ".join(f"{one['checkpoint']} ({one['origin']}, seed {one['seed']})" for one in models),
        "corpus": ", ".join(dict.fromkeys(one["corpus_hash"][:12] for one in models)),
        "weights": f"row {options.row}, forced decoding of the target in float32",
        "made with": f"nmt {nmt.__version__}",
    }
    write(Path(options.html), alignment_page(options.name, pairs, made).encode(), "--html")


def write(path: Path, content: bytes, option: str) -> None:
    """A file, or a sentence."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror or error}.") from None
    log.info("%s", path)
