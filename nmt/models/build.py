"""From a configuration to a model; layers themselves take plain arguments."""

from collections.abc import Callable
from typing import Any

from nmt.config import RecurrentConfig, TransformerConfig
from nmt.models.base import EncoderDecoder
from nmt.models.recurrent import Bahdanau, Luong
from nmt.models.transformer import Transformer


def build(
    config: RecurrentConfig | TransformerConfig, source_size: int, target_size: int, joint: bool
) -> EncoderDecoder:
    """The model of this configuration over vocabularies of these sizes, freshly initialised from torch's generator."""
    return BUILDERS[type(config)](config, source_size, target_size, joint)


def transformer(config: TransformerConfig, source_size: int, target_size: int, joint: bool) -> EncoderDecoder:
    """The Transformer with its attention function and positional encoding."""
    return Transformer(
        source_size,
        target_size,
        joint,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        size=config.size,
        heads=config.heads,
        feed_forward=config.feed_forward,
        norm=config.norm,
        activation=config.activation,
        dropout=config.dropout,
        tie=config.tie,
        attention=config.attention,
        sliding_window=config.sliding_window,
        bias=config.bias,
        max_distance=config.max_distance,
        positions=config.positions,
        max_positions=config.max_positions,
        attention_dropout=config.attention_dropout,
    )


def recurrent(config: RecurrentConfig, source_size: int, target_size: int, joint: bool) -> EncoderDecoder:
    """Bahdanau's model with attention before the step, Luong's with attention after it or none."""
    if config.order == "before":
        return Bahdanau(
            source_size,
            target_size,
            joint,
            embedding=config.embedding,
            hidden=config.hidden,
            encoder_hidden=config.encoder_units,
            maxout_size=config.maxout or config.embedding,
            score=config.score,
            window=config.window,
            radius=config.radius,
            max_positions=config.max_positions,
            normalise=config.normalise,
            hard_gradient=config.hard_gradient,
            closing=config.closing,
            exponent=config.position_exponent,
            hard_entropy=config.hard_entropy,
            dropout=config.dropout,
            tie=config.tie,
        )
    return Luong(
        source_size,
        target_size,
        joint,
        cell=config.cell,
        layers=config.layers,
        embedding=config.embedding,
        hidden=config.hidden,
        encoder_hidden=config.encoder_units,
        bidirectional=config.bidirectional,
        reverse_source=config.reverse_source,
        order=config.order,
        input_feeding=config.input_feeding,
        score=config.score,
        window=config.window,
        radius=config.radius,
        max_positions=config.max_positions,
        normalise=config.normalise,
        hard_gradient=config.hard_gradient,
        closing=config.closing,
        exponent=config.position_exponent,
        hard_entropy=config.hard_entropy,
        dropout=config.dropout,
        tie=config.tie,
    )


BUILDERS: dict[type, Callable[[Any, int, int, bool], EncoderDecoder]] = {
    RecurrentConfig: recurrent,
    TransformerConfig: transformer,
}
