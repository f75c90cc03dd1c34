"""A Transformer as a folder of CTranslate2, which translates without nmt: weights, tokenizers, README, provenance.

N positions, D model size. CTranslate2 (https://opennmt.net/CTranslate2) is a C++ engine for Transformers.
"""

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import sinusoids
from nmt.config.transformer import TransformerConfig
from nmt.convert.export import HOLD_EVERY_MODEL, Export, as_json
from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.models.transformer import Transformer

VERSION = 6  # part of the folder's name; to be raised when the content of an export changes
EXPORTABLE = "model=transformer, transformer_big, transformer_learned, transformer_rotary and transformer_tiny can"
SEARCH = """`nmt translate --engine ctranslate2` searches again where a placeholder was lost or there is a loop; this
example does not.

"""


class CTranslate2Export(Export):
    """The folder."""

    @property
    def name(self) -> str:
        return self.hashed_name(f"ctranslate2-{self.quantization}", VERSION, vars(self.config.model), self.positions)

    @property
    def versions(self) -> dict[str, str]:
        return {"ctranslate2": import_ctranslate2().__version__}

    def check(self) -> None:
        check_exportable(self.config.model, self.translator.model)
        import_ctranslate2()

    def write_model(self, folder: Path, positions: int) -> None:
        """CTranslate2's own files."""
        model = self.translator.model
        assert isinstance(model, Transformer)
        spec = build_spec(model, self.config.model, self.translator.tokenizers, positions, self.quantization)
        spec.save(str(folder))

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        tokenizers = self.translator.tokenizers
        self.write_model(folder, self.positions)
        tokenizers.save(folder)
        settings = {"quantization": self.quantization, "positions": self.positions}
        (folder / "provenance.json").write_text(as_json(settings | provenance), encoding="utf-8")
        self.write_text_code(folder)
        reason = f"the table of positions ends at {self.positions}, and the training data has nothing longer"
        parts = {"search": SEARCH if tokenizers.protects else "", "longest": self.translator.max_pieces}
        (folder / "README.md").write_text(self.readme("ctranslate2", reason=reason, **parts), encoding="utf-8")


def import_ctranslate2() -> ModuleType:
    """The module ctranslate2; raises UserError where it is not installed."""
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise UserError(
            f"ctranslate2 cannot be imported here ({error}); install it into this environment with "
            "`pip install 'ctranslate2>=4.7'`. `nmt translate --engine torch` does without it."
        ) from None
    version = ctranslate2.__version__
    if tuple(map(int, version.split(".")[:2])) < (4, 7):
        raise UserError(f"ctranslate2 {version} is too old here; `pip install 'ctranslate2>=4.7'`.")
    return ctranslate2


def check_exportable(config: Any, model: EncoderDecoder) -> None:
    """Raise UserError for a model that CTranslate2 cannot represent."""
    if not isinstance(config, TransformerConfig):
        reason = "CTranslate2 runs Transformers only"
    elif config.self_attention == "flex":
        reason = "CTranslate2's encoder has neither a sliding window nor a bias by distance (model.self_attention=flex)"
    elif config.self_attention != "softmax":
        given = f"model.self_attention={config.self_attention}"
        reason = f"CTranslate2's self-attention is a softmax of dot products ({given} is not)"
    elif not isinstance(model, Transformer):
        reason = "CTranslate2 has no ensembles; export one run at a time"
    else:
        return
    others = "" if isinstance(model, Ensemble) else f" {HOLD_EVERY_MODEL}"
    raise UserError(f"This run cannot be exported: {reason}. {EXPORTABLE}.{others}")


def build_spec(
    model: Transformer, config: TransformerConfig, tokenizers: Tokenizers, positions: int, quantization: str
) -> Any:
    """A TransformerSpec with the weights of the model, validated and ready to `save`.

    `positions` is the length of the position tables: the longest sentence, </s> counted.
    """
    specs = import_ctranslate2().specs
    activation = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}[config.activation]
    options: dict[str, Any] = {"pre_norm": config.norm == "pre", "activation": activation}
    if config.positions == "rotary":  # dimension i is paired with i + K/2 in both: no interleaving
        options |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 10000.0}
    encoder = specs.TransformerEncoderSpec(len(model.encoder), config.num_heads, **options)
    decoder = specs.TransformerDecoderSpec(len(model.decoder), config.num_heads, **options)
    model_spec = specs.TransformerSpec(encoder, decoder)
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
    set_vocabularies(model_spec, tokenizers)
    model_spec.config.layer_norm_epsilon = model.encoder[0].feed_forward_residual.norm.eps  # type: ignore[union-attr]
    model_spec.validate()
    model_spec.optimize(quantization)
    return model_spec


def set_vocabularies(spec: Any, tokenizers: Tokenizers) -> None:
    """Register the pieces by their ids and the special pieces; the engine appends </s> to sources."""
    source, target = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNK], target[BOS], target[EOS]
    spec.config.decoder_start_token, spec.config.add_source_eos = target[BOS], True


def set_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    """Copy the weights of self-attention and the feed-forward network."""
    set_attention(spec.self_attention, layer.attention, layer.attention_residual.norm, (0, 3))
    set_feed(spec.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    """Copy the weights of self-attention, cross-attention and the feed-forward network."""
    set_attention(spec.self_attention, layer.self_attention, layer.self_residual.norm, (0, 3))
    set_attention(spec.attention, layer.cross_attention, layer.cross_residual.norm, (0, 1, 3))
    set_feed(spec.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_attention(spec: Any, module: MultiHeadAttention, norm: nn.LayerNorm, bounds: tuple[int, ...]) -> None:
    """Copy the weights of an attention module.

    `bounds` divides query, key and value [D D] among the matrices of `spec`: (0, 3) puts all into one, (0, 1, 3) the
    query into one, and key and value, which are projected from the memory, into another.
    """
    for linear, first, last in zip(spec.linear, bounds, bounds[1:], strict=False):
        rows = slice(first * module.size, last * module.size)
        linear.weight, linear.bias = array(module.weight[rows]), array(module.bias[rows])
    set_linear(spec.linear[-1], module.output)
    set_norm(spec.layer_norm, norm)


def set_feed(spec: Any, feed: FeedForward, norm: nn.LayerNorm) -> None:
    """Copy the weights of a feed-forward network: linear, activation, linear."""
    set_linear(spec.linear_0, feed[0])
    set_linear(spec.linear_1, feed[2])
    set_norm(spec.layer_norm, norm)


def set_linear(spec: Any, linear: nn.Module) -> None:
    """Copy W and b of W x + b."""
    spec.weight, spec.bias = array(linear.weight), array(linear.bias)


def set_norm(spec: Any, norm: nn.Module) -> None:
    """Copy γ and β of a layer norm."""
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def position_table(config: TransformerConfig, learned: nn.Module, positions: int) -> np.ndarray:
    """[N D], added to √D · embedding.

    Stored in full, because CTranslate2's own sinusoids count from 1 and have other frequencies. A learned table that
    is shorter repeats its last row.
    """
    if config.positions == "learned":
        table = np.float32(math.sqrt(config.hidden_size)) * array(learned.table)
        return np.pad(table, ((0, max(0, positions - len(table))), (0, 0)), mode="edge")
    return sinusoids(0, positions, config.hidden_size, torch.empty(0)).numpy()


def array(tensor: Tensor | nn.Module) -> np.ndarray:
    """Weights as float32; a copy, because CTranslate2 quantizes in place."""
    assert isinstance(tensor, Tensor)
    return tensor.detach().float().cpu().numpy().copy()
