"""A SentencePiece model as the tokenizer.json of Hugging Face tokenizers.

Unigram models keep their pieces and scores. A BPE model becomes the list of its merges, first ones first.
"""

from typing import Any

from nmt.data.normalization import INVISIBLE, SPACES
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

SPACE = "▁"
NEVER = -1e9  # the score of pieces that are no text: <pad>, <s>, </s>
SPECIAL = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}


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
