"""From a configuration to a model."""

from collections.abc import Callable
from typing import Any

from nmt.config.recurrent import RecurrentConfig
from nmt.config.transformer import TransformerConfig
from nmt.models.base import EncoderDecoder
from nmt.models.recurrent import Bahdanau, Luong
from nmt.models.transformer import Transformer


def recurrent(
    config: RecurrentConfig, source_size: int, target_size: int, joint: bool
) -> EncoderDecoder:
    """Bahdanau's model if attention comes before the step, else Luong's or Sutskever's."""
    model = Bahdanau if config.attend == "before_step" else Luong
    return model(config, source_size, target_size, joint)


# The model of each class of configuration (nmt/config/validation.py)
MODELS: dict[type, Callable[..., EncoderDecoder]] = {
    RecurrentConfig: recurrent,
    TransformerConfig: Transformer,
}


def build(config: Any, source_size: int, target_size: int, joint: bool) -> EncoderDecoder:
    """A new model with random weights for vocabularies of these sizes.

    `joint`: source and target have one vocabulary, whose embeddings may be shared.
    """
    return MODELS[type(config)](config, source_size, target_size, joint)
