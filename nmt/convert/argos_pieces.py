"""A SentencePiece model that does by itself what ours leaves to Python before it: `normalize`."""

import io
import sys
import tempfile
import unicodedata
from functools import cache
from pathlib import Path

import sentencepiece

from nmt.convert.protobuf import message, texts
from nmt.data.normalization import normalize
from nmt.data.tokenizer import Tokenizer

NORMALIZER, CHARACTER_MAP = 3, 2  # fields of ModelProto and NormalizerSpec


def normalizing_model(tokenizer: Tokenizer) -> bytes:
    """The serialized model with a table of characters; fields that are there twice are merged by the reader."""
    table = message((CHARACTER_MAP, character_map(tokenizer.lowercase)))
    return tokenizer.model + message((NORMALIZER, table))


@cache
def character_map(lowercase: bool) -> bytes:
    """SentencePiece's compiled table, taken from a small model that is trained with these rules."""
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        lines = (f"{codes(text)}\t{codes(normal)}\n" for text, normal in sorted(changes(lowercase).items()))
        rules.write_text("".join(lines), encoding="ascii")
        small = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"]),
            model_writer=small,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    [specification] = texts(small.getvalue(), NORMALIZER)
    [table] = texts(specification, CHARACTER_MAP)
    return table


def changes(lowercase: bool) -> dict[str, str]:
    """What normalization changes: characters, and letters followed by their marks, composed in full or in part.

    Left out are the 11,172 Hangul syllables, which Unicode composes without a table and nobody types as letters.
    """
    found: dict[str, str] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        parts = unicodedata.decomposition(character)
        if not parts and normalize(character, lowercase) == character:
            continue
        written = [character, unicodedata.normalize("NFD", character)]
        if parts and "<" not in parts:
            written.append("".join(chr(int(code, 16)) for code in parts.split()))
        found |= {text: normalize(text, lowercase) for text in written if normalize(text, lowercase) != text}
    return found


def codes(text: str) -> str:
    """Hexadecimal numbers of the characters."""
    return " ".join(f"{ord(character):X}" for character in text)
