"""The Python interface: `nmt.load` and `nmt.train`, which the commands use as well (docs/guides/python.md)."""

import os
from collections.abc import Sequence
from pathlib import Path

from nmt.data.guess import with_file
from nmt.errors import UserError
from nmt.runs import pipeline
from nmt.runs.folders import find_checkpoints
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.run import load as load_checkpoints
from nmt.training.distributed import world
from nmt.view.progress import install_logging


def load(
    *names: str,
    run_folder: str | Path = "runs",
    beam: int | None = None,
    batch_tokens: int | None = None,
    precision: str | None = None,
    glossary: str | Path | None = None,
    source: str | None = None,
    target: str | None = None,
) -> Run:
    """A trained run, ready to translate, align and score; several names make an ensemble.

    A name is that of a run in `run_folder`, a folder, a checkpoint file, or `latest`. `beam`, `batch_tokens` (source
    positions × beam in one batch) and `precision` (fp32 or bf16) replace the first run's own; `glossary` is a file of
    terms that translations must use (docs/guides/terminology.md). A pretrained model, hf:OWNER/NAME[@REVISION] or a
    folder of transformers, is first imported as a run in `run_folder`; `source` and `target` are its languages where it
    does not say them (docs/guides/pretrained.md). Raises UserError for a run that does not exist or cannot be
    read, for an ensemble without a common tokenizer, and for a wrong glossary.
    """
    if not names:
        raise UserError("Give the name of a run, as in nmt.load('latest').")
    runs = [run_of(str(name), Path(run_folder), source, target) for name in names]
    paths = [path for name in runs for path in find_checkpoints(name, Path(run_folder))]
    run = load_checkpoints(paths, beam, batch_tokens, precision)
    return run if glossary is None else run.with_glossary(glossary)


def train(*overrides: str) -> list[Result]:
    """Everything from text to scores, as `nmt train` does it: one result for each test set.

    `overrides` are those of the command line, such as "model=luong_global". The same call continues an interrupted run,
    and returns the scores of a finished one. Its messages go to stderr, through the logger `nmt`. Raises UserError for
    an invalid configuration, and Stopped when it is interrupted.
    """
    install_logging()
    (config,) = pipeline.compose(with_imported(overrides))
    return pipeline.train(config)


def with_imported(overrides: Sequence[str]) -> list[str]:
    """The words of a command line, with KEY=VALUE in place of a file, and from=RUN of a pretrained model.

    Raises UserError.
    """
    overrides = with_file(overrides)
    given = dict(word.split("=", 1) for word in overrides if "=" in word)
    languages = given.get("data.source"), given.get("data.target")
    runs = Path(given.get("run_folder", "runs"))
    return [
        f"from={run_of(word.removeprefix('from='), runs, *languages)}" if word.startswith("from=") else word
        for word in overrides
    ]


def run_of(name: str, runs: Path, source: str | None, target: str | None) -> str:
    """RUN itself, or the name of the run in `runs` that a pretrained model is, imported if it is not yet."""
    is_folder = os.path.isfile(os.path.join(name, "config.json"))
    is_run = any(os.path.isfile(os.path.join(place, name, "best.safetensors")) for place in ("", runs))
    if not name.startswith("hf:") and (is_run or not is_folder):
        return name
    from nmt.commands.pretrained import import_once

    return world().main_first(lambda: import_once(name, runs, source, target))
