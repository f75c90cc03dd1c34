"""Attention as one JSON object a pair, for programs that would otherwise have to parse a table."""

from typing import Any

import numpy as np

from nmt.alignments import Extractor, absolute_layers, extract_links
from nmt.decode.forced_decoding import AttentionRecord
from nmt.evaluate.words import WordPair


def attention_entry(
    record: AttentionRecord,
    words: WordPair,
    extractor: Extractor,
    threshold: float | None = None,
    weights: bool = False,
) -> dict[str, Any]:
    """The words of a pair, the links between them, and which of the model's weights those were read off.

    alignment = [source word, target word] pairs, from 0; layer: a number, several if it is the mean of several, or None
    for a method that goes through all of them; head: None is the mean of the heads. With `weights`, source_words names
    their columns, with </s> last, and weights has a row for each word, to 4 decimals; local attention adds p_t, window.
    """
    matrix = extractor.word_weights(record, words)
    entry: dict[str, Any] = {
        "source_words": words.columns if weights else words.source,
        "words": words.target,
        "alignment": sorted(map(list, extract_links(matrix, threshold))),
        "layer": absolute_layers(extractor.layer, record.num_layers) if extractor.method == "mean" else None,
        "head": extractor.head,
        "method": extractor.method,
        "decoder_step": extractor.decoder_step,
    }
    if weights:
        entry["weights"] = np.round(matrix, 4).tolist()
        entry |= window_entry(record, words, extractor)
    return entry


def window_entry(record: AttentionRecord, words: WordPair, extractor: Extractor) -> dict[str, Any]:
    """p_t, and the first and last word of the window, for each target word in columns of the weights.

    Empty where attention is not local; None for a word without pieces.
    """
    spans = extractor.window_spans(record, words)
    if spans is None:
        return {}
    return {
        "p_t": [span and round(span[0], 4) for span in spans],
        "window": [span and [int(span[1]), int(span[2])] for span in spans],
    }
