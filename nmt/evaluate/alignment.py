"""The attention over a sentence pair, as links, words, a figure, a page, JSON, or for BertViz.

L layers, H heads, S source pieces, T target pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nmt.corpus.links import Link
from nmt.corpus.words import WindowSpan, WordPair
from nmt.decode.forced_decoding import AttentionRecord, IdPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.extraction import Extractor, extract_links
from nmt.view.alignment_page import PagePair, alignment_page
from nmt.view.heatmap import GoldLinks, grid
from nmt.view.text import visible

if TYPE_CHECKING:
    from nmt.view.heatmap import Figure

MIN_WEIGHT = 0.05  # of a source word in the table


@dataclass(frozen=True, eq=False)
class Alignment:
    """The attention of a model over a source while it reads a target, computed in float32.

    `extractor` says from which layer, head and decoder step the matrix between words and the links
    are read.
    """

    record: AttentionRecord
    word_pair: WordPair
    extractor: Extractor
    translator: Translator | None = None  # with the ids of the pair, for `to_bertviz`
    ids: IdPair = ((), ())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"translator": None}  # a pickle has plain data alone

    @property
    def weights(self) -> np.ndarray:
        """[L H T+1 S+1]: weights of every layer and head between pieces, including </s>."""
        assert self.record.weights is not None
        return self.record.weights

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The source words and the target words."""
        return self.word_pair.source, self.word_pair.target

    @cached_property
    def matrix(self) -> np.ndarray:
        """[target words, source words and </s>]: the weights of the extractor, between words."""
        return self.extractor.word_weights(self.record, self.word_pair)

    @property
    def links(self) -> list[Link]:
        """(source word, target word) from 0: each target word and its strongest source word."""
        return sorted(self.extract_links())

    def extract_links(self, threshold: float | None = None) -> set[Link]:
        """One link for each target word, or all with a weight of at least `threshold`."""
        return extract_links(self.matrix, threshold)

    def __str__(self) -> str:
        """Each target word, and the source words with at least MIN_WEIGHT of its attention."""
        lines = []
        for weights, word in zip(self.matrix, self.word_pair.target, strict=True):
            cells = [visible(word)]
            columns = zip(weights.tolist(), self.word_pair.columns, strict=True)
            for weight, name in sorted(columns, reverse=True):
                if weight >= MIN_WEIGHT:
                    cells.append(f"{visible(name)} {weight:.2f}")
            lines.append("\t".join(cells))
        return "\n".join(lines)

    def figure(
        self,
        every_head: bool = False,
        gold: GoldLinks | None = None,
        title: str = "",
        target_name: str = "target",
        max_words: int | None = None,
    ) -> Figure:
        """The heatmap as a matplotlib figure.

        every_head: one heatmap for each head of the layer.
        gold: gold links, which are drawn as well.
        title: such as the name of the run; below it, the figure says which weights it shows.
        target_name: the name of the target's axis.
        max_words: show only the first words of a longer sentence, and say so.

        Raises ValueError if there is no word to draw, if a gold link points to no word, and for
        each head of a rollout, which goes through all of them.
        """
        chosen = self.extractor.absolute(self.record.num_layers)
        if every_head and chosen.method != "mean":
            raise ValueError("A rollout goes through all heads; it has no heatmap of each.")
        spans = self.extractor.window_spans(self.record, self.word_pair)
        columns = self.word_pair.columns[:max_words]
        rows = self.word_pair.target[:max_words]
        if spans is not None:
            spans = [cut_span(span, len(columns)) for span in spans[: len(rows)]]
        cut = []
        for side, drawn, words in (
            ("target", rows, self.word_pair.target),
            ("source", self.word_pair.source[:max_words], self.word_pair.source),
        ):
            if drawn != words:
                cut.append(f"the first {len(drawn)} of {len(words)} {side} words")
        note = ", ".join(cut)
        if gold is not None:
            sure, possible = gold
            gold = self.drawn_links(sure, max_words), self.drawn_links(possible, max_words)

        heads = range(self.record.num_heads) if every_head else [chosen.head]
        panels: dict[str, np.ndarray] = {}
        for head in heads:
            extractor = chosen._replace(head=head)
            name = describe_extractor(extractor, self.record.num_heads)
            if extractor.decoder_step == "input":
                name += ", decoder step input"
            if title and not panels:
                name = f"{title}\n{name}"
            matrix = extractor.word_weights(self.record, self.word_pair)
            panels[name] = matrix[: len(rows), : len(columns)]
        return grid(
            panels, columns, rows, gold, spans, target_name, note, columns=2 if every_head else 1
        )

    def drawn_links(self, links: set[Link], max_words: int | None) -> set[Link]:
        """Links without those of words behind the first `max_words`, which are not drawn.

        A link to a word that does not exist stays, so that `grid` refuses it.
        """
        drawn = set()
        for source, target in links:
            is_link = source < len(self.word_pair.source) and target < len(self.word_pair.target)
            is_cut = max_words is not None and max(source, target) >= max_words
            if not (is_link and is_cut):
                drawn.add((source, target))
        return drawn

    def page_pair(self, every_head: bool = False, gold: GoldLinks | None = None) -> PagePair:
        """What an alignment page shows of this pair: the words, and matrices of weights by name.

        The first matrix is that of the extractor. If it is a mean of heads, the mean of every layer
        follows, and the rollout if there is one. `every_head` adds each head of each layer.
        """
        num_layers = self.record.num_layers
        num_heads = self.record.num_heads
        step = self.extractor.decoder_step
        extractors = [self.extractor.absolute(num_layers)]
        if self.extractor.head is None:
            extractors += [Extractor(layer, None, step) for layer in range(num_layers)]
            if self.record.rollout is not None:
                extractors.append(Extractor(decoder_step=step, method="rollout"))
        if every_head:
            for layer in range(num_layers):
                extractors += [Extractor(layer, head, step) for head in range(num_heads)]
        matrices = {}
        for extractor in extractors:
            name = describe_extractor(extractor, num_heads)
            matrices[name] = extractor.word_weights(self.record, self.word_pair)
        spans = self.extractor.window_spans(self.record, self.word_pair)
        return PagePair(self.word_pair.columns, self.word_pair.target, matrices, gold, spans)

    def html(self, title: str = "attention") -> str:
        """A page of its own: pointing at a word shows what it attends to, layer by layer."""
        provenance = {"weights": "forced decoding of the target in float32"}
        return alignment_page(title, [self.page_pair()], provenance)

    def _repr_html_(self) -> str:
        """The page in a frame of its height, for notebooks; empty where there is no word."""
        if not self.word_pair.target:
            return ""
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        # The height where no script may run; `fit` sets the exact one
        style = f"width: 100%; height: {400 + 36 * len(self.word_pair.target)}px; border: 0"
        fit = "const {body} = this.contentDocument; "
        fit += (
            "new ResizeObserver(() => "
            "{ this.style.height = body.offsetHeight + 'px'; }).observe(body)"
        )
        return f'<iframe title="attention" srcdoc="{page}" onload="{fit}" style="{style}"></iframe>'

    def to_dict(self, threshold: float | None = None, weights: bool = False) -> dict[str, Any]:
        """For JSON: the words, the links between them, and which weights these were read off.

        words: of the target.
        source_words: with `weights` the last one is </s>, the last column.
        alignment: pairs [source word, target word], from 0.
        layer: a number, several for their mean, None for a rollout.
        head: None for the mean of the heads.
        weights: a row for each target word, to 4 decimals.
        p_t, window: of local attention only. A window is its first and last word. None for a target
            word without pieces.
        """
        extractor = self.extractor
        words = self.word_pair
        layer = None
        if extractor.method == "mean":
            layer = extractor.absolute(self.record.num_layers).layer
        entry: dict[str, Any] = {
            "source_words": words.columns if weights else words.source,
            "words": words.target,
            "alignment": sorted(map(list, self.extract_links(threshold))),
            "layer": layer,
            "head": extractor.head,
            "method": extractor.method,
            "decoder_step": extractor.decoder_step,
        }
        if weights:
            entry["weights"] = np.round(self.matrix, 4).tolist()
            spans = extractor.window_spans(self.record, words)
            if spans is not None:
                entry["p_t"] = [span and round(span[0], 4) for span in spans]
                entry["window"] = [span and [int(span[1]), int(span[2])] for span in spans]
        return entry

    def to_bertviz(self) -> dict[str, Any]:
        """The arguments of BertViz's `model_view`: cross-attention, and self-attention if any.

        Each is a list with a tensor [1 H rows columns] for each layer. Rows of the decoder have the
        names of their input pieces, <s> first. Raises UserError for an alignment from a pickle.
        """
        if self.translator is None:
            raise UserError(
                "This alignment was read from a pickle; BertViz's input needs the model."
            )
        model = self.translator.model
        batch = self.translator.collate_pairs([self.ids])
        with torch.inference_mode(), torch.autocast(batch.source.device.type, enabled=False):
            memory = model.encode(batch.source, batch.mask, weights=True)
            output = model.decode(batch.target, model.start(memory), memory, weights=True)
        attention = {
            "encoder_attention": memory.weights,
            "decoder_attention": output.self_weights,
            "cross_attention": output.weights,
        }
        arguments: dict[str, Any] = {}
        for name, weights in attention.items():  # [1 L H T S]
            if weights is not None:
                arguments[name] = [layer[None] for layer in weights[0].float().cpu()]
        source, target = self.translator.tokenizers
        arguments["encoder_tokens"] = [*source.pieces(self.ids[0]), "</s>"]
        arguments["decoder_tokens"] = ["<s>", *target.pieces(self.ids[1])]
        return arguments


def cut_span(span: WindowSpan | None, columns: int) -> WindowSpan | None:
    """The part of a window that is in the first `columns`; None if its centre is not."""
    if span is None or span[0] > columns - 0.5:
        return None
    return span[0], span[1], min(span[2], columns - 1)


def describe_extractor(extractor: Extractor, num_heads: int) -> str:
    """The words for an extractor, such as `layer 1, head 0` or `mean of layers 0,1`.

    Its layers count from 0 (`Extractor.absolute`).
    """
    layer, head, _ = extractor.labels()
    if extractor.method != "mean":
        return "rollout through all layers"
    layers = f"layer {layer}" if layer.isdecimal() else f"mean of layers {layer}"
    if head != "mean":
        return f"{layers}, head {head}"
    return f"{layers}, mean of {num_heads} heads" if num_heads > 1 else layers
