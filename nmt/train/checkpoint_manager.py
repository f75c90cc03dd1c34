"""The checkpoints in the folder of a run.

best.pt      the translator that validation likes best, an average of checkpoints included
average.pt   the mean of the last few validation checkpoints
step-N.pt    those checkpoints
last.pt      everything needed to continue
"""

from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.train import checkpoint
from nmt.train.resume import refuse_changes
from nmt.train.state import TrainState
from nmt.train.validation import Report


class CheckpointManager:
    """Writes and finds them."""

    def __init__(self, folder: Path, config: Config, tokenizers: Tokenizers, corpus_hash: str) -> None:
        self.folder, self.config = folder, config
        self.shared = checkpoint.pack(config, tokenizers, corpus_hash)
        self.last, self.best = folder / "last.pt", folder / "best.pt"

    def keep(self, state: dict[str, Tensor], step: int, report: Report, better: bool) -> None:
        """What a validation leaves: a checkpoint to average, and the best."""
        payload = self.weights(state, step, report, f"update {step}")
        if better:
            self.keep_best(payload, report)
        if self.config.train.average:
            checkpoint.save(self.folder / f"step-{step}.pt", payload)
            for old in self.steps()[: -self.config.train.average]:
                old.unlink()

    def keep_average(self, state: dict[str, Tensor], step: int, report: Report, better: bool) -> None:
        """The mean of the steps, which may be the best."""
        origin = "average of updates " + ", ".join(path.stem.split("-")[1] for path in self.steps())
        payload = self.weights(state, step, report, origin)
        checkpoint.save(self.folder / "average.pt", payload)
        if better:
            self.keep_best(payload, report)

    def keep_best(self, payload: checkpoint.Payload, report: Report) -> None:
        """Replace best.pt, unless an average of an earlier, shorter training is better still."""
        metric = self.config.train.metric
        stored = checkpoint.load(self.best)["valid"][metric] if self.best.exists() else None
        if report.better_than(stored, metric):
            checkpoint.save(self.best, payload)

    def weights(self, state: dict[str, Tensor], step: int, report: Report, origin: str) -> checkpoint.Payload:
        """A checkpoint that can translate, and says where it comes from."""
        scores = {"loss": report.loss, "bleu": report.bleu, "chrf": report.chrf}
        return self.shared | {"model": state, "step": step, "valid": scores, "origin": origin}

    def steps(self) -> list[Path]:
        """The checkpoints to average, oldest first."""
        return sorted(self.folder.glob("step-*.pt"), key=lambda path: int(path.stem.split("-")[1]))

    def save(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: TrainState, device: torch.device) -> None:
        """Write last.pt."""
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "place": asdict(place),
            "random": checkpoint.random_state(device),
        }
        checkpoint.save(self.last, self.shared | state)

    def begin_anew(self) -> None:
        """Without last.pt: checkpoints of another training are not mixed with this one's, those of this one go."""
        for left in (self.best, *self.steps()):
            if left.exists():
                refuse_changes(checkpoint.load(left), self.shared, self.config.name)
        for left in self.steps():
            left.unlink()

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> TrainState | None:
        """Continue from last.pt if there is one; raises UserError if the configuration changed where it matters."""
        if not self.last.exists():
            self.begin_anew()
            return None
        payload = checkpoint.load(self.last)
        refuse_changes(payload, self.shared, self.config.name)
        if missing := {"optimizer", "place", "random"} - payload.keys():
            raise UserError(f"{self.last} holds no {', '.join(sorted(missing))}; no training can be continued from it.")
        model.load_state_dict(payload["model"])
        optimizer.load_state_dict(payload["optimizer"])
        checkpoint.set_random_state(payload["random"], device)
        return TrainState(**{"tokens": None} | payload["place"])
