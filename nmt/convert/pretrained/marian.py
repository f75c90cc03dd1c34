"""Marian: OPUS-MT, and what `nmt export --format hf` writes of a post-norm Transformer."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.convert.pretrained.family import Family, Prefixes, missing_languages
from nmt.convert.pretrained.files import read_json
from nmt.convert.pretrained.vocabulary import Vocabulary, inverse, read_sentencepiece
from nmt.corpus.languages import choose_language, codes_of
from nmt.corpus.tags import language_tag, opus_tag

OPUS_TAG = re.compile(r">>([\w-]+)<<")


class Marian(Family):
    """It is told the target language by the first piece of the source.

    Its own tag, >>fra<<, asks for that piece as well. With one target language it has no such
    piece, and the tag is left out.
    """

    label = "Marian (OPUS-MT)"
    norm = "post"
    positions = "sinusoidal"

    def read_tokenizers(self, folder: Path) -> list[Vocabulary]:
        """A SentencePiece model for each side, and the pieces of both or of each."""
        if not (folder / "source.spm").exists():
            return super().read_tokenizers(folder)
        pieces = inverse(read_json(folder / "vocab.json"))
        source = Vocabulary(pieces, read_sentencepiece(folder / "source.spm"))
        target_pieces = dict(pieces)
        if (folder / "target_vocab.json").exists():
            target_pieces = inverse(read_json(folder / "target_vocab.json"))
        target = Vocabulary(target_pieces, read_sentencepiece(folder / "target.spm"))
        for number, piece in pieces.items():
            if tag := OPUS_TAG.fullmatch(piece):
                source.languages[tag[1]] = number
        return [source, target]

    def prefixes(
        self, languages: Mapping[str, int], source: Sequence[str], target: Sequence[str]
    ) -> tuple[Prefixes, Prefixes]:
        if not languages:
            codes = codes_of(target[0]) if target else []
            left_out = ["", *map(opus_tag, codes)] if codes else []
            return {tag: [] for tag in left_out}, {}
        if not target:
            raise missing_languages(languages)
        tags: Prefixes = {}
        for code in target:
            tag = language_tag(code) if len(target) > 1 else ""
            tags[tag] = [languages[choose_language(code, languages)]]
        for code, number in languages.items():
            tags[opus_tag(code)] = [number]
        return tags, {}
