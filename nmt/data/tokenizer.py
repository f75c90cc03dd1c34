"""Text to subword pieces and back with SentencePiece, trained on the training pairs.

Decoding gives back the text that was encoded, in Unicode NFC (SentencePiece's own normalisation, NFKC, would turn "…"
into "..." and "½" into "1⁄2"). What is lost: spaces at the ends, repeated spaces, and U+2581 "▁", which is
SentencePiece's sign for a space.
"""

import io
import json
import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import sentencepiece

from nmt.config import TokenizerConfig
from nmt.data.known_words import KnownWords, entries
from nmt.data.parallel_text import read_lines
from nmt.data.protection import PLACEHOLDERS, Encoded, Protected, protect, protect_pair, restore
from nmt.data.subword_sampling import Sampler, Vocabulary
from nmt.data.tags import TAG
from nmt.errors import UserError
from nmt.files import report_write_errors

PAD, UNK, BOS, EOS = range(4)
MAX_CHARACTERS = 10_000  # of a training line; the rest is ignored, while SentencePiece would leave the line out
MAX_LINES = 1_000_000  # to train on; SentencePiece's own choice of lines differs from process to process
BYTE = re.compile(r"<0x[0-9A-F]{2}>|<unk>")
KNOWN_WORDS = "known_words.bin"
THREADS = 8  # fixed, because sums over threads are part of the model
logger = logging.getLogger("nmt")


class Tokenizer:
    """A SentencePiece model; encoded sentences have no BOS and no EOS. `model` is the serialized model.

    `known`: the words of the sources that it was trained on, with tokenizer.protect.
    """

    def __init__(self, model: bytes, lowercase: bool, known: KnownWords | None = None) -> None:
        self.model, self.lowercase, self.known = model, lowercase, known
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self.processor.get_piece_size()
        found = [self.processor.piece_to_id(piece) for piece in PLACEHOLDERS]
        self.placeholders: list[int] = [] if UNK in found else found  # ids; none without tokenizer.protect

    def encode(self, text: str) -> list[int]:
        """The most probable pieces of a sentence."""
        return self.processor.encode(normalize(text, self.lowercase))

    def encode_all(self, texts: Sequence[str], threads: int = -1) -> list[list[int]]:
        """`encode` of many sentences in so many threads; by default on all processors."""
        return self.processor.encode([normalize(text, self.lowercase) for text in texts], num_threads=threads)

    def encode_protected(self, texts: Sequence[Protected]) -> list[Encoded]:
        """`encode` of texts with placeholders."""
        ids = self.encode_all([each.text for each in texts])
        return [Encoded(row, each.spans, each.capitals) for row, each in zip(ids, texts, strict=True)]

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
        return [piece if BYTE.fullmatch(piece) else restore(piece, ids).replace(" ", "▁") for piece in pieces]


def normalize(text: str, lowercase: bool) -> str:
    """Text as it is encoded and trained on: in Unicode NFC, and in lower case if `lowercase`."""
    text = unicodedata.normalize("NFC", text)
    return text.lower() if lowercase else text


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

    def protect_sources(self, texts: Sequence[str]) -> list[Protected]:
        """Sources as they are translated."""
        if not self.protects:
            return [Protected(text) for text in texts]
        return [protect(text, self.source.tags, self.source.known) for text in texts]

    def protect_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Protected, Protected]]:
        """Pairs as they are trained on."""
        if not self.protects:
            return [(Protected(source), Protected(target)) for source, target in pairs]
        return [protect_pair(source, target, self.source.tags) for source, target in pairs]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Encoded, Encoded]]:
        """The ids of pairs; the same placeholder stands for the same text on both sides."""
        protected = self.protect_pairs(pairs)
        sources, targets = ([pair[side] for pair in protected] for side in (0, 1))
        encoded = self.source.encode_protected(sources), self.target.encode_protected(targets)
        return list(zip(*encoded, strict=True))

    def with_words_of(self, source_file: Path) -> "Tokenizers":
        """The same, with the words of more sources among the known ones."""
        if self.source.known is None:
            return self
        texts = training_lines([source_file], self.source.lowercase)
        known = self.source.known.extended(entries(texts))
        source = Tokenizer(self.source.model, self.source.lowercase, known)
        return Tokenizers(source, source if self.joint else self.target)

    def save(self, folder: Path) -> None:
        """Write joint.model, or source.model and target.model, tokenizer.json, and known_words.bin if there are any."""
        for name, tokenizer in ({"joint": self.source} if self.joint else self._asdict()).items():
            (folder / f"{name}.model").write_bytes(tokenizer.model)
        if self.source.known:
            (folder / KNOWN_WORDS).write_bytes(self.source.known.bits)
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
            words = folder / KNOWN_WORDS
            known = KnownWords(words.read_bytes()) if words.exists() else None
            loaded = [Tokenizer((folder / f"{name}.model").read_bytes(), about["lowercase"], known) for name in names]
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
            raise UserError(f"The tokenizer in {folder} cannot be loaded: {error}.") from None
        return cls(loaded[0], loaded[-1])


def train_tokenizers(
    config: TokenizerConfig, source_file: Path, target_file: Path, folder: Path, tags: Sequence[str] = ()
) -> None:
    """Train on the two files and write the models to `folder`; raises UserError where the size is too small.

    `tags`: words of the source that are one piece each, such as <tatoeba>.
    """
    known = KnownWords.of(training_lines([source_file], config.lowercase)) if config.protect else None
    if config.joint:
        joint = Tokenizer(train_sentencepiece(config, [source_file, target_file], tags), config.lowercase, known)
        tokenizers = Tokenizers(joint, joint)
    else:
        source = Tokenizer(train_sentencepiece(config, [source_file], tags), config.lowercase, known)
        target = Tokenizer(train_sentencepiece(config, [target_file]), config.lowercase)
        tokenizers = Tokenizers(source, target)
    with report_write_errors(folder):
        tokenizers.save(folder)


def train_sentencepiece(config: TokenizerConfig, files: list[Path], tags: Sequence[str] = ()) -> bytes:
    """Train a SentencePiece model and return it serialized; the same lines give the same bytes.

    A small text does not have every number of pieces: then as many are learnt as it has, with a warning.
    """
    try:
        return run_sentencepiece(config, files, tags)
    except (RuntimeError, OSError) as error:
        largest = re.search(r"too high.*<= (\d+)", str(error))
        if not largest:
            raise UserError(explain_training_error(str(error), config, files)) from None
    names, wanted = " and ".join(map(str, files)), config.vocabulary_size
    logger.warning("%s: too little text for %d pieces; %s are learnt.", names, wanted, largest[1])
    return train_sentencepiece(replace(config, vocabulary_size=int(largest[1])), files, tags)


def run_sentencepiece(config: TokenizerConfig, files: list[Path], tags: Sequence[str]) -> bytes:
    """Train a SentencePiece model of exactly this size; RuntimeError where the text does not have as many pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=training_lines(files, config.lowercase),
        model_writer=model,
        model_type=config.algorithm,
        vocab_size=config.vocabulary_size,
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        user_defined_symbols=[*tags, *(PLACEHOLDERS if config.protect else ())],
        normalization_rule_name="identity",
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        max_sentence_length=4 * MAX_CHARACTERS,
        num_threads=THREADS,
        minloglevel=4,  # it would write pages to stderr
    )
    return model.getvalue()


def training_lines(files: list[Path], lowercase: bool) -> Iterator[str]:
    """The lines of all files, normalized; of more than MAX_LINES every second, third, … line."""
    stride = max(1, -(-sum(1 for file in files for _ in read_lines(file)) // MAX_LINES))
    for file in files:
        for line in islice(read_lines(file), 0, None, stride):
            yield normalize(line[:MAX_CHARACTERS], lowercase)


def explain_training_error(message: str, config: TokenizerConfig, files: list[Path]) -> str:
    """SentencePiece's error message in our words, with the smallest size that is possible."""
    names = " and ".join(map(str, files))
    if smallest := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocabulary_size={config.vocabulary_size} is too small for the characters in {names}; give at "
            f"least {smallest[1]} or lower tokenizer.character_coverage={config.character_coverage}."
        )
    return f"SentencePiece cannot be trained on {names}: {message.splitlines()[0].strip()}"
