"""A Transformer as a folder of CTranslate2, which translates without nmt: weights, tokenizers, README, provenance.

N positions, D model size. CTranslate2 (https://opennmt.net/CTranslate2) is a C++ engine for Transformers.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from torch import Tensor

from nmt.config.transformer import TransformerConfig
from nmt.convert.export import HOLD_EVERY_MODEL, Export, position_table
from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.layers import DecoderLayer
from nmt.models.transformer import Transformer

EXPORTABLE = "model=transformer, transformer_big, transformer_learned, transformer_rotary and transformer_tiny can"
SEARCH = """`nmt translate --engine ctranslate2` searches again where a placeholder was lost or there is a loop; this
example does not.

"""


class CTranslate2Export(Export):
    format = "ctranslate2"

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
        spec = build_spec(model, self.config.model, self.translator.tokenizers, positions)
        spec.optimize(self.quantization)
        spec.save(str(folder))

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        tokenizers = self.translator.tokenizers
        self.write_model(folder, self.positions)
        tokenizers.save(folder)
        reason = f"the table of positions ends at {self.positions}, and the training data has nothing longer"
        parts = {"search": SEARCH if tokenizers.protects else "", "longest": self.translator.max_pieces}
        files: dict[str, str | dict[str, Any]] = {
            "provenance.json": {"quantization": self.quantization, "positions": self.positions} | provenance,
            "README.md": self.readme("ctranslate2", reason=reason, **parts),
        }
        self.write_files(folder, files)


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
    elif config.self_attention != "softmax":
        reason = f"CTranslate2's self-attention is a full softmax; model.self_attention={config.self_attention} is not"
    elif not isinstance(model, Transformer):
        reason = "CTranslate2 has no ensembles; export one run at a time"
    else:
        return
    others = "" if isinstance(model, Ensemble) else f" {HOLD_EVERY_MODEL}"
    raise UserError(f"This run cannot be exported: {reason}. {EXPORTABLE}.{others}")


def build_spec(model: Transformer, config: TransformerConfig, tokenizers: Tokenizers, positions: int) -> Any:
    """A valid TransformerSpec with the weights of the model.

    `positions` is the length of the position tables: the longest sentence, </s> counted.
    """
    specs = import_ctranslate2().specs
    activation = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}[config.activation]
    options: dict[str, Any] = {"pre_norm": config.norm == "pre", "activation": activation}
    if config.positions == "rotary":  # dimension i is paired with i + K/2 in both: no interleaving
        options |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 10000.0}
    encoder = specs.TransformerEncoderSpec(len(model.encoder), config.num_heads, **options)
    decoder = specs.TransformerDecoderSpec(len(model.decoder), config.num_heads, **options)
    layers = zip([*encoder.layer, *decoder.layer], [*model.encoder, *model.decoder], strict=True)
    for spec, layer in layers:
        set_layer(spec, layer)
    encoder.embeddings[0].weight = array(model.source_embedding.weight)
    decoder.embeddings.weight = array(model.target_embedding.weight)
    decoder.projection.weight = array(model.output.weight)
    if config.norm == "pre":
        set_norm(encoder.layer_norm, model.encoder_norm)
        set_norm(decoder.layer_norm, model.decoder_norm)
    if config.positions != "rotary":  # in full: CTranslate2's own sinusoids count from 1 and have other frequencies
        for spec, learned in ((encoder, model.source_positions), (decoder, model.target_positions)):
            spec.position_encodings.encodings = array(position_table(config, learned, positions))
    result = specs.TransformerSpec(encoder, decoder)
    source, target = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers)
    result.register_source_vocabulary(source)
    result.register_target_vocabulary(target)
    about = result.config
    about.unk_token, about.bos_token, about.eos_token = target[UNK], target[BOS], target[EOS]
    about.decoder_start_token, about.add_source_eos = target[BOS], True
    about.layer_norm_epsilon = model.encoder[0].feed_forward_residual.norm.eps  # type: ignore[union-attr]
    result.validate()
    return result


def set_layer(spec: Any, layer: Any) -> None:
    """Copy the weights of a layer: query, key and value as one matrix, or the query of cross-attention as another."""
    if isinstance(layer, DecoderLayer):
        set_attention(spec.self_attention, layer.self_attention, layer.self_residual, (0, 3))
        set_attention(spec.attention, layer.cross_attention, layer.cross_residual, (0, 1, 3))
    else:
        set_attention(spec.self_attention, layer.attention, layer.attention_residual, (0, 3))
    set_linear(spec.ffn.linear_0, layer.feed_forward[0])
    set_linear(spec.ffn.linear_1, layer.feed_forward[2])
    set_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def set_attention(spec: Any, module: Any, residual: Any, bounds: tuple[int, ...]) -> None:
    """Copy the weights of an attention module; `bounds` divides query, key and value among the matrices of `spec`."""
    for linear, first, last in zip(spec.linear, bounds, bounds[1:], strict=False):
        set_linear(linear, module.projection(first, last))
    set_linear(spec.linear[-1], module.output)
    set_norm(spec.layer_norm, residual.norm)


def set_linear(spec: Any, linear: Any) -> None:
    spec.weight, spec.bias = array(linear.weight), array(linear.bias)


def set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def array(tensor: Tensor) -> np.ndarray:
    """Weights as float32; a copy, because CTranslate2 quantizes in place."""
    return tensor.detach().float().cpu().numpy().copy()
