"""The choice of the layer and decoder step whose links are the nearest to gold links."""

import logging
from functools import cached_property
from typing import Any

from nmt.decode.translator import Translator
from nmt.evaluate.extraction import (
    DECODER_STEPS,
    Extractor,
    absolute_layers,
    describe_layers,
    fitting_pairs,
    layer_candidates,
)
from nmt.evaluate.gold import GoldAlignments, alignment_error_rates

log = logging.getLogger("nmt")
MAX_SELECTION_PAIRS = 500  # validation pairs that are enough to choose a layer


class LayerSelector:
    """The alignment error rate of one run; layer and decoder step are chosen once, on the gold links of `valid`.

    Without `valid`, and where `default` is a single head, which was trained for it, `default` is taken. Pairs that are
    too long are left out.
    """

    def __init__(self, translator: Translator, default: Extractor, valid: GoldAlignments | None) -> None:
        self.translator, self.default = translator, default
        self.valid = None if valid is None else valid.first(MAX_SELECTION_PAIRS)

    @cached_property
    def selection_pairs(self) -> GoldAlignments | None:
        """The validation pairs that are short enough; None if there are none to choose on."""
        if self.valid is None or self.default.head is not None:
            return None
        indices = fitting_pairs(self.translator, self.valid.pairs)
        return self.valid.subset(indices) if indices else None

    @cached_property
    def candidates(self) -> list[Extractor]:
        """Each layer and means of upper layers, with both decoder steps; without pairs to choose on a single one."""
        num_layers = self.translator.model.num_layers
        if self.selection_pairs is None:
            return [self.default._replace(layer=absolute_layers(self.default.layer, num_layers))]
        return [Extractor(layer, None, step) for layer in layer_candidates(num_layers) for step in DECODER_STEPS]

    @cached_property
    def selected(self) -> Extractor:
        """The candidate with the lowest error rate on the validation pairs."""
        if self.default.head is not None:
            return self.candidates[0]
        if self.selection_pairs is None:
            log.info(
                "There are no gold links to choose a layer on; train.heatmap_layer and decoder step output are used."
            )
            return self.candidates[0]
        scores = alignment_error_rates(self.translator, self.selection_pairs, self.candidates)
        best = min(scores, key=lambda extractor: scores[extractor].aer)
        log.info(
            "The %s, step %s, has the lowest alignment error rate of %d candidates on %d validation pairs: %.3f.",
            describe_layers(best.labels()[0]), best.decoder_step, len(scores), len(self.selection_pairs.pairs),
            scores[best].aer,
        )  # fmt: skip
        return best

    def describe_selection(self, gold: GoldAlignments) -> str | None:
        """The pairs that the choice was made on, None without one; it flatters the score where they are of `gold`."""
        if self.default.head is not None:
            return "the training, which guided this head"
        if self.selection_pairs is None or self.valid is None:
            return None
        if gold.pairs[: len(self.valid.pairs)] == self.valid.pairs:
            count = len(self.valid.pairs)
            return "these pairs" if count == len(gold.pairs) else f"the first {count} of these pairs"
        return f"{len(self.selection_pairs.pairs)} validation pairs"

    def provenance(self, gold: GoldAlignments) -> dict[str, Any]:
        """What a score depends on besides the model, the text and the code: the links, also those of the choice."""
        return {"links": gold.digest(), "chosen_on": None if self.valid is None else self.valid.digest()}

    def score(self, gold: GoldAlignments) -> dict[str, object]:
        """AER, precision, recall and the extractor, as result.json keeps them; empty if all pairs are too long."""
        indices = fitting_pairs(self.translator, gold.pairs)
        if left_out := len(gold.pairs) - len(indices):
            log.warning("%d pairs of %s are too long; AER leaves them out.", left_out, gold.path)
        if not indices:
            return {}
        extractor = self.selected
        scores = alignment_error_rates(self.translator, gold.subset(indices), [extractor])[extractor]
        alignment = {
            "layer": extractor.labels()[0],
            **({} if extractor.head is None else {"head": extractor.head}),
            "decoder_step": extractor.decoder_step,
            "links": "argmax",
            "chosen_on": self.describe_selection(gold),
            "candidates": len(self.candidates),
            "left_out": left_out,
        }
        return {**scores._asdict(), "alignment": alignment}
