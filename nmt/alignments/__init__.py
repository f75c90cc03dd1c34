"""Links between words, read off attention weights under forced decoding, and their error rate against gold links.

Attention weights show what the model attends to, not why.
L layers, H heads, S source pieces, T target pieces.
"""

from nmt.alignments.alignment import Alignment
from nmt.alignments.extraction import (
    DECODER_STEPS,
    Extractor,
    absolute_layers,
    describe_layers,
    encode_pairs,
    extract_links,
    fitting_pairs,
    layer_candidates,
    max_pieces_per_side,
    record_words,
    translate_to_pairs,
)
from nmt.alignments.gold import GoldAlignments, alignment_error_rates, read_gold_alignments
from nmt.alignments.layer_selection import LayerSelector

__all__ = [
    "DECODER_STEPS", "Alignment", "Extractor", "GoldAlignments", "LayerSelector", "absolute_layers",
    "alignment_error_rates", "describe_layers", "encode_pairs", "extract_links", "fitting_pairs", "layer_candidates",
    "max_pieces_per_side", "read_gold_alignments", "record_words", "translate_to_pairs",
]  # fmt: skip
