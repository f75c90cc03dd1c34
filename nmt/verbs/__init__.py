"""What a trained run can be asked for: translations, scores, alignments."""

import argparse
from pathlib import Path

import numpy as np

from nmt.decode.translator import Look, Translator
from nmt.errors import UserError
from nmt.evaluate.words import merge
from nmt.runs import Run, find_all, load

LONGEST = 4  # times tokenizer.max_pieces: what a heatmap is made of grows with the square of the length


def open_run(options: argparse.Namespace) -> Run:
    """The run that was asked for."""
    return load(find_all(options.name, Path(options.runs)), options.beam, options.batch_tokens)


def one_line(sentence: str) -> str:
    """A sentence from the command line."""
    try:
        sentence.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 arrive as lone surrogates
        raise UserError(f"The argument {sentence!r} is not UTF-8.") from None
    return " ".join(sentence.split("\n"))


def in_words(look: Look, layer: int, head: int | None) -> tuple[np.ndarray, list[str], list[str]]:
    """Matrix [target words, source words and </s>], source words and </s>, target words."""
    return merge(look.chosen(layer, head), look.source_pieces, look.target_pieces)


def look_at(translator: Translator, source: str, target: str | None, line: int) -> Look:
    """Forced decoding of a pair, or of a source and its translation; raises UserError for one that is too long."""
    ids = translator.tokenizers.source.encode(source)
    if len(ids) <= LONGEST * translator.max_pieces:
        found = translator.tokenizers.target.encode(target) if target is not None else None
        found = next(translator.translate([source])).ids if found is None else found
        if len(found) <= LONGEST * translator.max_pieces:
            return translator.look(ids, found)
    raise UserError(f"Pair {line} is longer than {LONGEST * translator.max_pieces} pieces, too long to look at.")


def check_choice(look: Look, layer: int, options: argparse.Namespace) -> None:
    """Refuse a layer or head that is not there."""
    assert look.weights is not None
    layers, heads = look.weights.shape[:2]
    if options.layer is not None and not -layers <= layer < layers:
        raise UserError(f"--layer {layer} is not there; the model has layers 0 to {layers - 1}.")
    if options.head is not None and not 0 <= options.head < heads:
        raise UserError(f"--head {options.head} is not there; the model has heads 0 to {heads - 1}.")
