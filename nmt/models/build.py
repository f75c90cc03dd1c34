"""From a configuration to a model. A new model is one line in MODELS."""

from typing import Any, NamedTuple

from nmt.models.base import EncoderDecoder
from nmt.models.recurrent import Bahdanau, Luong
from nmt.models.recurrent_config import RecurrentConfig
from nmt.models.transformer import Transformer
from nmt.models.transformer_config import TransformerConfig

ModelConfig = RecurrentConfig | TransformerConfig


class Architecture(NamedTuple):
    """The dataclass of a model's keys, and what makes a model from it."""

    config: type
    model: Any  # (config, source_size, target_size, joint) -> EncoderDecoder


def recurrent(config: RecurrentConfig, source_size: int, target_size: int, joint: bool) -> EncoderDecoder:
    """Bahdanau's model where attention comes before the step; Luong's, which has Sutskever's as a case, elsewhere."""
    model = Bahdanau if config.attend == "before_step" else Luong
    return model(config, source_size, target_size, joint)


MODELS = {  # by model.kind
    "recurrent": Architecture(RecurrentConfig, recurrent),
    "transformer": Architecture(TransformerConfig, Transformer),
}


def build(config: ModelConfig, source_size: int, target_size: int, joint: bool) -> EncoderDecoder:
    """The model of this configuration over vocabularies of these sizes, freshly initialised from torch's generator."""
    return MODELS[config.kind].model(config, source_size, target_size, joint)
