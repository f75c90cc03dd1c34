"""What is read off a look: which layer, head and row, between words; and which pairs can be looked at."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.attention.positions import Learned
from nmt.decode.attention_record import LOOKS, AttentionRecord, IdPair, Layers
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import Link, argmax_links, threshold_links
from nmt.evaluate.words import END, WordPair, focus_in_words, word_pair

LONGEST = 4  # times tokenizer.max_pieces: what a heatmap is made of grows with the square of the length
# Where the row of a target's first piece stands. A decoder step reads the word before the one that it predicts (Luong
# et al. 2015, footnote 14): the step that predicts a word stands one above the step that reads it.
ROWS = {"predicts": 0, "reads": 1}


class Extractor(NamedTuple):
    """Which of a model's weights are read off, and in which row."""

    layer: Layers = -1
    head: int | None = None  # None: the mean of the heads
    row: str = "predicts"  # of ROWS
    method: str = "mean"  # of nmt.decode.attention_record.METHODS

    def words(self, look: AttentionRecord, words: WordPair) -> np.ndarray:
        """[target words, source words and </s>]."""
        return words.merge(look.seen(self.method, self.layer, self.head)[ROWS[self.row] :])

    def name(self) -> tuple[str, str, str]:
        """Layer, head and row as a table says them."""
        layers = (self.layer,) if isinstance(self.layer, int) else self.layer
        layer = ",".join(map(str, layers)) if self.method == "mean" else self.method
        return layer, "mean" if self.head is None else str(self.head), self.row


def say_layer(layer: str) -> str:
    """The first of `Extractor.name` in words: layer 1, mean of layers 0,1, rollout."""
    if "," in layer:
        return f"mean of layers {layer}"
    return f"layer {layer}" if layer.isdecimal() else layer


def from_below(layer: Layers, layers: int) -> Layers:
    """-1 is the last of so many layers; one too high or low is the last or first, as `AttentionRecord.chosen` has it."""
    if not isinstance(layer, int):
        return tuple(min(max(one if one >= 0 else layers + one, 0), layers - 1) for one in layer)
    return min(max(layer if layer >= 0 else layers + layer, 0), layers - 1)


def words_of(look: AttentionRecord, tokenised: bool = False) -> WordPair:
    """The words of a pair."""
    return word_pair(look.source_pieces, look.target_pieces, tokenised)


def in_words(
    look: AttentionRecord, reading: Extractor, tokenised: bool = False
) -> tuple[np.ndarray, list[str], list[str]]:
    """Matrix [target words, source words and </s>], source words and </s>, target words."""
    words = words_of(look, tokenised)
    return reading.words(look, words), [*words.source, END], words.target


def focus_of(
    look: AttentionRecord, reading: Extractor, tokenised: bool = False
) -> list[tuple[float, float, float] | None] | None:
    """p_t, first and last word of the window for each target word; None where attention is not local."""
    if look.centre is None or look.reach is None or reading.method != "mean":
        return None
    centres = look.centre[ROWS[reading.row] :]
    return focus_in_words(centres, look.reach, look.source_pieces, look.target_pieces, tokenised)


def links_in(matrix: np.ndarray, threshold: float | None) -> set[Link]:
    """One link for each target word (Luong et al. 2015 §5.4), or all with at least `threshold` of its attention."""
    return argmax_links(matrix) if threshold is None else threshold_links(matrix, threshold)


def encoded(translator: Translator, pairs: Iterable[tuple[str, str]]) -> Iterator[IdPair]:
    """The pieces of pairs; raises UserError for a pair that is too long to look at."""
    remaining, numbers = iter(pairs), itertools.count(1)
    while some := list(itertools.islice(remaining, LOOKS)):
        sources = translator.tokenizers.source.encode_all([source for source, _ in some])
        targets = translator.tokenizers.target.encode_all([target for _, target in some])
        for pair in zip(sources, targets, strict=True):
            yield checked(translator, pair, next(numbers))


def translated(translator: Translator, lines: Iterable[str]) -> Iterator[IdPair]:
    """The pieces of lines and of their translations; raises UserError for a pair that is too long to look at."""
    for number, found in enumerate(translator.translate(lines), 1):
        yield checked(translator, (found.source_ids, found.ids), number)


def checked(translator: Translator, pair: IdPair, number: int) -> IdPair:
    """A pair that is not too long to look at."""
    longest = limit(translator)
    if max(map(len, pair)) > longest:
        raise UserError(f"Pair {number} is longer than {longest} pieces, too long to look at.")
    return pair


def limit(translator: Translator) -> int:
    """The most pieces of a side, without </s>, that are looked at."""
    known = [len(part.table) - 1 for part in translator.model.modules() if isinstance(part, Learned)]
    return min([LONGEST * translator.max_pieces, *known])


def fitting(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The places of the pairs that are not too long to look at."""
    longest = limit(translator)
    cut = (side.encode_all([pair[n] for pair in pairs]) for n, side in enumerate(translator.tokenizers))
    return [place for place, both in enumerate(zip(*cut, strict=True)) if max(map(len, both)) <= longest]


def shape(translator: Translator) -> tuple[int, int, bool]:
    """Layers, heads, and whether there is a rollout: known from a look at nothing. (0, 0, False) without attention."""
    look = translator.look([], [])
    return (0, 0, False) if look.weights is None else (*look.weights.shape[:2], look.rollout is not None)


def every_layer(layers: int) -> list[Layers]:
    """Each layer, then the means of the upper two, three, … of them: neighbours often look at halves of the same."""
    return [*range(layers), *(tuple(range(layers - count, layers)) for count in range(2, layers + 1))]
