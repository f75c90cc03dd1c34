"""Where a run looked, as links between words, and how far these are from known ones.

Links come from forced decoding of a finished target, whoever wrote it. They say where the model looked, not why.
L layers, H heads, S source pieces, T target pieces.
"""

from nmt.alignments.judge import Gold, Judge, rates, read_gold
from nmt.alignments.reading import (
    ROWS,
    Reading,
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

__all__ = [
    "ROWS", "Gold", "Judge", "Reading", "encoded", "every_layer", "fitting", "focus_of", "from_below", "in_words",
    "limit", "links_in", "rates", "read_gold", "say_layer", "shape", "translated", "words_of",
]  # fmt: skip
