"""nmt translate: one line out for each line in."""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from nmt.data.lines import decoded, read_lines
from nmt.decode.translator import Translation
from nmt.errors import UserError
from nmt.evaluate.alignment import argmax_links
from nmt.runs import Run
from nmt.verbs import in_words, one_line, open_run

log = logging.getLogger("nmt")


def translate(options: argparse.Namespace) -> int:
    """One line out for each line in, in order."""
    if options.sentences and options.input:
        raise UserError("Give sentences or --input, not both.")
    run = open_run(options)
    if options.nbest > run.translator.decode.beam:
        raise UserError(
            f"--nbest {options.nbest} needs --beam {options.nbest} or more; it is now {run.translator.decode.beam}."
        )
    interactive = not options.sentences and not options.input and sys.stdin.isatty()
    if interactive:
        log.info("Type a sentence and press Enter; Ctrl-D ends.")
    with output(options.output) as out:
        translations = run.translator.translate(sentences(options), *([1] if interactive else []))
        for number, translation in enumerate(translations, 1):
            for line in shown(run, translation, options, number):
                out.write(line + "\n")
            out.flush()
    return 0


def sentences(options: argparse.Namespace) -> Iterator[str]:
    """Arguments, else --input, else stdin; a line ends at \\n and nowhere else."""
    if options.sentences:
        yield from map(one_line, options.sentences)
    elif options.input:
        yield from read_lines(Path(options.input))
    else:
        yield from decoded(sys.stdin.buffer, "stdin")


@contextmanager
def output(path: str | None) -> Iterator[TextIO]:
    """stdout, or a file that appears whole."""
    if path is None:
        yield sys.stdout
        return
    final = Path(path).resolve()
    special = final.exists() and not final.is_file()  # a device or a pipe is written to, not replaced
    temporary = final if special else final.with_name(f"{final.name}.part")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            yield file
        if not special:
            temporary.replace(final)
    except OSError as error:
        raise UserError(f"--output {path} cannot be written: {error.strerror or error}.") from None
    finally:
        if not special:
            with suppress(OSError):
                temporary.unlink()


def shown(run: Run, translation: Translation, options: argparse.Namespace, number: int) -> Iterator[str]:
    """The lines of one translation in the chosen format."""
    if options.format == "jsonl":
        yield json.dumps(record(run, translation, options.nbest, number), ensure_ascii=False)
    elif options.nbest == 1:
        yield translation.text
    else:
        found = [f"{one.score:.4f}\t{one.text}" for one in translation.alternatives[: options.nbest]]
        yield from found + ["-inf\t"] * (options.nbest - len(found))  # always N lines


def record(run: Run, translation: Translation, nbest: int, number: int) -> dict[str, Any]:
    """Everything known of a translation; alignment = [source word, target word] pairs, counted from 0."""
    if len(translation.source_ids) > run.config.tokenizer.max_pieces:  # translated in parts; there is no one look
        return {"line": number, "text": translation.text, "score": round(translation.score, 4)}
    if not translation.source_ids:
        return {"line": number, "text": "", "score": 0.0, "pieces": [], "log_probabilities": [], "alignment": []}
    look = run.translator.look(translation.source_ids, translation.ids)
    entry = {
        "line": number,
        "text": translation.text,
        "score": round(translation.score, 4),
        "source_pieces": look.source_pieces,
        "pieces": look.target_pieces,
        "log_probabilities": [round(value, 4) for value in look.log_probabilities],
    }
    if look.weights is not None:
        matrix, source, target = in_words(look, run.config.train.picture_layer, None)
        links = sorted(argmax_links(matrix))
        entry |= {"source_words": source[:-1], "words": target, "alignment": [list(link) for link in links]}
    if nbest > 1:
        entry["nbest"] = [{"text": one.text, "score": round(one.score, 4)} for one in translation.alternatives[:nbest]]
    return entry
