"""The pieces of each side by their ids, and from them the tokenizers whose ids are ours."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece

from nmt.convert.argos import read_model
from nmt.convert.pretrained.files import MAX_JSON, read_json, read_optional
from nmt.data.subword_sampling import SPACE, UNKNOWN_PENALTY
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # our first pieces
FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # the first of M2M-100 and NLLB-200
# types of pieces in SentencePiece
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
# types of models in SentencePiece
UNIGRAM = 1
BPE = 2
MAX_SIZE = 1 << 20  # of dimensions and vocabularies
OPUS_TAG = re.compile(r">>([\w-]+)<<")
NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
# The languages of M2M-100 and NLLB-200 in the order of their ids, which not every folder holds
TABLE = Path(__file__).with_name("known_languages.tsv").read_text(encoding="utf-8").splitlines()
KNOWN_LANGUAGES = {family: codes.split() for family, codes in (line.split("\t") for line in TABLE)}


@dataclass
class Vocabulary:
    """The pieces of one side by their ids, and the SentencePiece model that divides text into
    them."""

    pieces: dict[int, str]
    model: Any  # ModelProto
    lowercase: bool = False
    # by code: the piece that begins a sentence
    languages: dict[str, int] = field(default_factory=dict)
    # words that are one piece each, wherever they stand
    added: set[int] = field(default_factory=set)

    def id_of(self, piece: str) -> int:
        """The id of a piece; raises UserError where there is none."""
        found = next((number for number, each in self.pieces.items() if each == piece), None)
        if found is None:
            raise UserError(f"its vocabulary has no {piece}")
        return found


def read_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of source and target, the same one where they share it; raises UserError."""
    has = {path.name for path in folder.iterdir()}
    if "source.spm" in has:
        sides = by_two_models(folder, "target_vocab.json" in has)
    elif {"sentencepiece.bpe.model", "vocab.json"} <= has:
        sides = [by_vocab_json(folder)]
    elif "tokenizer.json" in has:
        sides = [by_tokenizer_json(read_json(folder / "tokenizer.json"))]
    elif "sentencepiece.bpe.model" in has:
        sides = [by_sentencepiece(read_sentencepiece(folder / "sentencepiece.bpe.model"))]
    else:
        raise UserError(
            "there is no tokenizer: source.spm, sentencepiece.bpe.model or tokenizer.json"
        )
    for side in sides:
        add_tokens(side, folder)
    return sides[0], sides[-1]


def by_two_models(folder: Path, separate: bool) -> list[Vocabulary]:
    """Marian: a model for each side, and the pieces of both or of each; raises UserError."""
    source = Vocabulary(
        inverse(read_json(folder / "vocab.json")), read_sentencepiece(folder / "source.spm")
    )
    pieces = inverse(read_json(folder / "target_vocab.json")) if separate else dict(source.pieces)
    target = Vocabulary(pieces, read_sentencepiece(folder / "target.spm"))
    tags = {number: OPUS_TAG.fullmatch(piece) for number, piece in source.pieces.items()}
    source.languages = {tag[1]: number for number, tag in tags.items() if tag}
    return [source, target]


def by_vocab_json(folder: Path) -> Vocabulary:
    """M2M-100: the pieces of vocab.json, then a tag for each language; raises UserError."""
    pieces = inverse(read_json(folder / "vocab.json"))
    both = Vocabulary(pieces, read_sentencepiece(folder / "sentencepiece.bpe.model"))
    both.languages = {
        code: len(pieces) + number for number, code in enumerate(KNOWN_LANGUAGES["m2m_100"])
    }
    both.pieces |= {number: f"__{code}__" for code, number in both.languages.items()}
    return both


def by_sentencepiece(model: Any) -> Vocabulary:
    """NLLB-200 without tokenizer.json: fairseq's four pieces, those of the model, the languages,
    <mask>."""
    own = [each.piece for each in model.pieces if each.type not in (UNKNOWN, CONTROL)]
    pieces = dict(enumerate([*FAIRSEQ, *own]))
    languages = {
        code: len(pieces) + number for number, code in enumerate(KNOWN_LANGUAGES["nllb_200"])
    }
    pieces |= {number: code for code, number in languages.items()}
    pieces[len(pieces)] = "<mask>"
    return Vocabulary(pieces, model, languages=languages)


def read_sentencepiece(path: Path) -> Any:
    """A SentencePiece model as a message; raises UserError for what is damaged or empty."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise UserError(f"it is larger than {MAX_JSON >> 20} MiB")
        content = path.read_bytes()
        if not content:
            raise UserError("it is empty")
        sentencepiece.SentencePieceProcessor(model_proto=content)
        return read_model(content)
    except Exception as error:
        # OSError, UserError, RuntimeError of sentencepiece, DecodeError of protobuf
        lines = str(error).splitlines() or [type(error).__name__]
        raise UserError(f"{path.name} cannot be read: {lines[0]:.200}") from None


def inverse(ids: Mapping[str, Any]) -> dict[int, str]:
    """{id: piece} of {piece: id}; raises UserError for what is no vocabulary."""
    found = {
        number: piece
        for piece, number in ids.items()
        if isinstance(number, int) and 0 <= number < MAX_SIZE
    }
    if len(found) < len(ids):
        raise UserError("its vocabulary is not a list of pieces, each with an id of its own")
    return found


def by_tokenizer_json(content: Mapping[str, Any]) -> Vocabulary:
    """A vocabulary from tokenizer.json: a unigram model with its scores, or a list of merges;
    raises UserError."""
    from sentencepiece import sentencepiece_model_pb2 as messages

    message: Any = messages.ModelProto()  # type: ignore[attr-defined]
    try:
        model = content["model"]
        added = {each["id"]: each["content"] for each in content["added_tokens"]}
        special = {each["id"] for each in content["added_tokens"] if each["special"]}
        if model["type"] == "Unigram":
            pieces = {number: piece for number, (piece, _) in enumerate(model["vocab"])}
            scores = dict(model["vocab"])
        else:
            pieces = inverse(model["vocab"])
            scores = dict.fromkeys(pieces.values(), float(-len(pieces)))
            merges = (
                each.split(" ") if isinstance(each, str) else each for each in model["merges"]
            )
            scores |= {"".join(merge): float(-rank) for rank, merge in enumerate(merges)}
        steps = content["normalizer"] or {}
        steps = steps.get("normalizers", [steps])
        charsmaps = [
            each["precompiled_charsmap"] for each in steps if each.get("type") == "Precompiled"
        ]
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
    words = {number for number in added.keys() - pieces.keys() - special if added[number].strip()}
    lowercase = any(each.get("type") == "Lowercase" for each in steps)
    return Vocabulary(pieces | added, message, lowercase, languages, words)


def add_tokens(side: Vocabulary, folder: Path) -> None:
    """Add the tokens of add_tokens() of transformers, from added_tokens.json and
    tokenizer_config.json.

    Special ones stay pieces that no text has. Raises UserError.
    """
    listed = read_optional(folder / "added_tokens.json")
    described = read_optional(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    tokens: dict[int, str] = {}
    special: set[int] = set()
    try:
        tokens |= {int(number): str(token) for token, number in listed.items()}
        for number, about in described.items():
            tokens[int(number)] = str(about["content"])
            if about.get("special"):
                special.add(int(number))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UserError(
            "its added tokens are not a list of words, each with an id of its own"
        ) from None
    known = set(side.pieces.values())
    for number, token in tokens.items():
        if token in known or not token.strip():
            continue
        if number in side.pieces or not 0 <= number < MAX_SIZE:
            raise UserError(f"its added token '{token:.40}' has the id of another piece")
        side.pieces[number] = token
        if number not in special:
            side.added.add(number)


def order(side: Vocabulary, start: int, size: int) -> list[int]:
    """Their id of each of ours: <pad>, <unk>, the one that the decoder starts with, </s>, then the
    others."""
    if max(*side.pieces, start) >= size:
        raise UserError(f"its vocabulary has {max(side.pieces) + 1} pieces and its model {size}")
    first = [start if piece == "<s>" else side.id_of(piece) for piece in SPECIAL]
    return first + [number for number in range(size) if number not in first]


def our_tokenizer(
    side: Vocabulary, ids: Sequence[int], prefixes: Mapping[str, Sequence[int]]
) -> Tokenizer:
    """The tokenizer whose ids are ours.

    Pieces that the SentencePiece model does not have, those of the other language, stand for text,
    but no text is divided into them, except for single characters that would otherwise be unknown.
    Deviations from transformers: a piece that the vocabulary lacks is not used, where there the
    sentence gets an <unk> for it; unknown characters in a row are looked up one by one; "</s>" in a
    text is text.
    """
    message = type(side.model)()
    message.CopyFrom(side.model)
    known = {each.piece: each for each in side.model.pieces}
    rare = min(each.score for each in side.model.pieces) - UNKNOWN_PENALTY
    del message.pieces[:]
    for place, number in enumerate(ids):
        piece = side.pieces.get(number, f"<{number}>")
        if place < len(SPECIAL):
            message.pieces.add(
                piece=SPECIAL[place],
                score=0.0,
                type=UNKNOWN if SPECIAL[place] == "<unk>" else CONTROL,
            )
        elif piece in SPECIAL or number not in side.pieces:
            message.pieces.add(piece=f"<{number}>", score=0.0, type=CONTROL)
        elif number in side.added:
            message.pieces.add(piece=SPACE + piece, score=0.0, type=USER_DEFINED)
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
    added = [side.pieces[number] for number in sorted(side.added)]
    return Tokenizer(message.SerializeToString(), side.lowercase, prefixes, added)
