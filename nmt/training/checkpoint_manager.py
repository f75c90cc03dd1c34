"""The checkpoints in the folder of a run.

best.safetensors      the translator with the best validation score; may be the average
average.safetensors   the mean of the last few validation checkpoints
validated.safetensors   last.safetensors as it was at the last validation before which no update was skipped
step-N.safetensors    those checkpoints
last.safetensors      everything needed to resume the training
"""

import logging
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import Config, to_dict
from nmt.config_validation import validate
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.files import link_atomic, report_write_errors
from nmt.training import checkpoint
from nmt.training.checkpoint import DamagedCheckpoint, Payload, differences
from nmt.training.schedule import SCHEDULES_WITH_END
from nmt.training.state import TrainState
from nmt.training.validation import ValidationResult

log = logging.getLogger("nmt")

# Keys that may change when a run is resumed, since its weights do not depend on them. The corpus is compared by its
# hash, the tokenizer byte for byte; train.accumulate may change with the number of processes.
CHANGEABLE = ("name", "device", "data_folder", "run_folder", "train.log_every", "train.compile", "train.accumulate")
CHANGEABLE_PREFIXES = ("decode.", "train.heatmap", "train.log_sentences", "data.")
BUDGET = ("train.max_steps", "train.max_epochs", "train.patience")  # may change where no schedule depends on them


class CheckpointManager:
    """Writes, prunes, averages and restores the checkpoints of one run."""

    def __init__(self, folder: Path, config: Config, tokenizers: Tokenizers, corpus_hash: str) -> None:
        self.folder, self.config = folder, config
        self.common = checkpoint.pack(config, tokenizers, corpus_hash)
        self.last_path, self.best_path = folder / "last.safetensors", folder / "best.safetensors"
        self.validated_path = folder / "validated.safetensors"

    def save_and_prune(self, weights: dict[str, Tensor], step: int, result: ValidationResult, is_best: bool) -> None:
        """Write step-N.safetensors, and best.safetensors if it is the best; old step-N.safetensors are deleted."""
        payload = self.translator_payload(weights, step, result, f"update {step}")
        if is_best:
            self.save_best(payload, result)
        if self.config.train.average_checkpoints:
            checkpoint.save(self.folder / f"step-{step}.safetensors", payload)
            self.prune()

    def prune(self) -> None:
        """Delete the oldest step-N.safetensors, keeping the last `train.average_checkpoints`."""
        for path in self.step_paths()[: -self.config.train.average_checkpoints]:
            path.unlink()

    def save_average(self, weights: dict[str, Tensor], step: int, result: ValidationResult, is_best: bool) -> None:
        """Write average.safetensors, and best.safetensors if the average is better than every single checkpoint."""
        origin = "average of updates " + ", ".join(str(step_of(path)) for path in self.step_paths())
        payload = self.translator_payload(weights, step, result, origin)
        checkpoint.save(self.folder / "average.safetensors", payload)
        if is_best:
            self.save_best(payload, result)

    def save_best(self, payload: Payload, result: ValidationResult) -> None:
        """Replace best.safetensors, unless it is better: it may be the average of an earlier, shorter training."""
        metric, stored = self.config.train.metric, None
        if self.best_path.exists():
            try:
                stored = checkpoint.load(self.best_path, with_tensors=False)["valid"][metric]
            except DamagedCheckpoint as error:
                log.warning("%s It is replaced by the %s.", error, payload["origin"])
        if result.better_than(stored, metric):
            checkpoint.save(self.best_path, payload)

    def translator_payload(
        self, weights: dict[str, Tensor], step: int, result: ValidationResult, origin: str
    ) -> Payload:
        """A checkpoint that can translate, with its validation scores and the updates it comes from."""
        scores = {"loss": result.loss, "bleu": result.bleu, "chrf": result.chrf}
        return self.common | {"model": weights, "step": step, "valid": scores, "origin": origin}

    def step_paths(self) -> list[Path]:
        """The checkpoints to average, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"), key=step_of)

    def save_last(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainState) -> None:
        """Write last.safetensors, which a training continues from."""
        training = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "train_state": asdict(state),
        }
        checkpoint.save(self.last_path, self.common | training)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainState | None:
        """Set weights and optimizer to those of last.safetensors; None if there is no last.safetensors.

        Raises UserError if the run was begun with another configuration, corpus or tokenizer.
        """
        if not self.last_path.exists():
            self.delete_stale_steps()
            return None
        payload = checkpoint.load(self.last_path)
        refuse_changes(payload, self.common, self.config.name)
        if missing := {"optimizer", "train_state"} - payload.keys():
            names = ", ".join(sorted(missing))
            raise UserError(f"{self.last_path} has no {names}; no training can be continued from it.")
        model.load_state_dict(payload["model"])
        optimizer.load_state_dict(payload["optimizer"])
        return TrainState(**payload["train_state"])

    def mark_validated(self) -> None:
        """Keep the present last.safetensors, to which a training that diverges goes back; both names share the disk."""
        with report_write_errors(self.folder):
            link_atomic(self.last_path, self.validated_path)

    def roll_back(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int | None:
        """Set weights and optimizer to those of the last validation; returns its update, or None without any."""
        if not self.validated_path.exists():
            return None
        payload = checkpoint.load(self.validated_path)
        model.load_state_dict(payload["model"])
        optimizer.load_state_dict(payload["optimizer"])
        return payload["train_state"]["step"]

    def delete_stale_steps(self) -> None:
        """Before a training from the start: delete step-N.safetensors of its earlier attempt.

        Raises UserError if the folder has checkpoints of another training, which would be mixed with the new ones.
        """
        checkpoint.refuse_zip(self.folder / "last.pt")  # of an earlier version, if there is one
        for path in (self.best_path, *self.step_paths()):
            if path.exists():
                refuse_changes(checkpoint.load(path), self.common, self.config.name)
        for path in (*self.step_paths(), self.validated_path):
            path.unlink(missing_ok=True)


def step_of(path: Path) -> int:
    """The number of updates in a name like step-500.safetensors."""
    return int(path.stem.split("-")[1])


def refuse_changes(saved: Payload, new: Payload, name: str) -> None:
    """Raise UserError, naming the keys, when a run cannot be resumed since the new configuration trains another."""
    config = new["config"]
    changeable = set(CHANGEABLE)
    if config["optim"]["schedule"] not in SCHEDULES_WITH_END and config["train"]["max_minutes"] is None:
        changeable |= set(BUDGET)
    changed = {
        key: values
        for key, values in differences(to_dict(validate(saved["config"])), config).items()
        if key not in changeable and not key.startswith(CHANGEABLE_PREFIXES)
    }
    if saved["corpus_hash"] != new["corpus_hash"]:
        changed["the corpus"] = (saved["corpus_hash"][:10], new["corpus_hash"][:10])
    elif not changed and not same_tokenizers(saved["tokenizers"], new["tokenizers"]):
        changed["the rebuilt tokenizer"] = ("equal", "different")
    if changed:
        listed = ", ".join(f"{key} (was {old}, now {new})" for key, (old, new) in changed.items())
        raise UserError(
            f"The run '{name}' cannot be resumed, because its configuration has changed: {listed}; go back to the old "
            "values to continue it, or give this one another name=…, or delete its folder."
        )


def same_tokenizers(saved: Payload, new: Payload) -> bool:
    """Whether two stored pairs of tokenizers are the same byte for byte."""
    if saved.keys() != new.keys():
        return False
    return all(saved[key].equal(new[key]) for key in saved if isinstance(saved[key], Tensor))
