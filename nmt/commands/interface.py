"""The Python interface (docs/guides/python.md): `nmt.load` and `nmt.train`.

The commands use it, too.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config import presets
from nmt.config.compose import Suggest, compose_all
from nmt.config.keys import EXPERIMENT, FROM
from nmt.config.schema import Config
from nmt.corpus.guess import with_file
from nmt.errors import UserError, choose
from nmt.runs import pipeline
from nmt.runs.folders import PRETRAINED, find_checkpoints
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.run import load as load_checkpoints
from nmt.runs.stages import parent_of
from nmt.training.distributed import world
from nmt.view.progress import install_logging

log = logging.getLogger("nmt")


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
    """Load a trained run, ready to translate, align and score; several names make an ensemble.

    A name is that of a run in `run_folder`, a folder, a checkpoint file, or `latest`. It may also
    be a pretrained model, hf:OWNER/NAME[@REVISION] or a folder of transformers, which is first
    imported as a run in `run_folder` (docs/guides/pretrained.md).

    beam, batch_tokens (source positions × beam in one batch), precision (fp32, bf16, fp16):
        replace the settings of the first run.
    glossary: a file of terms that translations must use (docs/guides/terminology.md).
    source, target: the direction, if the run has several; for a pretrained model, its languages
        if it does not name them.

    Raises UserError if a run does not exist, cannot be read or does not have this direction, if
    the runs of an ensemble have different tokenizers, and if the glossary is invalid.
    """
    if not names:
        raise UserError("Give the name of a run, as in nmt.load('latest').")
    runs = [run_of(str(name), Path(run_folder), source, target) for name in names]
    paths: list[Path] = []
    for name in runs:
        paths += find_checkpoints(name, Path(run_folder))
    run = load_checkpoints(paths, beam, batch_tokens, precision)
    if (source or target) and "+" not in f"{source}{target}":
        run = run.in_direction(source, target)
    return run if glossary is None else run.with_glossary(glossary)


def train(*overrides: str) -> list[Result]:
    """Train and score a model, as `nmt train` does; returns one result for each test set.

    `overrides` are the arguments of the command, such as "model=luong_global". The same call
    continues an interrupted run, and returns the scores of a finished one. Messages go to stderr,
    through the logger `nmt`. Raises UserError for an invalid configuration, and Stopped on an
    interruption.
    """
    install_logging()
    (config,) = compose(overrides)
    return pipeline.train(config)


def compose(
    overrides: Sequence[str],
    multirun: bool = False,
    training: bool = True,
    suggest: Suggest | None = None,
) -> list[Config]:
    """The configurations of a command line, with a file, from=SOURCE and for=FORMAT.

    suggest: what model=auto stands for, by default what fits the corpus. Raises UserError.
    """
    words = with_auto(with_imported(overrides))
    formats = [word.removeprefix("for=") for word in words if word.startswith("for=")]
    wanted = formats[0] if formats else ""
    if wanted:
        from nmt.convert.formats import ALIASES

        wanted = ALIASES.get(wanted, wanted)
    words = with_format([word for word in words if not word.startswith("for=")], wanted, multirun)
    configs = pipeline.compose(words, multirun, suggest)
    if training:
        for config in configs:
            check_format(config, wanted)
    return configs


def with_imported(overrides: Sequence[str]) -> list[str]:
    """The words of a command line, with KEY=VALUE for a file, and from=RUN for a pretrained model.

    Raises UserError.
    """
    overrides = with_file(overrides)
    given = dict(word.split("=", 1) for word in overrides if "=" in word)
    languages = given.get("data.source"), given.get("data.target")
    runs = Path(given.get("run_folder", "runs"))
    words = []
    for word in overrides:
        if word.startswith("from="):
            word = f"from={run_of(word.removeprefix('from='), runs, *languages)}"
        words.append(word)
    return words


def with_auto(words: list[str]) -> list[str]:
    """The words with model=auto tokenizer=auto for one's own text, unless a model is given."""
    given = {word.partition("=")[0].lstrip("+") for word in words}
    if "data=files" not in words or given & {*presets.BASE, EXPERIMENT, FROM, "from"}:
        return words
    return [*words, *(f"{group}={presets.AUTO}" for group in presets.BASE)]


def run_of(name: str, runs: Path, source: str | None, target: str | None) -> str:
    """RUN itself, or the name in `runs` of a pretrained model, which is imported once."""
    if not name.startswith("hf:"):
        files = [os.path.join(place, name, "best.safetensors") for place in ("", runs)]
        is_pretrained = os.path.isfile(os.path.join(name, "config.json"))
        if not is_pretrained or any(map(os.path.isfile, files)):
            return name
    from nmt.commands.pretrained import import_once

    return world().main_first(lambda: import_once(name, runs, source, target))


def with_format(overrides: list[str], wanted: str, multirun: bool = False) -> list[str]:
    """The words with what a model needs to be exported as for=FORMAT; what is given stays."""
    if not wanted:
        return overrides
    from nmt.commands.export import COPIED_PLAIN
    from nmt.convert.formats import FORMATS

    format = choose("format", wanted, FORMATS)
    added: dict[str, Any] = {}
    if "model=auto" in overrides:
        added |= format.auto_model
    if format.text_filter != "used":
        configs = compose_all(overrides, multirun, open_run=parent_of)
        if any(config.tokenizer.protect for config in configs):
            added |= COPIED_PLAIN
    given = {word.partition("=")[0] for word in overrides}
    words = [f"{key}={value}" for key, value in added.items() if key not in given]
    log.info("for=%s: %s.", wanted, " ".join(words) or "nothing has to be chosen")
    return [*overrides, *words]


def check_format(config: Config, wanted: str) -> None:
    """Raise UserError where the wanted format cannot hold the model.

    Without a wanted one, say which formats cannot.
    """
    from nmt.convert.formats import FORMATS

    is_imported = False
    if config.from_run:
        parent, _ = parent_of(config.from_run, Path(config.run_folder))
        is_imported = (parent / PRETRAINED).is_dir()
    reasons = {}
    for name, format in FORMATS.items():
        reasons[name] = format.load().misfit(config, is_imported)
    if wanted:
        if reasons[wanted]:
            raise UserError(
                f"for={wanted} is not possible with the model of {config.name}: {reasons[wanted]}."
            )
        return
    for reason in dict.fromkeys(filter(None, reasons.values())):
        names = ", ".join(name for name, each in reasons.items() if each == reason)
        log.info("%s cannot be exported as %s: %s.", config.name, names, reason)
