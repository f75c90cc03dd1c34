"""Where a training stands, and what it measured since it last wrote a line."""

import math
import sys
import time
from dataclasses import dataclass, field

import torch


@dataclass
class TrainState:
    """All of it is kept in last.pt."""

    step: int = 0  # updates done
    epoch: int = 0
    position: int = 0  # batches of the epoch done
    total: int | None = None  # updates at the end; None until the minutes are fitted
    fitted: bool = False  # max_minutes has been turned into updates
    validated: int = 0  # the step of the last validation
    best: float | None = None
    best_step: int = 0
    since_best: int = 0  # validations
    finished: bool = False
    seconds: float = 0.0  # spent so far, over all its lives
    tokens: int | None = 0  # of targets, </s> counted, trained on so far; None: it began before they were counted
    history: list[dict[str, float]] = field(default_factory=list)  # of validations


@dataclass
class Meter:
    """Sums over the updates since the last line in the journal."""

    loss: float = 0.0
    tokens: int = 0
    padding: float = 0.0
    norm: float = 0.0
    updates: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, loss: float, tokens: int, padding: float, norm: float) -> None:
        """One update: its summed −log p, target tokens, share of padding, gradient norm."""
        self.loss, self.tokens, self.updates = self.loss + loss, self.tokens + tokens, self.updates + 1
        self.padding, self.norm = self.padding + padding, self.norm + norm

    def scalars(self, lr: float, device: torch.device) -> dict[str, float]:
        """The means, for the curves."""
        loss = self.loss / self.tokens
        return {
            "loss/train": loss,
            "perplexity/train": math.exp(min(loss, 50.0)),
            "optim/learning_rate": lr,
            "optim/gradient_norm": self.norm / self.updates,
            "speed/target_tokens_per_second": self.tokens / max(time.monotonic() - self.began, 1e-9),
            "speed/padding_share": self.padding / self.updates,
            "speed/memory_gib": memory(device),
        }


def memory(device: torch.device) -> float:
    """Peak memory so far in GiB: of the GPU, or of the process (0 where the system does not tell)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        import resource  # not on Windows
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20  # bytes there, KiB elsewhere
