"""nmt translate: one line out for each line in, or a document."""

import argparse
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nmt.commands import check_sentence, translate_document
from nmt.commands.engine import check_engine, is_live, open_engine
from nmt.commands.part_file import open_part
from nmt.commands.translate_output import Output, check_not_input, is_file, line_progress, open_stream, settings
from nmt.data.line_chunks import LineChunk, read_chunks
from nmt.data.packed import PackedFile
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Report, Translation, Translator, mean_confidence
from nmt.errors import UserError
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, record_words

log = logging.getLogger("nmt")
MOST_WARNINGS = 1000  # of lines that cannot be read; more are only counted


def run(options: argparse.Namespace) -> int:
    """Print one line for each line of input, in order, or translate a document."""
    if options.document is not None:
        return translate_document.run(options)
    check_options(options)
    with contextlib.ExitStack() as stack:
        part = stack.enter_context(open_part(options.output, options.resume)) if is_file(options.output) else None
        run = open_engine(options, part.precision if part else None, is_live(options))
        run = run.with_glossary(options.glossary) if options.glossary else run
        beam, nbest = run.translator.decode.beam, options.nbest
        if nbest > beam:
            raise UserError(f"--nbest {nbest} needs --beam {nbest} or more; it is now {beam}.")
        extractor = None
        if run.translator.model.has_attention or needs_attention(options):
            extractor = run.make_extractor(options.layer, options.head, options.decoder_step, options.method)
        if part:
            part.continue_with(settings(options, run))
        out = part or stack.enter_context(open_stream(options.output))
        source = Path(options.input) if options.input else None
        report = stack.enter_context(line_progress(source, options.output, part.start.lines if part else 0))
        translate = partial(answers, run.translator, extractor, options, report)
        write_answers(input_chunks(options, live=part is None), translate, out)
    return 0


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that exclude each other or would change nothing."""
    if options.sentences and options.input:
        raise UserError("Give sentences or --input, not both.")
    if options.retranslate:
        raise UserError("--retranslate is about the translations in a file of messages; it needs --document FILE.")
    if options.resume and not is_file(options.output):
        raise UserError("--resume continues a file; it needs --output FILE.")
    check_not_input(options.output, options.input)
    check_engine(options)
    if options.copy_doubtful and options.min_confidence is None:
        raise UserError("--copy-doubtful copies lines below a confidence; it needs --min-confidence X.")
    if options.copy_doubtful and options.nbest > 1:
        raise UserError("--copy-doubtful gives one text for a line; it cannot go with --nbest.")
    if options.min_confidence is not None and options.format != "jsonl" and not options.copy_doubtful:
        raise UserError("--min-confidence marks lines in --format jsonl, or copies them with --copy-doubtful.")
    if options.format != "jsonl" and needs_attention(options):
        raise UserError(
            "--layer, --head, --method, --decoder-step, --tokenized and --weights are about attention; they need "
            "--format jsonl."
        )


def needs_attention(options: argparse.Namespace) -> bool:
    """Whether an option is given that only a model with attention can obey."""
    given = options.layer is not None or options.head is not None or options.method != "mean"
    return given or options.decoder_step is not None or options.tokenized or options.weights


def input_chunks(options: argparse.Namespace, live: bool) -> Iterator[LineChunk]:
    """The arguments, else the lines of --input, else of stdin; `live`: a pipe is answered as soon as it pauses."""
    if options.sentences:
        lines = "".join(f"{check_sentence(sentence, '--input')}\n" for sentence in options.sentences)
        yield from read_chunks(io.BytesIO(lines.encode()), "the arguments", live)
    elif options.input:
        path = Path(options.input)
        with PackedFile(path).open() as file:
            yield from read_chunks(file, str(path), live and path.suffix != ".gz")
    else:
        if sys.stdin.isatty():
            log.info("Type a sentence and press Enter; Ctrl-D ends.")
        yield from read_chunks(sys.stdin.buffer, "stdin", live)


def write_answers(chunks: Iterable[LineChunk], translate: Callable[[LineChunk], Iterator[str]], out: Output) -> None:
    """Write the answers to all chunks but those that are there already; report lines that could not be read."""
    lines = unreadable = 0
    for chunk in chunks:
        for number, problem in chunk.unreadable.items():
            unreadable += 1
            if unreadable <= MOST_WARNINGS:
                log.warning("Line %d is %s; its answer is blank.", number, problem)
        lines = chunk.stop
        if not out.has(chunk):
            for block in translate(chunk):
                out.write(f"{block}\n")
            out.finish(chunk)
    if unreadable:
        log.warning("%d of %d lines could not be read; the answers to them are blank.", unreadable, lines)


def answers(
    translator: Translator,
    extractor: Extractor | None,
    options: argparse.Namespace,
    report: Report | None,
    chunk: LineChunk,
) -> Iterator[str]:
    """What is written for each line of a chunk: its translation, its n best, or its JSON object.

    A translation of --nbest has that many lines SCORE<TAB>TEXT, missing ones with -inf.
    """
    translations = translator.translate_chunk(chunk.texts, chunk.start, report)
    if options.format == "jsonl" or options.copy_doubtful:
        yield from judged_answers(translator, extractor, options, chunk, translations)
        return
    for translation in translations:
        if options.nbest == 1:
            yield translation.text
        else:
            lines = [f"{each.score:.4f}\t{each.text}" for each in translation.nbest[: options.nbest]]
            yield "\n".join(lines + ["-inf\t"] * (options.nbest - len(lines)))


def judged_answers(
    translator: Translator,
    extractor: Extractor | None,
    options: argparse.Namespace,
    chunk: LineChunk,
    translations: Iterator[Translation],
) -> Iterator[str]:
    """The answers that need forced decoding: JSON objects, or the source instead of a doubtful translation."""
    judged = zip(chunk.texts, translator.with_records(translations), strict=True)
    for number, (source, (translation, records)) in enumerate(judged, chunk.start):
        entry = head(translator, translation, records, options)
        doubtful = options.min_confidence is not None and entry["confidence"] < options.min_confidence
        if options.copy_doubtful and doubtful:
            entry["text"] = source
        if options.format != "jsonl":
            yield entry["text"]
            continue
        if options.min_confidence is not None:
            entry["doubtful"] = doubtful
        # A part was translated, and is decoded again here, as a line of its own: it attends to no other part.
        if translation.parts:
            parts = zip(translation.parts, records, strict=True)
            entry["parts"] = [
                head(translator, part, [record], options) | details(translator, part, record, extractor, options)
                for part, record in parts
            ]
        else:
            entry |= details(translator, translation, records[0], extractor, options)
        error = {"error": chunk.unreadable[number]} if number in chunk.unreadable else {}
        yield json.dumps({"line": number} | entry | error, ensure_ascii=False)


def head(
    translator: Translator, translation: Translation, records: Sequence[AttentionRecord], options: argparse.Namespace
) -> dict[str, Any]:
    """Text, score and confidence, of a whole line or of a part of it."""
    words = translator.word_confidences(translation, records, options.tokenized)
    confidence = round(mean_confidence(translation, words), 4)
    return {"text": translation.text, "score": round(translation.score, 4), "confidence": confidence}


def details(
    translator: Translator,
    translation: Translation,
    record: AttentionRecord,
    extractor: Extractor | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Pieces, words and alignment of a translation in one part; a blank line has no pieces."""
    words = translator.word_confidences(translation, [record], options.tokenized)
    log_probabilities = record.log_probabilities if translation.source_ids else []
    entry: dict[str, Any] = {
        "source_pieces": record.source_pieces,
        "pieces": record.target_pieces,
        "log_probabilities": [round(value, 4) for value in log_probabilities],
        "words": [word for word, _ in words],
        "word_confidences": [round(value, 4) for _, value in words],
    }
    if extractor is not None:
        alignment = Alignment(record, record_words(record, options.tokenized), extractor)
        entry |= alignment.to_dict(weights=options.weights)
    if options.nbest > 1 and translation.source_ids:
        best = translation.nbest[: options.nbest]
        entry["nbest"] = [{"text": each.text, "score": round(each.score, 4)} for each in best]
    return entry
