"""A long training of a tiny model: its memory must stay flat."""

import argparse
import os
import tempfile

from resident_memory import TINY, Curve, resident_mib

WARM_UP = 0.4  # of the updates, while allocators and caches fill
MOST = 1.0  # MiB per 1,000 updates, checkpoints and validations included


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=int, default=10_000, metavar="N", help="updates (default: 10,000)"
    )
    parser.add_argument(
        "--every", type=int, default=100, metavar="N", help="updates between samples (default: 100)"
    )


def run(options: argparse.Namespace) -> int:
    """Train with validations, checkpoints and TensorBoard, and print how memory grows after the
    warm-up."""
    import nmt
    from nmt.view.progress import Progress

    curve = Curve()
    update = Progress.update

    def sample(self: Progress, count: int, figures: dict[str, float] | None = None) -> None:
        update(self, count, figures)
        if self.description == "training" and self.count % options.every == 0:
            curve.add(self.count, resident_mib(os.getpid()))

    Progress.update = sample  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        folders = [f"data_folder={folder}/data", f"run_folder={folder}/runs"]
        nmt.train(*TINY, *folders, f"train.max_steps={options.steps}", "train.validate_every=500")
    slope = curve.slope(WARM_UP * options.steps) * 1000
    print("updates\tfirst MiB\tafter warm-up\tlast\tmost\tMiB per 1,000 updates")
    print(f"{options.steps}\t{curve.row(WARM_UP * options.steps)}\t{slope:+.3f}")
    return int(slope > MOST)
