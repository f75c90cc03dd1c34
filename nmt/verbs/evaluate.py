"""nmt evaluate: BLEU and chrF of test sets."""

import argparse
from pathlib import Path

from nmt import pipeline
from nmt.errors import UserError
from nmt.runs import score_files
from nmt.verbs import open_run


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
        wanted = sets if options.split == "test" else [options.split]
        sides = run.config.data.source, run.config.data.target
        results = [score_files(run, name, *(corpus / f"{name}.{side}" for side in sides)) for name in wanted]
    for result in results:
        print(result.line())
    return 0
