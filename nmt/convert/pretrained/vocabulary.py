"""The pieces of each side by their ids, and from them the tokenizers whose ids are ours."""

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sentencepiece

from nmt.convert.argos import read_model
from nmt.convert.pretrained.files import read_optional, read_small, unreadable
from nmt.data.subword_sampling import UNKNOWN_PENALTY, added_piece
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # our first pieces
# types of pieces in SentencePiece
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
# types of models in SentencePiece
UNIGRAM = 1
BPE = 2
OWN_TOKENIZER = "PreTrainedTokenizerFast"  # the class that `nmt export --format hf` names
MAX_SIZE = 1 << 20  # of dimensions and vocabularies


@dataclass
class Vocabulary:
    """The pieces of one side by their ids, and the SentencePiece model that divides text."""

    pieces: dict[int, str]
    model: Any  # ModelProto
    lowercase: bool = False
    # by code: the piece that begins a sentence
    languages: dict[str, int] = field(default_factory=dict)
    # words that are one piece each, wherever they stand
    added: set[int] = field(default_factory=set)
    # for each of our ids, theirs; `numbered` sets them
    ids: list[int] = field(default_factory=list)

    @property
    def our_languages(self) -> dict[str, int]:
        """Our id of the piece of each language, by its code."""
        return {code: self.ids.index(piece) for code, piece in self.languages.items()}

    def id_of(self, piece: str) -> int:
        """The id of a piece; raises UserError where there is none."""
        for number, each in self.pieces.items():
            if each == piece:
                return number
        raise UserError(f"its vocabulary has no {piece}")


def read_sentencepiece(path: Path) -> Any:
    """A SentencePiece model as a message; raises UserError for what is damaged or empty."""
    content = read_small(path)
    try:
        if not content:
            raise UserError("it is empty")
        sentencepiece.SentencePieceProcessor(model_proto=content)
        return read_model(content)
    except Exception as error:
        # UserError, RuntimeError of sentencepiece, DecodeError of protobuf
        raise unreadable(path.name, error) from None


def inverse(ids: Mapping[str, Any]) -> dict[int, str]:
    """{id: piece} of {piece: id}; raises UserError for what is no vocabulary."""
    pieces = {}
    for piece, number in ids.items():
        if isinstance(number, int) and 0 <= number < MAX_SIZE:
            pieces[number] = piece
    if len(pieces) < len(ids):
        raise UserError("its vocabulary is not a list of pieces, each with an id of its own")
    return pieces


def by_tokenizer_json(content: Mapping[str, Any], language: re.Pattern[str] | None) -> Vocabulary:
    """A vocabulary from tokenizer.json: a unigram model with its scores, or a list of merges.

    `language` matches those added tokens that are languages. Raises UserError.
    """
    try:
        model = content["model"]
        added = {each["id"]: each["content"] for each in content["added_tokens"]}
        special = {each["id"] for each in content["added_tokens"] if each["special"]}
        is_unigram = model["type"] == "Unigram"
        pieces, scores = unigram_pieces(model) if is_unigram else merged_pieces(model)
        whole = isolated_pieces(content.get("pre_tokenizer") or {}, pieces)
        steps = content["normalizer"] or {}
        steps = steps.get("normalizers", [steps])
        charsmaps = [
            each["precompiled_charsmap"] for each in steps if each.get("type") == "Precompiled"
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError("tokenizer.json holds neither a unigram model nor merges") from None

    languages = {}
    if language is not None:
        languages = {piece: n for n, piece in added.items() if language.fullmatch(piece)}
    words = {number for number in added.keys() - pieces.keys() - special if added[number].strip()}
    lowercase = any(each.get("type") == "Lowercase" for each in steps)
    message = sentencepiece_model(pieces, scores, whole | added, special)
    message.trainer_spec.model_type = UNIGRAM if is_unigram else BPE
    message.trainer_spec.byte_fallback = bool(model.get("byte_fallback"))
    if charsmaps:
        message.normalizer_spec.precompiled_charsmap = base64.b64decode(charsmaps[0])
    return Vocabulary(pieces | added, message, lowercase, languages, words)


def isolated_pieces(divider: Mapping[str, Any], pieces: Mapping[int, str]) -> dict[int, str]:
    """The pieces that a Split cuts out of the text, as in an export of nmt with tags."""
    by_pattern = {re.escape(piece): number for number, piece in pieces.items()}
    found: dict[int, str] = {}
    for step in divider.get("pretokenizers", [divider]):
        if step.get("type") != "Split" or step.get("behavior") != "Isolated":
            continue
        patterns = step["pattern"].get("Regex", "").split("|")
        if by_pattern.keys() >= set(patterns):
            numbers = [by_pattern[pattern] for pattern in patterns]
            found |= {number: pieces[number] for number in numbers}
    return found


def sentencepiece_model(
    pieces: Mapping[int, str],
    scores: Mapping[str, float],
    added: Mapping[int, str],
    special: Collection[int],
) -> Any:
    """A SentencePiece model of pieces and added tokens; text never has the special ones."""
    from sentencepiece import sentencepiece_model_pb2 as messages

    message: Any = messages.ModelProto()  # type: ignore[attr-defined]
    message.normalizer_spec.name = "identity"
    for number, piece in {**pieces, **added}.items():
        if re.fullmatch("<0x[0-9A-F]{2}>", piece):
            kind = BYTE
        elif number in special:
            kind = CONTROL
        elif number in added:
            kind = USER_DEFINED
        else:
            kind = NORMAL
        score = 0.0 if number in added else scores[piece]
        message.pieces.add(piece=piece, score=score, type=kind)
    return message


def unigram_pieces(model: Mapping[str, Any]) -> tuple[dict[int, str], dict[str, float]]:
    """The pieces of a unigram model by their ids, and their log-probabilities."""
    pieces = {number: piece for number, (piece, _) in enumerate(model["vocab"])}
    return pieces, dict(model["vocab"])


def merged_pieces(model: Mapping[str, Any]) -> tuple[dict[int, str], dict[str, float]]:
    """The pieces of a BPE model by their ids, and scores for SentencePiece.

    By these scores SentencePiece merges in the same order.
    """
    pieces = inverse(model["vocab"])
    scores = dict.fromkeys(pieces.values(), float(-len(pieces)))
    for rank, merge in enumerate(model["merges"]):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        scores["".join(parts)] = float(-rank)
    return pieces, scores


def add_tokens(side: Vocabulary, folder: Path) -> None:
    """Add the tokens that add_tokens() of transformers has added.

    They are in added_tokens.json and tokenizer_config.json. Special ones stay pieces that no text
    has. Raises UserError.
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


def numbered(side: Vocabulary, start: int, size: int) -> Vocabulary:
    """The same pieces with our ids.

    The order is <pad>, <unk>, the piece that the decoder starts with, </s>, and the others.
    """
    if max(*side.pieces, start) >= size:
        raise UserError(f"its vocabulary has {max(side.pieces) + 1} pieces and its model {size}")
    first = [start if piece == "<s>" else side.id_of(piece) for piece in SPECIAL]
    others = [number for number in range(size) if number not in first]
    return replace(side, ids=first + others)


def our_tokenizer(side: Vocabulary, prefixes: Mapping[str, Sequence[int]]) -> Tokenizer:
    """The tokenizer with our ids.

    Pieces that the SentencePiece model does not have, those of the other language, stand for text,
    but no text is divided into them, except for single characters that would otherwise be unknown.
    Deviations from transformers: a piece that the vocabulary lacks is not used, where there the
    sentence gets an <unk> for it; unknown characters in a row are looked up one by one; "</s>" in a
    text is text; before an added word of tokenizer.json there is no ▁ alone, but there is one at
    the beginning of a sentence before an added word that the table of characters would rewrite.
    """
    message = type(side.model)()
    message.CopyFrom(side.model)
    known = {each.piece: each for each in side.model.pieces}
    names = set(side.pieces.values())
    for number in sorted(side.added):
        word = side.pieces[number]
        if added_piece(word) in names:
            raise UserError(f"its added token '{word:.40}' has the name of another piece")
        names.add(added_piece(word))
    rare = min(each.score for each in side.model.pieces) - UNKNOWN_PENALTY
    del message.pieces[:]
    for place, number in enumerate(side.ids):
        piece = side.pieces.get(number, f"<{number}>")
        if place < len(SPECIAL):
            kind = UNKNOWN if SPECIAL[place] == "<unk>" else CONTROL
            message.pieces.add(piece=SPECIAL[place], score=0.0, type=kind)
        elif piece in SPECIAL or number not in side.pieces:
            message.pieces.add(piece=f"<{number}>", score=0.0, type=CONTROL)
        elif number in side.added:
            message.pieces.add(piece=added_piece(piece), score=0.0, type=USER_DEFINED)
        elif piece in known and known[piece].type != UNKNOWN:
            message.pieces.add(piece=piece, score=known[piece].score, type=known[piece].type)
        elif number in side.languages.values():
            message.pieces.add(piece=piece, score=0.0, type=CONTROL)
        else:
            kind = NORMAL if len(piece) == 1 else UNUSED
            message.pieces.add(piece=piece, score=rare, type=kind)
    if {each.type for each in message.pieces} <= {UNKNOWN, CONTROL, BYTE}:
        raise UserError("its vocabulary has no pieces of text")
    trainer = message.trainer_spec
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = range(len(SPECIAL))
    trainer.pad_piece, trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = SPECIAL
    trainer.vocab_size = len(side.ids)
    added = [side.pieces[number] for number in sorted(side.added)]
    return Tokenizer(message.SerializeToString(), side.lowercase, prefixes, added)
