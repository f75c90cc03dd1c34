"""nmt translate: one line out for each line in, or documents."""

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.commands import check_given, check_sentence, translate_document
from nmt.commands.engine import is_live, open_directed
from nmt.commands.output import (
    Output,
    check_not_input,
    is_file,
    line_progress,
    open_output,
    search_settings,
)
from nmt.corpus.line_chunks import LineChunk, read_chunks
from nmt.corpus.packed import OPENERS, PackedFile
from nmt.corpus.parallel_text import read_pairs
from nmt.corpus.words import has_letters
from nmt.decode.confidence import mark_unsure
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.long_lines import lacks_sentences
from nmt.decode.translation import Translation, mean_confidence
from nmt.decode.translator import LISTED_LINES, Report, Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, record_words
from nmt.evaluate.metrics import copies_warning
from nmt.runs.run import Run

log = logging.getLogger("nmt")
MOST_WARNINGS = 1000  # of lines that cannot be read; more are only counted
UNDERLINED = ("\x1b[4m", "\x1b[24m")
PLAIN_MARKS = ("", "(?)")
ON_ATTENTION = ("--layer", "--head", "--method", "--decoder-step", "--tokenized", "--weights")
# Of --samples and --choose, which other commands have, too
CANDIDATES_NEED = {
    **dict.fromkeys(("--temperature", "--top-k", "--top-p", "--seed"), "--samples"),
    "--reference": "--choose=reference",
}
CANDIDATES_NOT_WITH = {"--samples": "--beam --glossary --engine=ctranslate2 --quantization"}
OF_LINES = (
    "--input --nbest --format --resume --copy-doubtful --weights --tokenized --samples --choose"
)
NEEDS = {
    **CANDIDATES_NEED,
    **dict.fromkeys(("--retranslate", "--columns", "--memory"), "--document --documents"),
    "--resume": "--output",
    "--copy-doubtful": "--min-chrf",
    "--min-chrf": "--format=jsonl --copy-doubtful --document --documents",
    **dict.fromkeys(ON_ATTENTION, "--format=jsonl --document --documents"),
}
NOT_WITH = {
    "SENTENCE": "--input --document",
    "--document": OF_LINES,
    "--documents": f"--document {OF_LINES}",
    "--copy-doubtful": "--nbest",
    "--prefix": "--glossary --document --documents",
    **CANDIDATES_NOT_WITH,
    "--choose": "--glossary",
    "--mark-doubtful": "--nbest --format=jsonl --copy-doubtful",
}
# Options on which answers depend.
SETTINGS = (
    "format",
    "nbest",
    "min_chrf",
    "copy_doubtful",
    "layer",
    "head",
    "method",
    "decoder_step",
    "tokenized",
    "weights",
    "engine",
    "quantization",
    "mark_doubtful",
)


def run(options: argparse.Namespace) -> int:
    """Print one line for each line of input, in order, or translate documents."""
    check_given(options, NEEDS, NOT_WITH)
    if options.document or options.documents:
        return translate_document.run(options)
    check_not_input(options.output, options.input)
    with ExitStack() as stack:
        out = stack.enter_context(open_output(options.output, options.resume))
        source = Path(options.input) if options.input else None
        run = open_translator(options, source, out.precision)
        extractor = None
        if run.translator.model.has_attention or options.given.intersection(ON_ATTENTION):
            extractor = run.make_extractor(
                options.layer, options.head, options.decoder_step, options.method
            )
        settings = {f"--{name.replace('_', '-')}": getattr(options, name) for name in SETTINGS}
        out.continue_with(settings | search_settings(run))
        report = stack.enter_context(line_progress(source, options.output, out.lines))
        marks = doubtful_marks(options)
        decode = run.provenance["decode"]
        candidates = {key: decode[key] for key in ("sampling", "choose") if key in decode}
        answers = Answers(run.translator, extractor, options, report, marks, candidates)
        write_answers(input_chunks(options), answers.of_chunk, out)
    if answers.copied:
        log.info("%d lines have no words of a language; they are left as they are.", answers.copied)
    if answers.changed:
        log.warning(
            "Numbers, addresses or the like are not those of the source in line %s.",
            listed_lines(answers.changed),
        )
    if answers.shortened:
        log.warning(
            "Sentences are missing in the translation of line %s; give one sentence a line, or "
            "translate the text with --document, which does this.",
            listed_lines(answers.shortened),
        )
    return 0


def listed_lines(numbers: Sequence[int]) -> str:
    """The first few numbers, and how many others there are."""
    listed = ", ".join(map(str, numbers[:LISTED_LINES]))
    more = len(numbers) - LISTED_LINES
    return f"{listed} and {more} others" if more > 0 else listed


def open_translator(options: argparse.Namespace, source: Path | None, precision: str | None) -> Run:
    """The run with its engine, direction, prefix, glossary, samples and choice; raises UserError.

    `source`: the file that is translated. `precision`: that of an output that is continued.
    """
    run = open_directed(options, precision, is_live(options) and not options.samples)
    run = run.with_prefix(options.prefix)
    run = with_candidates(run, options, source, options.reference)
    most = run.translator.num_hypotheses
    if options.nbest > most:
        name = "--samples" if options.samples else "--beam"
        raise UserError(
            f"--nbest {options.nbest} needs {name} {options.nbest} or more; it is now {most}."
        )
    return run


def doubtful_marks(options: argparse.Namespace) -> tuple[str, str] | None:
    """What is written before and after a word that is more likely wrong than right, if anything."""
    if options.mark_doubtful:
        log.info("Words with (?) are more likely wrong than right.")
        return PLAIN_MARKS
    if shows_styles(options):
        log.info("Underlined words are more likely wrong than right.")
        return UNDERLINED
    return None


def with_candidates(
    run: Run, options: argparse.Namespace, source: Path | None, reference: str | None
) -> Run:
    """The run with --samples and --choose.

    `source`, `reference`: the file that is translated, and that of --choose reference. Raises
    UserError where one is missing, where they differ in their number of lines, and where there is
    only one translation to choose from.
    """
    if options.samples:
        run = run.with_samples(
            options.samples, options.temperature, options.top_k, options.top_p, options.seed
        )
    if options.choose and run.translator.num_hypotheses == 1:
        raise UserError("--choose needs several translations: give --samples N or --beam N.")
    if options.choose == "mbr":
        return run.with_choice()
    if options.choose == "reference":
        if reference is None or source is None or not source.is_file():
            raise UserError("--choose reference needs --reference FILE, and a file as input.")
        pairs = read_pairs(PackedFile(source, errors="replace"), Path(reference))
        sources, references = zip(*pairs, strict=True)
        warning = copies_warning(sources, references)
        if warning:
            log.warning("%s: %s", reference, warning)
        return run.with_choice(references)
    return run


def shows_styles(options: argparse.Namespace) -> bool:
    """Whether plain translations go to a terminal that can underline; NO_COLOR forbids it."""
    is_plain = options.format == "text" and options.nbest == 1 and not options.copy_doubtful
    can_underline = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    is_wanted = options.output is None and not os.environ.get("NO_COLOR")
    return is_plain and can_underline and is_wanted


def input_chunks(options: argparse.Namespace) -> Iterator[LineChunk]:
    """The arguments, else --input, else stdin; a pipe is answered as soon as it pauses."""
    live = not is_file(options.output)
    if options.sentences:
        lines = ""
        for sentence in options.sentences:
            lines += f"{check_sentence(sentence, '--input')}\n"
        yield from read_chunks(io.BytesIO(lines.encode()), "the arguments", live)
    elif options.input:
        path = Path(options.input)
        with PackedFile(path).open() as file:
            yield from read_chunks(file, str(path), live and path.suffix not in OPENERS)
    else:
        if sys.stdin.isatty():
            log.info("Type a sentence and press Enter; Ctrl-D ends.")
        yield from read_chunks(sys.stdin.buffer, "stdin", live)


def write_answers(
    chunks: Iterable[LineChunk], translate: Callable[[LineChunk], Iterator[str]], out: Output
) -> None:
    """Write the answers to all chunks that have none yet; report lines that cannot be read."""
    lines = unreadable = 0
    for chunk in chunks:
        for number, problem in chunk.unreadable.items():
            unreadable += 1
            if unreadable <= MOST_WARNINGS:
                log.warning("Line %d is %s; its answer is blank.", number, problem)
        lines = chunk.stop
        if not out.has(chunk):
            out.write(chunk, translate(chunk))
    if unreadable:
        log.warning(
            "%d of %d lines could not be read; the answers to them are blank.", unreadable, lines
        )


@dataclass
class Answers:
    """What is written for each line: its translation, its n best, or its JSON object."""

    translator: Translator
    extractor: Extractor | None  # None: the model has no attention
    options: argparse.Namespace
    report: Report | None
    marks: tuple[str, str] | None  # before and after an unsure word
    candidates: dict[str, Any]  # how translations are sampled and chosen, for JSON
    copied: int = 0  # lines with letters, but without words of a language, so far
    # the numbers of lines that have other spans than their sources
    changed: list[int] = field(default_factory=list)
    shortened: list[int] = field(default_factory=list)  # of lines that have lost sentences

    def of_chunk(self, chunk: LineChunk) -> Iterator[str]:
        """A translation of --nbest has that many lines SCORE<TAB>TEXT, missing ones with -inf."""
        translations = self.translator.translate_chunk(chunk.texts, chunk.start, self.report)
        translations = self.counted(chunk, translations)
        if self.options.format == "jsonl" or self.options.copy_doubtful:
            yield from self.judged(chunk, translations)
            return
        if self.marks:
            for translation, records in self.translator.with_records(translations):
                words = self.translator.word_confidences(translation, records)
                yield mark_unsure(translation.text, words, *self.marks)
            return
        count = self.options.nbest
        for translation in translations:
            if count == 1:
                yield translation.text
                continue
            best = translation.nbest[:count]
            lines = [f"{candidate.score:.4f}\t{candidate.text}" for candidate in best]
            yield "\n".join(lines + ["-inf\t"] * (count - len(lines)))

    def counted(
        self, chunk: LineChunk, translations: Iterator[Translation]
    ) -> Iterator[Translation]:
        for number, source in enumerate(chunk.texts, chunk.start):
            translation = next(translations)
            if translation.changed_spans:
                self.changed.append(number)
            if lacks_sentences(source, translation.text):
                self.shortened.append(number)
            self.copied += translation.is_copied and has_letters(translation.text)
            yield translation

    def judged(self, chunk: LineChunk, translations: Iterator[Translation]) -> Iterator[str]:
        """JSON objects, or translations with the source in place of a doubtful one."""
        count = self.options.nbest
        best_of_lines = (translation.nbest[:count] for translation in translations)
        judged = self.with_quality(chain.from_iterable(best_of_lines))
        for number, source in enumerate(chunk.texts, chunk.start):
            translation, records = next(judged)
            others = [next(judged) for _ in translation.alternatives[: count - 1]]
            entry = self.head(translation, records)
            if self.options.min_chrf is not None:
                quality = translation.quality
                is_doubtful = quality is not None and quality.faults(self.options.min_chrf)
                entry["doubtful"] = bool(is_doubtful)
            if translation.changed_spans:
                entry["changed"] = translation.changed_spans
            if self.options.copy_doubtful and entry["doubtful"]:
                entry["text"] = source
            if self.options.format != "jsonl":
                yield entry["text"]
                continue
            entry |= self.body(translation, records)
            if count > 1 and translation.source_ids and (others or not translation.parts):
                nbest = [(translation, records), *others]
                entry["nbest"] = [self.head(*best) | self.body(*best) for best in nbest]
            error = {"error": chunk.unreadable[number]} if number in chunk.unreadable else {}
            entry = {"line": number} | entry | self.candidates | error
            yield json.dumps(entry, ensure_ascii=False)

    def with_quality(
        self, translations: Iterator[Translation]
    ) -> Iterator[tuple[Translation, list[AttentionRecord]]]:
        """`with_records`, with the quality of each translation."""
        for translation, records in self.translator.with_records(translations):
            self.translator.estimate([translation], [records])
            yield translation, records

    def head(self, translation: Translation, records: Sequence[AttentionRecord]) -> dict[str, Any]:
        """Text, score, confidence and quality, of a whole line or of a part of it."""
        words = self.translator.word_confidences(translation, records, self.options.tokenized)
        confidence = round(mean_confidence(translation, words), 4)
        entry: dict[str, Any] = {
            "text": translation.text,
            "score": round(translation.score, 4),
            "confidence": confidence,
        }
        if translation.quality is not None:
            entry |= translation.quality.to_dict()
        return entry

    def body(self, translation: Translation, records: Sequence[AttentionRecord]) -> dict[str, Any]:
        """The details of a translation, or those of its parts.

        A part was translated, and is decoded again here, as a line of its own: it attends to no
        other part.
        """
        if not translation.parts:
            return self.details(translation, records[0])
        parts = []
        for part, record in zip(translation.parts, records, strict=True):
            parts.append(self.head(part, [record]) | self.details(part, record))
        return {"parts": parts}

    def details(self, translation: Translation, record: AttentionRecord) -> dict[str, Any]:
        """Pieces, words and alignment of a translation in one part; a blank line has no pieces."""
        words = self.translator.word_confidences(translation, [record], self.options.tokenized)
        log_probabilities = record.log_probabilities if translation.source_ids else []
        entry: dict[str, Any] = {
            "source_pieces": record.source_pieces,
            "pieces": record.target_pieces,
            "log_probabilities": [round(value, 4) for value in log_probabilities],
            "words": [word for word, _ in words],
            "word_confidences": [round(value, 4) for _, value in words],
        }
        if self.extractor is not None:
            alignment = Alignment(
                record, record_words(record, self.options.tokenized), self.extractor
            )
            entry |= alignment.to_dict(weights=self.options.weights)
        return entry
