"""Which weights an answer is read off, for every verb that lets people choose: --layer, --head, --method, --row."""

import argparse

from nmt.alignments import Extractor, shape
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.runs import Run


def check_method(options: argparse.Namespace) -> None:
    """Refuse a layer or head beside a method that goes through all of them."""
    chosen = options.layer is not None or options.head is not None or getattr(options, "heads", False)
    if options.method == "rollout" and chosen:
        raise UserError("--method rollout goes through all layers and heads; --layer, --head or --heads say nothing.")


def check_reading(options: argparse.Namespace, translator: Translator) -> None:
    """Refuse a model without attention, and a layer, head or rollout that is not there."""
    if not translator.model.has_attention:
        raise UserError(f"The model of {options.name} has no attention to look at.")
    layers, heads, rolls = shape(translator)
    chosen = (options.layer,) if isinstance(options.layer, int) else options.layer or ()
    if wrong := [layer for layer in chosen if not -layers <= layer < layers]:
        raise UserError(f"--layer {wrong[0]} is not there; the model has layers 0 to {layers - 1}.")
    if options.head is not None and not 0 <= options.head < heads:
        raise UserError(f"--head {options.head} is not there; the model has heads 0 to {heads - 1}.")
    if options.method == "rollout" and not rolls:
        raise UserError(
            f"--method rollout needs the weights of self-attention, which the model of {options.name} does not have."
        )


def chosen(options: argparse.Namespace, run: Run) -> Extractor:
    """What was asked for; else the layer of the run's pictures, the mean of its heads."""
    layer = run.config.train.picture_layer if options.layer is None else options.layer
    return Extractor(layer, options.head, options.row, options.method)
