"""A folder that AutoModelForSeq2SeqLM and AutoTokenizer of Hugging Face transformers open, without remote code.

The Transformer goes by the names of Pegasus (pre-norm) or Marian (post-norm). N positions, V vocabulary, D model size.
Both scale embeddings by √D, add a table of positions, and have biases in every projection; Pegasus has a last norm
after each stack. Of the tokenizer, a unigram model keeps its pieces and scores; a BPE model becomes the list of its
merges, first ones first.
"""

import json
import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import sinusoids
from nmt.config.transformer import TransformerConfig
from nmt.convert.export import HOLD_EVERY_MODEL, Export, as_json, score_lines
from nmt.data.normalization import INVISIBLE, SPACES
from nmt.data.tags import language_tag
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.layers import FeedForward
from nmt.models.transformer import Transformer

log = logging.getLogger("nmt")
VERSION = 3  # part of the folder's name; to be raised when the content of an export changes
ARCHITECTURES = {"pre": ("pegasus", "PegasusForConditionalGeneration"), "post": ("marian", "MarianMTModel")}
SPACE = "▁"
NEVER = -1e9  # the score of pieces that are no text: <pad>, <s>, </s>
SPECIAL = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}
REPOSITORY = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", re.ASCII)
Weights = dict[str, Tensor]

TAGS = """
The first word of each sentence is the tag of the language to translate into, such as `{tag}`.
"""
PROTECTION = """
In training, numbers, URLs, e-mails and the like were replaced by placeholders, and lines in capitals
were encoded as small letters. Do the same with `text_filter.py` (it needs `linkify-it-py`), or they are translated as
any other text:
`protected = protect(line)`, translate `protected.text`, then `restore(text, protected)`.
"""


@dataclass
class HuggingFaceExport(Export):
    """The folder; `repository`: OWNER/NAME on the hub, where it will be uploaded to."""

    repository: str | None = None

    @property
    def name(self) -> str:
        shape = [VERSION, vars(self.config.model), vars(self.config.decode), self.positions, self.licences.chosen]
        return self.hashed_name("hf", *shape, *([self.repository] if self.repository else []))

    @property
    def versions(self) -> dict[str, str]:
        return {"safetensors": safetensors.__version__}

    def check(self) -> None:
        check_exportable(self.config.model, self.translator.model, self.translator.tokenizers)

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        model, tokenizer = self.translator.model, self.translator.tokenizers.source
        assert isinstance(model, Transformer)
        weights = model_weights(model, self.config.model, self.positions)
        (folder / "model.safetensors").write_bytes(save(weights, {"format": "pt"}))
        written = {
            "config": model_config(self.config.model, tokenizer.size, self.positions),
            "generation_config": self.generation_config(),
            "tokenizer": tokenizer_json(tokenizer),
            "tokenizer_config": tokenizer_config(tokenizer, self.translator.max_pieces + 1),
            "provenance": provenance,
        }
        for name, content in written.items():
            (folder / f"{name}.json").write_text(as_json(content), encoding="utf-8")
        self.write_text_code(folder)
        size = sum(weight.numel() for name, weight in weights.items() if "embed_positions" not in name)
        (folder / "README.md").write_text(self.card(size, provenance), encoding="utf-8")

    def generation_config(self) -> dict[str, Any]:
        """The run's search: scores are log-probability / length^α; <pad> and <s> are never written."""
        decode = self.config.decode
        return {
            "decoder_start_token_id": BOS,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
            "num_beams": decode.beam,
            "length_penalty": decode.length_penalty,
            "early_stopping": True,
            "do_sample": False,
            "max_length": self.positions,
            "suppress_tokens": [PAD, BOS],
        }

    def card(self, parameters: int, provenance: dict[str, Any]) -> str:
        """The model card."""
        data, targets = self.config.data, self.config.data.target.split("+")
        return self.readme(
            "hugging_face",
            languages=json.dumps(sorted({*data.source.split("+"), *targets})),
            licence_field=f"license: {self.licences.chosen}\n" if self.licences.chosen else "",
            parameters=parameters / 1e6,
            source=data.source,
            target=data.target,
            folder=self.repository or ".",
            made=self.how_it_was_made(provenance),
            longest=self.positions - 1,
            tags=TAGS.format(tag=language_tag(targets[0])) if len(targets) > 1 else "",
            example="Ein Mann schläft." if data.source == "de" else "…",
            scores="\n".join(score_lines(provenance["scores"])) or "None was computed.",
            protection=PROTECTION if self.translator.tokenizers.protects else "",
        )

    def how_it_was_made(self, provenance: dict[str, Any]) -> str:
        """A sentence for the model card."""
        model, run, size = self.config.model, provenance.get("run", {}), self.translator.tokenizers.source.size
        assert isinstance(model, TransformerConfig)
        versions = ", ".join(f"{name} {version}" for name, version in run.get("trained_with", {}).items())
        return (
            f"{model.encoder_layers} + {model.decoder_layers} layers of {model.hidden_size}, {model.num_heads} heads, "
            f"{size:,} pieces; seed {self.config.seed}, {run.get('origin', 'not trained')}; "
            f"{versions or 'no versions'}; hash of the corpus {run.get('corpus_hash', 'unknown')}."
        )


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


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """What gives the pieces of `tokenizer.encode` and </s>, and text again."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    whole = [
        number for number in range(tokenizer.size) if pieces[number] in {*tokenizer.tags, *placeholders(tokenizer)}
    ]
    # "first" would be no beginning after spaces that are stripped, "always" one after each piece of `whole`.
    scheme = "first" if whole else "always"
    spaces = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            added(number, pieces[number], number in SPECIAL.values()) for number in [PAD, UNK, BOS, EOS, *whole]
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers(tokenizer.lowercase)},
        "pre_tokenizer": spaces,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": pieces[EOS], "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {pieces[EOS]: {"id": pieces[EOS], "ids": [EOS], "tokens": [pieces[EOS]]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "ByteFallback"},
                spaces,
            ],
        },
        "model": (bpe_model if tokenizer.sampler.dropout else unigram_model)(tokenizer, pieces),
    }


def unigram_model(tokenizer: Tokenizer, pieces: list[str]) -> dict[str, Any]:
    """Pieces with their log-probabilities."""
    processor = tokenizer.processor
    vocabulary = [
        [piece, NEVER if processor.is_control(n) else processor.get_score(n)] for n, piece in enumerate(pieces)
    ]
    return {"type": "Unigram", "unk_id": UNK, "vocab": vocabulary, "byte_fallback": "<0x00>" in pieces}


def bpe_model(tokenizer: Tokenizer, pieces: list[str]) -> dict[str, Any]:
    """Pieces with every pair that one of them can be merged from."""
    scores = tokenizer.sampler.vocabulary.scores
    splits = ((piece, piece[:cut], piece[cut:]) for piece in scores for cut in range(1, len(piece)))
    found = [(-scores[piece], left, right) for piece, left, right in splits if left in scores and right in scores]
    return {
        "type": "BPE",
        "unk_token": pieces[UNK],
        "fuse_unk": True,
        "byte_fallback": "<0x00>" in pieces,
        "vocab": {piece: number for number, piece in enumerate(pieces)},
        "merges": [[left, right] for _, left, right in sorted(found)],
    }


def normalizers(lowercase: bool) -> list[dict[str, Any]]:
    """`normalize`, small letters if so trained, and single spaces, as SentencePiece's identity rule leaves them."""
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"Regex": SPACES.pattern}, "content": " "},
        {"type": "Replace", "pattern": {"Regex": INVISIBLE.pattern}, "content": ""},
        {"type": "NFC"},
    ]
    if lowercase:
        steps.append({"type": "Lowercase"})
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    return [*steps, {"type": "Replace", "pattern": {"Regex": "^ | $"}, "content": ""}]


def placeholders(tokenizer: Tokenizer) -> list[str]:
    """The pieces that stand for what must not be translated."""
    return tokenizer.pieces(tokenizer.placeholders)


def added(number: int, piece: str, special: bool) -> dict[str, Any]:
    """A piece that is never divided."""
    stripped = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": piece, "special": special} | stripped


def tokenizer_config(tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    """tokenizer_config.json; `longest`: pieces of a source, </s> counted."""
    names = {name: tokenizer.pieces([number])[0] for name, number in SPECIAL.items()}
    return names | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def check_name(name: str) -> None:
    """Raise UserError unless it is OWNER/NAME."""
    if not REPOSITORY.fullmatch(name):
        raise UserError(f"--push {name} is no name of a repository; it is OWNER/NAME, as in my-group/my-translator.")


def check_token() -> None:
    """Raise UserError unless there is a token: that of `hf auth login` or HF_TOKEN."""
    from huggingface_hub.utils import get_token

    if not get_token():
        raise UserError("--push needs a token of the Hugging Face hub: `hf auth login`, or the variable HF_TOKEN.")


def push(folder: Path, name: str) -> str:
    """Upload every file of a folder in one commit, and return the repository's address; a new repository is private.

    Raises UserError where the hub refuses or does not answer.
    """
    check_token()
    from huggingface_hub import HfApi  # here, because the import takes a second

    try:
        api = HfApi()
        address = str(api.create_repo(name, private=True, exist_ok=True))
        api.upload_folder(folder_path=folder, repo_id=name, commit_message="nmt export --format hf")
    except Exception as error:  # the hub and its libraries fail in many ways
        reason = " ".join(str(error).split())[:300].rstrip(". ") or type(error).__name__
        again = f"`hf upload {name} {folder}` tries it again"
        raise UserError(f"{name} could not be uploaded: {reason}. The folder is complete; {again}.") from None
    log.info("Uploaded to %s; a new repository is private until you change it there.", address)
    return address
