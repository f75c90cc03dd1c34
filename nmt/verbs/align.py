"""nmt align: where the model looked."""

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.data.lines import read_lines, read_pairs
from nmt.decode.translator import Look
from nmt.errors import UserError
from nmt.evaluate.alignment import argmax_links, format_links
from nmt.verbs import check_choice, gold, in_words, look_at, one_line, open_run
from nmt.view.heatmap import grid, heatmap, png

log = logging.getLogger("nmt")


def align(options: argparse.Namespace) -> int:
    """Where the model looked: links, pictures, or a table in words."""
    if (options.sentence is None) == (options.source is None):
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    if options.target and not options.source:
        raise UserError("--target FILE belongs to --source FILE; give a TARGET sentence after SOURCE instead.")
    if options.gold and not (options.target and not (options.png or options.pharaoh)):
        raise UserError("--gold FILE belongs to --source FILE and --target FILE, without --png or --pharaoh.")
    if options.heads and not options.png:
        raise UserError("--heads draws every head; it needs --png FILE.")
    run = open_run(options)
    if not run.translator.model.attends:
        raise UserError(f"The model of {options.name} has no attention to look at.")
    if options.gold:
        return gold.score(options, run)
    layer = run.config.train.picture_layer if options.layer is None else options.layer
    several = options.source is not None
    for number, (source, target) in enumerate(aligned(options), 1):
        look = look_at(run.translator, source, target, number)
        check_choice(look, layer, options)
        matrix, source_words, target_words = in_words(look, layer, options.head)
        if options.png:
            draw(look, layer, options, number if several else None)
        if options.pharaoh:
            print(format_links(argmax_links(matrix)))
        elif not options.png:
            print(table(matrix, source_words, target_words) + ("\n" if several else ""))
    return 0


def aligned(options: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    """The pairs to look at; a target that is None is translated."""
    if options.source is None:
        yield one_line(options.sentence), None if options.translation is None else one_line(options.translation)
    elif options.target:
        yield from read_pairs(Path(options.source), Path(options.target))
    else:
        yield from ((line, None) for line in read_lines(Path(options.source)))


def draw(look: Look, layer: int, options: argparse.Namespace, number: int | None) -> None:
    """Write the heatmap of one pair."""
    assert look.weights is not None
    path = Path(options.png)
    if number is not None:
        path = path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")
    matrix, source, target = in_words(look, layer, options.head)
    if not target:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    if options.heads:
        matrices = [in_words(look, layer, head)[0] for head in range(look.weights.shape[1])]
        figure = grid(matrices, source, target, [f"head {head}" for head in range(len(matrices))])
    else:
        figure = heatmap(matrix, source, target)
    try:
        path.write_bytes(png(figure))
    except OSError as error:
        raise UserError(f"--png {path} cannot be written: {error.strerror or error}.") from None
    log.info("%s", path)


def table(matrix: np.ndarray, source: list[str], target: list[str]) -> str:
    """One line for each target word: the word, then the source words that had at least 5 % of its attention."""
    lines = []
    for row, word in zip(matrix, target, strict=True):
        seen = sorted(
            ((weight, name) for weight, name in zip(row, source, strict=True) if weight >= 0.05), reverse=True
        )
        lines.append("\t".join([word, *(f"{name} {weight:.2f}" for weight, name in seen)]))
    return "\n".join(lines)
