"""nmt align --gold: the alignment error rate of a model's attention under forced decoding."""

from nmt.data.links import Link, format_links
from nmt.decode.forced_decoding import Layers
from nmt.decode.translator import Translator
from nmt.evaluate.extraction import DECODER_STEPS, Extractor, absolute_layers, layer_candidates
from nmt.evaluate.gold import GoldAlignments, alignment_error_rates
from nmt.models.base import EncoderDecoder


def print_error_rates(
    translator: Translator,
    gold: GoldAlignments,
    extractors: list[Extractor],
    threshold: float | None,
    print_links: bool,
    reverse: bool,
) -> None:
    """Print AER, precision and recall of each extractor, tab-separated.

    With `print_links`, after an empty line, the links of the best of them follow as the gold file would write them.
    """
    lines: dict[Extractor, list[str]] = {}

    def keep(extractor: Extractor, links: set[Link]) -> None:
        lines.setdefault(extractor, []).append(format_links(links, gold.base, reverse))

    scores = alignment_error_rates(translator, gold, extractors, threshold, keep if print_links else None)
    print("layer\thead\tstep\tAER\tprecision\trecall")
    for extractor, score in scores.items():
        print("\t".join([*extractor.labels(), *(f"{value:.4f}" for value in score)]))
    if print_links:
        best = min(scores, key=lambda extractor: scores[extractor].aer)
        print("", *lines[best], sep="\n")


def table_extractors(
    model: EncoderDecoder, layer: Layers | None, head: int | None, every_head: bool, method: str
) -> list[Extractor]:
    """The lines of the table: `layer`, or every layer and means of the upper ones, each with both decoder steps.

    For each layer the mean of the heads, or `head`, or with `every_head` the mean and each head.
    """
    if method == "rollout":
        return [Extractor(decoder_step=step, method="rollout") for step in DECODER_STEPS]
    layers = layer_candidates(model.num_layers) if layer is None else [absolute_layers(layer, model.num_layers)]
    heads = [None, *range(model.num_heads)] if every_head else [head]
    return [Extractor(some, head, step) for some in layers for head in heads for step in DECODER_STEPS]
