"""Known links, and how far a model's are from them."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt.alignments.extraction import (
    ROWS,
    Extractor,
    encoded,
    every_layer,
    fitting,
    from_below,
    limit,
    links_in,
    say_layer,
    shape,
    words_of,
)
from nmt.data.lines import read_lines
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import AlignmentScore, Counts, Link, parse_links
from nmt.evaluate.scores import looks_tokenised
from nmt.evaluate.words import WordPair

log = logging.getLogger("nmt")
CHOSEN_ON = 500  # validation pairs that are enough to choose a layer


@dataclass
class Gold:
    """Sentence pairs and the links that people or rules drew between their words."""

    path: Path
    pairs: list[tuple[str, str]]
    links: list[tuple[set[Link], set[Link]]]  # sure and possible ones, counted from 0
    base: int = 0
    tokenised: bool = False  # words are what spaces separate
    numbers: Sequence[int] | None = None  # the lines of the file, from 1, that they are; None: all

    def first(self, count: int) -> "Gold":
        """The first pairs of them."""
        return self.at(range(min(count, len(self.pairs))))

    def at(self, places: Sequence[int]) -> "Gold":
        """The pairs at these places."""
        numbers = self.numbers or range(1, len(self.pairs) + 1)
        pairs, links = [self.pairs[place] for place in places], [self.links[place] for place in places]
        return Gold(self.path, pairs, links, self.base, self.tokenised, [numbers[place] for place in places])

    def check(self, place: int, words: WordPair) -> None:
        """Refuse links of the pair at `place` (from 0) to words that are not there."""
        number = self.numbers[place] if self.numbers else place + 1
        for side, name, count in ((0, "source", len(words.source)), (1, "target", len(words.target))):
            highest = max((link[side] for link in self.links[place][1]), default=-1)
            if highest >= count:
                raise UserError(
                    f"{self.path}:{number}: a link names {name} word {highest + self.base}, but the {name} has "
                    f"{count} words, counted from {self.base}; see --tokenised and --base."
                )

    def digest(self) -> str:
        """Names these pairs and their links."""
        plain = [[sorted(links) for links in pair] for pair in self.links]
        return hashlib.sha256(repr((self.pairs, plain, self.tokenised)).encode()).hexdigest()


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
    readings: Sequence[Extractor],
    threshold: float | None = None,
    keep: Callable[[Extractor, set[Link]], None] | None = None,
) -> dict[Extractor, AlignmentScore]:
    """The alignment error rate of each reading under forced decoding of the targets; `keep` is told of all links."""
    counts = dict.fromkeys(readings, Counts())
    for place, look in enumerate(translator.looks(encoded(translator, gold.pairs))):
        words = words_of(look, gold.tokenised)
        gold.check(place, words)
        for reading in readings:
            links = links_in(reading.words(look, words), threshold)
            counts[reading] = counts[reading].plus(links, *gold.links[place])
            if keep is not None:
                keep(reading, links)
    return {reading: one.score() for reading, one in counts.items()}


class LayerSelector:
    """The alignment error rate of one run; layer and row are chosen once, where a development set has gold links.

    Pairs that are too long to look at are left out.
    """

    def __init__(self, translator: Translator, picture_layer: int, valid: Gold | None) -> None:
        self.translator, self.picture_layer = translator, picture_layer
        self.valid = None if valid is None else valid.first(CHOSEN_ON)

    @cached_property
    def known(self) -> Gold | None:
        """What there is to choose on."""
        if self.valid is None:
            return None
        places = fitting(self.translator, self.valid.pairs)
        return self.valid.at(places) if places else None

    @cached_property
    def candidates(self) -> list[Extractor]:
        """What is chosen from: the mean of the heads, layer or layers and row; one alone where nothing is known."""
        layers, _, _ = shape(self.translator)
        if self.known is None:
            return [Extractor(from_below(self.picture_layer, layers))]
        return [Extractor(layer, None, row) for layer in every_layer(layers) for row in ROWS]

    @cached_property
    def chosen(self) -> Extractor:
        """The candidate with the lowest error rate on the development pairs."""
        if self.known is None:
            log.info("There are no gold links to choose a layer on; train.picture_layer and predicts are taken.")
            return self.candidates[0]
        found = rates(self.translator, self.known, self.candidates)
        best = min(found, key=lambda reading: found[reading].aer)
        log.info(
            "The %s, row %s, has the lowest alignment error rate of %d candidates on %d validation pairs: %.3f.",
            say_layer(best.name()[0]), best.row, len(found), len(self.known.pairs), found[best].aer,
        )  # fmt: skip
        return best

    def chosen_on(self, gold: Gold) -> str | None:
        """On what layer and row are chosen; it is told when that is what is scored, which flatters."""
        if self.known is None or self.valid is None:
            return None
        if gold.pairs[: len(self.valid.pairs)] == self.valid.pairs:
            count = len(self.valid.pairs)
            return "these pairs" if count == len(gold.pairs) else f"the first {count} of these pairs"
        return f"{len(self.known.pairs)} validation pairs"

    def made(self, gold: Gold) -> dict[str, Any]:
        """What a result depends on, beside the model and the text: the links, and all that the choice is made from."""
        return {
            "links": gold.digest(),
            "chosen_on": None if self.valid is None else self.valid.digest(),
            "at_most": CHOSEN_ON,
            "candidates": [" ".join(one.name()) for one in self.candidates],
            "longest": limit(self.translator),
        }

    def score(self, gold: Gold) -> dict[str, object]:
        """The error rate, and which weights were read off, as result.json keeps them; nothing if no pair is left."""
        places = fitting(self.translator, gold.pairs)
        if left_out := len(gold.pairs) - len(places):
            log.warning("%d pairs of %s are too long to look at; AER leaves them out.", left_out, gold.path)
        if not places:
            return {}
        reading = self.chosen
        found = rates(self.translator, gold.at(places), [reading])[reading]
        how = {"layer": reading.name()[0], "row": reading.row, "links": "argmax", "chosen_on": self.chosen_on(gold)}
        return {**found._asdict(), "alignment": how | {"candidates": len(self.candidates), "left_out": left_out}}
