"""From a configuration to scores: the stages (nmt/runs/stages.py), training and evaluation."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nmt.attention.cpu import keep_freed_memory
from nmt.config.compose import compose_all
from nmt.config.presets import CorpusSize, Suggestion, suggest
from nmt.config.schema import Config, to_yaml
from nmt.data.corpus import read_report
from nmt.data.files import only_writer, report_write_errors, write_atomic
from nmt.data.write_sets import IN_TRAINING
from nmt.errors import UserError
from nmt.evaluate.metrics import open_scorer
from nmt.runs.fine_tuning import open_parent, parent_of
from nmt.runs.folders import run_folder
from nmt.runs.results import Result
from nmt.runs.scoring import score_trained
from nmt.runs.stages import build_corpus_stage, build_stages
from nmt.training.distributed import World, world
from nmt.training.precision import select_device
from nmt.training.trainer import TrainingData, build_trainer
from nmt.view.progress import log_file

log = logging.getLogger("nmt")


def compose(overrides: Sequence[str], multirun: bool = False) -> list[Config]:
    """The configurations of a command line, with what model=auto chooses and what from=RUN brings; raises UserError."""
    configs = compose_all(overrides, multirun, suggestions, parent_of)
    for config in configs:
        check_metric(config)
    return configs


def check_metric(config: Config) -> None:
    """Raise UserError where train.metric is neither `loss` nor a metric that can be computed here."""
    if config.train.metric != "loss":
        open_scorer(config.train.metric, config.data.target)


def download(config: Config) -> None:
    """The command `download`: build the corpus folder."""
    log.info("The corpus is in %s.", build_corpus_stage(config, open_parent(config)))


def tokenize(config: Config) -> None:
    """The command `tokenize`: build the corpus, train the tokenizer, and store the pairs as ids."""
    folders = build_stages(config, open_parent(config))
    log.info("The tokenizer is in %s, the pairs as ids in %s.", folders.tokenizer, folders.ids)


def suggestions(config: Config) -> list[Suggestion]:
    """What model=auto and tokenizer=auto choose for the corpus and the time of a configuration."""
    check_metric(config)  # before anything is downloaded
    gpu = select_device(config.device).type == "cuda"
    folder = world().main_first(lambda: build_corpus_stage(config))
    size = read_corpus_size(folder, (config.data.source, config.data.target))
    return suggest(size, config.train.max_minutes, gpu)


def read_corpus_size(folder: Path, languages: Sequence[str]) -> CorpusSize:
    """The size of the training pairs of a corpus folder, from its report and the sizes of its files."""
    pairs = max(1, read_report(folder)["audit"]["train"]["kept"])
    return CorpusSize(pairs, max(count_characters(folder / f"train.{language}") for language in languages) / pairs)


def count_characters(path: Path) -> float:
    """How many characters a file of UTF-8 has, about: bytes, by those of a character in its first megabyte."""
    with open(path, "rb") as file:
        start = file.read(1 << 20)
    return path.stat().st_size * len(start.decode(errors="ignore")) / max(1, len(start))


def train(config: Config) -> list[Result]:
    """The command `train`: build the stages, train, and score; one result for each test set.

    Under torchrun every process calls it, and process 0 has the results.
    """
    keep_freed_memory()
    processes = world()
    processes.check_device(select_device(config.device))  # before anything is downloaded
    processes.check_equal("The configuration", to_yaml(config))
    parent = open_parent(config)
    if parent:
        processes.check_equal("The run that is started from", parent.provenance["weights"])
    folders = processes.main_first(lambda: build_stages(config, parent))
    data = TrainingData.open(folders.corpus, folders.tokenizer, folders.ids)
    check_validation(config, data)
    folder = run_folder(config)
    with work_in(folder, processes):
        report = read_report(folders.corpus)
        warn_of_validation_set(report["audit"]["valid"], config, data)
        trainer = build_trainer(config, data, folder, processes, parent)
        if processes.is_main:
            write_atomic(folder / "config.yaml", to_yaml(config))  # some keys may change when a run is continued
        trainer.run()
        del trainer  # its optimiser need not be in memory while the test sets are translated
        best, before = folder / "best.safetensors", parent.path if parent else None
        return score_trained(best, folders.corpus, report["sets"], config.decode, before) if processes.is_main else []


@contextmanager
def work_in(folder: Path, processes: World) -> Iterator[None]:
    """Around the work in a run folder, which is made: no other command writes there, and process 0 keeps train.log. Raises UserError.

    Of several processes one that was killed may take a while to end; the next one waits for it.
    """
    with report_write_errors(folder), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        if processes.is_main:
            stack.enter_context(only_writer(folder, timeout=2.0 if processes.size == 1 else 30.0))
            stack.enter_context(log_file(folder / "train.log"))
        yield


def check_validation(config: Config, data: TrainingData) -> None:
    """Raises UserError when learned positions are fewer than the pieces of the longest validation sentence.

    No validation pair may be left out, so that the loss is that of the whole set. Longer lines of a test set are
    translated in parts.
    """
    if getattr(config.model, "positions", None) != "learned":
        return
    valid, max_positions = data.valid, config.model.max_positions
    row = int(np.maximum(valid.source_lengths, valid.target_lengths).argmax())
    longest = 1 + int(max(valid.source_lengths[row], valid.target_lengths[row]))  # </s>
    if longest > max_positions:
        raise UserError(
            f"model.max_positions={max_positions} is too small; line {valid.line(row)} of the validation set has "
            f"{longest} pieces, </s> counted, and no validation pair is left out; give model.max_positions={longest} or "
            "more, or choose other model.positions."
        )


def warn_of_validation_set(entry: dict[str, Any], config: Config, data: TrainingData) -> None:
    """Log warnings of a validation set that is training data, and of a sentence that makes every validation slow.

    `entry`: of the set in the report of the corpus.
    """
    in_training = entry["counted"].get(IN_TRAINING, 0)
    if in_training >= 0.9 * entry["kept"]:
        log.warning(
            "%d of the %d validation pairs are training pairs: its scores, and the choice of the best checkpoint, say "
            "nothing about new sentences; give another data.valid.", in_training, entry["kept"],
        )  # fmt: skip
    pieces, row = int(data.valid.source_lengths.max()), int(data.valid.source_lengths.argmax())
    if pieces > config.tokenizer.max_pieces:
        log.warning(
            "Line %d of %s has %d pieces, more than tokenizer.max_pieces=%d: each validation translates it whole, "
            "which takes long and much memory.",
            data.valid.line(row), data.corpus / f"valid.{config.data.source}", pieces, config.tokenizer.max_pieces,
        )  # fmt: skip
