"""The checkpoints in the folder of a run.

best.safetensors        the translator with the best validation score; may be the average
average.safetensors     the mean of the last few validation checkpoints
step-N.safetensors      those checkpoints
last.safetensors        everything needed to resume the training
previous.safetensors    the last.safetensors before it
validated.safetensors   last.safetensors at the last clean validation: no update was skipped since
                        the validation before it

A damaged file is set aside as NAME.damaged.safetensors, with a warning. If it is last, the training
continues from previous, and ends with the same bits. If it is a step-N, the others are averaged. If
it is best, the best of average and step-N takes its place, and later validations are compared with
its score.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config.schema import LIMITS, Config, flatten
from nmt.config.validation import validate
from nmt.corpus.files import link_atomic, report_write_errors
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.evaluate.metrics import direction
from nmt.training import checkpoint
from nmt.training.checkpoint import DamagedCheckpoint, Payload, TensorParts
from nmt.training.restore import load_optimizer, load_weights, path_in_errors, trained_weights
from nmt.training.schedule import is_endless
from nmt.training.state import TrainState
from nmt.training.validation import ValidationResult

log = logging.getLogger("nmt")

# Beginnings of the keys that may change when a run is resumed: no update depends on them, or they
# only say when the training is validated or ends. The corpus is compared by its hash, the tokenizer
# byte for byte, the run of from=RUN by its weights; train.accumulate may change with the number of
# processes.
CHANGEABLE = (
    "name",
    "from_run",
    "device",
    "data_folder",
    "run_folder",
    "decode.",
    "data.",
    "train.log_",
    "train.heatmap",
    "train.compile",
    "train.recompute",
    "train.profile",
    "train.accumulate",
    "train.save_minutes",
    "train.prune_checkpoints",
    "train.patience",
    "train.validate_every",
    *(f"train.{name}" for name in LIMITS),
)
MOST_NAMED = 5  # keys of a configuration, in a message


class CheckpointManager:
    """Writes, prunes and restores the checkpoints of one run; its methods raise UserError.

    `writes`: True only in process 0. The other processes restore, after process 0 has done so.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        tokenizers: Tokenizers,
        corpus_hash: str,
        writes: bool = True,
        parent: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.writes = writes
        self.inode = folder.stat().st_ino if folder.exists() else None
        self.is_endless = is_endless(config.optim.schedule, config.train.max_minutes)
        self.common = checkpoint.common_entries(config, tokenizers, corpus_hash, parent)
        self.last_path = folder / "last.safetensors"
        self.previous_path = folder / "previous.safetensors"
        self.validated_path = folder / "validated.safetensors"
        self.best_path = folder / "best.safetensors"
        self.average_path = folder / "average.safetensors"

    def save(self, path: Path, payload: Payload, previous: Path | None = None) -> None:
        """Write a checkpoint; refused if the folder is not the one in which this training began."""
        if not self.folder.exists() or self.folder.stat().st_ino != self.inode:
            raise UserError(
                f"The run folder {self.folder} was removed or replaced; this training ends here."
            )
        checkpoint.save(path, payload, previous)

    def save_scored(
        self,
        weights: Mapping[str, Tensor | TensorParts],
        step: int,
        result: ValidationResult,
        is_best: bool,
        averaged: Sequence[Path] = (),
    ) -> None:
        """Write step-N.safetensors, or average.safetensors if `averaged` names its checkpoints.

        The same is written as best.safetensors if `is_best`, unless the old best has a better
        score: it may be the average of an earlier, shorter training.
        """
        metric = self.config.train.metric
        kept = self.config.train.average_checkpoints
        origin = f"update {step}"
        if averaged:
            origin = f"average of updates {', '.join(str(step_of(path)) for path in averaged)}"
        payload = self.common | {
            "model": weights,
            "step": step,
            "valid": result.scores,
            "origin": origin,
        }
        if is_best:
            stored = None
            if self.sound_or_set_aside(self.best_path):
                best = checkpoint.load(self.best_path, with_tensors=False)
                stored = best.get("valid", {}).get(metric)
            if result.better_than(stored, metric):
                self.save(self.best_path, payload)
        if averaged:
            self.save(self.average_path, payload)
        elif kept:
            self.save(self.folder / f"step-{step}.safetensors", payload)
            self.delete(self.step_paths()[:-kept])

    def step_paths(self) -> list[Path]:
        """The checkpoints to average, oldest first."""
        return sorted(self.folder.glob("step-*[0-9].safetensors"), key=step_of)

    def sound_or_set_aside(self, path: Path) -> bool:
        """Whether a checkpoint exists and is not damaged; a damaged one is set aside."""
        if not path.exists():
            return False
        try:
            checkpoint.load(path, with_tensors=False)
        except DamagedCheckpoint:
            self.set_aside(path)
            return False
        return True

    def set_aside(self, path: Path) -> None:
        """Give a damaged checkpoint another name, with a warning."""
        if not self.writes:
            return
        aside = path.with_name(f"{path.stem}.damaged.safetensors")
        with report_write_errors(self.folder):
            path.replace(aside)
        log.warning("%s is damaged, now %s, and not used.", path, aside.name)

    def save_last(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainState
    ) -> None:
        """Write last.safetensors; the one before becomes previous.safetensors.

        Once the training is over, what only a continuation needs is neither written nor kept.
        """
        training: Payload = {"model": trained_weights(model), "train_state": asdict(state)}
        if not self.prunes(state):
            # The moments alone: the optimizer's options are in the configuration
            training["optimizer"] = {"state": optimizer.state_dict()["state"]}
        self.save(self.last_path, self.common | training, self.previous_path)
        self.prune(state)

    def prunes(self, state: TrainState) -> bool:
        """Whether the schedule has ended, and what only a continuation needs is deleted.

        With larger limits the training begins another schedule, which needs no old moments.
        """
        return state.finished and not self.is_endless and self.config.train.prune_checkpoints

    def prune(self, state: TrainState) -> None:
        """Delete what only a continuation needs once the training is over."""
        if self.prunes(state):
            self.delete([self.previous_path, self.validated_path, *self.step_paths()])

    def delete(self, paths: Iterable[Path]) -> None:
        if not self.writes:
            return
        with report_write_errors(self.folder):
            for path in paths:
                path.unlink(missing_ok=True)

    def restore(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[TrainState, Config] | None:
        """Set weights and optimizer to those of last.safetensors; returns its state and config.

        None if there is no such file. If it is damaged, previous.safetensors is continued instead,
        with the same bits. Raises UserError if the run was begun with another configuration, corpus
        or tokenizer.
        """
        path = self.newest_sound()
        if path is None:
            self.start_anew()
            return None
        payload = checkpoint.load(path)
        refuse_changes(payload, self.common, self.config.name)
        finished = payload.get("train_state", {}).get("finished", False)
        needed = ["train_state"] if finished else ["optimizer", "train_state"]
        missing = [name for name in needed if name not in payload]
        if missing:
            raise UserError(
                f"{path} has no {', '.join(missing)}; no training can be continued from it."
            )
        with path_in_errors(path):
            load_weights(model, payload["model"])
            if "optimizer" in payload:
                load_optimizer(optimizer, payload["optimizer"])
            state = TrainState.from_dict(payload["train_state"])
        config = validate(payload["config"])
        if self.writes:
            self.mend(state, path)
        return state, config

    def newest_sound(self) -> Path | None:
        """The first of last and previous that exists and is sound; None if neither exists.

        Raises UserError if those that exist are damaged.
        """
        damaged: list[Path] = []
        for path in (self.last_path, self.previous_path):
            if not path.exists():
                continue
            try:
                checkpoint.load(path, with_tensors=False)
            except DamagedCheckpoint:
                damaged.append(path)
                continue
            for each in damaged:  # if none is sound they keep their names
                self.set_aside(each)
            return path
        if not damaged:
            return None
        listed = " and ".join(str(path) for path in damaged)
        raise UserError(
            f"The training cannot be continued, since these are damaged or cut short: {listed}; "
            "put back a copy, or delete to train from the start."
        )

    def start_anew(self) -> None:
        """Before a training from the start: delete the step-N and validated of an earlier attempt.

        Raises UserError if the folder has checkpoints of another training, which would be mixed
        with the new ones.
        """
        if not self.writes:
            return
        for path in (self.best_path, self.average_path, *self.step_paths()):
            if self.sound_or_set_aside(path):
                refuse_changes(checkpoint.load(path), self.common, self.config.name)
        self.delete([self.validated_path, *self.step_paths()])

    def mend(self, state: TrainState, path: Path) -> None:
        """Do what a kill after the save of `path` has prevented, and replace a lost best.

        If best.safetensors was lost, state.best becomes the score of what replaces it.
        """
        # Those of later updates will be written anew
        self.delete([each for each in self.step_paths() if step_of(each) > state.step])
        if state.best is not None and not self.sound_or_set_aside(self.best_path):
            state.best = self.replace_best()
        if state.best is None and state.finished:
            raise UserError(
                f"{self.best_path} is gone and nothing can take its place; {self.last_path} still "
                "has the weights of the last update, or give this run another name=… to train it "
                "again."
            )
        is_clean_validation = state.step > 0 and state.step == state.rollback_step
        if is_clean_validation and not state.finished:
            self.mark_validated(path)
        self.prune(state)

    def replace_best(self) -> float | None:
        """Put the best of average and step-N in the place of a lost best.safetensors.

        Returns its score, or None if all of them are missing.
        """
        metric = self.config.train.metric
        scores = {}
        for path in (self.average_path, *self.step_paths()):
            if self.sound_or_set_aside(path):
                scores[path] = checkpoint.load(path, with_tensors=False)["valid"][metric]
        if not scores:
            log.warning(
                "No checkpoint can take the place of %s until the next validation.", self.best_path
            )
            return None
        chosen = max(scores, key=lambda path: direction(metric) * scores[path])
        self.save(self.best_path, checkpoint.load(chosen))
        log.warning(
            "%s takes the place of %s, with %s %.4g.",
            chosen.name,
            self.best_path,
            metric,
            scores[chosen],
        )
        return scores[chosen]

    def mark_validated(self, path: Path | None = None) -> None:
        """Give `path`, by default last.safetensors, the name validated.safetensors as well.

        A training that diverges goes back to it.
        """
        with report_write_errors(self.folder):
            link_atomic(path or self.last_path, self.validated_path)

    def roll_back(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int | None:
        """Set weights and optimizer to those of the last clean validation; returns its update.

        None without a sound file.
        """
        if not self.sound_or_set_aside(self.validated_path):
            return None
        payload = checkpoint.load(self.validated_path)
        with path_in_errors(self.validated_path):
            load_weights(model, payload["model"])
            load_optimizer(optimizer, payload["optimizer"])
        return payload["train_state"]["step"]


def step_of(path: Path) -> int:
    return int(path.stem.split("-")[1])


def refuse_changes(saved: Payload, new: Payload, name: str) -> None:
    """Raise UserError if the new configuration would train something else than the saved run.

    The message names some keys that have changed, and counts the others.
    """
    before = flatten(validate(saved["config"]))
    after = flatten(validate(new["config"]))
    keys = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and not key.startswith(CHANGEABLE):
            keys.append(key)
    # A kind of model comes first, and last the keys that only one of two kinds has
    keys.sort(key=lambda key: (key not in before or key not in after, not key.endswith(".kind")))
    changed = [f"{key} (was {before.get(key)}, now {after.get(key)})" for key in keys[:MOST_NAMED]]
    if len(keys) > MOST_NAMED:
        changed.append(f"and {len(keys) - MOST_NAMED} other keys")

    was = saved.get("parent", {}).get("weights", "none")[:10]
    now = new.get("parent", {}).get("weights", "none")[:10]
    if was != now:
        changed.append(f"the weights of from=RUN (was {was}, now {now})")

    was = saved["corpus_hash"]
    now = new["corpus_hash"]
    if was != now:
        changed.append(f"the corpus (was {was[:10]}, now {now[:10]})")
    elif not changed and tokenizer_hash(saved) != tokenizer_hash(new):
        # Another corpus or another key would be the reason for this, and is named above
        changed.append("the tokenizer, which was trained again and has become another one")

    if changed:
        raise UserError(
            f"The run '{name}' cannot be resumed, because its configuration has changed: "
            f"{', '.join(changed)}; go back to the old values to continue it, or give this one "
            "another name=…, or delete its folder."
        )


def tokenizer_hash(payload: Payload) -> str:
    """The sha256 of the tokenizers' models."""
    entries = payload["tokenizers"].items()
    models = {side: model for side, model in entries if isinstance(model, Tensor)}
    return checkpoint.digest({"model": models})
