"""The memory of processes over time: sampled from /proc, with a line fitted; and a model small
enough for that."""

import contextlib
from pathlib import Path

import numpy as np

# Overrides of a training that makes 20 to 50 updates a second.
TINY = [
    "data=phrasebook",
    "model=transformer_tiny",
    "model.hidden_size=32",
    "model.num_heads=2",
    "model.feed_forward_size=64",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "tokenizer.vocabulary_size=1000",
    "device=cpu",
    "precision=fp32",
    "train.batch_tokens=256",
    "train.max_minutes=null",
    "train.max_epochs=null",
    "train.patience=0",
    "optim.lr=0.005",
    "optim.warmup_steps=50",
    "decode.beam=1",
    "decode.max_length_ratio=1.0",
    "decode.max_length_extra=3",
]


def resident_mib(process: int) -> float:
    """The memory of a process in MiB, each page that it shares by fork divided by its users; 0 if
    it has ended.

    Without the files that are mapped: other programs that use the same libraries change their
    share.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) / 1024
    return 0.0


def children(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [
            int(word)
            for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()
        ]
    return []


class Curve:
    """Samples (x, MiB) with a line fitted to those after a warm-up."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []

    def add(self, x: float, mib: float) -> None:
        self.samples.append((x, mib))

    def after(self, warm_up: float) -> np.ndarray:
        """[samples, 2] from x = `warm_up` on."""
        return np.array([sample for sample in self.samples if sample[0] >= warm_up])

    def slope(self, warm_up: float) -> float:
        """MiB per unit of x after the warm-up: a resistant line, through the medians of the first
        and the last third.

        A sample in the middle of a search or a validation is higher than those around it, and would
        tilt other lines.
        """
        samples = self.after(warm_up)
        third = max(1, len(samples) // 3)
        first = np.median(samples[:third], 0)
        last = np.median(samples[-third:], 0)
        return float((last - first)[1] / (last - first)[0])

    def row(self, warm_up: float) -> str:
        """First sample, first after the warm-up, last, most; with tabs between."""
        steady = self.after(warm_up)[:, 1]
        most = max(mib for _, mib in self.samples)
        return "\t".join(f"{mib:.1f}" for mib in (self.samples[0][1], steady[0], steady[-1], most))
