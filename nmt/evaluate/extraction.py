"""Which weights of an attention record are read off, and which pairs are short enough for it."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.config.schema import TrainConfig
from nmt.corpus.links import Link
from nmt.corpus.words import WindowSpan, WordPair
from nmt.decode.forced_decoding import CHUNK_PAIRS, AttentionRecord, IdPair, Layers, layer_index
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder

# times tokenizer.max_pieces: memory for the weights grows with the square of the length
MAX_LENGTH_FACTOR = 4
# The row of the weights that belongs to the first target piece. In row t the decoder reads piece
# t − 1, in row 0 <s>, and predicts piece t (Luong et al. 2015, footnote 14). So row 0 is the step
# whose output is the first piece, and row 1 the step whose input it is: "naive-att" and "shift-att"
# of Chen et al. (2020).
DECODER_STEPS = {"output": 0, "input": 1}


class Extractor(NamedTuple):
    """Which of a model's weights are read off, and of which decoder step."""

    layer: Layers = -1
    head: int | None = None  # None: the mean of the heads
    # of DECODER_STEPS: the one whose output or whose input a target word is
    decoder_step: str = "output"
    method: str = "mean"  # of nmt.decode.forced_decoding.METHODS

    def word_weights(self, record: AttentionRecord, words: WordPair) -> np.ndarray:
        """[target words, source words and </s>]."""
        weights = record.weight_table(self.method, self.layer, self.head)
        return words.merge(weights[DECODER_STEPS[self.decoder_step] :])

    def window_spans(
        self, record: AttentionRecord, words: WordPair
    ) -> list[WindowSpan | None] | None:
        """p_t, first and last word of the window of each target word; None without a window."""
        if record.p_t is None or record.window_reach is None or self.method != "mean":
            return None
        p_t = record.p_t[DECODER_STEPS[self.decoder_step] :]
        return words.window_spans(p_t, record.window_reach)

    def absolute(self, num_layers: int) -> "Extractor":
        """The same weights, by layers counted from 0."""
        return self._replace(layer=absolute_layers(self.layer, num_layers))

    def labels(self) -> tuple[str, str, str]:
        """For tables: layer (0, `1,2` or rollout), head (a number or mean) and decoder step."""
        layers = (self.layer,) if isinstance(self.layer, int) else self.layer
        layer = ",".join(map(str, layers)) if self.method == "mean" else self.method
        return layer, "mean" if self.head is None else str(self.head), self.decoder_step


def default_extractor(train: TrainConfig, model: EncoderDecoder) -> Extractor:
    """The head that guided alignment has trained, else the mean of train.heatmap_layer."""
    if train.guided_alignment:
        return Extractor(model.guided_layer, 0, model.guided_step)
    return Extractor(train.heatmap_layer)


def absolute_layers(layer: Layers, num_layers: int) -> Layers:
    """The same layers counted from 0: -1 is the last; one out of range is the last or first."""
    if isinstance(layer, int):
        return layer_index(layer, num_layers)
    return tuple(layer_index(single, num_layers) for single in layer)


def layer_candidates(num_layers: int) -> list[Layers]:
    """Each layer, then the means of the upper two, three, … of them.

    Neighbours often attend to complementary words.
    """
    candidates: list[Layers] = list(range(num_layers))
    for count in range(2, num_layers + 1):
        candidates.append(tuple(range(num_layers - count, num_layers)))
    return candidates


def record_words(record: AttentionRecord, tokenized: bool = False) -> WordPair:
    """The words of a recorded pair."""
    return WordPair.from_pieces(record.source_pieces, record.target_pieces, tokenized)


def extract_links(weights: np.ndarray, threshold: float | None = None) -> set[Link]:
    """One link for each target word, to the source word of largest weight (Luong et al. 2015 §5.4).

    Or all links with a weight of at least `threshold`. weights [target words, source words and
    </s>]: the last column is never linked. The first of equal weights wins; a row of zeros gives no
    link. Raises UserError for a threshold that is not in (0, 1].
    """
    weights = weights[:, :-1]
    if threshold is not None:
        if not 0 < threshold <= 1:
            raise UserError(
                f"An alignment threshold of {threshold} is not possible; it must be above 0 and at "
                "most 1."
            )
        return {(int(source), int(target)) for target, source in np.argwhere(weights >= threshold)}
    if not weights.shape[1]:
        return set()
    links = set()
    for target, source in enumerate(weights.argmax(axis=1)):
        if weights[target, source] > 0:
            links.add((int(source), target))
    return links


def encode_pairs(translator: Translator, pairs: Iterable[tuple[str, str]]) -> Iterator[IdPair]:
    """The ids of sentence pairs; raises UserError for a pair that is too long to record."""

    def encoded() -> Iterator[IdPair]:
        remaining = iter(pairs)
        while chunk := list(itertools.islice(remaining, CHUNK_PAIRS)):
            yield from translator.tokenizers.encode_pairs(chunk)

    return refuse_long_pairs(translator, encoded())


def translate_to_pairs(translator: Translator, lines: Iterable[str]) -> Iterator[IdPair]:
    """The ids of lines and of their translations; raises UserError for a pair that is too long."""
    translations = translator.translate(lines)
    return refuse_long_pairs(translator, ((each.source_ids, each.ids) for each in translations))


def refuse_long_pairs(translator: Translator, pairs: Iterable[IdPair]) -> Iterator[IdPair]:
    """The same pairs; raises UserError at one that is too long to record."""
    longest = max_pieces_per_side(translator)
    for number, pair in enumerate(pairs, 1):
        if max(map(len, pair)) > longest:
            raise UserError(
                f"Pair {number} is longer than {longest} pieces, too long to record its attention."
            )
        yield pair


def max_pieces_per_side(translator: Translator) -> int:
    """The most pieces of a source or target, without </s>, whose attention is recorded."""
    most = MAX_LENGTH_FACTOR * translator.max_pieces
    max_length = translator.model.max_length
    return most if max_length is None else min(most, max_length - 1)


def fitting_pairs(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The indices of the pairs that are not too long to record."""
    longest = max_pieces_per_side(translator)
    encoded = translator.tokenizers.encode_pairs(pairs)
    return [index for index, pair in enumerate(encoded) if max(map(len, pair)) <= longest]
