"""What a training measures between two points of its TensorBoard curves."""

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch


@dataclass
class TrainMetrics:
    """Sums over the updates since the last point."""

    nll: float = 0.0  # −Σ log p of the target tokens
    tokens: int = 0  # target tokens, </s> counted, padding not
    padding: float = 0.0  # each update's fraction of padded positions
    gradient_norm: float = 0.0
    updates: int = 0
    earlier_tokens: int = 0  # of them, those before an interruption
    started: float = field(default_factory=time.monotonic)

    def add(self, nll: float, tokens: int, padding: float, gradient_norm: float) -> None:
        """Add one update: its summed −log p, target tokens, fraction of padding, and gradient norm."""
        self.nll, self.tokens, self.updates = self.nll + nll, self.tokens + tokens, self.updates + 1
        self.padding, self.gradient_norm = self.padding + padding, self.gradient_norm + gradient_norm

    def sums(self) -> dict[str, float]:
        """What `from_sums` continues with after an interruption; the speed is measured anew."""
        return {name: float(getattr(self, name)) for name in ("nll", "tokens", "padding", "gradient_norm", "updates")}

    @classmethod
    def from_sums(cls, sums: Mapping[str, float]) -> "TrainMetrics":
        """What was stored by `sums`; an empty mapping is a new beginning."""
        metrics = cls(**{name: type(getattr(cls, name))(value) for name, value in sums.items()})
        metrics.earlier_tokens = metrics.tokens
        return metrics

    def scalars(self, learning_rate: float, device: torch.device) -> dict[str, float]:
        """The means by TensorBoard tag."""
        loss, seconds = self.nll / self.tokens, max(time.monotonic() - self.started, 1e-9)
        return {
            "loss/train": loss,
            "perplexity/train": math.exp(min(loss, 50.0)),
            "optim/learning_rate": learning_rate,
            "optim/gradient_norm": self.gradient_norm / self.updates,
            "speed/target_tokens_per_second": (self.tokens - self.earlier_tokens) / seconds,
            "speed/padding_fraction": self.padding / self.updates,
            "speed/memory_gib": peak_memory(device),
        }


def peak_memory(device: torch.device) -> float:
    """Peak memory so far in GiB: of the GPU, or of the process (0 on a system without `resource`, such as Windows)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20  # bytes on macOS, KiB on Linux
