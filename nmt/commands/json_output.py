"""Where a model looked as one JSON object a pair, for programs: nothing has to be read out of a table or a picture."""

from typing import Any

import numpy as np

from nmt.alignments import Extractor, focus_of, from_below, in_words, links_in
from nmt.decode.attention_record import AttentionRecord


def looked(
    look: AttentionRecord, reading: Extractor, tokenised: bool, threshold: float | None = None, weights: bool = False
) -> dict[str, Any]:
    """The words of a pair, the links between them, and which of the model's weights those were read off.

    alignment = [source word, target word] pairs, from 0; layer: a number, several whose mean it is, or None for a
    method that goes through all of them; head: None is the mean of the heads. With `weights`, source_words names their
    columns, </s> at last, and weights has a row for each word, to 4 decimals; local attention adds p_t and window.
    """
    assert look.weights is not None
    matrix, source, target = in_words(look, reading, tokenised)
    entry: dict[str, Any] = {
        "source_words": source if weights else source[:-1],
        "words": target,
        "alignment": sorted(map(list, links_in(matrix, threshold))),
        "layer": from_below(reading.layer, len(look.weights)) if reading.method == "mean" else None,
        "head": reading.head,
        "method": reading.method,
        "row": reading.row,
    }
    if weights:
        entry["weights"] = np.round(matrix, 4).tolist()
        entry |= windows(look, reading, tokenised)
    return entry


def windows(look: AttentionRecord, reading: Extractor, tokenised: bool) -> dict[str, Any]:
    """p_t, and the first and last word of the window, for each target word in columns of the weights.

    Nothing where attention is not local; None for a word without pieces.
    """
    focus = focus_of(look, reading, tokenised)
    if focus is None:
        return {}
    return {
        "p_t": [seen and round(seen[0], 4) for seen in focus],
        "window": [seen and [int(seen[1]), int(seen[2])] for seen in focus],
    }
