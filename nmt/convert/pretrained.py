"""A translator of Hugging Face transformers as a model and tokenizers of ours: Marian, M2M-100, NLLB-200, own exports.

V vocabulary, D model size. Our first four ids are <pad>, <unk>, <s>, </s>; theirs are permuted. <s> is the piece that
their decoder starts with, so where that is <pad> (Marian) or </s> (M2M-100) its row is there twice. Everything in such
a folder is a stranger's: sizes and types are checked before they are believed, and nothing in it is run.
"""

import base64
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.attention.positions import sinusoids
from nmt.convert.argos import read_model
from nmt.data.parallel_text import read_lines
from nmt.data.subword_sampling import UNKNOWN_PENALTY
from nmt.data.tags import language_tag
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError

READABLE = "Marian (OPUS-MT), M2M-100, NLLB-200, and what `nmt export --format hf` wrote"
HUB = "hf:"
# Small files, which nmt export writes back
KEPT = ["config.json", "generation_config.json", "*.spm", "*.model", "*vocab.json", "tokenizer.json"]
KEPT += ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "README.md", "LICENSE*"]
WEIGHTS = ["model.safetensors", "pytorch_model.bin"]
# Of these and the rest of `KEPT` the folder `pretrained` of a run is made
UNTRAINED, ORIGIN = "untrained.safetensors", "origin.json"
SHARED = "model.shared.weight"
# model_type → norm, positions
FAMILIES = {
    "marian": ("post", "sinusoidal"),
    "pegasus": ("pre", "sinusoidal"),
    "m2m_100": ("pre", "sinusoidal_fairseq"),
}
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# Our attention modules by stack: the name of theirs, and of our residual connection
ATTENTION = {
    "encoder": {"attention": ("self_attn", "attention_residual")},
    "decoder": {
        "self_attention": ("self_attn", "self_residual"),
        "cross_attention": ("encoder_attn", "cross_residual"),
    },
}
OUR_TABLES = ("source_embedding.weight", "target_embedding.weight", "output.weight")
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # our first pieces
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces in SentencePiece
UNIGRAM, BPE = 1, 2  # types of models in SentencePiece
TABLES = {SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
NOISE = 0.1  # of rows near the mean of a table, in its standard deviations
MAX_JSON = 1 << 27  # bytes
MAX_SIZE = 1 << 20  # of dimensions and vocabularies
LANGUAGE_NAMES = re.compile(r"\w[\w-]{0,20}(\+\w[\w-]{0,20})*")
OPUS_TAG, NLLB_CODE = re.compile(r">>([\w-]+)<<"), re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
# The languages of M2M-100 in the order of their ids, which its folders do not hold
M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
Weights = dict[str, Tensor]


@dataclass
class Vocabulary:
    """The pieces of one side by their ids, and the SentencePiece model that divides text into them."""

    pieces: dict[int, str]
    model: Any  # ModelProto
    lowercase: bool = False
    languages: dict[str, int] = field(default_factory=dict)  # by code: the piece that begins a sentence

    def id_of(self, piece: str) -> int:
        """The id of a piece; raises UserError where there is none."""
        found = next((number for number, each in self.pieces.items() if each == piece), None)
        if found is None:
            raise UserError(f"its vocabulary has no {piece}")
        return found


@dataclass
class Pretrained:
    """What a folder holds."""

    options: dict[str, Any]  # of the configuration's group `model`
    search: dict[str, Any]  # of its group `decode`
    weights: Weights
    tokenizers: Tokenizers
    languages: tuple[str, str]  # source and target, several joined by +
    untrained: Weights  # their tensors that are not ours, and an empty one for each of the others
    known_pieces: int  # the first ids, which are not those of a new language


@dataclass
class NewLanguage:
    """A language to be taught to a multilingual model."""

    code: str
    related: str  # the language that its tag begins as
    text: Path  # one sentence a line
    pieces: int  # learnt from the text, besides its characters


def read_pretrained(
    folder: Path, source: Sequence[str] = (), target: Sequence[str] = (), new: NewLanguage | None = None
) -> Pretrained:
    """Read a folder of transformers; `source` and `target` are the languages that are translated.

    Raises UserError for what cannot be read, and for languages that the model does not have and that are not `new`.
    """
    try:
        config = read_json(folder / "config.json")
        family, sides, orders = read_pieces(folder, config)
        weights, known = read_weights(folder), len(orders[0])
        if new and not (family == "m2m_100" and new.code in (*source, *target)):
            raise UserError("a new language is one of --source or --target, of a model like M2M-100 or NLLB-200")
        if new:
            start = config["decoder_start_token_id"]
            orders = [order(sides[0], start, add_language(sides[0], weights, config["vocab_size"], start, new))] * 2
        languages = {code: orders[0].index(piece) for code, piece in sides[0].languages.items()}
        prefixes = language_prefixes(family, languages, source, target)
        names = language_names(folder, source, target)
        tokenizers = Tokenizers(*map(our_tokenizer, sides, orders, prefixes))
        options = model_options(config, family, weights, tokenizers.joint)
        ours = our_weights(weights, options, orders)
        trained = their_weights(ours, options, orders, weights, [ids[BOS] for ids in orders])
        untrained = {name: each.new_empty(0) if name in trained else each.clone() for name, each in weights.items()}
        return Pretrained(options, search_options(folder, config), ours, tokenizers, names, untrained, known)
    except UserError as error:
        raise UserError(f"{folder} cannot be imported: {str(error).rstrip('.')}.") from None


def keep_files(source: Path, folder: Path, untrained: Weights, origin: str) -> None:
    """Copy what `write_back` needs besides the run into a new folder; raises UserError."""
    folder.mkdir()
    for path in kept_files(source):
        (folder / path.name).write_bytes(path.read_bytes())
    save_file(untrained, folder / UNTRAINED)
    (folder / ORIGIN).write_text(json.dumps({"origin": origin}), encoding="utf-8")


def kept_files(folder: Path) -> list[Path]:
    """The small files of a folder of transformers; raises UserError."""
    found = sorted({path for pattern in KEPT for path in folder.glob(pattern)})
    if large := [path for path in found if path.stat().st_size > MAX_JSON]:
        raise UserError(f"{large[0]} is larger than {MAX_JSON >> 20} MiB.")
    return found


@dataclass
class Written:
    """The folder of transformers that a run came from, with the weights that it has now."""

    files: dict[str, bytes]
    weights: Weights
    languages: dict[int, str]  # by our id of the piece that begins a source
    origin: str


def write_back(folder: Path, ours: Weights, options: Mapping[str, Any], tokenizers: Tokenizers) -> Written:
    """The files that `keep_files` left in `folder`, and the weights of a run under the names that they had there.

    A decoder that started with </s>, as M2M-100's, starts with their unused <s> once ours has become another embedding.
    Numbers are in the format that they had, or in float32 where that would lose some. Raises UserError where the files
    are not those of the run's tokenizers, and where what their family ties is no longer equal.
    """
    try:
        config, origin = read_json(folder / "config.json"), read_json(folder / ORIGIN)
        _, sides, orders = read_pieces(folder, config)
        pieces = [our_tokenizer(side, ids, {}).all_pieces for side, ids in zip(sides, orders, strict=True)]
        if pieces != [side.all_pieces for side in tokenizers]:
            raise UserError("the run has other pieces, as those of a new language; --format ctranslate2 can hold them")
        was, starts = read_weights(folder, [UNTRAINED]), [ids[BOS] for ids in orders]
        tables = [ours[name] for name in ("target_embedding.weight", "output.weight")]
        changes: dict[str, Any] = {}
        if starts[1] == orders[1][EOS] and not all(torch.equal(table[BOS], table[EOS]) for table in tables):
            starts = [side.id_of("<s>") for side in sides]
            changes["decoder_start_token_id"] = starts[1]
        found = was | their_weights(ours, options, orders, was, starts)
    except UserError as error:
        raise UserError(f"{folder} cannot be written back: {str(error).rstrip('.')}.") from None
    weights = {name: found[name].to(tensor.dtype, copy=True) for name, tensor in was.items()}
    if not all(torch.equal(tensor.float(), found[name].float()) for name, tensor in weights.items()):
        weights = {name: found[name].to(torch.float32, copy=True) for name in was}
        changes |= {name: "float32" for name in ("dtype", "torch_dtype") if name in config}
    files = {path.name: path.read_bytes() for path in kept_files(folder)}
    for name in ("config.json", "generation_config.json") if changes else ():
        if name in files:
            before = read_json(folder / name)
            known = {key: value for key, value in changes.items() if key in before or key not in config}
            files[name] = json.dumps(before | known, indent=2).encode()
    languages = {orders[0].index(piece): code for code, piece in sides[0].languages.items()}
    return Written(files, weights, languages, " ".join(str(origin.get("origin")).split()))


# ----------------------------------------------------------------------------------------------------------------------
# Files


def fetch(source: str) -> tuple[Path, str]:
    """A folder, or that of hf:OWNER/NAME[@REVISION] from the hub or its cache, and its origin; raises UserError."""
    if not source.startswith(HUB):
        if not Path(source).is_dir():
            raise UserError(f"{source} is no folder; import takes a folder or {HUB}OWNER/NAME of {READABLE}.")
        return Path(source), f"imported from {source}"
    from huggingface_hub import snapshot_download

    name, _, revision = source.removeprefix(HUB).partition("@")
    try:
        path = Path(snapshot_download(name, revision=revision or None, allow_patterns=[*KEPT, *WEIGHTS]))
    except Exception as error:  # the hub and its libraries fail in many ways
        raise UserError(f"{source} cannot be downloaded: {str(error).splitlines()[0]:.300}") from None
    return path, f"imported from {HUB}{name}@{path.name}"


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises UserError."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise UserError(f"{path.name} is larger than {MAX_JSON >> 20} MiB")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise UserError(f"{path.name} cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path.name} does not hold an object")
    return content


def read_weights(folder: Path, names: Sequence[str] = WEIGHTS) -> Weights:
    """The tensors of model.safetensors or pytorch_model.bin by name; raises UserError."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"there is no {' or '.join(names)}; weights in several files are not read")
    try:
        if path.suffix == ".safetensors":
            found = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # each library has errors of its own for what is damaged or not allowed
        raise UserError(f"{path.name} cannot be read: {str(error).splitlines()[0]:.200}") from None
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise UserError(f"{path.name} does not hold tensors by name")
    return {str(name): tensor for name, tensor in found.items()}


def read_vocabularies(folder: Path, family: str) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of source and target, the same one where they share it; raises UserError."""
    if (folder / "source.spm").is_file():
        source = Vocabulary(inverse(read_json(folder / "vocab.json")), read_sentencepiece(folder / "source.spm"))
        shared = not (folder / "target_vocab.json").is_file()
        pieces = source.pieces if shared else inverse(read_json(folder / "target_vocab.json"))
        source.languages = {tag[1]: n for n, piece in source.pieces.items() if (tag := OPUS_TAG.fullmatch(piece))}
        return source, Vocabulary(pieces, read_sentencepiece(folder / "target.spm"))
    if (folder / "sentencepiece.bpe.model").is_file() and (folder / "vocab.json").is_file():
        model = read_sentencepiece(folder / "sentencepiece.bpe.model")
        both = Vocabulary(inverse(read_json(folder / "vocab.json")), model)
        both.languages = {code: len(both.pieces) + number for number, code in enumerate(M2M100)}
        both.pieces |= {number: f"__{code}__" for code, number in both.languages.items()}
    elif (folder / "tokenizer.json").is_file():
        both = by_tokenizer_json(read_json(folder / "tokenizer.json"))
    else:
        raise UserError("there is no tokenizer: source.spm, sentencepiece.bpe.model or tokenizer.json")
    return both, both


def read_sentencepiece(path: Path) -> Any:
    """A SentencePiece model as a message; raises UserError."""
    try:
        return read_model(path.read_bytes())
    except Exception as error:  # OSError, and DecodeError of protobuf
        raise UserError(f"{path.name} cannot be read: {str(error).splitlines()[0]:.200}") from None


def inverse(ids: Mapping[str, Any]) -> dict[int, str]:
    """{id: piece} of {piece: id}; raises UserError for what is no vocabulary."""
    found = {number: piece for piece, number in ids.items() if isinstance(number, int) and 0 <= number < MAX_SIZE}
    if len(found) < len(ids):
        raise UserError("its vocabulary is not a list of pieces, each with an id of its own")
    return found


def by_tokenizer_json(content: Mapping[str, Any]) -> Vocabulary:
    """A vocabulary from tokenizer.json: a unigram model with its scores, or a list of merges; raises UserError."""
    from sentencepiece import sentencepiece_model_pb2 as messages

    message: Any = messages.ModelProto()  # type: ignore[attr-defined]
    try:
        model, added = content["model"], {each["id"]: each["content"] for each in content["added_tokens"]}
        special = {each["id"] for each in content["added_tokens"] if each["special"]}
        if model["type"] == "Unigram":
            pieces = {number: piece for number, (piece, _) in enumerate(model["vocab"])}
            scores = dict(model["vocab"])
        else:
            pieces = inverse(model["vocab"])
            scores = dict.fromkeys(pieces.values(), float(-len(pieces)))
            merges = (each.split(" ") if isinstance(each, str) else each for each in model["merges"])
            scores |= {"".join(merge): float(-rank) for rank, merge in enumerate(merges)}
        steps = content["normalizer"] or {}
        steps = steps.get("normalizers", [steps])
        charsmaps = [each["precompiled_charsmap"] for each in steps if each.get("type") == "Precompiled"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError("tokenizer.json holds neither a unigram model nor merges") from None
    for number, piece in (pieces | added).items():
        kind = CONTROL if number in special else USER_DEFINED if number in added else NORMAL
        kind = BYTE if re.fullmatch("<0x[0-9A-F]{2}>", piece) else kind
        message.pieces.add(piece=piece, score=0.0 if number in added else scores[piece], type=kind)
    message.trainer_spec.model_type = UNIGRAM if model["type"] == "Unigram" else BPE
    message.trainer_spec.byte_fallback = bool(model.get("byte_fallback"))
    message.normalizer_spec.name = "identity"
    if charsmaps:
        message.normalizer_spec.precompiled_charsmap = base64.b64decode(charsmaps[0])
    languages = {piece: number for number, piece in added.items() if NLLB_CODE.fullmatch(piece)}
    return Vocabulary(pieces | added, message, any(each.get("type") == "Lowercase" for each in steps), languages)


# ----------------------------------------------------------------------------------------------------------------------
# Pieces


def read_pieces(folder: Path, config: Mapping[str, Any]) -> tuple[str, Sequence[Vocabulary], list[list[int]]]:
    """The family, the vocabularies of source and target, and their id of each of ours; raises UserError."""
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise UserError(f"a model of type '{family:.40}'; {READABLE} can be read")
    sides = read_vocabularies(folder, family)
    sizes = [integer(config, "vocab_size"), integer(config, "decoder_vocab_size", config["vocab_size"])]
    start = integer(config, "decoder_start_token_id")
    starts = [start if sides[0].pieces == sides[1].pieces else sides[0].id_of("<pad>"), start]
    return family, sides, [order(*each) for each in zip(sides, starts, sizes, strict=True)]


def order(side: Vocabulary, start: int, size: int) -> list[int]:
    """Their id of each of ours: <pad>, <unk>, the one that the decoder starts with, </s>, then the others."""
    if max(*side.pieces, start) >= size:
        raise UserError(f"its vocabulary has {max(side.pieces) + 1} pieces and its model {size}")
    first = [start if piece == "<s>" else side.id_of(piece) for piece in SPECIAL]
    return first + [number for number in range(size) if number not in first]


def language_prefixes(
    family: str, languages: Mapping[str, int], source: Sequence[str], target: Sequence[str]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """What source and target begin with, by the tag before the source; "" where one direction is imported.

    Marian is told the target language by the first piece of the source; M2M-100 and NLLB-200 are told each side's
    language by its own first piece. Raises UserError for a language that the model does not have.
    """
    if not languages:
        return {}, {}
    told_both = family == "m2m_100"
    if unknown := [code for code in [*(source if told_both else ()), *target] if code not in languages]:
        raise UserError(f"it has no language '{unknown[0]}'; it has {', '.join(sorted(languages))}")
    if not target or told_both and not source:
        raise UserError(
            f"say what it is to translate with --source and --target; it has {', '.join(sorted(languages))}"
        )
    if not told_both:
        return {language_tag(each) if target[1:] else "": [languages[each]] for each in target}, {}
    pairs = [(here, there) for here in source for there in target if here != there]
    tags = [language_tag(there, here) if pairs[1:] else "" for here, there in pairs]
    return (
        {tag: [languages[here]] for tag, (here, _) in zip(tags, pairs, strict=True)},
        {tag: [languages[there]] for tag, (_, there) in zip(tags, pairs, strict=True)},
    )


def language_names(folder: Path, source: Sequence[str], target: Sequence[str]) -> tuple[str, str]:
    """The languages of the configuration, by default those that the tokenizer's says; raises UserError for none.

    Those of the target are turned round where both sides have the same: the files of a corpus end in their languages.
    """
    path = folder / "tokenizer_config.json"
    stored = read_json(path) if path.exists() else {}
    target = target[::-1] if list(source) == list(target) else target
    names = ["+".join(given) or stored.get(f"{side}_lang") for side, given in (("source", source), ("target", target))]
    if not all(isinstance(name, str) and LANGUAGE_NAMES.fullmatch(name) for name in names):
        raise UserError("it does not say what its languages are; give --source and --target")
    return str(names[0]), str(names[1])


def our_tokenizer(side: Vocabulary, ids: Sequence[int], prefixes: Mapping[str, Sequence[int]]) -> Tokenizer:
    """The tokenizer whose ids are ours.

    Pieces that the SentencePiece model does not have, those of the other language, stand for text, but no text is
    divided into them, except for single characters that would otherwise be unknown. Deviations from transformers: a
    piece that the vocabulary lacks is not used, where there the sentence gets an <unk> for it; unknown characters in a
    row are looked up one by one; "</s>" in a text is text.
    """
    message = type(side.model)()
    message.CopyFrom(side.model)
    known = {each.piece: each for each in side.model.pieces}
    rare = min(each.score for each in side.model.pieces) - UNKNOWN_PENALTY
    del message.pieces[:]
    for place, number in enumerate(ids):
        piece = side.pieces.get(number, f"<{number}>")
        if place < len(SPECIAL):
            message.pieces.add(piece=SPECIAL[place], score=0.0, type=UNKNOWN if SPECIAL[place] == "<unk>" else CONTROL)
        elif piece in SPECIAL or number not in side.pieces:
            message.pieces.add(piece=f"<{number}>", score=0.0, type=CONTROL)
        elif piece in known and known[piece].type != UNKNOWN:
            message.pieces.add(piece=piece, score=known[piece].score, type=known[piece].type)
        elif number in side.languages.values():
            message.pieces.add(piece=piece, score=0.0, type=CONTROL)
        else:
            message.pieces.add(piece=piece, score=rare, type=NORMAL if len(piece) == 1 else UNUSED)
    trainer = message.trainer_spec
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = range(len(SPECIAL))
    trainer.pad_piece, trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = SPECIAL
    trainer.vocab_size = len(ids)
    return Tokenizer(message.SerializeToString(), side.lowercase, prefixes)


def add_language(side: Vocabulary, weights: Weights, size: int, start: int, new: NewLanguage) -> int:
    """Add a language and the pieces of its script behind the `size` ids of a model, and return how many there are then.

    Only pieces with a character that no old piece has are added: all other text keeps its pieces. Those of a unigram
    model keep their log-probabilities, and merges of BPE come after the old ones. A row of a table is the mean of those
    of the pieces that the text was divided into, where <unk> is a random row near the mean of the table.
    Raises UserError.
    """
    if new.code in side.languages or new.related not in side.languages:
        problem = f"already has '{new.code}'" if new.code in side.languages else f"has no language '{new.related}'"
        raise UserError(f"it {problem} as --new NEW=RELATED says; it has {', '.join(sorted(side.languages))}")
    kind = {UNIGRAM: "unigram", BPE: "bpe"}.get(side.model.trainer_spec.model_type)
    if kind is None:
        raise UserError("its SentencePiece model is neither unigram nor BPE, so no pieces can be added")
    ids, unjoined = order(side, start, size), type(side.model)()
    unjoined.CopyFrom(side.model)
    rules = unjoined.normalizer_spec
    rules.add_dummy_prefix = rules.remove_extra_whitespaces = False  # a piece begins a word where it begins with ▁
    before = our_tokenizer(replace(side, model=unjoined), ids, {})
    lines = [before.processor.normalize(before.normalize(line)).replace("▁", " ") for line in read_lines(new.text)]
    content = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=content, model_type=kind, hard_vocab_limit=False,
            vocab_size=len(SPECIAL) + len(set().union(*lines)) + new.pieces, character_coverage=0.9999,
            normalization_rule_name="identity", minloglevel=4,
        )  # fmt: skip
    except RuntimeError:
        raise UserError(f"{new.text} has no text that pieces could be learnt from") from None
    old = [each for each in side.model.pieces if each.type in (NORMAL, USER_DEFINED)]
    characters, last = set().union(*(each.piece for each in old)), min(each.score for each in old)
    learnt = [each for each in read_model(content.getvalue()).pieces if not characters.issuperset(each.piece)]
    added = {each.piece: each.score + (0 if kind == "unigram" else last - 1) for each in learnt if each.type == NORMAL}
    for piece, score in added.items():
        side.model.pieces.add(piece=piece, score=score, type=NORMAL)
    related = side.languages[new.related]
    tag = side.pieces[related].replace(new.related, new.code)
    side.languages[new.code] = size
    side.pieces |= dict(enumerate([tag, *added], size))
    divided = [torch.tensor(pieces) for pieces in before.processor.encode(list(added))]
    for name in TABLES & weights.keys():
        old_rows = weights[name][:size].float()
        if old_rows.dim() != 2 or len(old_rows) < size:
            raise UserError(f"its vocabulary has {size} pieces and {name} is {list(old_rows.shape)}")
        noise = torch.randn((len(added), old_rows.size(1)), generator=torch.Generator().manual_seed(0))
        near, table = old_rows.mean(0) + NOISE * old_rows.std(0) * noise, old_rows[ids]
        rows = [
            torch.where(pieces[:, None] == UNK, random, table[pieces]).mean(0)
            for pieces, random in zip(divided, near, strict=True)
        ]
        weights[name] = torch.cat((old_rows, torch.stack([old_rows[related], *rows])))
    return size + 1 + len(added)


# ----------------------------------------------------------------------------------------------------------------------
# Model


def integer(config: Mapping[str, Any], name: str, default: Any = None) -> int:
    """A number of config.json; raises UserError for what is none."""
    value = config.get(name, default)
    if not isinstance(value, int) or not 0 <= value < MAX_SIZE:
        raise UserError(f"its {name} is {str(value):.40}")
    return value


def model_options(config: Mapping[str, Any], family: str, weights: Weights, joint: bool) -> dict[str, Any]:
    """The options of our Transformer; raises UserError for what it cannot represent."""
    norm, positions = FAMILIES[family]
    same = {}
    for name in ("attention_heads", "ffn_dim"):
        values = {integer(config, f"{side}_{name}") for side in ("encoder", "decoder")}
        if len(values) > 1:
            raise UserError(f"encoder and decoder differ in {name}")
        same[name] = values.pop()
    size, activation = integer(config, "d_model"), str(config.get("activation_function"))
    if activation not in ACTIVATIONS:
        raise UserError(f"its activation_function is {activation:.40}; possible are {', '.join(ACTIVATIONS)}")
    if not config.get("scale_embedding"):
        raise UserError("its scale_embedding is false, while embeddings here are multiplied by √D")
    source, target, output = (weights[name] for name in table_names(weights))
    learned = family == "pegasus" and not is_sinusoidal(weights.get("model.encoder.embed_positions.weight"), size)
    return {
        "encoder_layers": integer(config, "encoder_layers"),
        "decoder_layers": integer(config, "decoder_layers"),
        "hidden_size": size,
        "num_heads": same["attention_heads"],
        "feed_forward_size": same["ffn_dim"],
        "norm": norm,
        "activation": ACTIVATIONS[activation],
        "dropout": float(config.get("dropout", 0.1)),
        "attention_dropout": float(config.get("attention_dropout", 0.0)),
        "tie_embeddings": torch.equal(target, output) and (not joint or torch.equal(source, target)),
        "output_bias": bool(weights.get("final_logits_bias", torch.zeros(1)).any()),
        "positions": "learned" if learned else positions,
        "max_positions": len(weights["model.encoder.embed_positions.weight"]) if learned else 1024,
    }


def search_options(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The search of generation_config.json, which old folders have in config.json; what is not valid is left out."""
    path = folder / "generation_config.json"
    stored = read_json(path) if path.exists() else config
    beam, penalty = stored.get("num_beams"), stored.get("length_penalty", 1.0)
    found: dict[str, Any] = {"early_stopping": stored.get("early_stopping") is True}
    if type(beam) is int and 0 < beam <= 1000:
        found["beam"] = beam
    if type(penalty) in (int, float) and abs(penalty) <= 10:
        found["length_penalty"] = float(penalty)
    return found


def table_names(weights: Mapping[str, Any]) -> list[str]:
    """Those of source and target embeddings and output layer; raises UserError. What is tied is stored once."""
    found = []
    for names in (
        ("model.encoder.embed_tokens.weight", SHARED),
        ("model.decoder.embed_tokens.weight", SHARED),
        ("lm_head.weight", "model.decoder.embed_tokens.weight", SHARED),
    ):
        name = next((name for name in names if name in weights), None)
        if name is None:
            raise UserError(f"the weight {names[0]} is missing")
        found.append(name)
    return found


def is_sinusoidal(table: Tensor | None, size: int) -> bool:
    """Whether a table of positions [N D] is ours; one that is not stored is."""
    return table is None or torch.allclose(table, sinusoids(0, len(table), size, table), atol=1e-4)


def weight_names(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Our names of the weights of all layers, and theirs; of several ours is the concatenation."""
    names = {}
    for side, modules in ATTENTION.items():
        for kind in ("weight", "bias"):
            for number in range(options[f"{side}_layers"]):
                here, there = f"{side}.{number}.", f"model.{side}.layers.{number}."
                for ours, (theirs, residual) in modules.items():
                    names[f"{here}{ours}.{kind}"] = [f"{there}{theirs}.{part}_proj.{kind}" for part in "qkv"]
                    names[f"{here}{ours}.output.{kind}"] = [f"{there}{theirs}.out_proj.{kind}"]
                    names[f"{here}{residual}.norm.{kind}"] = [f"{there}{theirs}_layer_norm.{kind}"]
                names[f"{here}feed_forward.0.{kind}"] = [f"{there}fc1.{kind}"]
                names[f"{here}feed_forward.2.{kind}"] = [f"{there}fc2.{kind}"]
                names[f"{here}feed_forward_residual.norm.{kind}"] = [f"{there}final_layer_norm.{kind}"]
            if options["norm"] == "pre":
                names[f"{side}_norm.{kind}"] = [f"model.{side}.layer_norm.{kind}"]
    return names


def our_weights(weights: Weights, options: Mapping[str, Any], orders: Sequence[Sequence[int]]) -> Weights:
    """The state of our model; raises UserError where a weight is missing."""
    ours: Weights = {}
    for name, theirs in weight_names(options).items():
        if missing := [each for each in theirs if each not in weights]:
            raise UserError(f"the weight {missing[0]} is missing")
        ours[name] = torch.cat([weights[each].float() for each in theirs])
    source, target = (torch.tensor(ids) for ids in orders)
    for name, table, ids in zip(OUR_TABLES, table_names(weights), (source, target, target), strict=True):
        if len(weights[table]) <= int(ids.max()):
            raise UserError(
                f"its vocabulary has {int(ids.max()) + 1} pieces and its embedding {len(weights[table])} rows"
            )
        ours[name] = weights[table].float()[ids]
    for name in OUR_TABLES if options["tie_embeddings"] else ():
        if torch.equal(ours[name], ours["target_embedding.weight"]):
            ours[name] = ours["target_embedding.weight"]  # which is stored once
    if options["output_bias"]:
        ours["output.bias"] = weights["final_logits_bias"].float().flatten()[target]
    if options["positions"] == "learned":
        for side, name in (("encoder", "source"), ("decoder", "target")):
            positions = weights[f"model.{side}.embed_positions.weight"].float()
            ours[f"{name}_positions.table"] = positions / math.sqrt(options["hidden_size"])
    return ours


def their_weights(
    ours: Weights,
    options: Mapping[str, Any],
    orders: Sequence[Sequence[int]],
    names: Mapping[str, Any],
    starts: Sequence[int],
) -> Weights:
    """Their trained tensors, the inverse of `our_weights`; raises UserError where tied ones differ.

    `names` that they have say what is tied; `starts` is their id of our <s> on each side.
    """

    def rows(name: str, side: int) -> Tensor:
        table, ids = ours[name], orders[side]
        found = table.new_zeros(max(ids) + 1, *table.shape[1:])
        found[ids] = table  # theirs may be two of ours: the last of these counts
        for place, number in ((PAD, ids[PAD]), (EOS, ids[EOS]), (BOS, starts[side])):
            found[number] = table[place]
        return found

    theirs: Weights = {}
    for name, parts in weight_names(options).items():
        theirs |= dict(zip(parts, ours[name].chunk(len(parts)), strict=True))
    for name, table, side in zip(OUR_TABLES, table_names(names), (0, 1, 1), strict=True):
        found = rows(name, side)
        if not torch.equal(theirs.setdefault(table, found), found):
            raise UserError(f"{table} is used twice there, and these uses have been trained apart")
    theirs.setdefault(SHARED, theirs[table_names(names)[0]])
    if options["output_bias"]:
        theirs["final_logits_bias"] = rows("output.bias", 1)[None]
    if options["positions"] == "learned":
        for stack, name in (("encoder", "source"), ("decoder", "target")):
            positions = ours[f"{name}_positions.table"] * math.sqrt(options["hidden_size"])
            theirs[f"model.{stack}.embed_positions.weight"] = positions
    return theirs
