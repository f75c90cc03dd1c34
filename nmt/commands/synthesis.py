"""nmt backtranslate and nmt distil: sentence pairs of which a run has written one side.

backtranslate   monolingual text in the target language of a training to come, translated into
                its source language by a run of the other direction; with --tag each synthetic
                source begins with <bt> (Caswell et al. 2019)
distil          source text, translated by a teacher, from which a smaller student learns
                (Kim & Rush 2016, section 3.2); with --choose reference the hypothesis nearest to
                the true translation (section 3.3)

Both write PREFIX.LANGUAGE for both languages: the lines of the text as they are, and their
translations.
"""

import argparse
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from nmt.commands import check_given
from nmt.commands.engine import open_engine
from nmt.commands.interface import run_of
from nmt.commands.output import (
    check_not_input,
    line_progress,
    open_output,
    search_settings,
    warn_of_replacing,
)
from nmt.commands.translate import (
    CANDIDATES_NEED,
    CANDIDATES_NOT_WITH,
    with_candidates,
    write_answers,
)
from nmt.config.schema import Config
from nmt.corpus.corpus_folder import set_files
from nmt.corpus.files import open_atomic, report_write_errors
from nmt.corpus.language_pairs import choose_pair, is_multilingual
from nmt.corpus.line_chunks import LineChunk, read_chunks
from nmt.corpus.packed import PackedFile
from nmt.corpus.tags import BACK_TRANSLATED
from nmt.errors import UserError
from nmt.runs.folders import existing_corpus, find_checkpoints
from nmt.training.checkpoint import load
from nmt.training.restore import load_config

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Write the pairs; nothing is printed."""
    check_given(options, CANDIDATES_NEED, CANDIDATES_NOT_WITH)
    if options.command == "backtranslate" and not options.file:
        raise UserError(
            "Give FILE, the text to translate: nmt backtranslate RUN --output PREFIX FILE."
        )
    options.name = run_of(options.name, Path(options.runs), options.source, options.target)
    path = find_checkpoints(options.name, Path(options.runs))[0]
    config = load_config(path)
    pair = choose_pair(config.data, options.source, options.target, options.name)
    if is_multilingual(config.data) and not options.file:
        raise UserError(
            f"{options.name} has several language pairs, and its text has them all; give FILE."
        )
    reference = options.reference
    if options.file:
        source = Path(options.file)
    else:
        source, of_source = training_texts(path, config)
        reference = reference or str(of_source)
    copy, synthetic = (Path(f"{options.output}.{language}") for language in pair)
    for written in (copy, synthetic):
        check_not_input(str(written), str(source))
        check_not_input(str(written), reference)
    warn_of_replacing(copy)
    tag = f"{BACK_TRANSLATED} " if options.command == "backtranslate" and options.tag else ""
    with ExitStack() as stack:
        lines = stack.enter_context(PackedFile(source).open())
        out = stack.enter_context(open_output(str(synthetic), options.resume))
        run = open_engine(options, out.precision).in_direction(*pair)
        run = with_candidates(run, options, source, reference)
        out.continue_with({"command": f"{options.command} {tag}".strip()} | search_settings(run))
        stack.enter_context(report_write_errors(copy.parent))
        file = stack.enter_context(open_atomic(copy))
        report = stack.enter_context(line_progress(source, str(synthetic), out.lines))

        def copied() -> Iterator[LineChunk]:
            for chunk in read_chunks(lines, str(source), live=False):
                file.write("".join(f"{text}\n" for text in chunk.texts).encode())
                yield chunk

        def translate(chunk: LineChunk) -> Iterator[str]:
            for translation in run.translator.translate_chunk(chunk.texts, chunk.start, report):
                # a blank line stays blank
                yield f"{tag}{translation.text}" if translation.text else ""

        write_answers(copied(), translate, out)
    log.info("%s and %s are pairs to train on: data.train=[…,%s].", synthetic, copy, options.output)
    return 0


def training_texts(path: Path, config: Config) -> tuple[Path, Path]:
    """Both sides of the text that a run was trained on; raises UserError where it is gone."""
    corpus = existing_corpus(config, {load(path, with_tensors=False)["corpus_hash"]}, path.parent)
    if corpus is None:
        raise UserError(
            f"The text that {path.parent} was trained on is no longer in {config.data_folder}; "
            "give FILE."
        )
    return set_files(corpus, "train", config.data)
