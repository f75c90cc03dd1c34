"""Text to subword pieces and back with SentencePiece.

Decoding gives back the text that was encoded, normalized (nmt/data/normalization.py; SentencePiece's own normalisation,
NFKC, would turn "…" into "..." and "½" into "1⁄2"). What is lost: spaces at the ends, repeated spaces, and U+2581 "▁",
which is SentencePiece's sign for a space.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import sentencepiece

from nmt.data.normalization import normalize
from nmt.data.subword_sampling import Sampler, Vocabulary
from nmt.data.tags import BACK_TRANSLATED, KNOWN, TAG, leading_tags
from nmt.data.text_filter import PLACEHOLDERS, Encoded, Protected, protect, protect_pair, restore
from nmt.errors import UserError

PAD, UNK, BOS, EOS = range(4)
BYTE = re.compile(r"<0x[0-9A-F]{2}>|<unk>")


class Tokenizer:
    """A SentencePiece model; encoded sentences have no BOS and no EOS. `model` is the serialized model."""

    def __init__(self, model: bytes, lowercase: bool) -> None:
        self.model, self.lowercase = model, lowercase
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self.processor.get_piece_size()
        ids = {piece: self.processor.piece_to_id(piece) for piece in PLACEHOLDERS}
        self.marks = [piece for piece in ids if ids[piece] != UNK]  # of PLACEHOLDERS; none without tokenizer.protect
        self.placeholders = [ids[piece] for piece in self.marks]

    def encode(self, text: str) -> list[int]:
        """The most probable pieces of a sentence."""
        return self.processor.encode(normalize(text, self.lowercase))

    def encode_all(self, texts: Sequence[str], threads: int = -1) -> list[list[int]]:
        """`encode` of many sentences in so many threads; by default on all processors."""
        return self.processor.encode([normalize(text, self.lowercase) for text in texts], num_threads=threads)

    def encode_protected(self, texts: Sequence[Protected]) -> list[Encoded]:
        """`encode` of texts with placeholders."""
        ids = self.encode_all([each.text for each in texts])
        return [each.encoded(row) for row, each in zip(ids, texts, strict=True)]

    @cached_property
    def tags(self) -> frozenset[str]:
        """The pieces that are words of their own, such as <tatoeba>."""
        return frozenset(self.sampler.vocabulary.whole)

    def sample(self, text: str, alpha: float, generator: Random) -> list[int]:
        """Pieces sampled at random: unigram sampling (Kudo 2018) with its α, or BPE-dropout with probability alpha."""
        return self.sampler.sample(normalize(text, self.lowercase), alpha, generator)

    def sample_all(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """`sample` of many sentences, a pure function of texts, alpha and seed, so that a resumed run is exact."""
        generator = Random(int(seed))
        return [self.sample(text, alpha, generator) for text in texts]

    @cached_property
    def sampler(self) -> Sampler:
        """A sampler over the model's vocabulary; it does BPE-dropout if the model is BPE."""
        model = self.processor
        special_tests = (model.is_byte, model.is_control, model.is_unknown)
        text_ids = [number for number in range(self.size) if not any(test(number) for test in special_tests)]
        ids = {model.id_to_piece(number): number for number in text_ids}
        scores = {piece: model.get_score(number) for piece, number in ids.items()}
        byte_ids = [model.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        # Log-probabilities are no whole numbers; the scores of BPE are the ranks of its merges.
        is_bpe = all(score.is_integer() for score in scores.values())
        whole = {piece for piece, score in scores.items() if score == 0 and TAG.fullmatch(piece)}
        return Sampler(Vocabulary(ids, scores, UNK, [] if UNK in byte_ids else byte_ids, whole), is_bpe)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces on one line, placeholders filled; PAD, BOS and EOS are skipped, UNK shows as ⁇."""
        text = self.processor.decode([int(piece) for piece in ids if piece not in (PAD, BOS, EOS)])
        text = restore(text, ids)
        return text.replace("\r", " ").replace("\n", " ")  # a model may write the byte pieces <0x0D> and <0x0A>

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id as SentencePiece writes it, with ▁ for a space, placeholders filled; for displays."""
        pieces = [self.processor.id_to_piece(int(piece)) for piece in ids]
        if not isinstance(ids, Encoded):
            return pieces
        return [
            piece if BYTE.fullmatch(piece) else restore(piece, ids, last_character(before)).replace(" ", "▁")
            for before, piece in pairwise(["", *pieces])
        ]


def last_character(piece: str) -> str:
    """That of a piece; none for a byte that is a part of one, and for an unknown one."""
    if not BYTE.fullmatch(piece):
        return piece[-1:]
    byte = int(piece[3:5], 16) if piece.startswith("<0x") else 0x80
    return chr(byte) if byte < 0x80 else ""


class Tokenizers(NamedTuple):
    """The tokenizers of the source and the target language, the same one when the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source.model == self.target.model

    @property
    def protects(self) -> bool:
        """Whether there are placeholders for what must not be translated (tokenizer.protect)."""
        return bool(self.source.placeholders and self.target.placeholders)

    def check_languages(self, texts: Sequence[str], start: int) -> None:
        """Raise UserError for a source that does not say which of several target languages it is to be translated into.

        `start` is the number of the first one. A blank line needs no tag.
        """
        languages = sorted(tag for tag in self.source.tags if KNOWN.fullmatch(tag) and tag != BACK_TRANSLATED)
        if len(languages) < 2:
            return
        for line, text in enumerate(texts, start):
            if text.strip() and set(languages).isdisjoint(leading_tags(text)):
                raise UserError(
                    f"Line {line} begins with '{text.split()[0]:.20}'; this model translates into several languages, "
                    f"and each line begins with one of their tags: {' '.join(languages)}."
                )

    def protect_sources(self, texts: Sequence[str]) -> list[Protected]:
        """Sources as they are translated."""
        if not self.protects:
            return [Protected(text) for text in texts]
        return [protect(text, self.source.tags, self.source.marks) for text in texts]

    def protect_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Protected, Protected]]:
        """Pairs as they are trained on."""
        if not self.protects:
            return [(Protected(source), Protected(target)) for source, target in pairs]
        return [protect_pair(source, target, self.source.tags, self.source.marks) for source, target in pairs]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Encoded, Encoded]]:
        """The ids of pairs; the same placeholder stands for the same text on both sides."""
        protected = self.protect_pairs(pairs)
        sources, targets = ([pair[side] for pair in protected] for side in (0, 1))
        encoded = self.source.encode_protected(sources), self.target.encode_protected(targets)
        return list(zip(*encoded, strict=True))

    def save(self, folder: Path) -> None:
        """Write joint.model, or source.model and target.model and tokenizer.json."""
        for name, tokenizer in ({"joint": self.source} if self.joint else self._asdict()).items():
            (folder / f"{name}.model").write_bytes(tokenizer.model)
        about = {
            "joint": self.joint,
            "lowercase": self.source.lowercase,
            "size": [tokenizer.size for tokenizer in self],
        }
        (folder / "tokenizer.json").write_text(json.dumps(about) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Read what `save` wrote; raises UserError when it is missing or damaged."""
        try:
            about = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            names = ["joint"] if about["joint"] else ["source", "target"]
            loaded = [Tokenizer((folder / f"{name}.model").read_bytes(), about["lowercase"]) for name in names]
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
            raise UserError(f"The tokenizer in {folder} cannot be loaded: {error}.") from None
        return cls(loaded[0], loaded[-1])
