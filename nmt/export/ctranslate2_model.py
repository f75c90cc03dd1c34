"""A Transformer as CTranslate2 wants it.

N positions, D model size. CTranslate2 (https://opennmt.net/CTranslate2) is a C++ engine for Transformers alone.
"""

import math
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import sinusoids
from nmt.config import RecurrentConfig, TransformerConfig
from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.models.transformer import Transformer

POSSIBLE = "model=transformer, transformer_big, transformer_learned, transformer_rotary and transformer_tiny can"


def library() -> ModuleType:
    """The module ctranslate2; raises UserError where it is not installed."""
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise UserError(
            f"ctranslate2 cannot be imported here ({error}); install it into this environment with "
            f"`pip install 'ctranslate2>=4.7'`, or leave it out: --engine torch needs nothing more."
        ) from None
    version = ctranslate2.__version__
    if tuple(map(int, version.split(".")[:2])) < (4, 7):
        raise UserError(f"ctranslate2 {version} is too old here; `pip install 'ctranslate2>=4.7'`.")
    return ctranslate2


def check(config: RecurrentConfig | TransformerConfig, model: EncoderDecoder) -> None:
    """Raises UserError for a model that CTranslate2 has no words for."""
    if isinstance(config, RecurrentConfig):
        why = "recurrent models have no place in CTranslate2, which knows Transformers alone"
    elif config.attention == "linear":
        why = "CTranslate2 has no linear attention (model.attention=linear)"
    elif config.attention == "flex":
        why = "CTranslate2's encoder has neither our sliding window nor our bias by distance (model.attention=flex)"
    elif not isinstance(model, Transformer):
        why = "several models that write together have no place in CTranslate2; export one run at a time"
    else:
        return
    raise UserError(f"This run cannot be exported: {why}. {POSSIBLE}.")


def specification(
    model: Transformer, config: TransformerConfig, tokenizers: Tokenizers, positions: int, quantization: str
) -> Any:
    """The whole model, checked and ready to `save`; `positions`: the longest sentence, </s> counted."""
    specs = library().specs
    activation = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}[config.activation]
    shared: dict[str, Any] = {"pre_norm": config.norm == "pre", "activation": activation}
    if config.positions == "rotary":  # dimension i is paired with i + K/2 in both: no interleaving
        shared |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 10000.0}
    encoder = specs.TransformerEncoderSpec(len(model.encoder), config.heads, **shared)
    decoder = specs.TransformerDecoderSpec(len(model.decoder), config.heads, **shared)
    whole = specs.TransformerSpec(encoder, decoder)
    for spec, layer in zip(encoder.layer, model.encoder, strict=True):
        set_encoder_layer(spec, layer)  # type: ignore[arg-type]
    for spec, layer in zip(decoder.layer, model.decoder, strict=True):
        set_decoder_layer(spec, layer)  # type: ignore[arg-type]
    encoder.embeddings[0].weight, decoder.embeddings.weight = (
        array(table.weight) for table in (model.source_embedding, model.target_embedding)
    )
    decoder.projection.weight = array(model.output.weight)
    if config.norm == "pre":
        set_norm(encoder.layer_norm, model.encoder_norm)
        set_norm(decoder.layer_norm, model.decoder_norm)
    if config.positions != "rotary":
        for spec, table in ((encoder, model.source_positions), (decoder, model.target_positions)):
            spec.position_encodings.encodings = position_table(config, table, positions)
    set_vocabularies(whole, tokenizers)
    whole.config.layer_norm_epsilon = model.encoder[0].feed_forward_residual.norm.eps  # type: ignore[union-attr]
    whole.validate()
    whole.optimize(quantization)
    return whole


def set_vocabularies(whole: Any, tokenizers: Tokenizers) -> None:
    """The pieces by their ids, and which of them are special; sources get their </s> from the engine."""
    source, target = (one.pieces(range(one.size)) for one in tokenizers)
    whole.register_source_vocabulary(source)
    whole.register_target_vocabulary(target)
    whole.config.unk_token, whole.config.bos_token, whole.config.eos_token = target[UNK], target[BOS], target[EOS]
    whole.config.decoder_start_token, whole.config.add_source_eos = target[BOS], True


def set_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    """Self-attention, feed-forward."""
    set_attention(spec.self_attention, layer.attention, layer.attention_residual.norm, (0, 3))
    set_feed(spec.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    """Self-attention, cross-attention, feed-forward."""
    set_attention(spec.self_attention, layer.self_attention, layer.self_residual.norm, (0, 3))
    set_attention(spec.attention, layer.cross_attention, layer.cross_residual.norm, (0, 1, 3))
    set_feed(spec.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_attention(spec: Any, module: MultiHeadAttention, norm: nn.LayerNorm, cuts: tuple[int, ...]) -> None:
    """`cuts`: which of query, key, value [D D] lie in one matrix: all, or key and value, which read the memory."""
    for one, first, last in zip(spec.linear, cuts, cuts[1:], strict=False):
        rows = slice(first * module.size, last * module.size)
        one.weight, one.bias = array(module.weight[rows]), array(module.bias[rows])
    set_linear(spec.linear[-1], module.output)
    set_norm(spec.layer_norm, norm)


def set_feed(spec: Any, feed: FeedForward, norm: nn.LayerNorm) -> None:
    """Linear, activation, linear."""
    set_linear(spec.linear_0, feed[0])
    set_linear(spec.linear_1, feed[2])
    set_norm(spec.layer_norm, norm)


def set_linear(spec: Any, linear: nn.Module) -> None:
    """W x + b."""
    spec.weight, spec.bias = array(linear.weight), array(linear.bias)


def set_norm(spec: Any, norm: nn.Module) -> None:
    """γ, β."""
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def position_table(config: TransformerConfig, learned: nn.Module, positions: int) -> np.ndarray:
    """[N D] that is added to √D · embedding.

    Written out: the sinusoids that CTranslate2 would make itself count from 1 and have other frequencies.
    """
    if config.positions == "learned":
        return np.float32(math.sqrt(config.size)) * array(learned.table)
    return sinusoids(0, positions, config.size, torch.empty(0)).numpy()


def array(tensor: Tensor | nn.Module) -> np.ndarray:
    """Weights as float32; a copy, because CTranslate2 quantizes in place."""
    assert isinstance(tensor, Tensor)
    return tensor.detach().float().cpu().numpy().copy()
