"""The Python interface: `nmt.load` and `nmt.train`, which the commands use as well (docs/guides/python.md)."""

from pathlib import Path

from nmt.config.compose import compose_all
from nmt.errors import UserError
from nmt.runs import pipeline
from nmt.runs.folders import find_checkpoints
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.run import load as load_checkpoints
from nmt.view.progress import install_logging


def load(
    *names: str,
    run_folder: str | Path = "runs",
    beam: int | None = None,
    batch_tokens: int | None = None,
    precision: str | None = None,
    glossary: str | Path | None = None,
) -> Run:
    """A trained run, ready to translate, align and score; several names make an ensemble.

    A name is that of a run in `run_folder`, a folder, a checkpoint file, or `latest`. `beam`, `batch_tokens` (source
    positions × beam in one batch) and `precision` (fp32 or bf16) replace the first run's own; `glossary` is a file of
    terms that translations must use (docs/guides/terminology.md). Raises UserError for a run that does not exist or cannot be
    read, for an ensemble without a common tokenizer, and for a wrong glossary.
    """
    if not names:
        raise UserError("Give the name of a run, as in nmt.load('latest').")
    paths = [path for name in names for path in find_checkpoints(str(name), Path(run_folder))]
    run = load_checkpoints(paths, beam, batch_tokens, precision)
    return run if glossary is None else run.with_glossary(glossary)


def train(*overrides: str) -> list[Result]:
    """Everything from text to scores, as `nmt train` does it: one result for each test set.

    `overrides` are those of the command line, such as "model=luong_global". The same call continues an interrupted run,
    and returns the scores of a finished one. Its messages go to stderr, through the logger `nmt`. Raises UserError for
    an invalid configuration, and Stopped when it is interrupted.
    """
    install_logging()
    (config,) = pipeline.compose(overrides)
    return pipeline.train(config)
