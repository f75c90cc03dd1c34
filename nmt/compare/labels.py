"""What a run is, in the few words of a table's cells."""

from nmt.compare.systems import System
from nmt.models.recurrent_config import RecurrentConfig
from nmt.models.transformer_config import TransformerConfig

NONE = "–"
LOCAL = ("local_m", "local_p")


def looks(entrant: System) -> list[str]:
    """Order, score and window of a run's attention."""
    if len(entrant.paths) > 1:
        return [f"ensemble of {len(entrant.paths)}", NONE, NONE]
    model = entrant.config.model
    return of_transformer(model) if isinstance(model, TransformerConfig) else of_recurrent(model)


def of_transformer(model: TransformerConfig) -> list[str]:
    """What its self-attention is; that between decoder and encoder is the same in all of them."""
    kind = "linear" if model.attention == "linear" else "softmax"  # flex is a softmax with windows and biases
    score = ", ".join([kind, *(name for name in (model.positions, model.bias) if name != "none")])
    sliding = model.attention == "flex" and model.sliding_window
    return [
        f"{model.decoder_layers} layers × {model.heads} heads",
        score,
        f"sliding, D = {model.sliding_window}" if sliding else "global",
    ]


def of_recurrent(model: RecurrentConfig) -> list[str]:
    """As Luong et al. (2015) name the rows of table 4."""
    if model.order == "never":
        return ["never", NONE, NONE]
    window = f"{model.window}, D = {model.radius}" if model.window in LOCAL else model.window
    hard = "hard " if model.normalise == "hard" else ""
    through = ", straight through" if hard and model.hard_gradient == "straight_through" else ""
    return [model.order, f"{hard}{model.score}{through}", window]


def build(entrant: System) -> list[str]:
    """Kind, layers and size."""
    model = entrant.config.model
    if len(entrant.paths) > 1:
        return [NONE, NONE, NONE]
    if model.kind == "transformer":
        return ["transformer", f"{model.encoder_layers} + {model.decoder_layers}", str(model.size)]
    return [
        model.cell + (", input feeding" if model.input_feeding and model.order == "after" else ""),
        str(model.layers),
        str(model.hidden),
    ]
