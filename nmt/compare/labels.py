"""Short descriptions of a system's attention and architecture for the cells of a table."""

from nmt.compare.systems import System
from nmt.models.recurrent_config import RecurrentConfig
from nmt.models.transformer_config import TransformerConfig

NONE = "–"
LOCAL = ("local_m", "local_p")


def attention_labels(system: System) -> list[str]:
    """Order, score and window of a system's attention."""
    if len(system.paths) > 1:
        return [f"ensemble of {len(system.paths)}", NONE, NONE]
    model = system.config.model
    return transformer_labels(model) if isinstance(model, TransformerConfig) else recurrent_labels(model)


def transformer_labels(model: TransformerConfig) -> list[str]:
    """The self-attention of a Transformer; its cross-attention is the same in all of them."""
    normalizer = "linear" if model.self_attention == "linear" else "softmax"  # flex: a softmax with windows and biases
    score = ", ".join([normalizer, *(name for name in (model.positions, model.distance_bias) if name != "none")])
    sliding = model.self_attention == "flex" and model.sliding_window
    return [
        f"{model.decoder_layers} layers × {model.num_heads} heads",
        score,
        f"sliding, D = {model.sliding_window}" if sliding else "global",
    ]


def recurrent_labels(model: RecurrentConfig) -> list[str]:
    """The attention of a recurrent model, in the words of table 4 of Luong et al. (2015)."""
    if model.attend == "never":
        return ["never", NONE, NONE]
    window = f"{model.window}, D = {model.window_radius}" if model.window in LOCAL else model.window
    hard = "hard " if model.attention_type == "hard" else ""
    gradient = ", straight through" if hard and model.hard_attention_gradient == "straight_through" else ""
    return [model.attend, f"{hard}{model.score}{gradient}", window]


def architecture_labels(system: System) -> list[str]:
    """Architecture, number of layers and hidden size of a system; dashes for an ensemble."""
    model = system.config.model
    if len(system.paths) > 1:
        return [NONE, NONE, NONE]
    if isinstance(model, TransformerConfig):
        return ["transformer", f"{model.encoder_layers} + {model.decoder_layers}", str(model.hidden_size)]
    return [
        model.cell + (", input feeding" if model.input_feeding and model.attend == "after_step" else ""),
        str(model.num_layers),
        str(model.hidden_size),
    ]
