"""From a configuration to scores: the stages (nmt/runs/stages.py), training and evaluation."""

import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nmt.attention.cpu import give_back_freed_memory, keep_freed_memory
from nmt.config.compose import Suggest, compose_all
from nmt.config.presets import Suggestion, suggest
from nmt.config.schema import Config, to_yaml
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.files import only_writer, report_write_errors, write_atomic
from nmt.corpus.monolingual import warn_of_language
from nmt.corpus.write_sets import IN_TRAINING
from nmt.errors import UserError
from nmt.evaluate.metrics import open_scorer
from nmt.runs import back_translation
from nmt.runs.folders import PRETRAINED, read_config, run_folder
from nmt.runs.results import Result
from nmt.runs.scoring import score_trained, warn_of_size
from nmt.runs.stages import (
    build_corpus_stage,
    build_stages,
    build_synthetic_stage,
    open_parent,
    parent_of,
)
from nmt.training.build import TrainingData, build_trainer
from nmt.training.checkpoint_manager import CHANGEABLE
from nmt.training.distributed import World, world
from nmt.training.precision import select_device
from nmt.training.restore import Parent
from nmt.view.progress import log_file

log = logging.getLogger("nmt")
Finish = Callable[[Path], None]


def compose(
    overrides: Sequence[str], multirun: bool = False, suggest: Suggest | None = None
) -> list[Config]:
    """The configurations of a command line; raises UserError.

    They have what model=auto chooses, or `suggest`, and what from=RUN brings.
    """
    configs = compose_all(overrides, multirun, suggest or suggestions, parent_of)
    for config in configs:
        check_possible(config)
    return configs


def check_possible(config: Config) -> None:
    """Raise UserError for what cannot be trained, before anything is downloaded."""
    if config.train.metric != "loss":
        open_scorer(config.train.metric, config.data.target)
    if config.data.mono is not None:
        back_translation.check_possible(config)


def download(config: Config) -> None:
    """The command `download`: build the corpus folder."""
    log.info("The corpus is in %s.", build_corpus_stage(config, open_parent(config)))


def tokenize(config: Config) -> None:
    """The command `tokenize`: build the corpus, train the tokenizer, and store the pairs as ids."""
    if config.data.mono is not None:
        raise UserError(
            "data.mono has no pairs before a model of the other direction is trained; `nmt train` "
            "does all."
        )
    folders = build_stages(config, open_parent(config))
    log.info("The tokenizer is in %s, the pairs as ids in %s.", folders.tokenizer, folders.ids)


def suggestions(config: Config, given: Collection[str]) -> list[Suggestion]:
    """What model=auto and tokenizer=auto choose for the corpus and the time of a configuration.

    What belongs to a width follows from model.hidden_size if that is one of the keys `given`.

    A run that was begun keeps what its weights depend on, however much time it is given later.
    """
    check_possible(config)
    gpu = select_device(config.device).type == "cuda"
    folder = world().main_first(lambda: build_corpus_stage(config))
    pairs = read_report(folder)["audit"]["train"]["kept"]
    begun = read_config(run_folder(config))
    width = config.model.hidden_size if "model.hidden_size" in given else None
    suggested = suggest(pairs, config.train.max_minutes, gpu, width)
    return [kept_value(suggestion, begun) for suggestion in suggested]


def kept_value(suggestion: Suggestion, begun: dict[str, Any]) -> Suggestion:
    """A suggestion, with the value that a run was begun with, if it was.

    `begun`: its stored configuration.
    """
    group, _, name = suggestion.key.partition(".")
    if suggestion.key.startswith(CHANGEABLE) or name not in begun.get(group, {}):
        return suggestion
    return Suggestion(suggestion.key, begun[group][name], "as the run was begun")


def train(
    config: Config,
    finish: Finish = lambda best: None,
    start: Parent | None = None,
    with_old_text: bool = True,
) -> list[Result]:
    """The command `train`: build the stages, train, and score; one result for each test set.

    `finish` may change the weights, best.safetensors, before they are scored; once more after an
    interruption. `start` has weights and tokenizers for a new model to begin with. Without
    `with_old_text`, the corpus has nothing of that of from=RUN. Under torchrun every process calls
    it, and process 0 has the results.
    """
    if config.train.recompute:
        give_back_freed_memory()
    else:
        keep_freed_memory()
    processes = world()
    processes.check_device(select_device(config.device))  # before anything is downloaded
    processes.check_equal("The configuration", to_yaml(config))
    parent = start or open_parent(config)
    if parent:
        processes.check_equal("The run that is started from", parent.provenance["weights"])
    before = parent.path if parent and config.from_run else None
    synthetic = None
    if config.data.mono is not None:
        synthetic = back_translate(config)
        config = back_translation.with_rest_of_time(config, synthetic)
    folders = processes.main_first(lambda: build_stages(config, parent, synthetic, with_old_text))
    data = TrainingData.open(folders.corpus, folders.tokenizer, folders.ids)
    folder = run_folder(config)
    with work_in(folder, processes):
        report = read_report(folders.corpus)
        for name in ("valid", *report["sets"]):
            entry = report["audit"][name]
            in_training = entry["counted"].get(IN_TRAINING, 0)
            if in_training >= 0.9 * entry["kept"]:
                useless = "its scores"
                if name == "valid":
                    useless += ", and the choice of the best checkpoint,"
                log.warning(
                    "%d of the %d pairs of %s are training pairs: %s say nothing about new "
                    "sentences; give another data.%s.",
                    in_training,
                    entry["kept"],
                    name,
                    useless,
                    "valid" if name == "valid" else "test",
                )
            warn_of_size(name, entry["kept"])
        trainer = build_trainer(config, data, folder, processes, parent)
        if processes.is_main:
            # some keys may change when a run is continued
            write_atomic(folder / "config.yaml", to_yaml(config))
            if before and before.with_name(PRETRAINED).is_dir():
                imported = before.with_name(PRETRAINED)
                shutil.copytree(imported, folder / PRETRAINED, symlinks=True, dirs_exist_ok=True)
        trainer.run()
        training = trainer.figures
        best = folder / "best.safetensors"
        # Optimiser and weights need not be in memory while the test sets are translated
        del trainer
        parent = None
        if not processes.is_main:
            return []
        finish(best)
        return score_trained(best, folders.corpus, report["sets"], config.decode, training, before)


def back_translate(config: Config) -> Path:
    """Train the run of the other direction on the true pairs.

    Returns the folder of what it has made of data.mono.
    """
    if world().size > 1:  # the others would wait for the translation longer than they can
        raise UserError(
            "data.mono is not possible under torchrun; train with one process, or write the pairs "
            "with `nmt backtranslate` first (docs/guides/fine-tuning.md)."
        )
    corpus = build_corpus_stage(config)
    warn_of_language(config.data)
    reverse = back_translation.reverse_config(config, corpus)
    for result in train(reverse):
        log.info("%s: %s", reverse.name, result.line())
    return build_synthetic_stage(config, corpus, run_folder(reverse) / "best.safetensors")


@contextmanager
def work_in(folder: Path, processes: World) -> Iterator[None]:
    """Hold a run folder, which is made, while work is done in it. Raises UserError.

    No other command writes there, and process 0 keeps train.log. Of several processes one that was
    killed may take a while to end; the next one waits for it.
    """
    with report_write_errors(folder), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        if processes.is_main:
            stack.enter_context(only_writer(folder, timeout=2.0 if processes.size == 1 else 30.0))
            stack.enter_context(log_file(folder / "train.log"))
        yield
