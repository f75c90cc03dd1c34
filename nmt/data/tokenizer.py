"""Text to subword pieces and back with SentencePiece.

Decoding gives back the text that was encoded, normalized (nmt/corpus/normalization.py;
SentencePiece's own normalisation, NFKC, would turn "…" into "..." and "½" into "1⁄2"). What is
lost: spaces at the ends, repeated spaces, and "▁" (U+2581), SentencePiece's sign for a space.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import sentencepiece

from nmt.corpus.normalization import normalize
from nmt.corpus.tags import (
    BACK_TRANSLATED,
    KNOWN,
    OPUS_TAG,
    TAG,
    first_word,
    language_tag,
    leading_tags,
)
from nmt.data.subword_sampling import SPACE, Sampler, added_pattern, added_piece
from nmt.data.text_filter import PLACEHOLDERS, Encoded, Protected, protect, protect_pair, restore
from nmt.errors import UserError

PAD, UNK, BOS, EOS = range(4)
MANY = 256  # sentences; for fewer, several threads are not worth their start
BYTE_OR_UNKNOWN = re.compile(r"<0x[0-9A-F]{2}>|<unk>")


class Tokenizer:
    """A SentencePiece model; encoded sentences have no BOS and no EOS.

    `model` is the serialized model. `prefixes` are the ids that a sentence begins with, by the tag
    before it, or by "" without a tag. `added` are words that are always one piece each, as the
    added tokens of an imported model.
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
        self.added_pattern = added_pattern(self.added)
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self.processor.get_piece_size()
        self.normalizes = "½" not in self.processor.normalize("½")  # by a table of its own, as NFKC
        # The placeholders that are pieces, and their ids; none without tokenizer.protect
        to_id = self.processor.piece_to_id
        self.placeholders = [piece for piece in PLACEHOLDERS if to_id(piece) != UNK]
        self.placeholder_ids = list(map(to_id, self.placeholders))

    def encode(self, text: str) -> list[int]:
        """The most probable pieces of a sentence."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], threads: int = -1) -> list[list[int]]:
        """`encode` of many sentences, from MANY on in so many threads; -1 for all processors."""
        split = [self.split_prefix(text) for text in texts]
        normalized = [self.normalize(text) for _, text in split]
        if len(texts) < MANY:
            encoded = list(map(self.processor.encode, normalized))
        else:
            encoded = self.processor.encode(normalized, num_threads=threads)
        if not self.prefixes:
            return encoded
        return [[*prefix, *ids] for (prefix, _), ids in zip(split, encoded, strict=True)]

    def split_prefix(self, text: str) -> tuple[Sequence[int], str]:
        """The prefix that a sentence asks for, and the sentence without the tag for it."""
        if not self.prefixes:
            return (), text
        word = first_word(text)
        if word in self.prefixes:
            return self.prefixes[word], text[len(word) :].lstrip()
        return self.prefixes.get("", ()), text

    def prefix_length(self, ids: Sequence[int]) -> int:
        """How many ids at the beginning of an encoded sentence are no text."""
        fixed = list(self.prefixes.get("", ()))
        if fixed and list(ids[: len(fixed)]) == fixed:
            return len(fixed)
        for place, piece in enumerate(ids):
            if not self.processor.is_control(int(piece)):
                return place
        return len(ids)

    def sentence_start(self, ids: Sequence[int]) -> int:
        """How many ids at the beginning of an encoded sentence are no text, or are its tags."""
        prefix = self.prefix_length(ids)
        pieces = map(self.processor.id_to_piece, map(int, ids[prefix:]))
        return prefix + self.count_tags(pieces)

    def count_tags(self, pieces: Iterable[str]) -> int:
        """How many pieces at the beginning of a sentence are its tags."""
        count = 0
        for place, piece in enumerate(pieces):
            if piece in self.tags:
                count = place + 1
            elif piece != SPACE:  # which may be a piece before a tag
                break
        return count

    def normalize(self, text: str) -> str:
        """A text as it is encoded.

        If the SentencePiece model has a normalization table, it does all of this, and `lowercase`
        has no effect. Added words get spaces around them, since their pieces begin with one.
        """
        if not self.normalizes:
            text = normalize(text, self.lowercase)
        if not self.added:
            return text
        text = self.added_pattern.sub(lambda match: self.added_text[match[0]], text)
        return re.sub(" +▁", "▁", text)

    @cached_property
    def added_text(self) -> dict[str, str]:
        """Added words as they are encoded.

        Where the table of characters would rewrite one, such as №, its piece stands for itself: the
        table leaves that alone. At the beginning of a sentence there is then one ▁ more.
        """
        found = {}
        for word in self.added:
            piece = added_piece(word)
            is_kept = self.processor.normalize(word) == piece
            found[word] = f" {word} " if is_kept else f"{piece} "
        return found

    def encode_protected(self, texts: Sequence[Protected]) -> list[Encoded]:
        """`encode` of texts with placeholders."""
        ids = self.encode_all([protected.text for protected in texts])
        return list(map(Protected.encoded, texts, ids))

    @cached_property
    def tags(self) -> frozenset[str]:
        """Pieces that are whole words, such as <tatoeba>, and the tags that have a prefix."""
        return frozenset({*self.sampler.whole, *filter(None, self.prefixes)})

    @cached_property
    def all_pieces(self) -> list[str]:
        """The vocabulary, by id."""
        return self.processor.id_to_piece(list(range(self.size)))

    def sample(self, text: str, alpha: float, generator: Random) -> list[int]:
        """Pieces sampled at random.

        This is unigram sampling with its α (Kudo 2018), or BPE-dropout with probability `alpha`.
        """
        prefix, text = self.split_prefix(text)
        return [*prefix, *self.sampler.sample(self.normalize(text), alpha, generator)]

    def sample_all(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """`sample` of many sentences, a pure function of its arguments: a resumed run is exact."""
        generator = Random(int(seed))
        return [self.sample(text, alpha, generator) for text in texts]

    @cached_property
    def sampler(self) -> Sampler:
        """A sampler over the model's vocabulary; it does BPE-dropout if the model is BPE."""
        model = self.processor
        ids = {}
        scores = {}
        for number, piece in enumerate(self.all_pieces):
            is_text = not (
                model.is_byte(number)
                or model.is_control(number)
                or model.is_unknown(number)
                or model.is_unused(number)
            )
            if is_text:
                ids[piece] = number
                scores[piece] = model.get_score(number)
        byte_ids = [model.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        if UNK in byte_ids:
            byte_ids = []
        # Log-probabilities are no whole numbers; the scores of BPE are the ranks of its merges.
        is_bpe = all(map(float.is_integer, scores.values()))
        whole = {piece for piece, score in scores.items() if score == 0 and TAG.fullmatch(piece)}
        return Sampler(ids, scores, UNK, byte_ids, whole, self.added, is_bpe)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces on one line, with placeholders filled.

        PAD, BOS and EOS are skipped; UNK shows as ⁇.
        """
        text = self.processor.decode([int(piece) for piece in ids if piece not in (PAD, BOS, EOS)])
        text = restore(text, ids)
        # A model may write the byte pieces <0x0D> and <0x0A>.
        return text.replace("\r", " ").replace("\n", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id for displays, with ▁ for a space and with placeholders filled."""
        pieces = [self.processor.id_to_piece(int(piece)) for piece in ids]
        if not isinstance(ids, Encoded):
            return pieces
        shown = []
        for before, piece in pairwise(["", *pieces]):
            if not BYTE_OR_UNKNOWN.fullmatch(piece) and piece not in self.tags:
                piece = restore(piece, ids, last_character(before)).replace(" ", SPACE)
            shown.append(piece)
        return shown


def last_character(piece: str) -> str:
    """That of a piece; none for <unk>, or for a byte that is only a part of a character."""
    if not BYTE_OR_UNKNOWN.fullmatch(piece):
        return piece[-1:]
    byte = int(piece[3:5], 16) if piece.startswith("<0x") else 0x80
    return chr(byte) if byte < 0x80 else ""


class Tokenizers(NamedTuple):
    """The tokenizers of the source and of the target; one and the same for a joint vocabulary."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary, even if they divide text differently."""
        same_model = self.source.model == self.target.model
        return same_model or self.source.all_pieces == self.target.all_pieces

    @property
    def protects(self) -> bool:
        """Whether there are placeholders for what must not be translated (tokenizer.protect)."""
        return bool(self.source.placeholder_ids and self.target.placeholder_ids)

    @property
    def required_tags(self) -> list[str]:
        """The tags of several target languages, one of which each source begins with."""
        tags = sorted(filter(KNOWN.fullmatch, self.source.tags - {BACK_TRANSLATED}))
        languages = [tag for tag in tags if not OPUS_TAG.fullmatch(tag)] or tags
        if len(languages) < 2 or "" in self.source.prefixes:
            return []
        return tags

    def check_languages(self, texts: Sequence[str], start: int) -> None:
        """Raise UserError for a source without the tag of one of several target languages.

        `start` is the number of the first one. A blank line needs no tag.
        """
        tags = self.required_tags
        if not tags:
            return
        languages = [tag for tag in tags if not OPUS_TAG.fullmatch(tag)] or tags
        for line, text in enumerate(texts, start):
            if text.strip() and set(tags).isdisjoint(leading_tags(text)):
                raise UserError(
                    f"Line {line} begins with '{text.split()[0]:.20}'; this model translates into "
                    "several languages, and each line begins with one of their tags: "
                    f"{' '.join(languages)}."
                )

    def in_direction(self, source: str, target: str) -> "Tokenizers":
        """The tokenizers of one of several directions.

        Each sentence begins with what the tag of the direction asks for, and needs no tag itself.
        """
        possible = (language_tag(target, source), language_tag(target))
        tags = [tag for tag in possible if tag in self.source.tags]
        if not tags:
            return self
        begins = (self.source.encode(tags[0]), self.target.prefixes.get(tags[0], ()))
        sides = []
        for side, begin in zip(self, begins, strict=True):
            prefixes = {"": list(begin)} if begin else {}
            sides.append(Tokenizer(side.model, side.lowercase, prefixes, side.added))
        return Tokenizers(*sides)

    def protect_sources(self, texts: Sequence[str]) -> list[Protected]:
        """Sources as they are translated."""
        if not self.protects:
            return [Protected(text) for text in texts]
        return [protect(text, self.source.tags, self.source.placeholders) for text in texts]

    def encode_sources(self, protected: Sequence[Protected]) -> list[Encoded]:
        """The ids of sources as they are translated, and what their translations begin with."""
        encoded = self.source.encode_protected(protected)
        for ids, source in zip(encoded, protected, strict=True):
            ids.begin = tuple(self.target.split_prefix(source.text)[0])
        return encoded

    def protect_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Protected, Protected]]:
        """Pairs as they are trained on.

        A target begins with the tag of its source where a prefix depends on the tag.
        """
        has_tags = any(self.target.prefixes)
        protected = []
        for source, target in pairs:
            if has_tags and (tag := first_word(source)) in self.target.prefixes:
                target = f"{tag} {target}"
            if self.protects:
                pair = protect_pair(source, target, self.source.tags, self.source.placeholders)
            else:
                pair = Protected(source), Protected(target)
            protected.append(pair)
        return protected

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Encoded, Encoded]]:
        """The ids of pairs; the same placeholder stands for the same text on both sides."""
        protected = self.protect_pairs(pairs)
        sources = self.source.encode_protected([source for source, _ in protected])
        targets = self.target.encode_protected([target for _, target in protected])
        return list(zip(sources, targets, strict=True))

    @property
    def models(self) -> dict[str, bytes]:
        """The serialized models by their names: joint, or source and target."""
        if self.source.model == self.target.model:
            return {"joint": self.source.model}
        return {"source": self.source.model, "target": self.target.model}

    @property
    def settings(self) -> dict[str, Any]:
        """What is stored beside the models."""
        settings: dict[str, Any] = {"lowercase": self.source.lowercase}
        for name in ("prefixes", "added"):
            values = [getattr(side, name) for side in self]
            if any(values):
                settings[name] = values
        return settings

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and the models: joint.model, or source.model and target.model."""
        for name, model in self.models.items():
            (folder / f"{name}.model").write_bytes(model)
        about = {
            "joint": "joint" in self.models,
            "size": [side.size for side in self],
        } | self.settings
        (folder / "tokenizer.json").write_text(json.dumps(about) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Read what `save` wrote; raises UserError when it is missing or damaged."""
        try:
            about = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            names = ["joint", "joint"] if about["joint"] else ["source", "target"]
            prefixes = about.get("prefixes", [{}, {}])
            added = about.get("added", [[], []])
            sides = []
            for name, *options in zip(names, prefixes, added, strict=True):
                model = (folder / f"{name}.model").read_bytes()
                sides.append(Tokenizer(model, about["lowercase"], *options))
            return cls(*sides)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
            raise UserError(f"The tokenizer in {folder} cannot be loaded: {error}.") from None
