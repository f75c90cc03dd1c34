"""What a trained run can be asked for: translations, scores, alignments."""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from nmt import pipeline
from nmt.data.lines import decoded, read_lines, read_pairs
from nmt.decode.translator import Look, Translation, Translator
from nmt.errors import UserError
from nmt.evaluate.alignment import argmax_links, format_links
from nmt.evaluate.words import merge
from nmt.runs import Run, find_all, load, score_files
from nmt.train.validation import chosen
from nmt.view.heatmap import grid, heatmap, png

log = logging.getLogger("nmt")


def open_run(options: argparse.Namespace) -> Run:
    """The run that was asked for."""
    return load(find_all(options.name, Path(options.runs)), options.beam, options.batch_tokens)


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


def one_line(sentence: str) -> str:
    """A sentence from the command line."""
    try:
        sentence.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 arrive as lone surrogates
        raise UserError(f"The argument {sentence!r} is not UTF-8.") from None
    return " ".join(sentence.split("\n"))


@contextmanager
def output(path: str | None) -> Iterator[TextIO]:
    """stdout, or a file that appears whole."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
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
        yield json.dumps(record(run.translator, translation, options.nbest, number), ensure_ascii=False)
    elif options.nbest == 1:
        yield translation.text
    else:
        for one in translation.alternatives[: options.nbest] or [translation]:
            yield f"{one.score:.4f}\t{one.text}"


def record(translator: Translator, translation: Translation, nbest: int, number: int) -> dict:
    """Everything known of a translation; alignment = [source word, target word] pairs, counted from 0."""
    if not translation.source_ids:
        return {"line": number, "text": "", "score": 0.0, "pieces": [], "log_probabilities": [], "alignment": []}
    look = translator.look(translation.source_ids, translation.ids)
    entry = {
        "line": number,
        "text": translation.text,
        "score": round(translation.score, 4),
        "source_pieces": look.source_pieces,
        "pieces": look.target_pieces,
        "log_probabilities": [round(value, 4) for value in look.log_probabilities],
    }
    if look.weights is not None:
        matrix, source, target = in_words(look, -2, None)
        links = sorted(argmax_links(matrix))
        entry |= {"source_words": source[:-1], "words": target, "alignment": [list(link) for link in links]}
    if nbest > 1:
        entry["nbest"] = [{"text": one.text, "score": round(one.score, 4)} for one in translation.alternatives[:nbest]]
    return entry


def in_words(look: Look, layer: int, head: int | None):  # type: ignore[no-untyped-def]
    """Matrix, source words (and </s>), target words."""
    return merge(chosen(look, layer, head), look.source_pieces, look.target_pieces)


def evaluate(options: argparse.Namespace) -> int:
    """Scores of test sets, one line each."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    run = open_run(options)
    if options.source:
        name = Path(options.source).name.removesuffix(".gz")
        results = [score_files(run, name, Path(options.source), Path(options.reference))]
    else:
        corpus = pipeline.prepare_corpus(run.config)
        sets = pipeline.report(corpus)["sets"]
        if options.split not in ("test", "valid", *sets):
            raise UserError(
                f"--split {options.split} is not possible; choose one of {', '.join(['test', 'valid', *sets])}."
            )
        if options.split == "test" and not sets:
            raise UserError(f"The corpus of {options.name} has no test set; give --source and --reference.")
        wanted = sets if options.split == "test" and "test" not in sets else [options.split]
        sides = run.config.data.source, run.config.data.target
        results = [score_files(run, name, *(corpus / f"{name}.{side}" for side in sides)) for name in wanted]
    for result in results:
        print(result.line())
    return 0


def align(options: argparse.Namespace) -> int:
    """Where the model looked: links, pictures, or a table in words."""
    if (options.sentence is None) == (options.source is None):
        raise UserError("Give a SOURCE sentence, or --source FILE.")
    if options.target and not options.source:
        raise UserError("--target FILE belongs to --source FILE; give a TARGET sentence after SOURCE instead.")
    if options.heads and not options.png:
        raise UserError("--heads draws every head; it needs --png FILE.")
    run = open_run(options)
    if not run.translator.model.attends:
        raise UserError(f"The model of {options.name} has no attention to look at.")
    layer = run.config.train.picture_layer if options.layer is None else options.layer
    several = options.source is not None
    for number, (source, target) in enumerate(aligned(options), 1):
        look = look_at(run.translator, source, target)
        check_choice(look, layer, options)
        matrix, source_words, target_words = in_words(look, layer, options.head)
        if options.png:
            draw(look, layer, options, number if several else None)
        if options.pharaoh:
            print(format_links(argmax_links(matrix)))
        elif not options.png:
            print(table(matrix, source_words, target_words) + ("\n" if several else ""))
    return 0


def aligned(options: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    """The pairs to look at; a target that is None is translated."""
    if options.source is None:
        yield one_line(options.sentence), None if options.translation is None else one_line(options.translation)
    elif options.target:
        yield from read_pairs(Path(options.source), Path(options.target))
    else:
        yield from ((line, None) for line in read_lines(Path(options.source)))


def look_at(translator: Translator, source: str, target: str | None) -> Look:
    """Forced decoding of a pair, or of a source and its translation."""
    if target is None:
        translation = next(translator.translate([source]))
        return translator.look(translation.source_ids, translation.ids)
    return translator.look(translator.tokenizers.source.encode(source), translator.tokenizers.target.encode(target))


def check_choice(look: Look, layer: int, options: argparse.Namespace) -> None:
    """Refuse a layer or head that is not there."""
    assert look.weights is not None
    layers, heads = look.weights.shape[:2]
    if options.layer is not None and not -layers <= layer < layers:
        raise UserError(f"--layer {layer} is not there; the model has layers 0 to {layers - 1}.")
    if options.head is not None and not 0 <= options.head < heads:
        raise UserError(f"--head {options.head} is not there; the model has heads 0 to {heads - 1}.")


def draw(look: Look, layer: int, options: argparse.Namespace, number: int | None) -> None:
    """Write the heatmap of one pair."""
    assert look.weights is not None
    path = Path(options.png)
    if number is not None:
        path = path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")
    matrix, source, target = in_words(look, layer, options.head)
    if not target:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    if options.heads:
        matrices = [in_words(look, layer, head)[0] for head in range(look.weights.shape[1])]
        figure = grid(matrices, source, target, [f"head {head}" for head in range(len(matrices))])
    else:
        figure = heatmap(matrix, source, target)
    try:
        path.write_bytes(png(figure))
    except OSError as error:
        raise UserError(f"--png {path} cannot be written: {error.strerror or error}.") from None
    log.info("%s", path)


def table(matrix, source: list[str], target: list[str]) -> str:  # type: ignore[no-untyped-def]
    """One line for each target word: the word, then the source words that had at least 5 % of its attention."""
    lines = []
    for row, word in zip(matrix, target, strict=True):
        seen = sorted(
            ((weight, name) for weight, name in zip(row, source, strict=True) if weight >= 0.05), reverse=True
        )
        lines.append("\t".join([word, *(f"{name} {weight:.2f}" for weight, name in seen)]))
    return "\n".join(lines)
