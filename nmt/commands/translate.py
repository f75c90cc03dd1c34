"""nmt translate: one line out for each line in, or a document."""

import argparse
import contextlib
import functools
import io
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nmt.commands import check_sentence, translate_document
from nmt.commands.engine import check_engine, is_live, open_engine
from nmt.commands.part_file import open_part
from nmt.commands.translate_output import Output, check_not_input, is_file, line_progress, open_stream, settings
from nmt.data.line_chunks import LineChunk, read_chunks
from nmt.data.packed import PackedFile
from nmt.decode.confidences import confidence, with_records
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.long_lines import Report
from nmt.decode.translator import Translation, Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, record_words
from nmt.runs.run import Run

log = logging.getLogger("nmt")
MOST_WARNINGS = 1000  # of lines that cannot be read; more are only counted


def run(options: argparse.Namespace) -> int:
    """Print one line for each line of input, in order, or translate a document."""
    if options.document is not None:
        return translate_document.run(options)
    check_options(options)
    with contextlib.ExitStack() as stack:
        part = stack.enter_context(open_part(options.output, options.resume)) if is_file(options.output) else None
        run, extractor = open_translator(options, part.precision if part else None)
        if part:
            part.continue_with(settings(options, run))
        out = part or stack.enter_context(open_stream(options.output))
        source = Path(options.input) if options.input else None
        report = stack.enter_context(line_progress(source, options.output, part.start.lines if part else 0))
        translate = functools.partial(answers, run.translator, extractor, options, report)
        write_answers(input_chunks(options, live=part is None), translate, out)
    return 0


def open_translator(options: argparse.Namespace, precision: str | None) -> tuple[Run, Extractor | None]:
    """The run with its engine, and what alignments are read off; `precision` where --quantization does not say it."""
    run = open_engine(options, precision, is_live(options))
    if options.glossary:
        run = run.with_glossary(options.glossary)
    if options.nbest > run.translator.decode.beam:
        raise UserError(
            f"--nbest {options.nbest} needs --beam {options.nbest} or more; it is now {run.translator.decode.beam}."
        )
    if run.translator.model.has_attention or needs_attention(options):
        return run, run.make_extractor(options.layer, options.head, options.decoder_step, options.method)
    return run, None


def write_answers(chunks: Iterable[LineChunk], translate: Callable[[LineChunk], Iterator[str]], out: Output) -> None:
    """Write the answers to all chunks but those that are there already; report lines that could not be read."""
    lines = unreadable = 0
    for chunk in chunks:
        for number, problem in chunk.unreadable.items():
            unreadable += 1
            if unreadable <= MOST_WARNINGS:
                log.warning("Line %d is %s; its answer is blank.", number, problem)
        lines = chunk.stop
        if out.has(chunk):
            continue
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
    """What is written for each line of a chunk: its translation, its n best, or its JSON object."""
    translations = translator.translate_chunk(chunk.texts, chunk.start, report)
    if options.format != "jsonl":
        if options.copy_doubtful:
            translations = copy_doubtful(translator, translations, options.min_confidence, chunk.texts)
        yield from (text_lines(translation, options.nbest) for translation in translations)
        return
    entries = json_entries(translator, translations, extractor, options)
    for number, (source, entry) in enumerate(zip(chunk.texts, entries, strict=True), chunk.start):
        if options.copy_doubtful and entry["doubtful"]:
            entry["text"] = source
        error = {"error": chunk.unreadable[number]} if number in chunk.unreadable else {}
        yield json.dumps({"line": number} | entry | error, ensure_ascii=False)


def copy_doubtful(
    translator: Translator, translations: Iterable[Translation], min_confidence: float, sources: Iterable[str]
) -> Iterator[Translation]:
    """The translations, with the source as the text of each whose confidence is below this."""
    for (translation, records), source in zip(with_records(translator, translations), sources, strict=True):
        if confidence(translation, records) < min_confidence:
            translation.text = source
        yield translation


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
) -> Iterator[dict[str, Any]]:
    """The JSON object of each translation; of one that is joined from parts, an object for each part.

    A part was translated, and is decoded again here, as a line of its own: it attends to no other part.
    """
    for translation, records in with_records(translator, translations):
        parts = zip(translation.parts or [translation], records, strict=True)
        entries = [json_entry(part, record, extractor, options) for part, record in parts]
        head = {
            "text": translation.text,
            "score": round(translation.score, 4),
            "confidence": round(confidence(translation, records), 4),
        }
        if options.min_confidence is not None:
            head["doubtful"] = head["confidence"] < options.min_confidence
        yield head | ({"parts": entries} if translation.parts else entries[0])


def json_entry(
    translation: Translation, record: AttentionRecord, extractor: Extractor | None, options: argparse.Namespace
) -> dict[str, Any]:
    """Text, scores, pieces, words and alignment of a translation in one part; a blank line has no pieces."""
    log_probabilities = record.log_probabilities if translation.source_ids else []
    words = translation.confidences_of(record, options.tokenized)
    entry = {
        "text": translation.text,
        "score": round(translation.score, 4),
        "confidence": round(translation.mean_confidence([value for _, value in words]), 4),
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
