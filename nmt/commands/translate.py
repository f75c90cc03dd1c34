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

from nmt.commands import one_line, open_run
from nmt.commands.attention_options import check_method, check_reading, chosen
from nmt.commands.export import through_ctranslate2
from nmt.commands.json_output import looked
from nmt.data.lines import decode_lines, read_lines
from nmt.decode.attention_record import LOOKS, AttentionRecord
from nmt.decode.translator import Translation
from nmt.errors import UserError
from nmt.files import open_atomic
from nmt.runs import Run

log = logging.getLogger("nmt")
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # of our own engine


def translate(options: argparse.Namespace) -> int:
    """One line out for each line in, in order."""
    check_options(options)
    ours = options.engine == "torch"
    run = open_run(options, PRECISIONS.get(options.quantization) if ours else None)
    if not ours:
        run = through_ctranslate2(run, options.quantization)
    if options.nbest > run.translator.decode.beam:
        raise UserError(
            f"--nbest {options.nbest} needs --beam {options.nbest} or more; it is now {run.translator.decode.beam}."
        )
    if about_alignments(options):
        check_reading(options, run.translator)
    interactive = not options.sentences and not options.input and sys.stdin.isatty()
    if interactive:
        log.info("Type a sentence and press Enter; Ctrl-D ends.")
    window = 1 if interactive else None
    with output(options.output) as out:
        for lines in shown(run, run.translator.translate(sentences(options), window), options, window or LOOKS):
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()
    return 0


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other or would change nothing."""
    if options.sentences and options.input:
        raise UserError("Give sentences or --input, not both.")
    ours = options.engine == "torch"
    if ours and options.quantization and options.quantization not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UserError(
            f"--quantization {options.quantization} needs --engine ctranslate2; our own engine knows {known}."
        )
    if options.format != "jsonl" and about_alignments(options):
        raise UserError(
            "--layer, --head, --method, --row, --tokenised and --weights are about alignments and need --format jsonl."
        )
    check_method(options)


def about_alignments(options: argparse.Namespace) -> bool:
    """Whether anything was asked for that only a model with attention has."""
    chosen = options.layer is not None or options.head is not None or options.method != "mean"
    return chosen or options.row != "predicts" or options.tokenised or options.weights


def sentences(options: argparse.Namespace) -> Iterator[str]:
    """Arguments, else --input, else stdin; a line ends at \\n and nowhere else."""
    if options.sentences:
        yield from (one_line(sentence, "--input") for sentence in options.sentences)
    elif options.input:
        yield from read_lines(Path(options.input))
    else:
        yield from decode_lines(sys.stdin.buffer, "stdin")


@contextmanager
def output(path: str | None) -> Iterator[TextIO]:
    """stdout, or a file that appears whole."""
    if path is None:
        yield sys.stdout
        return
    try:
        with open_atomic(Path(path)) as file:
            text = TextIOWrapper(file, encoding="utf-8", newline="\n")
            try:
                yield text
            finally:
                text.detach()  # writes what it still holds
    except OSError as error:
        raise UserError(f"--output {path} cannot be written: {error.strerror or error}.") from None


def shown(
    run: Run, translations: Iterator[Translation], options: argparse.Namespace, window: int
) -> Iterator[list[str]]:
    """The lines of each translation in the chosen format; of JSON lines `window` are looked at together."""
    if options.format == "jsonl":
        numbers = itertools.count(1)
        while some := list(itertools.islice(translations, window)):
            for entry in records(run, some, options):
                yield [json.dumps({"line": next(numbers)} | entry, ensure_ascii=False)]
        return
    for translation in translations:
        if options.nbest == 1:
            yield [translation.text]
        else:
            found = [f"{one.score:.4f}\t{one.text}" for one in translation.alternatives[: options.nbest]]
            yield found + ["-inf\t"] * (options.nbest - len(found))  # always N lines


def records(run: Run, translations: list[Translation], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Everything known of translations; of one that was made in parts, everything known of each part.

    A part was translated, and is looked at, as a line of its own: none of its words could see another part.
    """
    parts = [one.parts or [one] for one in translations]
    looks = run.translator.looks((part.source_ids, part.ids) for some in parts for part in some)
    for translation in translations:
        if translation.parts:
            found = [record(run, part, next(looks), options) for part in translation.parts]
            yield {"text": translation.text, "score": round(translation.score, 4), "parts": found}
        else:
            yield record(run, translation, next(looks), options)


def record(run: Run, translation: Translation, look: AttentionRecord, options: argparse.Namespace) -> dict[str, Any]:
    """Everything known of a translation that was made at once; nothing was predicted of a blank line."""
    likely = look.log_probabilities if translation.source_ids else []
    entry = {
        "text": translation.text,
        "score": round(translation.score, 4),
        "source_pieces": look.source_pieces,
        "pieces": look.target_pieces,
        "log_probabilities": [round(value, 4) for value in likely],
    }
    if look.weights is not None:
        entry |= looked(look, chosen(options, run), options.tokenised, weights=options.weights)
    if options.nbest > 1 and translation.alternatives:
        best = translation.alternatives[: options.nbest]
        entry["nbest"] = [{"text": one.text, "score": round(one.score, 4)} for one in best]
    return entry
