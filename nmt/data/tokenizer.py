"""Text to subword pieces and back with SentencePiece.

Decoding gives back the text that was encoded, normalized (nmt/data/normalization.py;
SentencePiece's own normalisation, NFKC, would turn "…" into "..." and "½" into "1⁄2"). What is
lost: spaces at the ends, repeated spaces, and U+2581 "▁", which is SentencePiece's sign for a
space.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import sentencepiece

from nmt.data.normalization import normalize
from nmt.data.subword_sampling import Sampler, Vocabulary
from nmt.data.tags import BACK_TRANSLATED, KNOWN, OPUS_TAG, TAG, language_tag, leading_tags
from nmt.data.text_filter import PLACEHOLDERS, Encoded, Protected, protect, protect_pair, restore
from nmt.errors import UserError

PAD, UNK, BOS, EOS = range(4)
MANY = 256  # sentences, for which several threads are worth their start
BYTE = re.compile(r"<0x[0-9A-F]{2}>|<unk>")


class Tokenizer:
    """A SentencePiece model; encoded sentences have no BOS and no EOS. `model` is the serialized
    model.

    `prefixes`: the ids that a sentence begins with, by the tag before it; those of "" where it has
    none. `added`: words that are one piece each wherever they stand, as the added tokens of an
    imported model.
    """

    def __init__(
        self,
        model: bytes,
        lowercase: bool,
        prefixes: Mapping[str, Sequence[int]] | None = None,
        added: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.lowercase = lowercase
        self.prefixes = dict(prefixes or {})
        self.added = list(added)
        longest_first = sorted(map(re.escape, self.added), key=len, reverse=True)
        self.added_pattern = re.compile("|".join(longest_first)) if self.added else None
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self.processor.get_piece_size()
        self.normalizes = "½" not in self.processor.normalize("½")  # by a table of its own, as NFKC
        ids = {piece: self.processor.piece_to_id(piece) for piece in PLACEHOLDERS}
        # of PLACEHOLDERS; none without tokenizer.protect
        self.marks = [piece for piece in ids if ids[piece] != UNK]
        self.placeholders = [ids[piece] for piece in self.marks]

    def encode(self, text: str) -> list[int]:
        """The most probable pieces of a sentence."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], threads: int = -1) -> list[list[int]]:
        """`encode` of many sentences in so many threads; by default on all processors, where they
        are that many."""
        begun = [self.begin(text) for text in texts]
        normalized = [self.normalize(text) for _, text in begun]
        if len(texts) < MANY:
            encoded = [self.processor.encode(text) for text in normalized]
        else:
            encoded = self.processor.encode(normalized, num_threads=threads)
        return (
            [[*prefix, *ids] for (prefix, _), ids in zip(begun, encoded, strict=True)]
            if self.prefixes
            else encoded
        )

    def begin(self, text: str) -> tuple[Sequence[int], str]:
        """The ids that a sentence begins with, and the sentence without the tag that asks for
        them."""
        if not self.prefixes:
            return (), text
        tag = OPUS_TAG.match(text)  # needs no space behind it
        word, _, rest = text.partition(" ")
        if tag:
            word = tag[0]
            rest = text[tag.end() :]
        if word in self.prefixes:
            return self.prefixes[word], rest.removeprefix(" ")
        return self.prefixes.get("", ()), text

    def prefix(self, ids: Sequence[int]) -> int:
        """How many ids at the beginning of an encoded sentence are no text."""
        fixed = list(self.prefixes.get("", ()))
        if fixed and list(ids[: len(fixed)]) == fixed:
            return len(fixed)
        return next(
            (place for place, piece in enumerate(ids) if not self.processor.is_control(int(piece))),
            len(ids),
        )

    def normalize(self, text: str) -> str:
        """A text as it is encoded; no character is changed where the SentencePiece model has a
        table of its own.

        Added words stand between spaces, since their pieces begin with one.
        """
        text = text if self.normalizes else normalize(text, self.lowercase)
        return self.added_pattern.sub(r" \g<0> ", text) if self.added_pattern else text

    def encode_protected(self, texts: Sequence[Protected]) -> list[Encoded]:
        """`encode` of texts with placeholders."""
        ids = self.encode_all([each.text for each in texts])
        return [each.encoded(row) for row, each in zip(ids, texts, strict=True)]

    @cached_property
    def tags(self) -> frozenset[str]:
        """The pieces that are words of their own, such as <tatoeba>, and the tags that ask for a
        prefix."""
        return frozenset({*self.sampler.vocabulary.whole, *filter(None, self.prefixes)})

    @cached_property
    def all_pieces(self) -> list[str]:
        """The vocabulary, by id."""
        return self.processor.id_to_piece(list(range(self.size)))

    def sample(self, text: str, alpha: float, generator: Random) -> list[int]:
        """Pieces sampled at random: unigram sampling (Kudo 2018) with its α, or BPE-dropout with
        probability alpha."""
        prefix, text = self.begin(text)
        return [*prefix, *self.sampler.sample(self.normalize(text), alpha, generator)]

    def sample_all(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """`sample` of many sentences, a pure function of texts, alpha and seed, so that a resumed
        run is exact."""
        generator = Random(int(seed))
        return [self.sample(text, alpha, generator) for text in texts]

    @cached_property
    def sampler(self) -> Sampler:
        """A sampler over the model's vocabulary; it does BPE-dropout if the model is BPE."""
        model = self.processor
        special_tests = (model.is_byte, model.is_control, model.is_unknown, model.is_unused)
        text_ids = [
            number for number in range(self.size) if not any(test(number) for test in special_tests)
        ]
        ids = {model.id_to_piece(number): number for number in text_ids}
        scores = {piece: model.get_score(number) for piece, number in ids.items()}
        byte_ids = [model.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        # Log-probabilities are no whole numbers; the scores of BPE are the ranks of its merges.
        is_bpe = all(score.is_integer() for score in scores.values())
        whole = {piece for piece, score in scores.items() if score == 0 and TAG.fullmatch(piece)}
        byte_ids = [] if UNK in byte_ids else byte_ids
        return Sampler(Vocabulary(ids, scores, UNK, byte_ids, whole, self.added), is_bpe)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces on one line, placeholders filled; PAD, BOS and EOS are skipped, UNK
        shows as ⁇."""
        text = self.processor.decode([int(piece) for piece in ids if piece not in (PAD, BOS, EOS)])
        text = restore(text, ids)
        # a model may write the byte pieces <0x0D> and <0x0A>
        return text.replace("\r", " ").replace("\n", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id as SentencePiece writes it, with ▁ for a space, placeholders filled;
        for displays."""
        pieces = [self.processor.id_to_piece(int(piece)) for piece in ids]
        if not isinstance(ids, Encoded):
            return pieces
        return [
            piece
            if BYTE.fullmatch(piece)
            else restore(piece, ids, last_character(before)).replace(" ", "▁")
            for before, piece in pairwise(["", *pieces])
        ]


def last_character(piece: str) -> str:
    """That of a piece; none for a byte that is a part of one, and for an unknown one."""
    if not BYTE.fullmatch(piece):
        return piece[-1:]
    byte = int(piece[3:5], 16) if piece.startswith("<0x") else 0x80
    return chr(byte) if byte < 0x80 else ""


class Tokenizers(NamedTuple):
    """The tokenizers of the source and the target language, the same one when the vocabulary is
    joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary; each may divide its text into pieces of its
        own."""
        return (
            self.source.model == self.target.model
            or self.source.all_pieces == self.target.all_pieces
        )

    @property
    def protects(self) -> bool:
        """Whether there are placeholders for what must not be translated (tokenizer.protect)."""
        return bool(self.source.placeholders and self.target.placeholders)

    def check_languages(self, texts: Sequence[str], start: int) -> None:
        """Raise UserError for a source that does not say which of several target languages it is to
        be translated into.

        `start` is the number of the first one. A blank line needs no tag.
        """
        tags = {tag for tag in self.source.tags if KNOWN.fullmatch(tag) and tag != BACK_TRANSLATED}
        languages = sorted(tag for tag in tags if not OPUS_TAG.fullmatch(tag)) or sorted(tags)
        if len(languages) < 2 or "" in self.source.prefixes:
            return
        for line, text in enumerate(texts, start):
            if text.strip() and tags.isdisjoint(leading_tags(text)):
                raise UserError(
                    f"Line {line} begins with '{text.split()[0]:.20}'; this model translates into "
                    "several languages, "
                    f"and each line begins with one of their tags: {' '.join(languages)}."
                )

    def in_direction(self, source: str, target: str) -> "Tokenizers":
        """Those of one of several directions: each sentence begins with what its tag asks for, and
        needs no tag."""
        tags = [language_tag(target, source), language_tag(target)]
        tag = next((tag for tag in tags if tag in self.source.tags), None)
        if tag is None:
            return self
        sides = []
        for side, begin in (
            (self.source, self.source.encode(tag)),
            (self.target, self.target.prefixes.get(tag, ())),
        ):
            prefixes = {"": list(begin)} if begin else {}
            sides.append(Tokenizer(side.model, side.lowercase, prefixes, side.added))
        return Tokenizers(*sides)

    def protect_sources(self, texts: Sequence[str]) -> list[Protected]:
        """Sources as they are translated."""
        if not self.protects:
            return [Protected(text) for text in texts]
        return [protect(text, self.source.tags, self.source.marks) for text in texts]

    def encode_sources(self, protected: Sequence[Protected]) -> list[Encoded]:
        """The ids of sources as they are translated, with those that their translation begins
        with."""
        encoded = self.source.encode_protected(protected)
        for ids, each in zip(encoded, protected, strict=True):
            ids.begin = tuple(self.target.begin(each.text)[0])
        return encoded

    def protect_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Protected, Protected]]:
        """Pairs as they are trained on; a target begins with the tag of its source where a prefix
        depends on it."""
        if any(self.target.prefixes):
            tags = [source.partition(" ")[0] for source, _ in pairs]
            pairs = [
                (source, f"{tag} {target}" if tag in self.target.prefixes else target)
                for tag, (source, target) in zip(tags, pairs, strict=True)
            ]
        if not self.protects:
            return [(Protected(source), Protected(target)) for source, target in pairs]
        return [
            protect_pair(source, target, self.source.tags, self.source.marks)
            for source, target in pairs
        ]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Encoded, Encoded]]:
        """The ids of pairs; the same placeholder stands for the same text on both sides."""
        protected = self.protect_pairs(pairs)
        sources, targets = ([pair[side] for pair in protected] for side in (0, 1))
        encoded = self.source.encode_protected(sources), self.target.encode_protected(targets)
        return list(zip(*encoded, strict=True))

    @property
    def models(self) -> dict[str, bytes]:
        """The serialized models by their names: joint, or source and target."""
        if self.source.model == self.target.model:
            return {"joint": self.source.model}
        return {"source": self.source.model, "target": self.target.model}

    @property
    def about(self) -> dict[str, Any]:
        """What is stored beside the models."""
        about: dict[str, Any] = {"lowercase": self.source.lowercase}
        for name in ("prefixes", "added"):
            values = [getattr(side, name) for side in self]
            if any(values):
                about[name] = values
        return about

    def save(self, folder: Path) -> None:
        """Write joint.model, or source.model and target.model and tokenizer.json."""
        for name, model in self.models.items():
            (folder / f"{name}.model").write_bytes(model)
        about = {"joint": "joint" in self.models, "size": [side.size for side in self]} | self.about
        (folder / "tokenizer.json").write_text(json.dumps(about) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Read what `save` wrote; raises UserError when it is missing or damaged."""
        try:
            about = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            names = ["joint", "joint"] if about["joint"] else ["source", "target"]
            prefixes = about.get("prefixes", [{}, {}])
            added = about.get("added", [[], []])
            sides = [
                Tokenizer((folder / f"{name}.model").read_bytes(), about["lowercase"], *each)
                for name, *each in zip(names, prefixes, added, strict=True)
            ]
            return cls(*sides)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
            raise UserError(f"The tokenizer in {folder} cannot be loaded: {error}.") from None
