"""Where a run looked, as links between words, and how far these are from known ones.

Links come from forced decoding of a finished target, whoever wrote it. They say where the model looked, not why.
L layers, H heads, S source pieces, T target pieces.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.data.lines import read_lines
from nmt.decode.look import LOOKS, IdPair, Layers, Look
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import (
    AlignmentScore,
    Counts,
    Link,
    argmax_links,
    parse_links,
    threshold_links,
)
from nmt.evaluate.scores import looks_tokenised
from nmt.evaluate.words import END, WordPair, focus_in_words, word_pair

log = logging.getLogger("nmt")
LONGEST = 4  # times tokenizer.max_pieces: what a heatmap is made of grows with the square of the length
CHOSEN_ON = 500  # validation pairs that are enough to choose a layer
# Where the row of a target's first piece stands. A decoder step reads the word before the one that it predicts (Luong
# et al. 2015, footnote 14): the step that predicts a word stands one above the step that reads it.
ROWS = {"predicts": 0, "reads": 1}


class Reading(NamedTuple):
    """Which of a model's weights are read off, and in which row."""

    layer: Layers = -1
    head: int | None = None  # None: the mean of the heads
    row: str = "predicts"  # of ROWS
    method: str = "mean"  # of nmt.decode.look.METHODS

    def words(self, look: Look, words: WordPair) -> np.ndarray:
        """[target words, source words and </s>]."""
        return words.merge(look.seen(self.method, self.layer, self.head)[ROWS[self.row] :])

    def name(self) -> tuple[str, str, str]:
        """Layer, head and row as a table says them."""
        layers = (self.layer,) if isinstance(self.layer, int) else self.layer
        layer = ",".join(map(str, layers)) if self.method == "mean" else self.method
        return layer, "mean" if self.head is None else str(self.head), self.row


def words_of(look: Look, tokenised: bool = False) -> WordPair:
    """The words of a pair."""
    return word_pair(look.source_pieces, look.target_pieces, tokenised)


def in_words(look: Look, reading: Reading, tokenised: bool = False) -> tuple[np.ndarray, list[str], list[str]]:
    """Matrix [target words, source words and </s>], source words and </s>, target words."""
    words = words_of(look, tokenised)
    return reading.words(look, words), [*words.source, END], words.target


def focus_of(look: Look, reading: Reading, tokenised: bool = False) -> list[tuple[float, float, float] | None] | None:
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
    longest = LONGEST * translator.max_pieces
    if max(map(len, pair)) > longest:
        raise UserError(f"Pair {number} is longer than {longest} pieces, too long to look at.")
    return pair


def shape(translator: Translator) -> tuple[int, int, bool]:
    """Layers, heads, and whether there is a rollout: known from a look at nothing. (0, 0, False) without attention."""
    look = translator.look([], [])
    return (0, 0, False) if look.weights is None else (*look.weights.shape[:2], look.rollout is not None)


def every_layer(layers: int) -> list[Layers]:
    """Each layer, then the means of the upper two, three, … of them: neighbours often look at halves of the same."""
    return [*range(layers), *(tuple(range(layers - count, layers)) for count in range(2, layers + 1))]


@dataclass
class Gold:
    """Sentence pairs and the links that people or rules drew between their words."""

    path: Path
    pairs: list[tuple[str, str]]
    links: list[tuple[set[Link], set[Link]]]  # sure and possible ones, counted from 0
    base: int = 0
    tokenised: bool = False  # words are what spaces separate

    def first(self, count: int) -> "Gold":
        """The first pairs of them."""
        return Gold(self.path, self.pairs[:count], self.links[:count], self.base, self.tokenised)

    def check(self, number: int, words: WordPair) -> None:
        """Refuse links of line `number` (from 1) to words that are not there."""
        for side, name, count in ((0, "source", len(words.source)), (1, "target", len(words.target))):
            highest = max((link[side] for link in self.links[number - 1][1]), default=-1)
            if highest >= count:
                raise UserError(
                    f"{self.path}:{number}: a link names {name} word {highest + self.base}, but the {name} has "
                    f"{count} words, counted from {self.base}; see --tokenised and --base."
                )

    def digest(self) -> str:
        """Names these links; their text is named elsewhere."""
        plain = [[sorted(links) for links in pair] for pair in self.links]
        return hashlib.sha256(repr((plain, self.tokenised)).encode()).hexdigest()


def read_gold(
    path: Path,
    pairs: Sequence[tuple[str, str]],
    base: int = 0,
    reverse: bool = False,
    tokenised: bool = False,
) -> Gold:
    """Pharaoh links of sentence pairs, a line each; raises UserError when a line is no links or lines are missing."""
    if not tokenised and any(looks_tokenised([pair[side] for pair in pairs]) for side in (0, 1)):
        log.warning("The text of %s looks tokenised; if its links count what spaces separate, say --tokenised.", path)
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise UserError(f"{path} has {len(lines)} lines, but there are {len(pairs)} sentence pairs.")
    links = [parse_links(line, base, f"{path}:{number}", reverse) for number, line in enumerate(lines, 1)]
    return Gold(path, list(pairs), links, base, tokenised)


def rates(
    translator: Translator,
    gold: Gold,
    readings: Sequence[Reading],
    threshold: float | None = None,
    keep: Callable[[Reading, set[Link]], None] | None = None,
) -> dict[Reading, AlignmentScore]:
    """The alignment error rate of each reading under forced decoding of the targets; `keep` is told of all links."""
    counts = dict.fromkeys(readings, Counts())
    for number, look in enumerate(translator.looks(encoded(translator, gold.pairs)), 1):
        words = words_of(look, gold.tokenised)
        gold.check(number, words)
        for reading in readings:
            links = links_in(reading.words(look, words), threshold)
            counts[reading] = counts[reading].plus(links, *gold.links[number - 1])
            if keep is not None:
                keep(reading, links)
    return {reading: one.score() for reading, one in counts.items()}


class Judge:
    """The alignment error rate of one run; layer and row are chosen once, where the validation set has gold links."""

    def __init__(self, translator: Translator, picture_layer: int, valid: Gold | None) -> None:
        self.translator, self.picture_layer = translator, picture_layer
        self.valid = None if valid is None else valid.first(CHOSEN_ON)

    @cached_property
    def chosen(self) -> Reading:
        """The mean of the heads of the layer or layers, in the row, with the lowest error rate on validation pairs."""
        layers, _, _ = shape(self.translator)
        if self.valid is None:
            layer = self.picture_layer if self.picture_layer >= 0 else layers + self.picture_layer
            reading = Reading(min(max(layer, 0), layers - 1))
            log.info("There are no gold links to choose a layer on; train.picture_layer and predicts are taken.")
            return reading
        candidates = [Reading(layer, None, row) for layer in every_layer(layers) for row in ROWS]
        found = rates(self.translator, self.valid, candidates)
        best = min(found, key=lambda reading: found[reading].aer)
        log.info(
            "Layer %s, %s, has the lowest alignment error rate on %s: %.3f.",
            best.name()[0], best.row, self.chosen_on, found[best].aer,
        )  # fmt: skip
        return best

    @property
    def chosen_on(self) -> str | None:
        """On what the layer and the row are chosen."""
        return None if self.valid is None else f"{len(self.valid.pairs)} validation pairs"

    def made(self, gold: Gold) -> dict[str, str | int | None]:
        """What a result depends on, beside the model and the text."""
        chosen_on = f"layer {self.picture_layer}" if self.valid is None else self.valid.digest()
        return {"links": gold.digest(), "chosen_on": chosen_on}

    def score(self, gold: Gold) -> dict[str, object]:
        """The error rate, and which weights were read off, as result.json keeps them."""
        reading = self.chosen
        found = rates(self.translator, gold, [reading])[reading]
        how = {"layer": reading.name()[0], "row": reading.row, "links": "argmax", "chosen_on": self.chosen_on}
        return {**found._asdict(), "alignment": how}
