"""Which weights the links of a run are read off, unless a user says it: the guided head, or a layer's mean."""

from collections.abc import Sequence

from nmt.config.schema import TrainConfig
from nmt.decode.forced_decoding import METHODS, Layers
from nmt.errors import UserError, choose
from nmt.evaluate.extraction import DECODER_STEPS, Extractor
from nmt.models.base import EncoderDecoder


def default_extractor(train: TrainConfig, model: EncoderDecoder) -> Extractor:
    """The head that guided alignment has trained, or without one the mean of the heads of train.heatmap_layer."""
    if train.guided_alignment:
        return Extractor(model.guided_layer, 0, model.guided_step)
    return Extractor(train.heatmap_layer)


def make_extractor(
    name: str,
    model: EncoderDecoder,
    train: TrainConfig,
    layer: Layers | Sequence[int] | None,
    head: int | None,
    decoder_step: str | None,
    method: str,
) -> Extractor:
    """What a user has chosen of the model of run `name`; None is the default, step "output" where another layer or
    head is chosen. Raises UserError for a layer, head or method that the model does not have.
    """
    if not model.has_attention:
        raise UserError(f"The model of {name} has no attention.")
    choose("decoder step", decoder_step or "output", DECODER_STEPS)
    choose("method", method, METHODS)
    default = default_extractor(train, model)
    if method == "mean" and layer is None and head is None:
        return default._replace(decoder_step=decoder_step or default.decoder_step)
    if method == "rollout" and not (layer is None and head is None):
        raise UserError("Attention rollout goes through all layers and heads; leave out layer and head.")
    if head is not None and not (isinstance(head, int) and 0 <= head < model.num_heads):
        raise UserError(f"Head {head} does not exist; the model has heads 0 to {model.num_heads - 1}.")
    if method == "rollout" and not model.has_rollout:
        raise UserError(
            f"Attention rollout needs the weights of self-attention, which the model of {name} does not have."
        )
    layer = default.layer if layer is None else check_layers(layer, model.num_layers)
    return Extractor(layer, head, decoder_step or "output", method)


def check_layers(layer: Layers | Sequence[int], num_layers: int) -> Layers:
    """The layer, or several as a tuple; raises UserError for one that the model does not have, and for none."""
    layers = (layer,) if isinstance(layer, int) else tuple(layer)
    last = num_layers - 1
    for number in layers or [()]:
        if not isinstance(number, int) or not -last - 1 <= number <= last:
            raise UserError(f"Layer {number} does not exist; the model has layers 0 to {last}.")
    return layer if isinstance(layer, int) else layers
