"""A Transformer under the names of Hugging Face transformers: Pegasus (pre-norm) or Marian (post-norm).

N positions, V vocabulary, D model size. Both architectures scale embeddings by √D, add a table of positions, and have
biases in every projection; Pegasus has a last norm after each stack. Neither is remote code.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import sinusoids
from nmt.config.transformer import TransformerConfig
from nmt.convert.identity import HOLD_EVERY_MODEL
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.layers import FeedForward
from nmt.models.transformer import Transformer

ARCHITECTURES = {"pre": ("pegasus", "PegasusForConditionalGeneration"), "post": ("marian", "MarianMTModel")}
Weights = dict[str, Tensor]


def check_exportable(config: Any, model: EncoderDecoder, tokenizers: Tokenizers) -> None:
    """Raise UserError for a model that Pegasus and Marian cannot represent."""
    if not isinstance(config, TransformerConfig):
        reason = "only Transformers have an architecture there"
    elif not isinstance(model, Transformer):
        reason = "there are no ensembles; export one run at a time"
    elif config.self_attention != "softmax":
        reason = f"there is no model.self_attention={config.self_attention}; model.self_attention=softmax can"
    elif config.positions not in ("sinusoidal", "learned"):
        reason = (
            f"Pegasus and Marian have no model.positions={config.positions}; sinusoidal and learned can, and "
            "--format ctranslate2 can hold rotary ones"
        )
    elif not tokenizers.joint:
        reason = "one tokenizer must read and write; tokenizer.joint=true can, and --format ctranslate2 can hold two"
    else:
        return
    others = "" if isinstance(model, Ensemble) else f" {HOLD_EVERY_MODEL}"
    raise UserError(f"This run cannot be exported for Hugging Face transformers: {reason}.{others}")


def model_config(config: TransformerConfig, vocabulary: int, positions: int) -> dict[str, Any]:
    """config.json."""
    kind, architecture = ARCHITECTURES[config.norm]
    sides: dict[str, Any] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.num_heads,
            f"{side}_ffn_dim": config.feed_forward_size,
            f"{side}_layerdrop": 0.0,
        }
    return sides | {
        "architectures": [architecture],
        "model_type": kind,
        "is_encoder_decoder": True,
        "d_model": config.hidden_size,
        "num_hidden_layers": config.encoder_layers,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "tie_word_embeddings": config.tie_embeddings,
        "share_encoder_decoder_embeddings": config.tie_embeddings,
        "max_position_embeddings": positions,
        "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def model_weights(model: Transformer, config: TransformerConfig, positions: int) -> Weights:
    """The tensors of model.safetensors, in float32; `positions` is the length N of the position tables."""
    weights: Weights = {"final_logits_bias": torch.zeros(1, model.output.out_features)}
    tables = {"encoder": model.source_embedding, "decoder": model.target_embedding}
    if config.tie_embeddings:
        weights["model.shared.weight"] = values(model.target_embedding)
    else:
        weights["lm_head.weight"] = values(model.output)
        weights |= {f"model.{side}.embed_tokens.weight": values(table) for side, table in tables.items()}
    for side, learned in (("encoder", model.source_positions), ("decoder", model.target_positions)):
        weights[f"model.{side}.embed_positions.weight"] = position_table(config, learned, positions)
    layer: Any  # ModuleList knows no types
    for number, layer in enumerate(model.encoder):
        prefix = f"model.encoder.layers.{number}."
        weights |= attention_weights(prefix + "self_attn", layer.attention, layer.attention_residual)
        weights |= feed_forward_weights(prefix, layer.feed_forward, layer.feed_forward_residual)
    for number, layer in enumerate(model.decoder):
        prefix = f"model.decoder.layers.{number}."
        weights |= attention_weights(prefix + "self_attn", layer.self_attention, layer.self_residual)
        weights |= attention_weights(prefix + "encoder_attn", layer.cross_attention, layer.cross_residual)
        weights |= feed_forward_weights(prefix, layer.feed_forward, layer.feed_forward_residual)
    if config.norm == "pre":
        weights |= affine("model.encoder.layer_norm", model.encoder_norm)
        weights |= affine("model.decoder.layer_norm", model.decoder_norm)
    return weights


def attention_weights(name: str, module: MultiHeadAttention, residual: Any) -> Weights:
    """Query, key, value and output projections [D D] of an attention module, and its norm."""
    weights = affine(f"{name}.out_proj", module.output) | affine(f"{name}_layer_norm", residual.norm)
    for part, matrix, bias in zip("qkv", values(module).chunk(3), values(module, "bias").chunk(3), strict=True):
        weights |= {f"{name}.{part}_proj.weight": matrix.clone(), f"{name}.{part}_proj.bias": bias.clone()}
    return weights


def feed_forward_weights(prefix: str, feed: FeedForward, residual: Any) -> Weights:
    """Both linear layers of a feed-forward network, and its norm."""
    return (
        affine(f"{prefix}fc1", feed[0])
        | affine(f"{prefix}fc2", feed[2])
        | affine(f"{prefix}final_layer_norm", residual.norm)
    )


def affine(name: str, module: nn.Module) -> Weights:
    """Weight and bias of a linear layer or a norm."""
    return {f"{name}.weight": values(module), f"{name}.bias": values(module, "bias")}


def values(module: nn.Module, name: str = "weight") -> Tensor:
    """A copy of a parameter in float32 on the CPU."""
    return getattr(module, name).detach().float().cpu().contiguous().clone()


def position_table(config: TransformerConfig, learned: Any, positions: int) -> Tensor:
    """[N D], added to √D · embedding."""
    if config.positions == "learned":
        return math.sqrt(config.hidden_size) * values(learned, "table")
    return sinusoids(0, positions, config.hidden_size, torch.empty(0))
