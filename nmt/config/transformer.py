"""The configuration of the Transformer."""

from dataclasses import dataclass

from nmt.attention.flex import BIASES
from nmt.attention.positions import POSITIONS
from nmt.attention.self_attention import SELF_ATTENTIONS
from nmt.config.schema import Config, option
from nmt.errors import UserError

FLEX = {"self_attention": ("flex",)}  # with windows and biases
LABELS = {"flex": "softmax", "fast_weights": "fast weights", "delta": "delta rule"}
POSITIVE_FEATURES = ("linear", "fast_weights", "delta")  # functions of φ(q) and φ(k)


@dataclass(kw_only=True)
class TransformerConfig:
    """Vaswani et al. 2017, with pre- or post-norm and later kinds of attention and positions."""

    kind: str = option("the architecture: transformer")
    encoder_layers: int = option("layers of the encoder", above=0, maximum=256)
    decoder_layers: int = option("layers of the decoder", above=0, maximum=256)
    hidden_size: int = option(
        "size of embeddings and hidden vectors (d_model)", above=0, maximum=65536
    )
    num_heads: int = option("attention heads of each layer", above=0, maximum=1024)
    feed_forward_size: int = option(
        "inner size of the feed-forward layers (d_ff)", above=0, maximum=262144
    )
    norm: str = option(
        "where the layer norm is: before or after each sub-layer",
        choices=("pre", "post"),
        paper="Vaswani et al. 2017 §5.4",
    )
    activation: str = option(
        "activation of the feed-forward layers", choices=("relu", "gelu", "silu")
    )
    dropout: float | None = option(
        "dropout of embeddings and sub-layers; null = choose it by the number of passes over "
        "the training pairs",
        minimum=0,
        below=1,
    )
    attention_dropout: float = option(
        "dropout of attention weights; self_attention=softmax only", 0.0, minimum=0, below=1
    )
    tie_embeddings: bool = option(
        "share the target embedding with the output layer, and with a joint vocabulary also "
        "with the source embedding"
    )
    output_bias: bool = option("add a bias to the output layer", False)
    self_attention: str = option(
        "self-attention of encoder and decoder; cross-attention is always softmax",
        "softmax",
        choices=SELF_ATTENTIONS,
        paper="linear: Katharopoulos et al. 2020; additive: Bahdanau et al. 2015; fast_weights: "
        "Schmidhuber 1992; delta: Schlag et al. 2021",
    )
    sliding_window: int = option(
        "largest distance that is attended to; 0 = all",
        0,
        minimum=0,
        maximum=10**6,
        requires=FLEX,
        paper="Beltagy et al. 2020",
    )
    distance_bias: str = option(
        "bias that is added to the scores by distance",
        "none",
        choices=BIASES,
        requires=FLEX,
        paper="alibi: Press et al. 2022; relative: after Raffel et al. 2020",
    )
    max_distance: int = option(
        "longer distances have the same bias as this one",
        32,
        above=0,
        maximum=10**6,
        requires={"distance_bias": ("relative",)},
    )
    positions: str = option(
        "how positions are encoded",
        "sinusoidal",
        choices=POSITIONS,
        paper="learned: Gehring et al. 2017; rotary: Su et al. 2021",
    )
    max_positions: int = option(
        "longest sentence, including </s>",
        1024,
        above=0,
        maximum=10**6,
        requires={"positions": ("learned",)},
    )

    def attention_labels(self) -> list[str]:
        """Layers and heads, self-attention, and its window; cross-attention is always the same."""
        score = LABELS.get(self.self_attention, self.self_attention)
        for name in (self.positions, self.distance_bias):
            if name != "none":
                score += f", {name}"
        window = "global"
        if self.self_attention == "flex" and self.sliding_window:
            window = f"sliding, D = {self.sliding_window}"
        return [f"{self.decoder_layers} layers × {self.num_heads} heads", score, window]

    def architecture_labels(self) -> list[str]:
        """Architecture, number of layers, and size."""
        return [
            "transformer",
            f"{self.encoder_layers} + {self.decoder_layers}",
            str(self.hidden_size),
        ]

    def check(self, config: Config) -> None:
        """What must fit together; raises UserError."""
        attention = f"model.self_attention={self.self_attention}"
        if self.hidden_size % (2 * self.num_heads):
            raise UserError(
                f"model.hidden_size={self.hidden_size} must be a multiple of 2 × "
                f"model.num_heads={self.num_heads}."
            )
        if self.self_attention == "flex" and config.train.compile:
            raise UserError(
                f"train.compile=true is not possible with {attention}, which compiles its "
                "attention itself."
            )
        if self.self_attention != "softmax" and self.attention_dropout:
            given = f"model.attention_dropout={self.attention_dropout}"
            raise UserError(
                f"{given} is not possible with {attention}, which drops no weights; it must be 0."
            )
        if self.positions == "rotary" and self.self_attention in (*POSITIVE_FEATURES, "additive"):
            raise UserError(
                f"model.positions=rotary is not possible with {attention}: only dot products of "
                "rotated vectors depend on the distance; choose model.positions=sinusoidal or "
                "learned."
            )
        if self.positions == "none" and self.distance_bias == "none":
            raise UserError(
                "model.positions=none needs model.distance_bias=alibi or relative; without one "
                "the model could not tell the order of the words."
            )
        self.check_positions(config)

    def check_positions(self, config: Config) -> None:
        """Learned positions must reach to the end of any source and of any translation."""
        decode = config.decode
        source = config.tokenizer.max_pieces
        target = int(decode.max_length_ratio * source + decode.max_length_extra)
        longest = max(source, target) + 1  # with </s>
        if self.positions == "learned" and self.max_positions < longest:
            raise UserError(
                f"model.max_positions={self.max_positions} is too small; with "
                f"tokenizer.max_pieces={source}, "
                f"decode.max_length_ratio={decode.max_length_ratio:g} and "
                f"decode.max_length_extra={decode.max_length_extra} a sentence can have {longest} "
                "positions, so it must be at least that."
            )
