"""nmt score: how probable a model finds given translations, one line out for each pair in.

As text, a line is LOG_PROBABILITY<TAB>SCORE, the score being that of search, log-probability /
length^α; as JSON it also has the pieces and words of the target.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from nmt.commands import check_given
from nmt.commands.interface import load
from nmt.commands.output import (
    PRECISIONS,
    check_not_input,
    is_file,
    line_progress,
    open_output,
    search_settings,
)
from nmt.commands.translate import write_answers
from nmt.corpus.line_chunks import LineChunk, paste_chunks, read_chunks
from nmt.corpus.packed import PackedFile
from nmt.decode.pair_scores import PairScore, score_pairs
from nmt.errors import UserError

log = logging.getLogger("nmt")
NEEDS = {"--resume": "--output", "--tokenized": "--format=jsonl"}


def run(options: argparse.Namespace) -> int:
    """Print one line for each pair, in order."""
    check_given(options, NEEDS, {})
    files = [Path(name) for name in options.files]
    check_files(options, files)
    with ExitStack() as stack:
        out = stack.enter_context(open_output(options.output, options.resume))
        run = load(
            options.name,
            run_folder=options.runs,
            precision=PRECISIONS[options.quantization],
            source=options.source,
            target=options.target,
        )
        given = {"--format": options.format, "--tokenized": options.tokenized}
        out.continue_with(given | search_settings(run))
        first = files[0] if files else None
        report = stack.enter_context(line_progress(first, options.output, out.lines, "scoring"))

        def answers(chunk: LineChunk) -> Iterator[str]:
            """A line for each pair; a blank one for what is no pair, or too long for the model."""
            pairs = []
            for number, text in enumerate(chunk.texts, chunk.start):
                if number not in chunk.unreadable:
                    source, _, target = text.partition("\t")
                    pairs.append((source, target))
            if report:
                report(len(chunk.texts) - len(pairs))
            scores = score_pairs(run.translator, pairs, report)
            for number in range(chunk.start, chunk.stop + 1):
                problem = chunk.unreadable.get(number, "")
                score = None if problem else next(scores)
                if score is None and not problem:
                    problem = "longer than the model can read"
                    log.warning("The pair in line %d is %s; its answer is blank.", number, problem)
                yield answer(number, score, problem, options)

        write_answers(marked(input_chunks(options, files)), answers, out)
    return 0


def check_files(options: argparse.Namespace, files: list[Path]) -> None:
    """Raise UserError for files that cannot be scored together, before the model is loaded."""
    if len(files) > 2:
        raise UserError(f"Give one file of pairs or two files, not {len(files)}.")
    for path in files:
        check_not_input(options.output, str(path))
    counts = [PackedFile(path).count_lines() for path in files]
    # An empty or damaged file has no count, and is refused when it is read
    if None not in counts and len(set(counts)) > 1:
        raise UserError(
            f"{files[0]} has {counts[0]:,} lines and {files[1]} has {counts[1]:,} lines; line n of "
            "one must be the translation of line n of the other."
        )


def input_chunks(options: argparse.Namespace, files: list[Path]) -> Iterator[LineChunk]:
    """The pairs of the files, or those of stdin; a pipe is answered as soon as it pauses."""
    if len(files) == 2:
        yield from paste_chunks(*files)
    elif files:
        with PackedFile(files[0]).open() as file:
            yield from read_chunks(file, str(files[0]), live=False)
    else:
        yield from read_chunks(sys.stdin.buffer, "stdin", live=not is_file(options.output))


def marked(chunks: Iterator[LineChunk]) -> Iterator[LineChunk]:
    """The chunks, where lines without exactly one tab count as lines that cannot be read."""
    for chunk in chunks:
        for number, text in enumerate(chunk.texts, chunk.start):
            tabs = text.count("\t")
            if tabs != 1:
                reason = f"not SOURCE<TAB>TARGET: it has {tabs} tabs"
                chunk.unreadable.setdefault(number, reason)
        yield chunk


def answer(number: int, score: PairScore | None, problem: str, options: argparse.Namespace) -> str:
    """The line that is written for a pair."""
    if options.format == "text":
        if score is None:
            return ""
        return f"{score.log_probability:.4f}\t{score.score:.4f}"
    entry: dict[str, object] = {"line": number}
    if score is None:
        entry["error"] = problem
    else:
        words = score.words(options.tokenized)
        entry |= {
            "log_probability": round(score.log_probability, 4),
            "score": round(score.score, 4),
            "pieces": score.pieces,
            "log_probabilities": [round(value, 4) for value in score.log_probabilities],
            "words": [word for word, _ in words],
            "word_log_probabilities": [round(value, 4) for _, value in words],
        }
    return json.dumps(entry, ensure_ascii=False)
