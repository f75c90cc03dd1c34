"""nmt translate --document FILE: a document with its markup (nmt/documents), written when it is complete."""

import argparse
import logging
import sys
from pathlib import Path

from nmt.commands.engine import open_engine
from nmt.commands.output import check_not_input, report_output_errors, warn_of_replacing
from nmt.data.files import open_atomic
from nmt.documents.formats import open_document
from nmt.documents.translation import ModelTranslator, translate_document
from nmt.documents.word_weights import WeightReader
from nmt.errors import UserError
from nmt.runs.run import Run

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Translate a document; what is wrong in it is said before the model is loaded, and nothing is written then."""
    check_not_input(options.output, options.document)
    path = Path(options.document)
    document = open_document(path, options.retranslate)
    if options.output:
        warn_of_replacing(options.output)
    run = open_engine(options, None)
    run = run.with_glossary(options.glossary) if options.glossary else run
    if "+" in run.config.data.target:
        target = run.config.data.target
        raise UserError(f"{run.name} translates into {target}; --document needs a model of one target language.")
    language = run.config.data.source.partition("+")[0].partition("-")[0]
    counts = translate_document(document, language, ModelTranslator(run.translator, reader(options, run)), path.name)
    data = document.write()
    if options.output is None:
        sys.stdout.buffer.write(data)
    else:
        with report_output_errors(options.output), open_atomic(Path(options.output)) as file:
            file.write(data)
    left = [f"{count} {reason}" for reason, count in counts.items() if reason != "translated"]
    log.info(
        "%s: %d sentences translated; left as they are: %s.", path.name, counts["translated"], ", ".join(left) or "none"
    )
    return 0


def reader(options: argparse.Namespace, run: Run) -> WeightReader | None:
    """Which weights tags are put back by: those of the options, else what is best; None without attention."""
    chosen = (options.layer, options.head, options.decoder_step, options.method)
    if chosen != (None, None, None, "mean"):
        return WeightReader([(run.make_extractor(*chosen), 1.0)])
    model = run.translator.model
    return WeightReader.of_run(run.config.train, model) if model.has_attention else None
