"""A folder that Hugging Face transformers open with AutoModelForSeq2SeqLM, without remote code.

The Transformer goes by the names of Pegasus (pre-norm) or Marian (post-norm). N positions, V
vocabulary, D model size. Both scale embeddings by √D, add a table of positions, and have biases in
every projection; Pegasus has a last norm after each stack. Of the tokenizer, a unigram model keeps
its pieces and scores; a BPE model becomes the list of its merges, first ones first.
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor

from nmt.config.schema import Config
from nmt.config.transformer import TransformerConfig
from nmt.convert.export import (
    Export,
    as_json,
    carried_licence,
    first_prefix,
    position_table,
    protect_call,
    score_lines,
    tag_list,
)
from nmt.convert.pretrained.files import HUB
from nmt.convert.pretrained.folder import Written, write_back
from nmt.convert.pretrained.model import BIAS, POSITIONS, SHARED, TABLES, their_weights
from nmt.convert.pretrained.vocabulary import OWN_TOKENIZER
from nmt.corpus.normalization import INVISIBLE, SPACES
from nmt.corpus.tags import language_tag
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from nmt.errors import UserError
from nmt.models.dropout import UNDECIDED_DROPOUT
from nmt.models.transformer import Transformer

log = logging.getLogger("nmt")
ARCHITECTURES = {
    "pre": ("pegasus", "PegasusForConditionalGeneration"),
    "post": ("marian", "MarianMTModel"),
}
SPACE = "▁"
# Unicode's rule for a Σ that becomes ς: behind a letter and before none, but for marks, of which up
# to two may stand before it. Lowercase of transformers does not know it.
CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
MARK = r"[\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’‧․]"
FINAL_SIGMA = rf"(?<={CASED}|{CASED}{MARK}|{CASED}{MARK}{MARK})Σ(?!{MARK}*{CASED})"
NEVER = -1e9  # the score of pieces that are no text: <pad>, <s>, </s>
SPECIAL = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}
SPECIAL_IDS = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
}

TAGS = """
The first word of each sentence is the tag of the language to translate into, such as `{tag}`.
"""
SEARCH = """`generation_config.json` has the run's search, with two differences: its
maximum length does not depend on the source, and repeated spans are not avoided."""
KEPT = "Its tokenizer and `generation_config.json` are those of the imported model."
PROTECTION = """
In training, numbers, URLs, e-mails and the like were replaced by placeholders, and lines in
capitals were encoded as small letters. Do the same with `text_filter.py` (it needs
`linkify-it-py`), or they are translated as any other text:
`protected = {call}`, translate `protected.text`, then `restore(text, protected)`.
"""


def model_weights(
    model: Transformer, config: TransformerConfig, positions: int
) -> dict[str, Tensor]:
    """The tensors of model.safetensors, in float32; `positions`: the length of position tables."""
    state = {name: tensor.float().cpu() for name, tensor in model.state_dict().items()}
    size = model.output.out_features
    orders = [range(size)] * 2
    names = {SHARED} if config.tie_embeddings else TABLES - {SHARED}
    weights = their_weights(state, vars(config), orders, names, [BOS, BOS])
    if SHARED not in names:
        del weights[SHARED]
    weights.setdefault(BIAS, torch.zeros(1, size))
    modules = (model.source_positions, model.target_positions)
    for name, module in zip(POSITIONS.values(), modules, strict=True):
        weights[name] = position_table(module, config.hidden_size, positions)
    return {name: tensor.clone() for name, tensor in weights.items()}


def parameter_count(weights: Mapping[str, Tensor]) -> int:
    """The number of trained numbers; position tables are none."""
    counted = [part.numel() for name, part in weights.items() if "embed_positions" not in name]
    return sum(counted)


@dataclass
class HuggingFaceExport(Export):
    """The folder; `repository`: OWNER/NAME on the hub, where it will be uploaded to."""

    format = "hf"
    holds_table = False
    repository: str | None = None

    @cached_property
    def imported(self) -> Written | None:
        """What the run was imported from, with its weights; None for another run.

        Raises UserError.
        """
        if not (self.pretrained and self.pretrained.is_dir()):
            return None
        state = {}
        for name, tensor in self.translator.model.state_dict().items():
            state[name] = tensor.float().cpu()
        options = vars(self.config.model)
        return write_back(self.pretrained, state, options, self.translator.tokenizers)

    @property
    def options(self) -> list[str | None]:
        files = self.imported.files if self.imported else {}
        digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
        return [self.repository, *digests]

    @property
    def versions(self) -> dict[str, str]:
        return {"safetensors": safetensors.__version__}

    @classmethod
    def misfit(cls, config: Config, is_imported: bool) -> str:
        if is_imported:  # it goes back as what it was
            return ""
        model = config.model
        if not isinstance(model, TransformerConfig):
            return "only Transformers have an architecture there"
        if model.self_attention != "softmax":
            return (
                f"there is no model.self_attention={model.self_attention}; "
                "model.self_attention=softmax can"
            )
        if model.positions not in ("sinusoidal", "learned"):
            return (
                f"Pegasus and Marian have no model.positions={model.positions}; sinusoidal and "
                "learned can, and --format ctranslate2 can hold rotary ones"
            )
        if not config.tokenizer.joint:
            return (
                "one tokenizer must read and write; tokenizer.joint=true can, and --format "
                "ctranslate2 can hold two"
            )
        return ""

    @classmethod
    def check_options(cls, output: str | None, given: Mapping[str, str]) -> None:
        super().check_options(output, given)
        if "repository" in given:
            check_push(given["repository"])

    def check(self) -> None:
        if not self.imported:
            super().check()

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """The family and the files of an imported model are kept; the README is ours."""
        config = self.config.model
        assert isinstance(config, TransformerConfig)
        if self.imported:
            weights = self.imported.weights
            for name, content in self.imported.files.items():
                (folder / name).write_bytes(content)
        else:
            model = self.translator.model
            assert isinstance(model, Transformer)
            weights = model_weights(model, config, self.positions)
            self.write_files(folder, self.own_files(config))
        (folder / "model.safetensors").write_bytes(save(weights, {"format": "pt"}))
        card = self.card(config, parameter_count(weights), provenance)
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / "provenance.json").write_text(as_json(provenance), encoding="utf-8")

    def own_files(self, config: TransformerConfig) -> dict[str, str | dict[str, Any]]:
        """The configuration, the search and the tokenizer, by the names of their files."""
        tokenizer = self.translator.tokenizers.source
        special = {name: tokenizer.pieces([number])[0] for name, number in SPECIAL.items()}
        return {
            "config.json": model_config(config, tokenizer.size, self.positions),
            # The run's search: scores are log-probability / length^α; <pad> and <s> are never
            # written.
            "generation_config.json": SPECIAL_IDS
            | {
                "num_beams": self.config.decode.beam,
                "length_penalty": self.config.decode.length_penalty,
                "early_stopping": self.config.decode.early_stopping,
                "do_sample": False,
                "max_length": self.positions,
                "suppress_tokens": [PAD, BOS],
            },
            "tokenizer.json": tokenizer_json(tokenizer),
            "tokenizer_config.json": special
            | {
                "tokenizer_class": OWN_TOKENIZER,
                "model_max_length": self.translator.max_pieces + 1,  # </s> counted
                "clean_up_tokenization_spaces": False,
                "model_input_names": ["input_ids", "attention_mask"],
            },
        }

    def publish(self, folder: Path) -> str:
        return push(folder, self.repository) if self.repository else super().publish(folder)

    def card(self, model: TransformerConfig, parameters: int, provenance: dict[str, Any]) -> str:
        data = self.config.data
        targets = self.config.data.target.split("+")
        run = provenance.get("run", {})
        licence_field = f"license: {self.licence}\n" if self.licence else ""
        of_family = {"language": "", "first_piece": "", "tag": "", "search": SEARCH}
        tags = ""
        protection = ""
        tokenizers = self.translator.tokenizers
        if tokenizers.protects:
            call = protect_call(tokenizers.source, tag_list(tokenizers.source))
            protection = PROTECTION.format(call=call)
        longest = self.positions
        if not self.imported:
            if len(targets) > 1:
                tags = TAGS.format(tag=language_tag(targets[0]))
        else:
            licence_field, of_family = self.about_imported(self.imported, licence_field, run)
            longest = json.loads(self.imported.files["config.json"]).get(
                "max_position_embeddings", longest
            )
        versions = ", ".join(
            f"{name} {version}" for name, version in run.get("trained_with", {}).items()
        )
        made = (
            f"{model.encoder_layers} + {model.decoder_layers} layers of {model.hidden_size}, "
            f"{model.num_heads} heads, {tokenizers.source.size:,} pieces; seed "
            f"{self.config.seed}, {run.get('origin', 'not trained')}; {versions or 'no versions'}; "
            f"hash of the corpus {run.get('corpus_hash') or 'unknown'}."
        )
        return self.readme(
            "hugging_face",
            languages=json.dumps(sorted({*data.source.split("+"), *targets})),
            licence_field=licence_field,
            parameters=parameters / 1e6,
            source=data.source,
            target=data.target,
            folder=self.repository or ".",
            made=made,
            longest=longest - 1,
            tags=tags,
            example="Ein Mann schläft." if data.source == "de" else "…",
            scores=score_lines(provenance["scores"]) or "None was computed.",
            protection=protection,
            **of_family,
        )

    def about_imported(
        self, imported: Written, licence_field: str, run: dict[str, Any]
    ) -> tuple[str, dict[str, str]]:
        """Licence and base model as the hub has them, and parts of the card.

        Its example is of the first direction.
        """
        begin, forced = map(first_prefix, self.translator.tokenizers)
        told = begin[0] if begin and not forced else ""  # Marian's tag
        base = re.match(rf"imported from {HUB}([\w.-]+/[\w.-]+)", imported.origin)
        of_base = carried_licence(self.pretrained)
        data = f"the text of its base model ({imported.origin}; licence: {of_base or 'not named'})"
        first_piece = ""
        language = ""
        if forced:
            piece = f'tokenizer.convert_tokens_to_ids("{forced[0]}")'
            first_piece = f", forced_bos_token_id={piece}"
            language = f', src_lang="{imported.languages.get(begin[0])}"'
        if base:
            licence_field += f"base_model: {base[1]}\n"
        if run.get("corpus_hash"):
            data += ", then on the text of its owner"
        return licence_field, {
            "language": language,
            "first_piece": first_piece,
            "tag": f"{told} " if told else "",
            "search": KEPT,
            "data": data,
        }


def model_config(config: TransformerConfig, vocabulary: int, positions: int) -> dict[str, Any]:
    kind, architecture = ARCHITECTURES[config.norm]
    sides: dict[str, Any] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.num_heads,
            f"{side}_ffn_dim": config.feed_forward_size,
            f"{side}_layerdrop": 0.0,
        }
    return (
        sides
        | SPECIAL_IDS
        | {
            "architectures": [architecture],
            "model_type": kind,
            "is_encoder_decoder": True,
            "d_model": config.hidden_size,
            "num_hidden_layers": config.encoder_layers,
            "activation_function": config.activation,
            "dropout": UNDECIDED_DROPOUT if config.dropout is None else config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": 0.0,
            "scale_embedding": True,
            "tie_word_embeddings": config.tie_embeddings,
            "share_encoder_decoder_embeddings": config.tie_embeddings,
            "max_position_embeddings": positions,
            "vocab_size": vocabulary,
            "decoder_vocab_size": vocabulary,
            "forced_eos_token_id": None,
            "dtype": "float32",
        }
    )


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """What gives the pieces of `tokenizer.encode` and </s>, and text again."""
    pieces = tokenizer.all_pieces
    tags = [number for number in range(tokenizer.size) if pieces[number] in tokenizer.tags]
    whole = sorted({*tags, *tokenizer.placeholder_ids})  # they are never divided
    spaces = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    divided: dict[str, Any] = spaces
    if whole:
        # Not as added tokens, around which spaces would be lost: the text before one of these and
        # the text after it are normalized by themselves.
        pattern = "|".join(re.escape(pieces[number]) for number in whole)
        split: dict[str, Any] = {"type": "Split", "pattern": {"Regex": pattern}}
        split |= {"behavior": "Isolated", "invert": False}
        divided = {"type": "Sequence", "pretokenizers": [spaces, split]}
    processor = tokenizer.processor
    vocabulary = []
    for number, piece in enumerate(pieces):
        score = NEVER if processor.is_control(number) else processor.get_score(number)
        vocabulary.append([piece, score])
    unigram = {"type": "Unigram", "unk_id": UNK, "vocab": vocabulary}
    model = bpe_model(tokenizer, pieces) if tokenizer.sampler.dropout else unigram
    added = []
    for number in (PAD, UNK, BOS, EOS):
        token = {"id": number, "content": pieces[number], "special": True}
        as_it_is = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added.append(token | as_it_is)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers(tokenizer.lowercase)},
        "pre_tokenizer": divided,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": pieces[EOS], "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": {
                pieces[EOS]: {"id": pieces[EOS], "ids": [EOS], "tokens": [pieces[EOS]]}
            },
        },
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, spaces]},
        "model": model | {"byte_fallback": "<0x00>" in pieces},
    }


def bpe_model(tokenizer: Tokenizer, pieces: list[str]) -> dict[str, Any]:
    """Pieces with every pair that one of them can be merged from."""
    scores = tokenizer.sampler.scores
    merges = []
    for piece in scores:
        for cut in range(1, len(piece)):
            left = piece[:cut]
            right = piece[cut:]
            if left in scores and right in scores:
                merges.append((-scores[piece], left, right))
    return {
        "type": "BPE",
        "unk_token": pieces[UNK],
        "fuse_unk": True,
        "ignore_merges": bool(tokenizer.tags),  # no merges make a tag
        "vocab": {piece: number for number, piece in enumerate(pieces)},
        "merges": [[left, right] for _, left, right in sorted(merges)],
    }


def normalizers(lowercase: bool) -> list[dict[str, Any]]:
    """`normalize`, small letters if so trained, and single spaces.

    SentencePiece's identity rule leaves such spaces.
    """

    def replace(pattern: str, content: str) -> dict[str, Any]:
        return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}

    steps = [replace(SPACES.pattern, " "), replace(INVISIBLE.pattern, ""), {"type": "NFC"}]
    if lowercase:
        steps += [replace(FINAL_SIGMA, "ς"), {"type": "Lowercase"}]
    return [*steps, replace(" {2,}", " "), replace("^ | $", "")]


def check_push(name: str) -> None:
    """Raise UserError unless the name is OWNER/NAME and there is a token.

    The token is that of `hf auth login` or HF_TOKEN.
    """
    # here: it takes a second
    from huggingface_hub.utils import HFValidationError, get_token, validate_repo_id

    try:
        validate_repo_id(name if "/" in name else "")
    except HFValidationError:
        raise UserError(
            f"--push {name} is not the name of a repository; it is OWNER/NAME, as in me/my-model."
        ) from None
    if not get_token():
        raise UserError(
            "--push needs a token of the Hugging Face hub: `hf auth login`, or the variable "
            "HF_TOKEN."
        )


def push(folder: Path, name: str) -> str:
    """Upload every file of a folder in one commit, and return the repository's address.

    A new repository is private. Raises UserError where the hub refuses or does not answer.
    """
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        address = str(api.create_repo(name, private=True, exist_ok=True))
        api.upload_folder(folder_path=folder, repo_id=name, commit_message="nmt export --format hf")
    except Exception as error:  # the hub and its libraries fail in many ways
        reason = " ".join(str(error).split())[:300].rstrip(". ") or type(error).__name__
        again = f"`hf upload {name} {folder}` tries it again"
        raise UserError(
            f"{name} could not be uploaded: {reason}. The folder is complete; {again}."
        ) from None
    log.info("Uploaded to %s; a new repository is private until you change it there.", address)
    return address
