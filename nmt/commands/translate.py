"""nmt translate: one line out for each line in."""

import argparse
import itertools
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from nmt.alignments.alignment import Alignment
from nmt.alignments.extraction import Extractor, record_words
from nmt.commands import check_sentence, open_run
from nmt.commands.export import with_ctranslate2
from nmt.data.parallel_text import decode_lines, read_lines
from nmt.decode.forced_decoding import CHUNK_PAIRS, AttentionRecord
from nmt.decode.translator import Translation, Translator
from nmt.errors import UserError
from nmt.files import open_atomic

log = logging.getLogger("nmt")
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # of --engine torch


def run(options: argparse.Namespace) -> int:
    """Print one line for each line of input, in order."""
    check_options(options)
    torch_engine = options.engine == "torch"
    run = open_run(options, PRECISIONS.get(options.quantization) if torch_engine else None)
    if not torch_engine:
        run = with_ctranslate2(run, options.quantization or "float32")
    if options.nbest > run.translator.decode.beam:
        raise UserError(
            f"--nbest {options.nbest} needs --beam {options.nbest} or more; it is now {run.translator.decode.beam}."
        )
    has_attention = run.translator.model.has_attention
    extractor = None
    if has_attention or needs_attention(options):
        extractor = run.make_extractor(options.layer, options.head, options.decoder_step, options.method)
    interactive = not options.sentences and not options.input and sys.stdin.isatty()
    if interactive:
        log.info("Type a sentence and press Enter; Ctrl-D ends.")
    chunk_size = 1 if interactive else None
    with output(options.output) as out:
        translations = run.translator.translate(sentences(options), chunk_size)
        if options.format == "jsonl":
            entries = json_entries(run.translator, translations, extractor, options, chunk_size or CHUNK_PAIRS)
            blocks = (
                json.dumps({"line": number} | entry, ensure_ascii=False) for number, entry in enumerate(entries, 1)
            )
        else:
            blocks = (text_lines(translation, options.nbest) for translation in translations)
        for block in blocks:
            out.write(f"{block}\n")
            out.flush()
    return 0


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that exclude each other or would change nothing."""
    if options.sentences and options.input:
        raise UserError("Give sentences or --input, not both.")
    if options.engine == "torch" and options.quantization and options.quantization not in PRECISIONS:
        raise UserError(
            f"--quantization {options.quantization} needs --engine ctranslate2; --engine torch has "
            f"{', '.join(PRECISIONS)}."
        )
    if options.format != "jsonl" and needs_attention(options):
        raise UserError(
            "--layer, --head, --method, --decoder-step, --tokenized and --weights are about attention; they need "
            "--format jsonl."
        )


def needs_attention(options: argparse.Namespace) -> bool:
    """Whether an option is given that only a model with attention can obey."""
    given = options.layer is not None or options.head is not None or options.method != "mean"
    return given or options.decoder_step != "output" or options.tokenized or options.weights


def sentences(options: argparse.Namespace) -> Iterator[str]:
    """The arguments, else the lines of --input, else of stdin; only \\n ends a line."""
    if options.sentences:
        yield from (check_sentence(sentence, "--input") for sentence in options.sentences)
    elif options.input:
        yield from read_lines(Path(options.input))
    else:
        yield from decode_lines(sys.stdin.buffer, "stdin")


@contextmanager
def output(path: str | None) -> Iterator[TextIO]:
    """stdout, or a file that is written atomically."""
    if path is None:
        yield sys.stdout
        return
    try:
        with open_atomic(Path(path)) as file:
            text = TextIOWrapper(file, encoding="utf-8", newline="\n")
            try:
                yield text
            finally:
                text.detach()  # flushes its buffer
    except OSError as error:
        raise UserError(f"--output {path} cannot be written: {error.strerror or error}.") from None


def text_lines(translation: Translation, nbest: int) -> str:
    """The text of a translation; for `nbest` above 1 that many lines SCORE<TAB>TEXT, missing ones with -inf."""
    if nbest == 1:
        return translation.text
    lines = [f"{each.score:.4f}\t{each.text}" for each in translation.nbest[:nbest]]
    return "\n".join(lines + ["-inf\t"] * (nbest - len(lines)))


def json_entries(
    translator: Translator,
    translations: Iterator[Translation],
    extractor: Extractor | None,
    options: argparse.Namespace,
    chunk_size: int,
) -> Iterator[dict[str, Any]]:
    """The JSON object of each translation; of one that is joined from parts, an object for each part.

    A part was translated, and is decoded again here, as a line of its own: it attends to no other part. `chunk_size`
    translations are decoded together.
    """
    while chunk := list(itertools.islice(translations, chunk_size)):
        parts = [translation.parts or [translation] for translation in chunk]
        records = translator.force_decode_all((part.source_ids, part.ids) for each in parts for part in each)
        for translation in chunk:
            if translation.parts:
                entries = [json_entry(part, next(records), extractor, options) for part in translation.parts]
                yield {"text": translation.text, "score": round(translation.score, 4), "parts": entries}
            else:
                yield json_entry(translation, next(records), extractor, options)


def json_entry(
    translation: Translation, record: AttentionRecord, extractor: Extractor | None, options: argparse.Namespace
) -> dict[str, Any]:
    """Text, score, pieces, log-probabilities and alignment of a translation in one part; a blank line has no pieces."""
    log_probabilities = record.log_probabilities if translation.source_ids else []
    entry = {
        "text": translation.text,
        "score": round(translation.score, 4),
        "source_pieces": record.source_pieces,
        "pieces": record.target_pieces,
        "log_probabilities": [round(value, 4) for value in log_probabilities],
    }
    if extractor is not None:
        alignment = Alignment(record, record_words(record, options.tokenized), extractor)
        entry |= alignment.to_dict(weights=options.weights)
    if options.nbest > 1 and translation.source_ids:
        best = translation.nbest[: options.nbest]
        entry["nbest"] = [{"text": each.text, "score": round(each.score, 4)} for each in best]
    return entry
