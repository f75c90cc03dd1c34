"""The options --layer, --head, --method and --decoder-step, which several commands have."""

import argparse

from nmt.alignments import Extractor
from nmt.config import Config
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder


def check_method(options: argparse.Namespace) -> None:
    """Raise UserError for a layer or head together with a method that goes through all of them."""
    given = options.layer is not None or options.head is not None or getattr(options, "heads", False)
    if options.method == "rollout" and given:
        raise UserError(
            "--method rollout goes through all layers and heads; --layer, --head and --heads cannot go with it."
        )


def check_extractor(options: argparse.Namespace, model: EncoderDecoder) -> None:
    """Raise UserError for a model without attention, and for a layer, head or rollout that it does not have."""
    if not model.has_attention:
        raise UserError(f"The model of {options.name} has no attention.")
    num_layers, num_heads = model.num_layers, model.num_heads
    layers = (options.layer,) if isinstance(options.layer, int) else options.layer or ()
    if wrong := [layer for layer in layers if not -num_layers <= layer < num_layers]:
        raise UserError(f"--layer {wrong[0]} does not exist; the model has layers 0 to {num_layers - 1}.")
    if options.head is not None and not 0 <= options.head < num_heads:
        raise UserError(f"--head {options.head} does not exist; the model has heads 0 to {num_heads - 1}.")
    if options.method == "rollout" and not model.has_rollout:
        raise UserError(
            f"--method rollout needs the weights of self-attention, which the model of {options.name} does not have."
        )


def make_extractor(options: argparse.Namespace, config: Config) -> Extractor:
    """The extractor of the options; by default the mean of the heads of the layer that the run's heatmaps show."""
    layer = config.train.heatmap_layer if options.layer is None else options.layer
    return Extractor(layer, options.head, options.decoder_step, options.method)
