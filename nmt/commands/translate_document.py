"""nmt translate --document FILE: a document with its markup (nmt/documents), written when it is complete."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nmt.commands.engine import check_engine, open_engine
from nmt.commands.translate_output import check_not_input, report_output_errors
from nmt.data.files import open_atomic
from nmt.documents.formats import OpenDocument, open_document
from nmt.documents.links import LinkReader
from nmt.documents.segment import Segment, nested_segments
from nmt.documents.sentences import split_sentences
from nmt.documents.translation import DocumentTranslator, ModelTranslator
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.view.progress import Progress

# Options of lines, and the values that they have where they are not given.
FOR_LINES: dict[str, Any] = {
    "sentences": [], "input": None, "nbest": 1, "format": "text", "resume": False, "min_confidence": None,
    "copy_doubtful": False, "weights": False, "tokenized": False,
}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Translate a document; nothing is written before the whole of it has been read."""
    check_options(options)
    document = open_document(Path(options.document), options.retranslate)
    for _ in document.parts():  # what is wrong in it is found before the model is loaded
        pass
    run = open_engine(options, None)
    run = run.with_glossary(options.glossary) if options.glossary else run
    language = source_language(run)
    with Progress(count_sentences(document, language), "sentence", f"translating {document.path.name}") as bar:
        translator = DocumentTranslator(
            ModelTranslator(run.translator, link_reader(options, run)), language, bar.update
        )
        with open_output(options.output) as write:
            for text in document.write(translator.translate(document.parts())):
                write(text)
    return 0


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that are about lines."""
    given = [name for name, default in FOR_LINES.items() if getattr(options, name) != default]
    if given:
        names = ", ".join(name if name == "sentences" else f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"--document translates one document as it is; it cannot go with {names}.")
    check_not_input(options.output, options.document)
    check_engine(options)


def source_language(run: Run) -> str:
    """The language whose rules split sentences; raises UserError for a model of several target languages."""
    if "+" in run.config.data.target:
        raise UserError(
            f"{run.name} translates into {run.config.data.target}; --document needs a model of one target language."
        )
    return run.config.data.source.partition("+")[0].partition("-")[0]


def link_reader(options: argparse.Namespace, run: Run) -> LinkReader | None:
    """Which weights tags are put back by: those of the options, else what is best; None without attention."""
    chosen = (options.layer, options.head, options.decoder_step, options.method)
    if chosen != (None, None, None, "mean"):
        return LinkReader.of_extractor(run.make_extractor(*chosen))
    model = run.translator.model
    return LinkReader.of_run(run.config.train, model) if model.has_attention else None


def count_sentences(document: OpenDocument, language: str) -> int:
    """How many sentences will be translated."""
    segments = (each for part in document.parts() if isinstance(part, Segment) for each in nested_segments(part))
    return sum(len(split_sentences(segment.text, language)) for segment in segments)


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[Callable[[str], object]]:
    """What writes text to stdout, or to a file that has its name when it is complete; raises UserError."""
    if path is None:
        yield sys.stdout.write
        return
    with report_output_errors(path), open_atomic(Path(path)) as file:
        yield lambda text: file.write(text.encode())
