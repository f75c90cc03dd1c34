"""The alignment error rate against gold links (Och & Ney 2003), and the layer with the lowest."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.corpus.checksums import text_digest
from nmt.corpus.links import Link, parse_links
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.words import WordPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.extraction import (
    DECODER_STEPS,
    Extractor,
    encode_pairs,
    extract_links,
    fitting_pairs,
    layer_candidates,
    record_words,
)
from nmt.evaluate.metrics import tokenization_warning

log = logging.getLogger("nmt")
MAX_SELECTION_PAIRS = 500  # validation pairs that are enough to choose a layer


class AlignmentScore(NamedTuple):
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), precision = |A∩P| / |A|, recall = |A∩S| / |S|."""

    aer: float
    precision: float
    recall: float


def corpus_score(counts: np.ndarray) -> AlignmentScore:
    """From |A|, |S|, |A∩S| and |A∩P|; without links AER is 0, and precision and recall are 1."""
    predicted, sure, correct_sure, correct_possible = counts.tolist()
    links = predicted + sure
    return AlignmentScore(
        aer=1 - (correct_sure + correct_possible) / links if links else 0.0,
        precision=correct_possible / predicted if predicted else 1.0,
        recall=correct_sure / sure if sure else 1.0,
    )


def count_links(links: set[Link], sure: set[Link], possible: set[Link]) -> np.ndarray:
    """|A|, |S|, |A∩S| and |A∩P| of a sentence pair; sure links are possible too (P ⊇ S)."""
    return np.array([len(links), len(sure), len(links & sure), len(links & possible)])


@dataclass
class GoldAlignments:
    """Sentence pairs with gold links between their words, drawn by people or by rules."""

    path: Path
    pairs: list[tuple[str, str]]
    links: list[tuple[set[Link], set[Link]]]  # sure and possible ones, counted from 0
    base: int = 0  # index of the first word in the file, for messages
    tokenized: bool = False  # words are separated by spaces alone

    def check(self, row: int, words: WordPair) -> None:
        """Raise UserError for links of the pair at `row` (from 0) to words that do not exist."""
        for side, name, count in (
            (0, "source", len(words.source)),
            (1, "target", len(words.target)),
        ):
            highest = max((link[side] for link in self.links[row][1]), default=-1)
            if highest >= count:
                raise UserError(
                    f"{self.path}:{row + 1}: a link names {name} word {highest + self.base}, but "
                    f"the {name} has {count} words, counted from {self.base}; see --tokenized and "
                    "--base."
                )

    def digest(self) -> str:
        """A SHA-256 hash of the pairs and their links."""
        plain = [[*map(sorted, pair)] for pair in self.links]
        return text_digest(repr((self.pairs, plain, self.tokenized)))


def read_gold_alignments(
    path: Path,
    pairs: Sequence[tuple[str, str]],
    base: int = 0,
    reverse: bool = False,
    tokenized: bool = False,
) -> GoldAlignments:
    """Pharaoh links of sentence pairs, one line each.

    Raises UserError for a malformed or a missing line.
    """
    sides = list(zip(*pairs, strict=True))
    if not tokenized and any(map(tokenization_warning, sides)):
        log.warning(
            "The text of %s looks tokenized; if its links count what spaces separate, give "
            "--tokenized.",
            path,
        )
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise UserError(
            f"{path} has {len(lines)} lines, but there are {len(pairs)} sentence pairs."
        )
    links = []
    for number, line in enumerate(lines, 1):
        links.append(parse_links(line, base, f"{path}:{number}", reverse))
    return GoldAlignments(path, list(pairs), links, base, tokenized)


def alignment_error_rates(
    translator: Translator,
    gold: GoldAlignments,
    extractors: Sequence[Extractor],
    threshold: float | None = None,
    on_links: Callable[[Extractor, set[Link]], None] | None = None,
    rows: Sequence[int] | None = None,
) -> dict[Extractor, AlignmentScore]:
    """The alignment error rate of each extractor, of all pairs or some `rows`.

    The model is made to write the targets. `on_links` is called with the links of each extractor
    for each pair, in order.
    """
    counts = {extractor: np.zeros(4, dtype=int) for extractor in extractors}
    rows = range(len(gold.pairs)) if rows is None else rows
    pairs = [gold.pairs[row] for row in rows]
    records = translator.force_decode_all(encode_pairs(translator, pairs))
    for row, record in zip(rows, records, strict=True):
        words = record_words(record, gold.tokenized)
        gold.check(row, words)
        for extractor in extractors:
            links = extract_links(extractor.word_weights(record, words), threshold)
            counts[extractor] += count_links(links, *gold.links[row])
            if on_links is not None:
                on_links(extractor, links)
    return {extractor: corpus_score(total) for extractor, total in counts.items()}


class LayerSelector:
    """The alignment error rate of a run, with layer and step chosen on the gold links of `valid`.

    Candidates are each layer and means of upper layers, with both decoder steps. Without `valid`,
    and where `default` is a single head, which was trained for it, `default` is taken. Pairs that
    are too long are left out.
    """

    def __init__(
        self, translator: Translator, default: Extractor, valid: GoldAlignments | None
    ) -> None:
        num_layers = translator.model.num_layers
        self.translator = translator
        self.valid = valid
        self.default = default.absolute(num_layers)
        self.candidates = []
        for layer in layer_candidates(num_layers):
            self.candidates += [Extractor(layer, None, step) for step in DECODER_STEPS]

    @cached_property
    def selection_rows(self) -> list[int]:
        """The pairs of `valid` that the choice is made on; empty where nothing is chosen."""
        if self.valid is None or self.default.head is not None:
            return []
        return fitting_pairs(self.translator, self.valid.pairs[:MAX_SELECTION_PAIRS])

    @cached_property
    def selected(self) -> Extractor:
        """The candidate with the lowest error rate on the validation pairs."""
        if self.valid is None or not self.selection_rows:
            if self.default.head is None:
                log.info(
                    "There are no gold links to choose a layer on; train.heatmap_layer, step "
                    "output, is used."
                )
            return self.default
        scores = alignment_error_rates(
            self.translator, self.valid, self.candidates, rows=self.selection_rows
        )
        best = min(scores, key=lambda extractor: scores[extractor].aer)
        log.info(
            "Layer %s, step %s, has the lowest alignment error rate of %d candidates on %d "
            "validation pairs: %.3f.",
            best.labels()[0],
            best.decoder_step,
            len(scores),
            len(self.selection_rows),
            scores[best].aer,
        )
        return best

    def provenance(self, gold: GoldAlignments) -> dict[str, Any]:
        """The links that a score depends on, also those of the choice, as digests."""
        return {"links": gold.digest(), "chosen_on": self.valid and self.valid.digest()}

    def score(self, gold: GoldAlignments) -> dict[str, Any]:
        """AER, precision, recall and the extractor for result.json; empty if no pair fits."""
        rows = fitting_pairs(self.translator, gold.pairs)
        left_out = len(gold.pairs) - len(rows)
        if left_out:
            log.warning("%d pairs of %s are too long; AER leaves them out.", left_out, gold.path)
        if not rows:
            return {}
        extractor = self.selected
        chosen_on = None  # if it is these pairs, that flatters the score
        if extractor.head is not None:
            chosen_on = "the training, which guided this head"
        elif self.valid and self.selection_rows:
            is_same = gold.pairs == self.valid.pairs
            chosen_on = "these pairs" if is_same else f"{len(self.selection_rows)} validation pairs"
        scores = alignment_error_rates(self.translator, gold, [extractor], rows=rows)[extractor]
        alignment = {
            "layer": extractor.labels()[0],
            "decoder_step": extractor.decoder_step,
            "left_out": left_out,
            "chosen_on": chosen_on,
        }
        if extractor.head is not None:
            alignment["head"] = extractor.head
        return {**scores._asdict(), "alignment": alignment}
