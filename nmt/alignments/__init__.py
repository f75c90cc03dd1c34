"""Where a run looked, as links between words, and how far these are from known ones.

Links come from forced decoding of a finished target, whoever wrote it. They say where the model looked, not why.
L layers, H heads, S source pieces, T target pieces.
"""

from nmt.alignments.extraction import (
    ROWS,
    Extractor,
    encoded,
    every_layer,
    fitting,
    focus_of,
    from_below,
    in_words,
    limit,
    links_in,
    say_layer,
    shape,
    translated,
    words_of,
)
from nmt.alignments.selection import Gold, LayerSelector, rates, read_gold

__all__ = [
    "ROWS", "Gold", "LayerSelector", "Extractor", "encoded", "every_layer", "fitting", "focus_of", "from_below", "in_words",
    "limit", "links_in", "rates", "read_gold", "say_layer", "shape", "translated", "words_of",
]  # fmt: skip
