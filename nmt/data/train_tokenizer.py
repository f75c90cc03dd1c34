"""Trains the SentencePiece models of a run on its training pairs."""

import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import sentencepiece

from nmt.config.schema import TokenizerConfig
from nmt.corpus.files import report_write_errors
from nmt.corpus.normalization import normalize
from nmt.corpus.parallel_text import read_lines
from nmt.data.text_filter import OTHERS, PLACEHOLDERS, find_spans
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError

# The rest of a longer line is ignored; SentencePiece would leave the whole line out.
MAX_CHARACTERS = 10_000
# Of more lines some are chosen; SentencePiece's own choice differs from process to process.
MAX_LINES = 1_000_000
# Numbers are not copied in a corpus that has this many in its sources and a smaller share of them
# in its targets.
FEWEST_NUMBERS = 20
LEAST_COPIED = 0.2
THREADS = 8  # fixed, because sums over threads are part of the model
log = logging.getLogger("nmt")


def train_tokenizers(
    config: TokenizerConfig,
    source_file: Path,
    target_file: Path,
    folder: Path,
    tags: Sequence[str] = (),
) -> None:
    """Train on the two files and write the models to `folder`.

    `tags` are words of the source that are one piece each, such as <tatoeba>. Raises UserError
    where the size is too small.
    """
    placeholders = copied_placeholders(source_file, target_file) if config.protect else []
    pieces = [*tags, *placeholders]
    if config.joint:
        joint = Tokenizer(
            train_sentencepiece(config, [source_file, target_file], pieces), config.lowercase
        )
        tokenizers = Tokenizers(joint, joint)
    else:
        source = Tokenizer(train_sentencepiece(config, [source_file], pieces), config.lowercase)
        target = train_sentencepiece(config, [target_file], placeholders)
        tokenizers = Tokenizers(source, Tokenizer(target, config.lowercase))
    with report_write_errors(folder):
        tokenizers.save(folder)


def copied_placeholders(source_file: Path, target_file: Path) -> list[str]:
    """The placeholders of the text filter that a corpus has a use for.

    Those of numbers are left out if the targets lack the numbers of the sources: some languages
    write them in words or in digits of their own.
    """
    numbers = 0  # in the sources
    copied = 0  # of them, those that their target has as well
    sources = training_lines([source_file], False)
    targets = training_lines([target_file], False)
    for source, target in zip(sources, targets, strict=False):
        in_source = [span.text for span in find_spans(source) if span.kind == "number"]
        if in_source:
            in_target = {span.text for span in find_spans(target)}
            numbers += len(in_source)
            copied += sum(number in in_target for number in in_source)
    are_translated = numbers >= FEWEST_NUMBERS and copied < numbers * LEAST_COPIED
    return OTHERS if are_translated else PLACEHOLDERS


def train_sentencepiece(
    config: TokenizerConfig, files: list[Path], pieces: Sequence[str] = ()
) -> bytes:
    """Train a SentencePiece model and return it serialized; the same lines give the same bytes.

    If the text has fewer pieces, all of them are learnt, with a warning.
    """
    model = io.BytesIO()
    names = " and ".join(map(str, files))
    size = config.vocabulary_size
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=training_lines(files, config.lowercase),
            model_writer=model,
            model_type=config.algorithm,
            vocab_size=size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            user_defined_symbols=list(pieces),
            split_digits=config.protect,  # a number without a placeholder is copied digit by digit
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
    except (RuntimeError, OSError) as error:
        message = str(error)
    if largest := re.search(r"too high.*<= (\d+)", message):
        log.warning("%s: too little text for %d pieces; %s are learnt.", names, size, largest[1])
        return train_sentencepiece(replace(config, vocabulary_size=int(largest[1])), files, pieces)
    if smallest := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        raise UserError(
            f"tokenizer.vocabulary_size={size} is too small for the characters in {names}; give at "
            f"least {smallest[1]} or lower "
            f"tokenizer.character_coverage={config.character_coverage}."
        )
    raise UserError(
        f"SentencePiece cannot be trained on {names}: {message.splitlines()[0].strip()}"
    )


def training_lines(files: list[Path], lowercase: bool) -> Iterator[str]:
    """The lines of all files, normalized; of more than MAX_LINES every second, third, … line."""
    count = 0
    for file in files:
        count += sum(1 for _ in read_lines(file))
    stride = max(1, -(-count // MAX_LINES))
    for file in files:
        for line in islice(read_lines(file), 0, None, stride):
            yield normalize(line[:MAX_CHARACTERS], lowercase)
